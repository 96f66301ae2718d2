#pragma once

#include <cstdint>
#include <vector>

#include "ops/kernel_call.h"

// Scales packed into 64 bits, as aclnnTransQuantParam makes them for quantised matrix products.

namespace drydock::ops::kernels {

/// The fp32 scale in a packed one: its upper 19 bits.
float packed_scale(uint64_t packed);
/// The signed 9-bit offset in a packed scale.
float packed_offset(uint64_t packed);

/// Scales given as floats or packed; `offsets` (may be null) takes the offsets of packed ones. False for other types.
bool read_scales(const TensorView& view, std::vector<float>* scales, std::vector<float>* offsets);

}  // namespace drydock::ops::kernels
