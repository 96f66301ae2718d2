# drydock_options: what every target of the project is compiled with.
add_library(drydock_options INTERFACE)
target_include_directories(drydock_options INTERFACE "${PROJECT_SOURCE_DIR}/src")
target_compile_options(drydock_options INTERFACE
  -Wall -Wextra -Werror
  -fno-semantic-interposition
  # Results must not depend on whether the host has fused multiply-add.
  -ffp-contract=off
  # No path of the machine that builds ends up in what others install.
  "-ffile-prefix-map=${PROJECT_SOURCE_DIR}/=")
target_compile_definitions(drydock_options INTERFACE DRYDOCK_VERSION="${PROJECT_VERSION}")

if(DRYDOCK_SANITIZE)
  target_compile_options(drydock_options INTERFACE
    -fsanitize=${DRYDOCK_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(drydock_options INTERFACE -fsanitize=${DRYDOCK_SANITIZE})
  if(DRYDOCK_SANITIZE MATCHES "thread")
    # GCC says of every std::atomic_thread_fence that its sanitizer does not see it.
    target_compile_options(drydock_options INTERFACE -Wno-tsan)
  endif()
endif()

# For libraries that a client loads: they stay loaded, because threads and exit handlers of the client may still
# call them after a dlclose, and they leave no symbol to be found by chance.
set(DRYDOCK_CLIENT_LINK_OPTIONS -Wl,-z,nodelete -Wl,-z,relro -Wl,-z,now -Wl,--no-undefined)
