#pragma once

#include <cstdint>
#include <string_view>

#include "base/export.h"
#include "base/status.h"
#include "trace/recorder.h"

namespace drydock::device {

/// aclrtMemcpyKind.
enum class CopyDirection : int32_t {
  kHostToHost = 0,
  kHostToDevice = 1,
  kDeviceToHost = 2,
  kDeviceToDevice = 3,
  kDefault = 4,               ///< by what the pointers are
  kHostToBufferToDevice = 5,  ///< the host bytes are taken when the call is made, also by an asynchronous one
  kInnerDevice = 6,
  kInterDevice = 7,
};

/// One copy, checked: both sides are what `kind` says they are, and device ranges were allocated at the check.
struct Copy {
  void* to = nullptr;
  const void* from = nullptr;
  uint64_t size_bytes = 0;
  trace::CopyKind kind = trace::CopyKind::kHostToHost;
  int32_t device = -1;  ///< whose memory it is about; the destination's between two devices
  trace::LineId line = 0;
};

/// Checks the arguments of a copy and turns them into one. 100000 for null pointers, 107000 with a sentence (who
/// allocated, who freed) for a destination that is too small, unknown kinds, pointers of the wrong side and device
/// ranges that are not allocated. Registered and pinned host memory may stand where device memory is asked for.
DRYDOCK_API Status prepare_copy(std::string_view entry, void* to, uint64_t to_bytes, const void* from,
                                uint64_t size_bytes, int32_t direction, Copy& copy);

/// Copies now, with the knowledge of the bytes: what comes from the host is known; ghosts move without touching a page;
/// what the host reads of ghosts is made up and recorded as an assumption. `stream_id` 0 for synchronous copies.
/// 507000-class failure if device memory went away since the check.
DRYDOCK_API Status run_copy(std::string_view entry, const Copy& copy, bool async, uint32_t stream_id);

/// Sets device bytes. Zeros are always known and cost no pages. Other values are known up to the values budget
/// (DRYDOCK_VALUE_BUDGET), or always with DRYDOCK_VALUES=full; beyond it the range becomes ghost, because a fill of
/// gigabytes would take the host's memory to keep one byte. Checks as in `prepare_copy`.
struct Fill {
  void* to = nullptr;
  uint64_t size_bytes = 0;
  uint8_t value = 0;
  int32_t device = -1;
  trace::LineId line = 0;
};
DRYDOCK_API Status prepare_fill(std::string_view entry, void* to, uint64_t to_bytes, int32_t value, uint64_t size_bytes,
                                Fill& fill);
DRYDOCK_API Status run_fill(std::string_view entry, const Fill& fill, bool async, uint32_t stream_id);

/// Makes device bytes zero by giving whole pages back to the host: costs no memory, however large. The caller holds
/// MemoryInUse.
DRYDOCK_API void zero_device_bytes(uint64_t address, uint64_t size_bytes);

/// Copies the real bytes of [from, from + size) in device memory to `to`, and the knowledge of all. Ranges may overlap.
/// Both must be accessible; the caller holds MemoryInUse or better. For kernels that copy whole ranges.
DRYDOCK_API void move_device_bytes(uint64_t to, uint64_t from, uint64_t size_bytes);

}  // namespace drydock::device
