#pragma once

#include <algorithm>
#include <cstdint>

#include "ops/attention/problem.h"

// What training and inference have in common about which keys a query sees.

namespace drydock::ops::kernels::attention {

/// Side of the triangular mask that stands for any size.
inline constexpr int64_t kCompressedMask = 2048;

/// The vendor's sparseMode.
enum SparseMode : int64_t {
  kDefaultMask = 0,
  kAllMask = 1,
  kLeftUpCausal = 2,
  kRightDownCausal = 3,
  kBand = 4,
  kPrefix = 5,
  kPrefixCompressed = 6,
  kRightDownCausalBand = 7,  ///< the last sequence has a band
  kBandLeftUpCausal = 8,     ///< the first sequence has a band
  kTree = 9,
};

/// A number of tokens that sums of it do not overflow.
inline int64_t bounded(int64_t tokens) { return std::clamp(tokens, -kUnbounded, kUnbounded); }

}  // namespace drydock::ops::kernels::attention
