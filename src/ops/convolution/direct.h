#pragma once

#include "ops/convolution/geometry.h"
#include "ops/convolution/image.h"

// Convolutions of few channels per group (depthwise ones above all), where packing for the matrix engine costs more
// than it saves: row by row, tap by tap.

namespace drydock::ops::kernels {

bool is_direct(const ConvolutionViews& views);

void compute_map_directly(const ConvolutionViews& views, const Margins& margins, InputRounding rounding);
void compute_image_directly(const ConvolutionViews& views, const Margins& margins, InputRounding rounding);
void compute_filters_directly(const ConvolutionViews& views, const Margins& margins, InputRounding rounding);

}  // namespace drydock::ops::kernels
