#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <type_traits>

#include "base/export.h"

// The one pool of threads that computes: kernels of all families split their work over it, so that a run never uses
// more threads than `--threads` says.

namespace drydock::base {

inline constexpr int kMaxThreads = 256;

/// The number of threads that a text asks for, 1 to kMaxThreads; 0 for a text that makes no sense.
DRYDOCK_API int parse_thread_count(std::string_view text) noexcept;

/// Threads that compute, the caller's included: DRYDOCK_THREADS, or by default the cores that this process may use. At
/// least 1; read at the first call, then fixed.
DRYDOCK_API int thread_count() noexcept;

namespace detail {
using RangeBody = void (*)(void* body, int64_t begin, int64_t end);
DRYDOCK_API void run_ranges(int64_t count, int64_t grain, RangeBody run, void* body) noexcept;
}  // namespace detail

/// Calls `body(begin, end)` for ranges that cover [0, count) once each, on the pool and the calling thread, and returns
/// when all are done. No range but the last is shorter than `grain`; up to `grain` items, or inside another
/// parallel_for, the body runs in the calling thread. The ranges are a function of count, grain and thread_count()
/// alone. The body must not throw and must not wait for another range. Any thread may call; callers that find the pool
/// taken compute alone.
template <class Body>
void parallel_for(int64_t count, int64_t grain, Body&& body) noexcept {
  using Plain = std::remove_reference_t<Body>;
  detail::run_ranges(
      count, grain, [](void* at, int64_t begin, int64_t end) { (*static_cast<Plain*>(at))(begin, end); },
      const_cast<void*>(static_cast<const void*>(std::addressof(body))));
}

}  // namespace drydock::base
