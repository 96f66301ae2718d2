#include "ops/interpolation/sampling.h"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace drydock::ops::kernels {
namespace {

/// Some operators take the scale as a float. The number that the program wrote is then the shortest decimal that
/// rounds to it, not the float itself: 1.7, not 1.70000005.
double written_scale(double scale) {
  const auto narrow = static_cast<float>(scale);
  if (static_cast<double>(narrow) != scale) return scale;
  char text[64];
  const auto end = std::to_chars(text, text + sizeof text, narrow);
  double written = scale;
  std::from_chars(text, end.ptr, written);
  return written;
}

// More than any axis has; keeps the positions below integers that exist, whatever scale a program gives.
constexpr double kLargestStep = 1e9;

/// Inputs for each output.
template <class C>
C step_of(const AxisSampling& axis) {
  if (axis.align_corners) {
    return axis.outputs > 1 ? static_cast<C>(axis.inputs - 1) / static_cast<C>(axis.outputs - 1) : C{0};
  }
  if (axis.scale > 0) return static_cast<C>(std::min(1.0 / written_scale(axis.scale), kLargestStep));
  return static_cast<C>(axis.inputs) / static_cast<C>(axis.outputs);
}

template <class C>
C source_of(C step, int64_t output, bool align_corners, bool may_be_negative) {
  if (align_corners) return step * static_cast<C>(output);
  const C source = step * (static_cast<C>(output) + C(0.5)) - C(0.5);
  return !may_be_negative && source < C{0} ? C{0} : source;
}

/// The input before `source` and the share of the way to the next.
template <class C>
int64_t split(C source, int64_t inputs, C* fraction) {
  const int64_t index = std::min(static_cast<int64_t>(std::floor(source)), inputs - 1);
  *fraction = std::min(std::max(source - static_cast<C>(index), C{0}), C{1});
  return index;
}

// The cubic convolution: near its middle and outside of it.
template <class C>
C cubic_near(C x, C a) {
  return ((a + C(2)) * x - (a + C(3))) * x * x + C(1);
}
template <class C>
C cubic_far(C x, C a) {
  return ((a * x - C(5) * a) * x + C(8) * a) * x - C(4) * a;
}

template <class C>
void add_tap(AxisMap<C>* map, int64_t index, C weight) {
  map->index.push_back(std::clamp<int64_t>(index, 0, map->inputs - 1));
  map->weight.push_back(weight);
}

template <class C>
void add_linear(AxisMap<C>* map, C step, int64_t output, bool align_corners) {
  C fraction{};
  const int64_t index = split(source_of(step, output, align_corners, false), map->inputs, &fraction);
  add_tap(map, index, C{1} - fraction);
  add_tap(map, index + 1, fraction);
}

template <class C>
void add_cubic(AxisMap<C>* map, C step, int64_t output, bool align_corners) {
  constexpr C kA = C(-0.75);
  C fraction{};
  const int64_t index = split(source_of(step, output, align_corners, true), map->inputs, &fraction);
  const C rest = C{1} - fraction;
  add_tap(map, index - 1, cubic_far(fraction + C{1}, kA));
  add_tap(map, index, cubic_near(fraction, kA));
  add_tap(map, index + 1, cubic_near(rest, kA));
  add_tap(map, index + 2, cubic_far(rest + C{1}, kA));
}

template <class C>
C filter(C x, bool cubic) {
  constexpr C kA = C(-0.5);
  x = std::abs(x);
  if (!cubic) return x < C{1} ? C{1} - x : C{0};
  if (x < C{1}) return cubic_near(x, kA);
  return x < C{2} ? cubic_far(x, kA) : C{0};
}

/// A filter as wide as the inputs that become one output.
template <class C>
void add_filtered(AxisMap<C>* map, C step, int64_t output, bool cubic) {
  const C half_width = C(cubic ? 2 : 1);
  const C support = step >= C{1} ? half_width * step : half_width;
  const C inverse = step >= C{1} ? C{1} / step : C{1};
  const C center = step * (static_cast<C>(output) + C(0.5));
  const int64_t begin = std::max<int64_t>(static_cast<int64_t>(center - support + C(0.5)), 0);
  const int64_t most = static_cast<int64_t>(std::ceil(support)) * 2 + 1;
  const int64_t end = std::min(static_cast<int64_t>(center + support + C(0.5)), map->inputs);
  const int64_t count = std::clamp<int64_t>(end - begin, 0, most);
  const size_t first = map->weight.size();
  C total{};
  for (int64_t k = 0; k < count; ++k) {
    const C weight = filter((static_cast<C>(k + begin) - center + C(0.5)) * inverse, cubic);
    add_tap(map, begin + k, weight);
    total += weight;
  }
  if (total == C{0}) return;
  for (size_t k = first; k < map->weight.size(); ++k) map->weight[k] /= total;
}

}  // namespace

template <class C>
std::vector<int64_t> nearest_elements(const AxisSampling& axis, bool exact) {
  const C step = step_of<C>(axis);
  std::vector<int64_t> elements;
  for (int64_t output = 0; output < axis.outputs; ++output) {
    const C source = exact ? source_of(step, output, false, false) + C(0.5) : step * static_cast<C>(output);
    elements.push_back(std::min(static_cast<int64_t>(std::floor(source)), axis.inputs - 1));
  }
  return elements;
}

template <class C>
AxisMap<C> sampling_map(const AxisSampling& axis, Sampling sampling) {
  AxisMap<C> map;
  map.inputs = axis.inputs;
  if (sampling == Sampling::kNearest || sampling == Sampling::kNearestExact) {
    map.index = nearest_elements<C>(axis, sampling == Sampling::kNearestExact);
    for (size_t output = 1; output <= map.index.size(); ++output) map.first.push_back(static_cast<int64_t>(output));
    return map;
  }
  const bool antialiased = sampling == Sampling::kLinearAntialiased || sampling == Sampling::kCubicAntialiased;
  if (axis.inputs == axis.outputs && !antialiased) return identity_map<C>(axis.inputs);
  const C step = step_of<C>(axis);
  for (int64_t output = 0; output < axis.outputs; ++output) {
    switch (sampling) {
      case Sampling::kLinear: add_linear(&map, step, output, axis.align_corners); break;
      case Sampling::kCubic: add_cubic(&map, step, output, axis.align_corners); break;
      default: add_filtered(&map, step, output, sampling == Sampling::kCubicAntialiased); break;
    }
    map.end_output();
  }
  return map;
}

template std::vector<int64_t> nearest_elements<float>(const AxisSampling&, bool);
template std::vector<int64_t> nearest_elements<double>(const AxisSampling&, bool);
template AxisMap<float> sampling_map(const AxisSampling&, Sampling);
template AxisMap<double> sampling_map(const AxisSampling&, Sampling);

}  // namespace drydock::ops::kernels
