#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "ops/kernel_access.h"
#include "ops/spatial/planes.h"

// The windows of a pooling, axis by axis.

namespace drydock::ops::kernels {

/// The windows along one axis.
struct WindowAxis {
  int64_t inputs = 1;
  int64_t outputs = 1;
  int64_t kernel = 1;
  int64_t stride = 1;
  int64_t padding = 0;
  int64_t dilation = 1;

  /// First element of window `output`; may be negative where it starts in the padding.
  int64_t start(int64_t output) const { return output * stride - padding; }
};

using Windows = std::array<WindowAxis, 3>;

/// Reads kernel, stride, padding and (where there is one) dilation: the int arrays 0 to 3 of the call, each with one
/// number for all axes or one for each; an empty stride is the kernel. Fails unless they give `output` sizes.
Status windows_of(const KernelCall& call, int rank, const Extent& input, const Extent& output, bool has_dilation,
                  bool ceil_mode, Windows* windows);

/// The elements begin, begin + step, ... before end of each window of an axis, all inside the input.
struct WindowRanges {
  std::vector<int64_t> begin, end;
  int64_t step = 1;
};

WindowRanges ranges_of(const WindowAxis& axis);
/// Windows of an adaptive pooling: output i covers [floor(i * inputs / outputs), ceil((i + 1) * inputs / outputs)).
WindowRanges adaptive_ranges(int64_t inputs, int64_t outputs);

/// Fails unless `output_size` (int array 0 of the call) is the extent of the output. Numbers that are 0 or less, which
/// stand for the input's size, are not compared.
Status expect_output_size(const KernelCall& call, int rank, const Extent& output);

}  // namespace drydock::ops::kernels
