#pragma once

#include <array>
#include <cstdint>

// What one coordinate of a sampling grid reads along its axis.

namespace drydock::ops::kernels {

// The numbers are the vendor's (and PyTorch's) arguments.
enum class GridInterpolation : uint8_t { kLinear = 0, kNearest = 1, kCubic = 2 };
enum class GridPadding : uint8_t { kZeros = 0, kBorder = 1, kReflection = 2 };

struct GridMode {
  GridInterpolation interpolation = GridInterpolation::kLinear;
  GridPadding padding = GridPadding::kZeros;
  bool align_corners = false;
};

/// Up to four elements of an axis. Those outside of it are left out.
template <class C>
struct AxisTaps {
  int count = 0;
  std::array<int64_t, 4> index{};
  std::array<C, 4> weight{};
  std::array<C, 4> slope{};  ///< of the weight, by the coordinate as the grid has it
};

/// `coordinate` is the grid's: -1 and 1 are the ends of an axis of `size` elements.
template <class C>
AxisTaps<C> axis_taps(C coordinate, int64_t size, const GridMode& mode);

extern template AxisTaps<float> axis_taps(float, int64_t, const GridMode&);
extern template AxisTaps<double> axis_taps(double, int64_t, const GridMode&);

}  // namespace drydock::ops::kernels
