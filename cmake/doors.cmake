# The libraries with the vendor's names, as spec/libraries.csv lists them: each has the doors of its rows, or is empty
# where the torch_npu wheel only wants it to exist, and exports the names of its rows and no other.

set(DRYDOCK_GENERATED "${PROJECT_SOURCE_DIR}/src/abi/generated")
include("${DRYDOCK_GENERATED}/libraries.cmake")

file(WRITE "${CMAKE_BINARY_DIR}/no_doors.cpp.new" "// No entry of this library has a door.\n")
file(COPY_FILE "${CMAKE_BINARY_DIR}/no_doors.cpp.new" "${CMAKE_BINARY_DIR}/no_doors.cpp" ONLY_IF_DIFFERENT)

foreach(library IN LISTS DRYDOCK_DOOR_LIBRARIES)
  set(sources ${DRYDOCK_DOOR_SOURCES_${library}})
  if(NOT sources)
    set(sources "${CMAKE_BINARY_DIR}/no_doors.cpp")
  endif()
  set(export_list "${DRYDOCK_GENERATED}/${library}.map")
  add_library(${library} SHARED ${sources})
  target_link_libraries(${library} PRIVATE drydock_shared)
  target_link_options(${library} PRIVATE ${DRYDOCK_CLIENT_LINK_OPTIONS} "-Wl,--version-script=${export_list}")
  set_target_properties(${library} PROPERTIES
    PREFIX ""
    LINK_DEPENDS "${export_list}"
    LIBRARY_OUTPUT_DIRECTORY "${DRYDOCK_STAGE}/cann/lib64"
    BUILD_WITH_INSTALL_RPATH ON INSTALL_RPATH "$ORIGIN")
endforeach()

# A client that looks a name up in one library finds the others' too, as with the vendor's: dlsym follows what a library
# needs. The link must stay although the linker sees no use of it.
foreach(library IN LISTS DRYDOCK_DOOR_LIBRARIES)
  foreach(needed IN LISTS DRYDOCK_DOOR_NEEDS_${library})
    add_dependencies(${library} ${needed})
    target_link_libraries(${library} PRIVATE -Wl,--push-state,--no-as-needed ${needed} -Wl,--pop-state)
  endforeach()
endforeach()

# What goes into LD_PRELOAD of a run: every process of the run loads it, so it needs the C library and nothing else
# (thread-safe initialisation of local statics would need more).
file(GLOB preload_files CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/preload/*.cpp")
set(DRYDOCK_PRELOAD_LIBRARIES)
foreach(file IN LISTS preload_files)
  get_filename_component(name "${file}" NAME_WE)
  add_library(${name} SHARED "${file}")
  target_link_libraries(${name} PRIVATE drydock_options)
  target_compile_options(${name} PRIVATE -fno-threadsafe-statics -fno-exceptions -fno-rtti)
  target_link_options(${name} PRIVATE -Wl,-z,nodelete -Wl,--as-needed)
  set_target_properties(${name} PROPERTIES
    LIBRARY_OUTPUT_DIRECTORY "${DRYDOCK_STAGE}/cann/lib64"
    BUILD_WITH_INSTALL_RPATH ON INSTALL_RPATH "$ORIGIN")
  list(APPEND DRYDOCK_PRELOAD_LIBRARIES ${name})
endforeach()
