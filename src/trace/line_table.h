#pragma once

#include <cstdint>
#include <span>

#include "base/export.h"

namespace drydock::trace {

/// Source line of the instruction at `byte_offset`, from a code object's co_linetable. The location table of Python
/// 3.11 and later (`minor` >= 11), or the line table of 3.10. -1 if the instruction has no line or lies beyond the
/// table; bad bytes end the search.
DRYDOCK_API int decode_line(int minor, std::span<const uint8_t> table, int first_line, int byte_offset) noexcept;

}  // namespace drydock::trace
