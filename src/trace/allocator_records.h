#pragma once

#include <cstdint>

#include "trace/block_birth.h"
#include "trace/recorder.h"

// What the client's caching allocator tells beyond the mstx hooks (device/client_allocator.h), and what its user asks
// of it. Rules as in recorder.h.

namespace drydock::trace {

/// What the allocator knows of a block beyond its place. Streams are numbered in the order of their handles; pool 0 is
/// the default pool, others are those of graphs.
struct BlockOrigin {
  bool is_known = false;
  uint64_t requested_bytes = 0;
  uint32_t stream = 0;
  uint8_t pool = 0;
};
/// block_allocated for a block of which more may be known.
DRYDOCK_API void block_allocated(int32_t device, uint64_t address, uint64_t size_bytes, bool is_workspace, LineId line,
                                 const BlockOrigin& origin, const Birth& birth = {}) noexcept;
/// block_freed for a block that other streams still use: it can't be handed out again until block_completed.
DRYDOCK_API void block_freed_pending(int32_t device, uint64_t address) noexcept;
DRYDOCK_API void block_completed(int32_t device, uint64_t address) noexcept;
/// The allocator gave up: nothing that it could free made room.
DRYDOCK_API void allocator_out_of_memory(int32_t device, uint32_t stream, uint8_t pool, uint64_t rounded_bytes,
                                         uint64_t free_bytes, LineId line) noexcept;
/// The program called empty_cache, or set_per_process_memory_fraction (`allowed_bytes`; all ones: no limit).
DRYDOCK_API void cache_emptied() noexcept;
DRYDOCK_API void fraction_set(int32_t device, uint64_t allowed_bytes) noexcept;

}  // namespace drydock::trace
