#pragma once

#include <cstdint>

#include "base/export.h"

// Blocks of the client's caching allocator whose requested size is not known yet. The mstx hooks tell the rounded size
// when a block is handed out; the first operator that is given a tensor in the block tells the requested size.

namespace drydock::device {

/// A block at `address` was handed out. Lock-free; a collision in the table only loses a requested size.
DRYDOCK_API void block_handed_out(uint64_t address) noexcept;

/// True once for a block that was handed out at exactly `address`. Lock-free, a few nanoseconds.
DRYDOCK_API bool take_unsized_block(uint64_t address) noexcept;

}  // namespace drydock::device
