#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

// The cached blocks of one pool and stream, ordered by size and then address, as allocators search them: the smallest
// that fits, the lowest of equals. Sizes fall into bins (exact up to 16 KiB, then 16 for each power of two) that a
// bitmap finds; a bin is a sorted array. A search, an insertion and a removal touch one bin and a word or two of the
// bitmap.

namespace drydock::replay {

class FreeBlocks {
 public:
  struct Entry {
    uint64_t address = 0;
    uint32_t size = 0;  ///< in units of 512 bytes
    uint32_t block = 0;
  };

  /// A place in the order. `bin` is kBins at the end.
  struct Position {
    uint32_t bin = kBins;
    uint32_t index = 0;
  };

  static constexpr uint32_t kBins = 480;

  static constexpr uint32_t bin_of(uint32_t size) noexcept {
    if (size < kExact) return size;
    const auto top = static_cast<uint32_t>(std::bit_width(size)) - 1;
    return kExact + (top - 5) * kSteps + ((size >> (top - 4)) & (kSteps - 1));
  }

  bool is_end(const Position& place) const noexcept { return place.bin == kBins; }
  const Entry& at(const Position& place) const noexcept { return bins_[place.bin][place.index]; }

  /// First entry of at least `size`.
  Position lower_bound(uint32_t size) const noexcept {
    const uint32_t bin = bin_of(size);
    const std::vector<Entry>& entries = bins_[bin];
    if (!entries.empty() && entries.back().size >= size) {
      uint32_t index = 0;
      if (entries.front().size < size) index = first_of(entries, size, 0);
      return {bin, index};
    }
    return first_in_or_after(bin + 1);
  }

  Position begin() const noexcept { return first_in_or_after(0); }

  Position next(const Position& place) const noexcept {
    if (place.index + 1 < bins_[place.bin].size()) return {place.bin, place.index + 1};
    return first_in_or_after(place.bin + 1);
  }

  /// The entry before `place`, which may be the end; the end if there is none.
  Position previous(const Position& place) const noexcept {
    if (place.bin != kBins && place.index > 0) return {place.bin, place.index - 1};
    uint32_t bin = place.bin;
    while (bin > 0) {
      --bin;
      if (!bins_[bin].empty()) return {bin, static_cast<uint32_t>(bins_[bin].size()) - 1};
    }
    return {};
  }

  void insert(uint64_t address, uint32_t size, uint32_t block) {
    const uint32_t bin = bin_of(size);
    std::vector<Entry>& entries = bins_[bin];
    if (entries.empty()) {
      occupied_[bin / 64] |= uint64_t{1} << (bin % 64);
      entries.push_back({address, size, block});
      return;
    }
    const Entry& last = entries.back();
    if (last.size < size || (last.size == size && last.address < address)) {
      entries.push_back({address, size, block});
      return;
    }
    entries.insert(entries.begin() + first_of(entries, size, address), {address, size, block});
  }

  void erase(const Position& place) noexcept {
    std::vector<Entry>& entries = bins_[place.bin];
    entries.erase(entries.begin() + place.index);
    if (entries.empty()) occupied_[place.bin / 64] &= ~(uint64_t{1} << (place.bin % 64));
  }

  /// Of a block that is in.
  void erase(uint64_t address, uint32_t size) noexcept {
    const uint32_t bin = bin_of(size);
    erase(Position{bin, first_of(bins_[bin], size, address)});
  }

  bool is_empty() const noexcept { return is_end(begin()); }

 private:
  static constexpr uint32_t kExact = 32;
  static constexpr uint32_t kSteps = 16;
  static constexpr uint32_t kFewEntries = 16;

  static uint32_t first_of(const std::vector<Entry>& entries, uint32_t size, uint64_t address) noexcept {
    const Entry* data = entries.data();
    auto count = static_cast<uint32_t>(entries.size());
    uint32_t first = 0;
    while (count > kFewEntries) {
      const uint32_t half = count / 2;
      const Entry& middle = data[first + half];
      if (middle.size < size || (middle.size == size && middle.address < address)) first += half;
      count -= half;
    }
    while (data[first].size < size || (data[first].size == size && data[first].address < address)) {
      ++first;
      if (first == entries.size()) break;
    }
    return first;
  }

  Position first_in_or_after(uint32_t bin) const noexcept {
    uint32_t word = bin / 64;
    if (word >= occupied_.size()) return {};
    uint64_t bits = occupied_[word] & (~uint64_t{0} << (bin % 64));
    while (bits == 0) {
      if (++word == occupied_.size()) return {};
      bits = occupied_[word];
    }
    return {word * 64 + static_cast<uint32_t>(std::countr_zero(bits)), 0};
  }

  std::array<uint64_t, (kBins + 63) / 64> occupied_{};
  std::array<std::vector<Entry>, kBins> bins_;
};

}  // namespace drydock::replay
