# libdrydock.so: all state and every handler. The command and the unit tests link the same objects from archives, so
# that they see the symbols which the library hides.

function(drydock_sources variable)
  set(sources)
  foreach(folder IN LISTS ARGN)
    file(GLOB_RECURSE found CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/${folder}/*.cpp")
    list(APPEND sources ${found})
  endforeach()
  # Doors belong to the libraries with the vendor's names (doors.cmake).
  list(FILTER sources EXCLUDE REGEX "/abi/generated/[^/]*_doors[^/]*\\.cpp$")
  set(${variable} ${sources} PARENT_SCOPE)
endfunction()

drydock_sources(DRYDOCK_RUNTIME_SOURCES base trace races values device ops comm abi)
set(DRYDOCK_KERNEL_SOURCES ${DRYDOCK_RUNTIME_SOURCES})
list(FILTER DRYDOCK_KERNEL_SOURCES INCLUDE REGEX "/src/ops/")
list(FILTER DRYDOCK_KERNEL_SOURCES EXCLUDE REGEX "/src/ops/generated/")
list(REMOVE_ITEM DRYDOCK_RUNTIME_SOURCES ${DRYDOCK_KERNEL_SOURCES})
drydock_sources(DRYDOCK_REPLAY_SOURCES replay tune timeline cost)
drydock_sources(DRYDOCK_SNAPSHOT_SOURCES snapshot)
drydock_sources(DRYDOCK_LEDGER_SOURCES ledger)
drydock_sources(DRYDOCK_EXPORT_SOURCES export)
drydock_sources(DRYDOCK_WATCH_SOURCES watch)
drydock_sources(DRYDOCK_NPU_SMI_SOURCES npu_smi)
drydock_sources(DRYDOCK_PAGE_SOURCES page)
drydock_sources(DRYDOCK_CLI_SOURCES cli)

add_library(drydock_runtime_objects OBJECT ${DRYDOCK_RUNTIME_SOURCES})
target_link_libraries(drydock_runtime_objects PUBLIC drydock_options)
drydock_precompile(drydock_runtime_objects)

# Inner loops of operators are worth more optimisation than the rest. None of these changes a result: no library call
# sets errno for anyone, and nobody asks which floating exceptions were raised.
add_library(drydock_kernel_objects OBJECT ${DRYDOCK_KERNEL_SOURCES})
target_link_libraries(drydock_kernel_objects PUBLIC drydock_options)
if(NOT DRYDOCK_SANITIZE)
  target_compile_options(drydock_kernel_objects PRIVATE -O3 -fno-math-errno -fno-trapping-math)
endif()
drydock_precompile(drydock_kernel_objects)

# The inner loops of all matrix products are fast in every preset. Their results depend on fused multiply-add on purpose.
if(NOT DRYDOCK_SANITIZE)
  set_source_files_properties(
    "${PROJECT_SOURCE_DIR}/src/ops/matmul/micro_kernel.cpp"
    "${PROJECT_SOURCE_DIR}/src/ops/matmul/row_loops.cpp"
    PROPERTIES COMPILE_OPTIONS "-O3;-ffp-contract=fast")
endif()

# So are sums of collectives, which wait for memory then and not for the processor.
if(NOT DRYDOCK_SANITIZE)
  set_source_files_properties("${PROJECT_SOURCE_DIR}/src/comm/reduction.cpp"
    PROPERTIES COMPILE_OPTIONS "-O3;-fno-math-errno;-fno-trapping-math" SKIP_PRECOMPILE_HEADERS ON)
endif()

# Options of their own, or intrinsics, whose headers look at the options: what was precompiled does not fit them.
set_source_files_properties(
  "${PROJECT_SOURCE_DIR}/src/ops/attention/block_math.cpp"
  "${PROJECT_SOURCE_DIR}/src/ops/convolution/image.cpp"
  "${PROJECT_SOURCE_DIR}/src/ops/matmul/bf16_tiles.cpp"
  "${PROJECT_SOURCE_DIR}/src/ops/matmul/micro_kernel.cpp"
  "${PROJECT_SOURCE_DIR}/src/ops/matmul/row_loops.cpp"
  PROPERTIES SKIP_PRECOMPILE_HEADERS ON)

# Inner loops of attention.
set_source_files_properties("${PROJECT_SOURCE_DIR}/src/ops/attention/block_math.cpp" PROPERTIES
  COMPILE_OPTIONS "-O3;-ffp-contract=fast")

add_library(drydock_runtime STATIC $<TARGET_OBJECTS:drydock_runtime_objects> $<TARGET_OBJECTS:drydock_kernel_objects>)
target_link_libraries(drydock_runtime PUBLIC drydock_options)

add_library(drydock_shared SHARED $<TARGET_OBJECTS:drydock_runtime_objects> $<TARGET_OBJECTS:drydock_kernel_objects>)
target_link_libraries(drydock_shared PUBLIC drydock_options)
target_link_options(drydock_shared PRIVATE ${DRYDOCK_CLIENT_LINK_OPTIONS})
set_target_properties(drydock_shared PROPERTIES
  OUTPUT_NAME drydock
  LIBRARY_OUTPUT_DIRECTORY "${DRYDOCK_STAGE}/cann/lib64"
  BUILD_WITH_INSTALL_RPATH ON INSTALL_RPATH "$ORIGIN")

if(DRYDOCK_REPLAY_SOURCES)
  add_library(drydock_replay STATIC ${DRYDOCK_REPLAY_SOURCES})
  target_link_libraries(drydock_replay PUBLIC drydock_runtime)
  drydock_precompile(drydock_replay FROM drydock_runtime_objects)
else()
  add_library(drydock_replay INTERFACE)
  target_link_libraries(drydock_replay INTERFACE drydock_runtime)
endif()

add_library(drydock_snapshot STATIC ${DRYDOCK_SNAPSHOT_SOURCES})
target_link_libraries(drydock_snapshot PUBLIC drydock_replay)
drydock_precompile(drydock_snapshot FROM drydock_runtime_objects)

if(DRYDOCK_LEDGER_SOURCES)
  add_library(drydock_ledger STATIC ${DRYDOCK_LEDGER_SOURCES})
  target_link_libraries(drydock_ledger PUBLIC drydock_replay drydock_sqlite3)
  drydock_precompile(drydock_ledger FROM drydock_runtime_objects)
else()
  add_library(drydock_ledger INTERFACE)
  target_link_libraries(drydock_ledger INTERFACE drydock_replay drydock_sqlite3)
endif()

add_library(drydock_export STATIC ${DRYDOCK_EXPORT_SOURCES})
target_link_libraries(drydock_export PUBLIC drydock_ledger "${DRYDOCK_ZLIB}")
drydock_precompile(drydock_export FROM drydock_runtime_objects)

add_library(drydock_watch STATIC ${DRYDOCK_WATCH_SOURCES})
target_link_libraries(drydock_watch PUBLIC drydock_ledger)
drydock_precompile(drydock_watch FROM drydock_runtime_objects)

# The report's page, with its scripts inside.
set(page_assets "${CMAKE_BINARY_DIR}/page_assets.cpp")
set(page_assets_folder "${PROJECT_SOURCE_DIR}/src/page/assets")
file(GLOB page_asset_files CONFIGURE_DEPENDS "${page_assets_folder}/*")
add_custom_command(OUTPUT "${page_assets}"
  COMMAND "${CMAKE_COMMAND}" "-DOUTPUT=${page_assets}" "-DASSETS=${page_assets_folder}"
    "-DCHART=${DRYDOCK_DYGRAPHS}" "-DCHART_LICENCE=${DRYDOCK_DYGRAPHS_LICENCE}"
    -P "${PROJECT_SOURCE_DIR}/cmake/page_assets.cmake"
  DEPENDS ${page_asset_files} "${PROJECT_SOURCE_DIR}/cmake/page_assets.cmake" "${DRYDOCK_DYGRAPHS}/dygraph.min.js"
  VERBATIM)
add_library(drydock_page STATIC ${DRYDOCK_PAGE_SOURCES} "${page_assets}")
target_link_libraries(drydock_page PUBLIC drydock_ledger)
drydock_precompile(drydock_page FROM drydock_runtime_objects)

# Everything of the command but its main(), for the unit tests.
set(DRYDOCK_CLI_MAIN ${DRYDOCK_CLI_SOURCES})
list(FILTER DRYDOCK_CLI_MAIN INCLUDE REGEX "/main\\.cpp$")
list(FILTER DRYDOCK_CLI_SOURCES EXCLUDE REGEX "/main\\.cpp$")
if(DRYDOCK_CLI_SOURCES)
  add_library(drydock_cli STATIC ${DRYDOCK_CLI_SOURCES})
  target_link_libraries(drydock_cli PUBLIC drydock_export drydock_snapshot drydock_watch drydock_page)
  drydock_precompile(drydock_cli FROM drydock_runtime_objects)
else()
  add_library(drydock_cli INTERFACE)
  target_link_libraries(drydock_cli INTERFACE drydock_ledger)
endif()

if(DRYDOCK_CLI_MAIN)
  add_executable(drydock_command ${DRYDOCK_CLI_MAIN})
  target_link_libraries(drydock_command PRIVATE drydock_cli)
  set_target_properties(drydock_command PROPERTIES
    OUTPUT_NAME drydock RUNTIME_OUTPUT_DIRECTORY "${DRYDOCK_STAGE}/bin")
endif()

# The name that scripts look for. It stands beside the command; `drydock run` puts that folder into PATH.
add_executable(drydock_npu_smi ${DRYDOCK_NPU_SMI_SOURCES})
target_link_libraries(drydock_npu_smi PRIVATE drydock_watch)
set_target_properties(drydock_npu_smi PROPERTIES
  OUTPUT_NAME npu-smi RUNTIME_OUTPUT_DIRECTORY "${DRYDOCK_STAGE}/bin")
