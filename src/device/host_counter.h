#pragma once

#include <cstdint>

#include "base/export.h"

namespace drydock::device {

/// The host CPU's own counter, the one that profilers read directly: the time stamp counter on x86-64, the virtual
/// counter on aarch64, the monotonic clock elsewhere.
DRYDOCK_API uint64_t host_counter() noexcept;
/// How fast it counts, in kHz. On x86-64 measured against the monotonic clock at the first call (10 ms).
DRYDOCK_API int64_t host_counter_khz() noexcept;

}  // namespace drydock::device
