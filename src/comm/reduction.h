#pragma once

#include <cstdint>

#include "base/export.h"
#include "comm/data_types.h"

namespace drydock::comm {

/// Adds up what the ranks give, one rank after another, rank 0 first: so the order of a sum never depends on who came
/// when, nor on threads. fp32 and integers are reduced as they are (integers wrap); 16-bit floats in fp32, rounded once
/// at the end. A maximum or minimum with a NaN is NaN.
///
/// Works on blocks that fit a cache: `begin` takes the first rank's elements, `add` each further one's, `end` writes
/// the result. `count` is at most kBlockElements and the same in all three.
class DRYDOCK_API Reduction {
 public:
  static constexpr uint64_t kBlockElements = 16384;

  static constexpr uint64_t kScratchBytes = kBlockElements * 8;

  /// Type and operation were checked by `check_reduction`; `scratch` has kScratchBytes, aligned to 64.
  Reduction(HcclType type, ReduceOp op, void* scratch) noexcept : type_(type), op_(op), accumulator_(scratch) {}

  void begin(const void* elements, uint64_t count) noexcept;
  void add(const void* elements, uint64_t count) noexcept;
  void end(void* result, uint64_t count) const noexcept;

 private:
  const HcclType type_;
  const ReduceOp op_;
  void* const accumulator_;
};

}  // namespace drydock::comm
