#include <atomic>
#include <cstdint>
#include <mutex>
#include <shared_mutex>

#include "device/address_space.h"

namespace drydock::device {
namespace {

std::shared_mutex& memory_lock() noexcept {
  static std::shared_mutex& lock = *new std::shared_mutex;
  return lock;
}

// The C library lets readers in while a writer waits: threads that copy without a pause would keep frees waiting for
// good. So new users pass a gate, which who changes memory holds. Those that use memory already do not: they would wait
// for someone who waits for them.
std::mutex& memory_gate() noexcept {
  static std::mutex& gate = *new std::mutex;
  return gate;
}
constinit std::atomic<int32_t> changes_wanted{0};
constinit thread_local int32_t uses_of_this_thread = 0;

}  // namespace

MemoryInUse::MemoryInUse() noexcept {
  if (uses_of_this_thread++ == 0 && changes_wanted.load(std::memory_order_relaxed) != 0) {
    const std::lock_guard<std::mutex> pass(memory_gate());
  }
  memory_lock().lock_shared();
}
MemoryInUse::~MemoryInUse() {
  memory_lock().unlock_shared();
  --uses_of_this_thread;
}
MemoryChanging::MemoryChanging() noexcept {
  changes_wanted.fetch_add(1, std::memory_order_relaxed);
  memory_gate().lock();
  memory_lock().lock();
}
MemoryChanging::~MemoryChanging() {
  memory_lock().unlock();
  memory_gate().unlock();
  changes_wanted.fetch_sub(1, std::memory_order_relaxed);
}

}  // namespace drydock::device
