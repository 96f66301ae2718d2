#pragma once

#include <cstdint>
#include <vector>

#include "replay/workload.h"

// Training does the same thing step after step. Where the operations of steps repeat exactly and an allocator is after
// one of them as it was before it, it will be so after each of those that follow.

namespace drydock::replay {

/// Stretches of the workload in which what lies between two ends of steps (or of a few steps together) repeats at least
/// twice. Operations are the same if they ask for the same, and concern a block that was last touched as many
/// operations before. In order, and apart.
std::vector<Repeat> find_repeats(const Workload& workload);

/// For each block number the operation that touched it last, while operations are passed one after the other.
class LastTouch {
 public:
  static constexpr uint32_t kNever = 0xffffffff;
  static constexpr uint32_t kBefore = 0xfffffffe;  ///< held before the first operation

  explicit LastTouch(const Workload& workload);
  void pass_until(uint32_t operation);
  uint32_t operator[](uint32_t slot) const { return touched_[slot]; }
  /// Whether the program holds the block.
  bool is_held(uint32_t slot) const {
    const uint32_t touched = touched_[slot];
    return touched == kBefore || (touched != kNever && workload_->operations[touched].kind == OperationKind::kAllocate);
  }

 private:
  const Workload* workload_;
  std::vector<uint32_t> touched_;
  uint32_t passed_ = 0;
};

}  // namespace drydock::replay
