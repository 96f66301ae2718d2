#pragma once

#include <algorithm>
#include <cstdint>

#include "replay/settings.h"

namespace drydock::replay {

/// Values of settings under which every decision so far would have been the same: what was compared with them lies on
/// the same side.
struct Indifference {
  uint32_t split_above = 0;        ///< max_split_size, in units of 512 bytes: larger than this
  uint32_t split_to = 0xffffffff;  ///< and at most this
  uint64_t threshold_from = 0;     ///< bytes above which garbage is collected; kUnlimited: never
  uint64_t threshold_to = kUnlimited;
  uint64_t allowed_from = 0;  ///< units of 512 bytes that may be had; kUnlimited: any number
  uint64_t allowed_to = kUnlimited;

  void split(uint32_t size, bool is_below) {
    split_above = std::max(split_above, is_below ? size : 0);
    split_to = std::min(split_to, is_below ? 0xffffffff : size);
  }
  void threshold(uint64_t bytes, bool is_above) {
    if (is_above) {
      threshold_to = std::min(threshold_to, bytes - 1);
    } else {
      threshold_from = std::max(threshold_from, bytes);
    }
  }
  void allowed(uint64_t units, bool is_too_many) {
    if (is_too_many) {
      allowed_to = std::min(allowed_to, units - 1);
    } else {
      allowed_from = std::max(allowed_from, units);
    }
  }
};

}  // namespace drydock::replay
