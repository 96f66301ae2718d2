#include <algorithm>
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "ops/sort.h"

namespace drydock::ops {
namespace {

TEST(SortItems, ByDigitsAndByComparison) {
  // Long enough for sorting by digits, with ties, both zeros, infinities and NaN.
  std::vector<float> values;
  for (int k = 0; k < 1000; ++k) values.push_back(static_cast<float>((k * 37) % 101 - 50));
  values[10] = -0.0f;
  values[20] = INFINITY;
  values[30] = -INFINITY;
  values[40] = NAN;
  for (bool descending : {false, true}) {
    std::vector<int64_t> expected(values.size());
    for (size_t k = 0; k < expected.size(); ++k) expected[k] = static_cast<int64_t>(k);
    std::stable_sort(expected.begin(), expected.end(), [&](int64_t a, int64_t b) {
      const float x = values[static_cast<size_t>(a)], y = values[static_cast<size_t>(b)];
      return descending ? kernels::sorts_before(y, x) : kernels::sorts_before(x, y);
    });
    const auto count = static_cast<int64_t>(values.size());
    EXPECT_EQ(kernels::sorted_places(values.data(), count, descending), expected);
    for (int64_t kept : {1, 20, 900}) {
      const auto items = kernels::smallest_items(values.data(), count, descending, kept);
      ASSERT_EQ(static_cast<int64_t>(items.size()), kept);
      for (int64_t k = 0; k < kept; ++k) {
        EXPECT_EQ(items[static_cast<size_t>(k)].place(), expected[static_cast<size_t>(k)]);
      }
    }
  }
}

}  // namespace
}  // namespace drydock::ops
