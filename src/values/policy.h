#pragma once

#include <cstdint>

#include "base/export.h"

namespace drydock::values {

/// `--values`: what is computed (ARCHITECTURE.md, "Values").
enum class Mode : uint8_t {
  kAuto,   ///< operators with known inputs and outputs of at most `budget_bytes`
  kFull,   ///< every operator that has a kernel and known inputs
  kGhost,  ///< only integers and booleans: what decides shapes and control flow
};

struct Policy {
  Mode mode = Mode::kAuto;
  uint64_t budget_bytes = uint64_t{1} << 20;
  /// False with DRYDOCK_RECORD=null: nothing is tracked, floating memory is ghost and integral memory known.
  bool tracked = true;
};

/// Read from DRYDOCK_VALUES, DRYDOCK_VALUE_BUDGET and DRYDOCK_RECORD at the first call, then fixed. Thread-safe.
DRYDOCK_API const Policy& policy() noexcept;

}  // namespace drydock::values
