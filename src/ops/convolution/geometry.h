#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "ops/kernel_access.h"
#include "ops/kernel_call.h"

// What a convolution is about. Three tensors, whichever of them is asked for: the *image* [N, C, spatial], the *map*
// [N, O, spatial] that the filters make of it, and the *filters* [O, C / groups, spatial]. A transposed convolution
// makes the image of the map. All have three spatial dimensions here; missing ones are of size 1 in front.

namespace drydock::ops::kernels {

/// How the filters move along one spatial dimension.
struct Window {
  int64_t size = 1;
  int64_t stride = 1;
  int64_t dilation = 1;
  int64_t pad_before = 0;
  int64_t pad_after = 0;

  /// Positions of the image that one application covers.
  int64_t reach() const { return dilation * (size - 1) + 1; }
};

struct ConvolutionViews {
  TensorView image, filters, map;
  TensorView bias;  ///< added to what is computed: one value per channel of the map (or of the image, if transposed)
  std::array<Window, 3> window;
  int64_t groups = 1;

  int64_t batch() const { return image.dims[0]; }
  int64_t image_channels() const { return image.dims[1] / groups; }
  int64_t map_channels() const { return map.dims[1] / groups; }
  int64_t taps() const { return window[0].size * window[1].size * window[2].size; }
  int64_t map_positions() const { return map.dims[2] * map.dims[3] * map.dims[4]; }
};

/// The arguments of a convolution operator.
struct ConvolutionArguments {
  std::span<const int64_t> stride, padding, dilation;
  std::span<const int64_t> output_padding;
  bool transposed = false;
  int64_t groups = 1;
};

/// Checks all sizes and fills `views`. `input` and `output` are the image and the map, or the other way round if
/// transposed. `bias` is not checked.
Status arrange(const KernelCall& call, const TensorView& input, const TensorView& filters, const TensorView& output,
               const ConvolutionArguments& arguments, ConvolutionViews* views);

}  // namespace drydock::ops::kernels
