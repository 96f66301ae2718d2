#include "ops/sampling_grid/grid_taps.h"

#include <algorithm>
#include <cmath>

namespace drydock::ops::kernels {
namespace {

/// A position and how it moves with the grid's coordinate.
template <class C>
struct Position {
  C at;
  C slope;
};

// Outside of every axis, for what is no position: PyTorch's choice.
constexpr double kNowhere = -100;
constexpr double kFarthest = 2147483646;

template <class C>
Position<C> unnormalized(C coordinate, int64_t size, bool align_corners) {
  const C length = static_cast<C>(size);
  if (align_corners) return {(coordinate + C(1)) / C(2) * (length - C(1)), (length - C(1)) / C(2)};
  return {((coordinate + C(1)) * length - C(1)) / C(2), length / C(2)};
}

template <class C>
Position<C> clipped(Position<C> position, int64_t size) {
  const C last = static_cast<C>(size - 1);
  if (!(position.at > C(0))) return {C(0), C(0)};
  if (position.at >= last) return {last, C(0)};
  return position;
}

template <class C>
Position<C> reflected(Position<C> position, int64_t size, bool align_corners) {
  const C low = align_corners ? C(0) : C(-0.5);
  const C span = static_cast<C>(align_corners ? size - 1 : size);
  if (span <= C(0)) return {C(0), C(0)};
  C distance = position.at - low;
  C slope = position.slope;
  if (distance < C(0)) {
    distance = -distance;
    slope = -slope;
  }
  const C rest = std::fmod(distance, span);
  const C flips = std::floor(distance / span);
  if (std::fmod(flips, C(2)) == C(0)) return {rest + low, slope};
  return {span - rest + low, -slope};
}

template <class C>
Position<C> padded(Position<C> position, int64_t size, const GridMode& mode) {
  if (mode.padding == GridPadding::kBorder) {
    position = clipped(position, size);
  } else if (mode.padding == GridPadding::kReflection) {
    position = clipped(reflected(position, size, mode.align_corners), size);
  }
  if (!(std::abs(position.at) < static_cast<C>(kFarthest))) return {static_cast<C>(kNowhere), C(0)};
  return position;
}

template <class C>
void add(AxisTaps<C>* taps, int64_t index, int64_t size, C weight, C slope) {
  if (index < 0 || index >= size) return;
  const auto place = static_cast<size_t>(taps->count++);
  taps->index[place] = index;
  taps->weight[place] = weight;
  taps->slope[place] = slope;
}

template <class C>
void add_cubic(AxisTaps<C>* taps, Position<C> position, int64_t size, const GridMode& mode) {
  constexpr C kA = C(-0.75);
  const auto near = [](C x) { return ((kA + C(2)) * x - (kA + C(3))) * x * x + C(1); };
  const auto far = [](C x) { return ((kA * x - C(5) * kA) * x + C(8) * kA) * x - C(4) * kA; };
  const auto near_slope = [](C x) { return (C(3) * (kA + C(2)) * x - C(2) * (kA + C(3))) * x; };
  const auto far_slope = [](C x) { return (C(3) * kA * x - C(10) * kA) * x + C(8) * kA; };
  if (!(std::abs(position.at) < static_cast<C>(kFarthest))) position = {static_cast<C>(kNowhere), C(0)};
  const C before = std::floor(position.at);
  const C x = position.at - before;
  const std::array<C, 4> weights{far(x + C(1)), near(x), near(C(1) - x), far(C(2) - x)};
  const std::array<C, 4> slopes{far_slope(x + C(1)), near_slope(x), -near_slope(C(1) - x), -far_slope(C(2) - x)};
  for (size_t k = 0; k < 4; ++k) {
    // Here the elements are padded, not the position.
    const Position<C> element{before + static_cast<C>(k) - C(1), C(0)};
    const auto index = static_cast<int64_t>(padded(element, size, mode).at);
    add(taps, index, size, weights[k], slopes[k] * position.slope);
  }
}

}  // namespace

template <class C>
AxisTaps<C> axis_taps(C coordinate, int64_t size, const GridMode& mode) {
  AxisTaps<C> taps;
  const Position<C> raw = unnormalized(coordinate, size, mode.align_corners);
  if (mode.interpolation == GridInterpolation::kCubic) {
    add_cubic(&taps, raw, size, mode);
    return taps;
  }
  const Position<C> position = padded(raw, size, mode);
  if (mode.interpolation == GridInterpolation::kNearest) {
    add(&taps, static_cast<int64_t>(std::nearbyint(position.at)), size, C(1), C(0));
    return taps;
  }
  const C before = std::floor(position.at);
  const auto index = static_cast<int64_t>(before);
  add(&taps, index, size, before + C(1) - position.at, -position.slope);
  add(&taps, index + 1, size, position.at - before, position.slope);
  return taps;
}

template AxisTaps<float> axis_taps(float, int64_t, const GridMode&);
template AxisTaps<double> axis_taps(double, int64_t, const GridMode&);

}  // namespace drydock::ops::kernels
