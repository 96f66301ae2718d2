#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

// The cached blocks of one pool and stream, ordered by size and then address, as allocators search them: the smallest
// that fits, the lowest of equals. Sizes fall into bins (32 for each power of two, exact below 32 KiB) that a bitmap
// finds; a bin is a sorted array with room at both ends. What is taken is nearly always the first of its bin, and what
// is put in or merged stands near one of the ends: the ends are looked at first, and the shorter side moves.
// Sizes are below 2^30 cells of 512 bytes, addresses below 2^39 of them; beyond, the order is not kept.

namespace drydock::replay {

class FreeBlocks {
 public:
  struct Entry {
    uint64_t key;
    uint32_t block;
  };

  /// A place in the order, until the next change. `bin` is kBins at the end.
  struct Position {
    uint32_t bin = kBins;
    uint32_t index = 0;
  };

  static constexpr uint32_t kStepBits = 5;
  static constexpr uint32_t kSteps = 1U << kStepBits;
  static constexpr uint32_t kBins = (30 - kStepBits + 1) * kSteps + 1;

  [[gnu::always_inline]] static constexpr uint32_t bin_of(uint32_t size) noexcept {
    const uint64_t shifted = uint64_t{size} + kSteps;
    const auto octave = static_cast<uint32_t>(std::bit_width(shifted)) - kStepBits - 1;
    return octave * kSteps + static_cast<uint32_t>(shifted >> octave) - kSteps;
  }

  static bool is_end(const Position& place) noexcept { return place.bin == kBins; }
  uint32_t at(const Position& place) const noexcept { return bins_[place.bin].first[place.index].block; }

  /// First entry of at least `size`.
  [[gnu::always_inline]] Position lower_bound(uint32_t size) const noexcept {
    const uint32_t wanted = bin_of(size);
    const uint32_t bin = occupied_from(wanted);
    if (static_cast<bool>(static_cast<int>(bin == wanted) & static_cast<int>(bins_[bin].first->key < key_of(0, size))))
        [[unlikely]]
      return lower_bound_within(bin, size);
    return {bin, 0};
  }

  /// Whether a block of `size`, which is not in, would be the first of at least `wanted`.
  [[gnu::always_inline]] bool would_be_first(uint64_t address, uint32_t size, uint32_t wanted) const noexcept {
    const uint32_t bin = bin_of(size);
    const Position place = lower_bound(wanted);
    return place.bin > bin || (place.bin == bin && bins_[bin].first[place.index].key > key_of(address, size));
  }

  Position begin() const noexcept { return {occupied_from(0), 0}; }

  Position next(const Position& place) const noexcept {
    if (place.index + 1 < count(bins_[place.bin])) return {place.bin, place.index + 1};
    return {occupied_from(place.bin + 1), 0};
  }

  /// The entry before `place`, which may be the end; the end if there is none.
  Position previous(const Position& place) const noexcept {
    if (place.bin != kBins && place.index > 0) return {place.bin, place.index - 1};
    uint32_t bin = place.bin;
    while (bin > 0) {
      --bin;
      if (bins_[bin].first != bins_[bin].last) return {bin, count(bins_[bin]) - 1};
    }
    return {};
  }

  [[gnu::always_inline]] void insert(uint64_t address, uint32_t size, uint32_t block) {
    const uint32_t bin = bin_of(size);
    const uint64_t key = key_of(address, size);
    Bin& entries = bins_[bin];
    occupied_[bin / 64] |= uint64_t{1} << (bin % 64);
    // Behind the end there is always room for one, so that an empty bin's first may be read.
    if (static_cast<bool>(static_cast<int>(entries.first == entries.last) |
                          static_cast<int>(key < entries.first->key))) {
      if (entries.first == entries.begin) [[unlikely]]
        make_room(entries);
      *--entries.first = {key, block};
      return;
    }
    insert_behind(entries, key, block);
  }

  /// Takes the entry at a place away.
  [[gnu::always_inline]] void erase(const Position& place) noexcept {
    if (place.index == 0) [[likely]] {
      ++bins_[place.bin].first;
    } else {
      remove_inside(bins_[place.bin], bins_[place.bin].first + place.index);
    }
    note_emptiness(place.bin);
  }

  /// Of a block that is in. Nothing happens if it is not, which only a history that contradicts itself brings about.
  [[gnu::always_inline]] void erase(uint64_t address, uint32_t size) noexcept {
    const uint32_t bin = bin_of(size);
    const uint64_t key = key_of(address, size);
    Bin& entries = bins_[bin];
    if (entries.first == entries.last) [[unlikely]]
      return;
    if (entries.first->key == key) {
      ++entries.first;
    } else if (entries.last[-1].key == key) {
      --entries.last;
    } else {
      erase_inside(entries, key);
      return;
    }
    note_emptiness(bin);
  }

  bool is_empty() const noexcept { return is_end(begin()); }

 private:
  // [first, last) of the room from begin to end.
  struct Bin {
    Entry* first = nullptr;
    Entry* last = nullptr;
    Entry* begin = nullptr;
    Entry* end = nullptr;
  };

