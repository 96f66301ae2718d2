#pragma once

#include "ops/convolution/geometry.h"
#include "ops/matmul/gemm.h"

// The three computations of convolutions, in fp32 and rounded once. Views may be strided in any way; outputs must not
// overlap inputs.

namespace drydock::ops::kernels {

/// map = filters over the image, plus bias per map channel.
void compute_map(const ConvolutionViews& views, InputRounding rounding);

/// image = what each value of the map was made of: the gradient of compute_map for the image, or a transposed
/// convolution, plus bias per image channel.
void compute_image(const ConvolutionViews& views, InputRounding rounding);

/// filters = sum over positions of map value times image patch: the gradient of compute_map for the filters.
void compute_filters(const ConvolutionViews& views, InputRounding rounding);

/// sums[c] = sum of all elements of channel c of a view [N, C, ...].
void sum_channels(const TensorView& view, const TensorView& sums);

}  // namespace drydock::ops::kernels
