#pragma once

#include <cstdint>
#include <string_view>

#include "base/export.h"
#include "base/status.h"
#include "device/stream.h"

// How many cores work may use (contract F10). A stream's limit holds over its device's, a device's over the hardware.

namespace drydock::device {

/// Cores of a kind that the profile's device has.
DRYDOCK_API uint32_t core_count(CoreKind kind) noexcept;
/// 107000 for a number that is no kind of core.
DRYDOCK_API Status check_core_kind(std::string_view entry, int32_t kind);
/// 107000 for no core at all or more than there are.
DRYDOCK_API Status check_core_limit(std::string_view entry, CoreKind kind, uint32_t cores);

/// `cores` 0 = no limit. `device` is a valid device number.
DRYDOCK_API void set_device_core_limit(int32_t device, CoreKind kind, uint32_t cores) noexcept;
DRYDOCK_API uint32_t device_core_limit(int32_t device, CoreKind kind) noexcept;
/// What work of the stream may use.
DRYDOCK_API uint32_t stream_core_limit(const Stream& stream, CoreKind kind) noexcept;

/// This thread prepares work for `stream`, under its limits, until `unuse_stream_limits` or the next call.
DRYDOCK_API void use_stream_limits(Stream& stream) noexcept;
DRYDOCK_API void unuse_stream_limits() noexcept;
/// What this thread's work may use; `device` is where it runs if no stream's limits are in use.
DRYDOCK_API uint32_t thread_core_limit(int32_t device, CoreKind kind) noexcept;

}  // namespace drydock::device
