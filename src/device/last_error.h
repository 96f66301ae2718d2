#pragma once

#include <cstdint>

#include "base/export.h"

namespace drydock::device {

/// The device fault that is pending on this thread, for aclrtPeekAtLastError and aclrtGetLastError (contract D3).
/// 0 unless the device itself failed: argument errors never set it. Reading does not clear it.
DRYDOCK_API int32_t last_error() noexcept;
DRYDOCK_API void set_last_error(int32_t code) noexcept;

}  // namespace drydock::device
