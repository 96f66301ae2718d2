#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace drydock::races {

/// How much of each stream's work is known to be over at some point: an entry for each stream, by its dense index.
/// Entries that were never set are 0, and no work has tick 0.
class VectorClock {
 public:
  uint64_t at(uint32_t index) const noexcept { return index < ticks_.size() ? ticks_[index] : 0; }
  bool covers(uint32_t index, uint64_t tick) const noexcept { return at(index) >= tick; }

  void raise(uint32_t index, uint64_t tick) {
    if (index >= ticks_.size()) ticks_.resize(size_t{index} + 1);
    ticks_[index] = std::max(ticks_[index], tick);
  }
  uint64_t advance(uint32_t index) {
    if (index >= ticks_.size()) ticks_.resize(size_t{index} + 1);
    return ++ticks_[index];
  }
  /// True if that changed anything.
  bool join(const VectorClock& other) {
    if (other.ticks_.size() > ticks_.size()) ticks_.resize(other.ticks_.size());
    bool changed = false;
    for (size_t index = 0; index < other.ticks_.size(); ++index) {
      if (other.ticks_[index] <= ticks_[index]) continue;
      ticks_[index] = other.ticks_[index];
      changed = true;
    }
    return changed;
  }

 private:
  std::vector<uint64_t> ticks_;
};

}  // namespace drydock::races
