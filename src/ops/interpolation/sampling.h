#pragma once

#include <cstdint>
#include <vector>

#include "ops/spatial/separable.h"

// Where along an axis an interpolation reads, and with which weights. The formulas, and the fp32 they are computed in,
// are PyTorch's: an element that moves by one rounding would be another element.

namespace drydock::ops::kernels {

enum class Sampling : uint8_t { kNearest, kNearestExact, kLinear, kCubic, kLinearAntialiased, kCubicAntialiased };

/// One axis of an interpolation. `scale` is the output's size by the input's as the caller gives it; 0 or less: the
/// sizes say.
struct AxisSampling {
  int64_t inputs = 1;
  int64_t outputs = 1;
  bool align_corners = false;
  double scale = 0;
};

/// The element that each output takes. C, here and below, is float, or double for elements of fp64.
template <class C>
std::vector<int64_t> nearest_elements(const AxisSampling& axis, bool exact);

template <class C>
AxisMap<C> sampling_map(const AxisSampling& axis, Sampling sampling);

extern template std::vector<int64_t> nearest_elements<float>(const AxisSampling&, bool);
extern template std::vector<int64_t> nearest_elements<double>(const AxisSampling&, bool);
extern template AxisMap<float> sampling_map(const AxisSampling&, Sampling);
extern template AxisMap<double> sampling_map(const AxisSampling&, Sampling);

}  // namespace drydock::ops::kernels
