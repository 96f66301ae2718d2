#pragma once

#include <cstdint>
#include <iterator>
#include <map>
#include <optional>

namespace drydock::device {

/// Hands out parts of an address range: first fit by address, so that the same calls give the same addresses in every
/// run. Not thread-safe. All numbers are bytes; begin and sizes must be multiples of the unit the caller works in.
class RangeAllocator {
 public:
  RangeAllocator(uint64_t begin, uint64_t end) { free_.emplace(begin, end); }

  /// The lowest address that is a multiple of `alignment` (a power of two) with room; nothing if there is none.
  std::optional<uint64_t> allocate(uint64_t size, uint64_t alignment) {
    for (auto range = free_.begin(); range != free_.end(); ++range) {
      const uint64_t begin = (range->first + alignment - 1) & ~(alignment - 1);
      if (begin < range->first || begin > range->second || range->second - begin < size) continue;
      take(range, begin, begin + size);
      return begin;
    }
    return std::nullopt;
  }

  /// Gives back a range that `allocate` handed out.
  void release(uint64_t begin, uint64_t size) {
    uint64_t end = begin + size;
    auto after = free_.lower_bound(begin);
    if (after != free_.end() && after->first == end) {
      end = after->second;
      after = free_.erase(after);
    }
    if (after != free_.begin()) {
      if (auto before = std::prev(after); before->second == begin) {
        before->second = end;
        return;
      }
    }
    free_.emplace_hint(after, begin, end);
  }

 private:
  using Ranges = std::map<uint64_t, uint64_t>;  // begin -> end

  void take(Ranges::iterator range, uint64_t begin, uint64_t end) {
    const uint64_t range_end = range->second;
    if (range->first == begin) {
      const auto hint = free_.erase(range);
      if (end != range_end) free_.emplace_hint(hint, end, range_end);
      return;
    }
    range->second = begin;
    if (end != range_end) free_.emplace(end, range_end);
  }

  Ranges free_;
};

}  // namespace drydock::device
