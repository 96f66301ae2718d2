#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "ops/elementwise.h"

namespace drydock::ops::kernels {

/// Ascending order in which NaN is the largest value.
template <class C>
bool sorts_before(C a, C b) {
  return a < b || (is_nan(b) && !is_nan(a));
}

/// Places of the values in ascending or descending order; equals keep their order.
template <class C>
std::vector<int64_t> sorted_places(const C* values, int64_t count, bool descending) {
  std::vector<int64_t> places(static_cast<size_t>(count));
  std::iota(places.begin(), places.end(), int64_t{0});
  std::stable_sort(places.begin(), places.end(), [=](int64_t a, int64_t b) {
    return descending ? sorts_before(values[b], values[a]) : sorts_before(values[a], values[b]);
  });
  return places;
}

}  // namespace drydock::ops::kernels
