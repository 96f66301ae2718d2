# Headers of the standard library, {fmt} and GoogleTest, read once for each group of targets instead of once for each of
# some 450 files, in which they were 40 % of the time (more without optimisation). No file may lean on it: clang-tidy, and
# whoever uses a compiler cache (which would miss each time), compile without.

if(CMAKE_CXX_COMPILER_LAUNCHER)
  set(precompile OFF)
else()
  set(precompile ON)
endif()
option(DRYDOCK_PRECOMPILED_HEADERS "Read headers of other projects once (off with CMAKE_CXX_COMPILER_LAUNCHER)"
  ${precompile})

if(DRYDOCK_PRECOMPILED_HEADERS)
  # GCC 12 believes of strings that are put together with + that they are written past their end, once <string> comes from
  # a precompiled header. Builds without one still warn.
  target_compile_options(drydock_options INTERFACE -Wno-array-bounds -Wno-restrict -Wno-stringop-overflow)
endif()

set(DRYDOCK_PRODUCT_HEADERS
  <algorithm> <array> <atomic> <cmath> <cstdint> <cstring> <filesystem> <functional> <limits> <map> <memory> <mutex>
  <optional> <random> <span> <string> <string_view> <thread> <tuple> <unordered_map> <utility> <vector> <fmt/format.h>)

# drydock_precompile(TARGET [FROM OTHER] [HEADERS MORE...]): the product's headers, and MORE, for TARGET; instead those
# that OTHER precompiled if it is given.
function(drydock_precompile target)
  cmake_parse_arguments(PARSE_ARGV 1 precompile "" "FROM" "HEADERS")
  if(NOT DRYDOCK_PRECOMPILED_HEADERS)
    return()
  endif()
  if(precompile_FROM)
    target_precompile_headers(${target} REUSE_FROM ${precompile_FROM})
  else()
    target_precompile_headers(${target} PRIVATE ${DRYDOCK_PRODUCT_HEADERS} ${precompile_HEADERS})
  endif()
endfunction()
