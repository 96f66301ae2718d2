# Third parties, all from the distribution. Header-only or static, so that the wheel needs none of them at run time.
find_package(Threads REQUIRED)

function(drydock_require_header header package)
  string(MAKE_C_IDENTIFIER "DRYDOCK_HAVE_${header}" variable)
  find_path(${variable} NAMES "${header}")
  if(NOT ${variable})
    message(FATAL_ERROR "The header <${header}> is missing. On Debian: apt-get install ${package}")
  endif()
endfunction()

drydock_require_header(fmt/core.h libfmt-dev)
drydock_require_header(CLI/CLI.hpp libcli11-dev)
drydock_require_header(nlohmann/json.hpp nlohmann-json3-dev)
drydock_require_header(sqlite3.h libsqlite3-dev)
drydock_require_header(zlib.h zlib1g-dev)
drydock_require_header(toml++/toml.h libtomlplusplus-dev)

# The static archive is preferred: the command then runs where no libsqlite3.so.0 is installed.
find_library(DRYDOCK_SQLITE3 NAMES libsqlite3.a sqlite3 REQUIRED)
add_library(drydock_sqlite3 INTERFACE)
target_link_libraries(drydock_sqlite3 INTERFACE "${DRYDOCK_SQLITE3}" m ${CMAKE_DL_LIBS} Threads::Threads)

# Wheels are zip files: `drydock support --wheel` unpacks them.
find_library(DRYDOCK_ZLIB NAMES libz.a z REQUIRED)

# The chart of `drydock report`.
find_path(DRYDOCK_DYGRAPHS NAMES dygraph.min.js PATHS /usr/share/javascript/dygraphs)
find_file(DRYDOCK_DYGRAPHS_LICENCE NAMES copyright PATHS /usr/share/doc/libjs-dygraphs NO_DEFAULT_PATH)
if(NOT DRYDOCK_DYGRAPHS OR NOT DRYDOCK_DYGRAPHS_LICENCE)
  message(FATAL_ERROR "dygraphs, or its licence, is missing. On Debian: apt-get install libjs-dygraphs")
endif()

target_compile_definitions(drydock_options INTERFACE TOML_HEADER_ONLY=1)
target_link_libraries(drydock_options INTERFACE Threads::Threads ${CMAKE_DL_LIBS})
