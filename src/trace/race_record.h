#pragma once

#include <cstdint>

#include "base/export.h"
#include "trace/recorder.h"

namespace drydock::trace {

/// One of two accesses that nothing orders.
struct RaceAccess {
  uint32_t stream = 0;  ///< 0: the host, within a call that waits for itself
  LineId line = 0;
  CallId call = 0;        ///< of an operator
  StringId what = 0;      ///< what it is, where it is no operator
  uint16_t argument = 0;  ///< of the operator
  bool writes = false;
};

/// Two accesses to the same memory, in the order in which they were submitted.
struct RaceRecord {
  int32_t device = 0;
  RaceAccess first;
  RaceAccess second;
  uint64_t address = 0;  ///< of the first byte that both may touch
  uint64_t size_bytes = 0;
  bool is_reuse = false;  ///< the block was given back after the first access, and the second is to its next life
  LineId freed_line = 0;
};

DRYDOCK_API void race_found(const RaceRecord& record) noexcept;

}  // namespace drydock::trace
