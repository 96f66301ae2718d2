# The virtual device's libraries for C and C++ programs, in the wheel and in the build tree alike: this file is in
# drydock/cann/cmake, the headers are in drydock/cann/include, the libraries in drydock/cann/lib64.
#
#   find_package(Drydock REQUIRED)          # CMAKE_PREFIX_PATH has what ASCEND_HOME_PATH names
#   target_link_libraries(program PRIVATE Drydock::opapi)
#
# Drydock::ascendcl   acl/: devices, memory, streams, events
# Drydock::nnopbase   aclnn/: tensors, scalars and lists as operators take them
# Drydock::opapi      aclnnop/: the operators; brings both of the above

get_filename_component(Drydock_HOME "${CMAKE_CURRENT_LIST_DIR}/.." ABSOLUTE)
set(Drydock_INCLUDE_DIR "${Drydock_HOME}/include")
set(Drydock_LIBRARY_DIR "${Drydock_HOME}/lib64")

foreach(_drydock_file IN ITEMS include/acl/acl.h lib64/libascendcl.so lib64/libnnopbase.so lib64/libopapi.so)
  if(NOT EXISTS "${Drydock_HOME}/${_drydock_file}")
    set(Drydock_FOUND FALSE)
    set(Drydock_NOT_FOUND_MESSAGE "${Drydock_HOME}/${_drydock_file} is missing: build or install Drydock again.")
    return()
  endif()
endforeach()

foreach(_drydock_library IN ITEMS ascendcl nnopbase opapi)
  if(NOT TARGET Drydock::${_drydock_library})
    add_library(Drydock::${_drydock_library} SHARED IMPORTED)
    set_target_properties(Drydock::${_drydock_library} PROPERTIES
      IMPORTED_LOCATION "${Drydock_LIBRARY_DIR}/lib${_drydock_library}.so"
      IMPORTED_SONAME "lib${_drydock_library}.so"
      INTERFACE_INCLUDE_DIRECTORIES "${Drydock_INCLUDE_DIR}"
      # All of them rest on libdrydock.so.
      IMPORTED_LINK_DEPENDENT_LIBRARIES "${Drydock_LIBRARY_DIR}/libdrydock.so")
  endif()
endforeach()
set_target_properties(Drydock::nnopbase PROPERTIES INTERFACE_LINK_LIBRARIES Drydock::ascendcl)
set_target_properties(Drydock::opapi PROPERTIES INTERFACE_LINK_LIBRARIES Drydock::nnopbase)

unset(_drydock_file)
unset(_drydock_library)
