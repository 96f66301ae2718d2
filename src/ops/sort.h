#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

#include "ops/elementwise.h"

namespace drydock::ops::kernels {

/// Ascending order in which NaN is the largest value.
template <class C>
bool sorts_before(C a, C b) {
  return a < b || (is_nan(b) && !is_nan(a));
}

/// An unsigned number in the order of the values: equals are equal (also -0 and 0), NaN is the largest. A descending
/// order is the ascending one of the complements.
template <class C>
auto sort_key(C value, bool descending) {
  using Key = std::conditional_t<sizeof(C) == 4, uint32_t, uint64_t>;
  constexpr Key kSign = Key{1} << (8 * sizeof(C) - 1);
  Key key = 0;
  if constexpr (std::is_floating_point_v<C>) {
    const Key bits = std::bit_cast<Key>(value + C(0));  // -0 becomes 0
    key = (bits & kSign) != 0 ? ~bits : bits | kSign;
    key = std::isnan(value) ? std::numeric_limits<Key>::max() : key;
  } else {
    key = static_cast<Key>(value) ^ (std::is_signed_v<C> ? kSign : 0);
  }
  return descending ? static_cast<Key>(~key) : key;
}

/// A key with the place that it came from: no two are equal, so that any sort of them keeps the order of equals.
struct NarrowItem {
  uint64_t bits;
  static NarrowItem of(uint32_t key, int64_t place) { return {uint64_t{key} << 32 | static_cast<uint32_t>(place)}; }
  uint64_t key() const { return bits >> 32; }
  int64_t place() const { return static_cast<int64_t>(bits & 0xffffffff); }
  bool operator<(const NarrowItem& other) const { return bits < other.bits; }
  static constexpr int kKeyBits = 32;
};
struct WideItem {
  uint64_t bits;
  int64_t from;
  static WideItem of(uint64_t key, int64_t place) { return {key, place}; }
  uint64_t key() const { return bits; }
  int64_t place() const { return from; }
  bool operator<(const WideItem& other) const { return bits != other.bits ? bits < other.bits : from < other.from; }
  static constexpr int kKeyBits = 64;
};
template <class C>
using SortItem = std::conditional_t<sizeof(C) == 4, NarrowItem, WideItem>;

/// Items of a row shorter than 2^32.
template <class C>
std::vector<SortItem<C>> sort_items(const C* values, int64_t count, bool descending) {
  std::vector<SortItem<C>> items(static_cast<size_t>(count));
  for (int64_t k = 0; k < count; ++k) {
    items[static_cast<size_t>(k)] = SortItem<C>::of(sort_key(values[k], descending), k);
  }
  return items;
}

/// Sorts items that are in the order of their places.
template <class Item>
void sort_all(std::vector<Item>& items) {
  constexpr size_t kRadixPays = 256;
  if (items.size() < kRadixPays) {
    std::sort(items.begin(), items.end());
    return;
  }
  constexpr size_t kDigits = 256;
  std::vector<Item> other(items.size());
  for (int shift = 0; shift < Item::kKeyBits; shift += 8) {
    size_t counts[kDigits] = {};
    for (const Item& item : items) ++counts[item.key() >> shift & (kDigits - 1)];
    if (counts[items[0].key() >> shift & (kDigits - 1)] == items.size()) continue;  // all have this digit
    size_t start = 0;
    for (size_t& count : counts) {
      const size_t size = count;
      count = start;
      start += size;
    }
    for (const Item& item : items) other[counts[item.key() >> shift & (kDigits - 1)]++] = item;
    items.swap(other);
  }
}

/// The `kept` smallest items of a row, in order.
template <class C>
std::vector<SortItem<C>> smallest_items(const C* values, int64_t count, bool descending, int64_t kept) {
  using Item = SortItem<C>;
  if (kept * 4 > count) {
    std::vector<Item> items = sort_items(values, count, descending);
    sort_all(items);
    items.resize(static_cast<size_t>(kept));
    return items;
  }
  // Candidates below a bound, which falls whenever they become too many.
  std::vector<Item> items;
  const size_t room = static_cast<size_t>(2 * kept + 64);
  items.reserve(room);
  auto bound = std::numeric_limits<decltype(sort_key(C(0), false))>::max();
  const auto keep_best = [&] {
    std::nth_element(items.begin(), items.begin() + kept - 1, items.end());
    items.resize(static_cast<size_t>(kept));
    bound = static_cast<decltype(bound)>(items.back().key());
  };
  for (int64_t k = 0; k < count; ++k) {
    const auto key = sort_key(values[k], descending);
    if (key > bound) continue;
    items.push_back(Item::of(key, k));
    if (items.size() == room) keep_best();
  }
  if (items.size() > static_cast<size_t>(kept)) keep_best();
  std::sort(items.begin(), items.end());
  return items;
}

/// Places of the values in ascending or descending order; equals keep their order.
template <class C>
std::vector<int64_t> sorted_places(const C* values, int64_t count, bool descending) {
  auto items = sort_items(values, count, descending);
  sort_all(items);
  std::vector<int64_t> places(items.size());
  for (size_t k = 0; k < places.size(); ++k) places[k] = items[k].place();
  return places;
}

}  // namespace drydock::ops::kernels
