#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/export.h"
#include "base/status.h"
#include "trace/recorder.h"

// Host memory the driver knows: pinned (aclrtMallocHost), registered (aclrtHostRegister), and pages of physical host
// memory where they are mapped (aclrtMapMem). All functions are thread-safe. `entry` names the door in sentences.
// Pinned memory may be freed after its device was reset and after aclFinalize (contract E7).

namespace drydock::device {

enum class HostMemoryKind : uint8_t { kPinned, kRegistered, kMapped };

/// For sentences: "pinned", "registered", "physical" host memory.
DRYDOCK_API std::string_view describe(HostMemoryKind kind) noexcept;

struct HostRange {
  uint64_t begin = 0;
  uint64_t size_bytes = 0;
  HostMemoryKind kind = HostMemoryKind::kPinned;
  int32_t device = -1;  ///< device of the context that asked
  trace::LineId line = 0;
};

/// Page-aligned, zeroed memory for the CPU. 100000 for a size of 0, 207001 if the host has none.
DRYDOCK_API Status allocate_host(std::string_view entry, uint64_t size_bytes, int32_t device, void*& address);
/// 107000 for what `allocate_host` did not return, and for what was freed before.
DRYDOCK_API Status free_host(std::string_view entry, void* address);

/// 107000 for ranges that overlap device memory or memory that is pinned or registered already.
DRYDOCK_API Status register_host(std::string_view entry, void* address, uint64_t size_bytes, int32_t device);
/// 107000 for what is not the begin of a registered range.
DRYDOCK_API Status unregister_host(std::string_view entry, void* address);

/// Physical host memory that was mapped at `address`, and that is no longer.
void note_mapped_host(uint64_t address, uint64_t size_bytes, int32_t device, trace::LineId line);
void note_unmapped_host(uint64_t address);

/// The pinned, registered or mapped range that holds `address`, also in its middle (contract E8).
DRYDOCK_API std::optional<HostRange> find_host_range(const void* address) noexcept;

/// Bytes pinned and bytes registered now.
DRYDOCK_API uint64_t pinned_bytes() noexcept;
DRYDOCK_API uint64_t registered_bytes() noexcept;

}  // namespace drydock::device
