#include <atomic>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>

#include "trace/block_birth.h"
#include "trace/node_module.h"
#include "trace/python_stack.h"

namespace drydock::trace {
namespace {

using IsEnabled = bool (*)();

bool never() { return false; }

// c10::GradMode::is_enabled() of the torch in this process. Without torch nothing tells, and nothing asks.
IsEnabled find_grad_mode() noexcept {
  void* library = dlopen("libc10.so", RTLD_LAZY | RTLD_NOLOAD);
  if (library == nullptr) return never;
  const auto found = reinterpret_cast<IsEnabled>(dlsym(library, "_ZN3c108GradMode10is_enabledEv"));  // NOLINT
  return found == nullptr ? never : found;
}

std::atomic<IsEnabled> is_grad_mode_enabled{nullptr};

}  // namespace

Birth current_birth() noexcept {
  static const bool is_wanted = [] {
    const char* holders = std::getenv("DRYDOCK_HOLDERS");
    return holders == nullptr || std::strcmp(holders, "off") != 0;
  }();
  if (!is_wanted) return {};
  IsEnabled is_enabled = is_grad_mode_enabled.load(std::memory_order_relaxed);
  if (is_enabled == nullptr) {
    is_enabled = find_grad_mode();
    is_grad_mode_enabled.store(is_enabled, std::memory_order_relaxed);
  }
  const uint64_t running = current_module();
  if (running == 0) {
    uint64_t made_by = 0;
    if (module_of_running_node(made_by)) return {made_by, is_enabled()};
  }
  module_made_nodes(running);
  return {running, is_enabled()};
}

}  // namespace drydock::trace
