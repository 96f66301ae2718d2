#pragma once

#include <cstdint>

#include "base/data_type.h"
#include "base/export.h"

// Which bytes of device memory are known, assumed or ghost. All functions are thread-safe; addresses are device
// addresses. With DRYDOCK_RECORD=null nothing is stored.

namespace drydock::values {

/// Ordered: a result is as good as its worst input.
enum class Knowledge : uint8_t { kGhost = 0, kAssumed = 1, kKnown = 2 };

/// Worst knowledge over [address, address + size). Empty ranges are known.
DRYDOCK_API Knowledge knowledge_of(uint64_t address, uint64_t size_bytes) noexcept;
/// Sets the knowledge of a range.
DRYDOCK_API void set_knowledge(uint64_t address, uint64_t size_bytes, Knowledge knowledge) noexcept;
/// Moves the knowledge of [from, from + size) to [to, to + size): a copy inside device memory. Ranges may overlap.
DRYDOCK_API void copy_knowledge(uint64_t to, uint64_t from, uint64_t size_bytes) noexcept;
/// Forgets a range that was given back to the driver.
DRYDOCK_API void forget(uint64_t address, uint64_t size_bytes) noexcept;

/// What a ghost reads as, on the host and as the operand of an operator whose result decides a shape or a branch.
struct GhostReading {
  DataType dtype = DataType::kUndefined;  ///< undefined where nothing is known about the memory: bytes of zero
  double value = 0;
};

/// What a ghost of `dtype` reads as where nothing better is known. Benign: floats are finite and positive, integers are
/// valid indices.
DRYDOCK_API double default_reading(DataType dtype) noexcept;
/// Remembers how the ghosts in [address, address + size) read.
DRYDOCK_API void note_ghost(uint64_t address, uint64_t size_bytes, const GhostReading& reading) noexcept;
/// The reading of the ghost at `address`.
DRYDOCK_API GhostReading ghost_reading(uint64_t address) noexcept;
/// Fills the host copy of [device_address, +size) with stand-ins where the device has ghosts; the rest is left alone.
/// Returns the number of made-up bytes, ghost and assumed alike.
DRYDOCK_API uint64_t fill_assumed(void* host, uint64_t device_address, uint64_t size_bytes) noexcept;

/// Calls `visit(address, size_bytes)` for each part of the range whose bytes exist (known or assumed), in order.
using PartVisitor = void (*)(void* context, uint64_t address, uint64_t size_bytes);
DRYDOCK_API void for_each_real_part(uint64_t address, uint64_t size_bytes, PartVisitor visit, void* context) noexcept;

/// Number of separate known or assumed ranges; for tests and benchmarks.
DRYDOCK_API uint64_t extent_count() noexcept;

}  // namespace drydock::values
