# Completes the tree under DRYDOCK_STAGE with links to what is not built, and installs the same tree (for the wheel).

file(MAKE_DIRECTORY "${DRYDOCK_STAGE}")
file(GLOB python_files CONFIGURE_DEPENDS RELATIVE "${PROJECT_SOURCE_DIR}/python/drydock"
  "${PROJECT_SOURCE_DIR}/python/drydock/*")
list(FILTER python_files EXCLUDE REGEX "__pycache__")
foreach(file IN LISTS python_files)
  file(CREATE_LINK "${PROJECT_SOURCE_DIR}/python/drydock/${file}" "${DRYDOCK_STAGE}/${file}" SYMBOLIC)
endforeach()
file(CREATE_LINK "${PROJECT_SOURCE_DIR}/profiles" "${DRYDOCK_STAGE}/profiles" SYMBOLIC)

# Where CANN has it, and in PYTHONPATH as there.
file(MAKE_DIRECTORY "${DRYDOCK_STAGE}/cann/python")
file(CREATE_LINK "${PROJECT_SOURCE_DIR}/python/site-packages" "${DRYDOCK_STAGE}/cann/python/site-packages" SYMBOLIC)
install(DIRECTORY python/site-packages/ DESTINATION drydock/cann/python/site-packages FILES_MATCHING PATTERN "*.py")

# torch_npu imports only where ASCEND_HOME_PATH has the folders runtime and compiler, and ASCEND_OPP_PATH exists.
# A wheel holds no empty folders, so each has a file that says what it is.
foreach(folder runtime compiler opp)
  file(WRITE "${DRYDOCK_STAGE}/cann/${folder}/README"
    "torch_npu looks for this folder before it imports. Drydock needs nothing in it.\n")
  install(FILES "${DRYDOCK_STAGE}/cann/${folder}/README" DESTINATION "drydock/cann/${folder}")
endforeach()

# torch_npu's profiler runs the msprof of the PATH, and asks for a script beside it that it never starts.
file(COPY cmake/msprof DESTINATION "${DRYDOCK_STAGE}/cann/tools/profiler/bin")
set(msprof_script tools/profiler/profiler_tool/analysis/msprof/msprof.py)
file(WRITE "${DRYDOCK_STAGE}/cann/${msprof_script}"
  "# torch_npu's profiler looks for this file before it runs msprof. Drydock's msprof needs nothing in it.\n")
install(PROGRAMS cmake/msprof DESTINATION drydock/cann/tools/profiler/bin)
install(FILES "${DRYDOCK_STAGE}/cann/${msprof_script}" DESTINATION
  drydock/cann/tools/profiler/profiler_tool/analysis/msprof)

install(TARGETS drydock_shared LIBRARY DESTINATION drydock/cann/lib64)
foreach(library IN LISTS DRYDOCK_DOOR_LIBRARIES DRYDOCK_PRELOAD_LIBRARIES)
  install(TARGETS ${library} LIBRARY DESTINATION drydock/cann/lib64)
endforeach()
if(TARGET drydock_command)
  install(TARGETS drydock_command drydock_npu_smi RUNTIME DESTINATION drydock/bin)
endif()
install(DIRECTORY profiles/ DESTINATION drydock/profiles FILES_MATCHING PATTERN "*.toml" PATTERN "*.json")

# For C and C++ programs: the headers, and the package that find_package(Drydock) reads.
include(CMakePackageConfigHelpers)
file(CREATE_LINK "${PROJECT_SOURCE_DIR}/include" "${DRYDOCK_STAGE}/cann/include" SYMBOLIC)
configure_file(cmake/DrydockConfig.cmake "${DRYDOCK_STAGE}/cann/cmake/DrydockConfig.cmake" COPYONLY)
write_basic_package_version_file("${DRYDOCK_STAGE}/cann/cmake/DrydockConfigVersion.cmake"
  COMPATIBILITY SameMinorVersion)
install(DIRECTORY include/ DESTINATION drydock/cann/include)
install(FILES
  "${DRYDOCK_STAGE}/cann/cmake/DrydockConfig.cmake"
  "${DRYDOCK_STAGE}/cann/cmake/DrydockConfigVersion.cmake"
  DESTINATION drydock/cann/cmake)
