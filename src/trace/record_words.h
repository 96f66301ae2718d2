#pragma once

#include <cstdint>

namespace drydock::trace {

/// The two 32-bit fields of a word of a record: format.h lists the lower one first.
inline uint32_t low(uint64_t word) noexcept { return static_cast<uint32_t>(word); }
inline uint32_t high(uint64_t word) noexcept { return static_cast<uint32_t>(word >> 32); }

}  // namespace drydock::trace
