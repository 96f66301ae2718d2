#include "device/host_counter.h"

#include <chrono>
#include <thread>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace drydock::device {

uint64_t host_counter() noexcept {
#if defined(__x86_64__)
  return __rdtsc();
#elif defined(__aarch64__)
  uint64_t count = 0;
  asm volatile("mrs %0, cntvct_el0" : "=r"(count));
  return count;
#else
  return static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
#endif
}

int64_t host_counter_khz() noexcept {
#if defined(__x86_64__)
  static const int64_t measured_khz = [] {
    using Clock = std::chrono::steady_clock;
    const Clock::time_point start = Clock::now();
    const uint64_t start_count = host_counter();
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    const uint64_t end_count = host_counter();
    const auto elapsed_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start).count();
    return static_cast<int64_t>(static_cast<double>(end_count - start_count) * 1e6 / static_cast<double>(elapsed_ns));
  }();
  return measured_khz;
#elif defined(__aarch64__)
  uint64_t frequency_hz = 0;
  asm volatile("mrs %0, cntfrq_el0" : "=r"(frequency_hz));
  return static_cast<int64_t>(frequency_hz / 1000);
#else
  return 1'000'000;  // the monotonic clock, in ns
#endif
}

}  // namespace drydock::device