  static constexpr uint32_t kAddressBits = 39;
  static constexpr uint32_t kWords = (kBins + 64) / 64;
  static constexpr size_t kLeastRoom = 8;

  static uint32_t count(const Bin& entries) noexcept { return static_cast<uint32_t>(entries.last - entries.first); }

  // Within a bin, the 25 low bits of sizes are in the order of the sizes: the others are equal.
  static constexpr uint64_t key_of(uint64_t address, uint32_t size) noexcept {
    return (uint64_t{size} << kAddressBits) + address;
  }

  static Entry* search(const Bin& entries, uint64_t key) noexcept {
    Entry* first = entries.first;
    size_t left = count(entries);
    while (left > 0) {
      const size_t half = left / 2;
      // A mask, because compilers make a jump of a choice, which is taken every second time.
      first += (left - half) & (size_t{0} - static_cast<size_t>(first[half].key < key));
      left = half;
    }
    return first;
  }

  [[gnu::always_inline]] uint32_t occupied_from(uint32_t bin) const noexcept {
    uint32_t word = bin / 64;
    uint64_t bits = occupied_[word] & (~uint64_t{0} << (bin % 64));
    // The bit at kBins is always set.
    while (bits == 0) bits = occupied_[++word];
    return word * 64 + static_cast<uint32_t>(std::countr_zero(bits));
  }

  [[gnu::always_inline]] void note_emptiness(uint32_t bin) noexcept {
    occupied_[bin / 64] &= ~(uint64_t{bins_[bin].first == bins_[bin].last} << (bin % 64));
  }

  [[gnu::noinline]] Position lower_bound_within(uint32_t bin, uint32_t size) const noexcept {
    const Entry* place = search(bins_[bin], key_of(0, size));
    if (place != bins_[bin].last) return {bin, static_cast<uint32_t>(place - bins_[bin].first)};
    return {occupied_from(bin + 1), 0};
  }

  [[gnu::noinline]] void insert_behind(Bin& entries, uint64_t key, uint32_t block) {
    if (entries.last[-1].key < key) {
      if (entries.last == entries.end) make_room(entries);
      *entries.last++ = {key, block};
      return;
    }
    if (entries.first == entries.begin || entries.last == entries.end) make_room(entries);
    Entry* place = search(entries, key);
    if (place - entries.first < entries.last - place) {
      Entry* const first = --entries.first;
      --place;
      std::memmove(first, first + 1, static_cast<size_t>(place - first) * sizeof(Entry));
    } else {
      std::memmove(place + 1, place, static_cast<size_t>(entries.last++ - place) * sizeof(Entry));
    }
    *place = {key, block};
  }

  [[gnu::noinline]] static void erase_inside(Bin& entries, uint64_t key) noexcept {
    Entry* const place = search(entries, key);
    if (place != entries.last && place->key == key) remove_inside(entries, place);
  }

  static void remove_inside(Bin& entries, Entry* place) noexcept {
    if (place - entries.first < entries.last - place) {
      Entry* const first = entries.first++;
      std::memmove(first + 1, first, static_cast<size_t>(place - first) * sizeof(Entry));
    } else {
      Entry* const last = --entries.last;
      std::memmove(place, place + 1, static_cast<size_t>(last - place) * sizeof(Entry));
    }
  }

  // Room at both ends, half of what there is on each side.
  [[gnu::noinline]] void make_room(Bin& entries) {
    const size_t used = count(entries);
    const auto capacity = static_cast<size_t>(entries.end - entries.begin);
    Entry* const old = entries.first;
    std::unique_ptr<Entry[]> larger;
    if (capacity < kLeastRoom || used > capacity / 2) {
      const size_t wanted = std::max(kLeastRoom, 4 * used);
      larger = std::make_unique<Entry[]>(wanted + 1);
      entries.begin = larger.get();
      entries.end = entries.begin + wanted;
    }
    entries.first = entries.begin + (static_cast<size_t>(entries.end - entries.begin) - used) / 2;
    entries.last = entries.first + used;
    if (entries.first < old || larger != nullptr) {
      std::copy(old, old + used, entries.first);
    } else {
      std::copy_backward(old, old + used, entries.last);
    }
    // The old array goes with the whole: there are few, and smaller ones.
    if (larger != nullptr) rooms_.push_back(std::move(larger));
  }

  static inline Entry nowhere[2]{};  // where bins begin that never had an entry; not written to

  static constexpr std::array<uint64_t, kWords> with_end() {
    std::array<uint64_t, kWords> words{};
    words[kBins / 64] = uint64_t{1} << (kBins % 64);
    return words;
  }
  static std::array<Bin, kBins + 1> empty_bins() {
    std::array<Bin, kBins + 1> bins;
    bins.fill({nowhere + 1, nowhere + 1, nowhere + 1, nowhere + 1});
    return bins;
  }

  std::array<uint64_t, kWords> occupied_ = with_end();
  std::array<Bin, kBins + 1> bins_ = empty_bins();  // the last stays empty
  std::vector<std::unique_ptr<Entry[]>> rooms_;
};

}  // namespace drydock::replay
