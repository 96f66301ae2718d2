#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace drydock::ledger {

/// Spreads the bits of a 64-bit key (the finaliser of SplitMix64).
constexpr uint64_t mix(uint64_t key) noexcept {
  key ^= key >> 30;
  key *= 0xbf58476d1ce4e5b9ULL;
  key ^= key >> 27;
  key *= 0x94d049bb133111ebULL;
  return key ^ (key >> 31);
}

/// Hash table with open addressing for millions of insertions and removals of small values: one array, no allocation
/// per element. Keys are 64-bit and never `kEmptyKey`. Not thread-safe. References are valid until the next insertion
/// or removal.
template <class Value>
class FlatTable {
 public:
  static constexpr uint64_t kEmptyKey = ~uint64_t{0};

  size_t size() const noexcept { return size_; }
  bool empty() const noexcept { return size_ == 0; }

  Value* find(uint64_t key) noexcept {
    if (slots_.empty()) return nullptr;
    for (size_t index = home(key);; index = next(index)) {
      if (slots_[index].key == key) return &slots_[index].value;
      if (slots_[index].key == kEmptyKey) return nullptr;
    }
  }

  /// The value at `key`, made by default where there is none.
  Value& operator[](uint64_t key) {
    if (slots_.size() < (size_ + 1) * 2) grow();
    size_t index = home(key);
    while (slots_[index].key != key && slots_[index].key != kEmptyKey) index = next(index);
    if (slots_[index].key == kEmptyKey) {
      slots_[index].key = key;
      slots_[index].value = Value{};
      ++size_;
    }
    return slots_[index].value;
  }

  bool erase(uint64_t key) noexcept {
    if (slots_.empty()) return false;
    size_t hole = home(key);
    while (slots_[hole].key != key) {
      if (slots_[hole].key == kEmptyKey) return false;
      hole = next(hole);
    }
    // Later elements of the same run move up, so that a search never stops at the hole.
    for (size_t index = next(hole); slots_[index].key != kEmptyKey; index = next(index)) {
      const size_t wanted = home(slots_[index].key);
      const bool reachable = hole <= index ? (wanted <= hole || wanted > index) : (wanted <= hole && wanted > index);
      if (!reachable) continue;
      slots_[hole] = std::move(slots_[index]);
      hole = index;
    }
    slots_[hole].key = kEmptyKey;
    --size_;
    return true;
  }

  void clear() noexcept {
    for (Slot& slot : slots_) slot.key = kEmptyKey;
    size_ = 0;
  }

  /// Calls `visit(key, value)` for each element, in no particular order.
  template <class Visit>
  void for_each(Visit&& visit) const {
    for (const Slot& slot : slots_)
      if (slot.key != kEmptyKey) visit(slot.key, slot.value);
  }

 private:
  struct Slot {
    uint64_t key = kEmptyKey;
    Value value{};
  };

  size_t home(uint64_t key) const noexcept { return mix(key) & (slots_.size() - 1); }
  size_t next(size_t index) const noexcept { return (index + 1) & (slots_.size() - 1); }

  void grow() {
    std::vector<Slot> old = std::move(slots_);
    slots_ = std::vector<Slot>(old.empty() ? 64 : old.size() * 2);
    size_ = 0;
    for (Slot& slot : old)
      if (slot.key != kEmptyKey) (*this)[slot.key] = std::move(slot.value);
  }

  std::vector<Slot> slots_;  // a power of two, at most half full
  size_t size_ = 0;
};

}  // namespace drydock::ledger
