#pragma once

#include <cstdint>

#include "base/export.h"
#include "trace/allocator_records.h"

// What torch_npu's caching allocator says of its blocks beyond the mstx hooks: the bytes that were asked for, the
// stream, the pool, when a block that other streams used is free again, and that it gave up. It offers that to any
// tracker; ours is attached where torch_npu's version is one whose interface is known (client_allocator.cpp). Where it
// is not, traces have what the mstx hooks and the operators tell.

namespace drydock::device {

/// Attaches the tracker, once, if torch_npu is there. To be called when memory of a device is asked for, which is under
/// the allocator's own (recursive) lock: the first block's events come right after. Cheap afterwards.
DRYDOCK_API void watch_client_allocator() noexcept;

/// What is known of the caching allocator's block at `address` that this thread is handing out.
DRYDOCK_API trace::BlockOrigin take_block_origin(uint64_t address) noexcept;

/// Whether other streams still use the block at `address` that this thread is giving back.
DRYDOCK_API bool take_block_pending(uint64_t address) noexcept;

}  // namespace drydock::device
