#pragma once

#include <cmath>

#include "base/instruction_set.h"
#include "base/vector_math.h"
#include "ops/norm/row_access.h"

namespace drydock::ops::kernels {

/// to = the logarithms of the softmax of `from`; returns the logarithm of the sum of exponentials. C is float or
/// double.
template <class C>
double log_softmax_row(const C* from, C* to, int64_t count) {
  double normaliser = 0;
  base::vectorized([=, &normaliser] {
    const C top = largest_of(from, count);
    const double sum = sum_of<C>(count, [from, top](int64_t k) { return vector_math::exp(from[k] - top); });
    const C shift = static_cast<C>(std::log(sum));
    // Two subtractions: top and log(sum) may differ by so much that their sum loses the smaller one.
#pragma GCC ivdep
    for (int64_t k = 0; k < count; ++k) to[k] = (from[k] - top) - shift;
    normaliser = static_cast<double>(top) + static_cast<double>(shift);
  });
  return normaliser;
}

}  // namespace drydock::ops::kernels
