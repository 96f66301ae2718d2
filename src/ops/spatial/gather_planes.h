#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "ops/kernel_access.h"

// Planes whose elements are copied from places that depend on each axis alone: nearest interpolation and padding.

namespace drydock::ops::kernels {

/// For each axis (depth, height, width) the place in the input of each element of the output.
using PlaneIndex = std::array<std::vector<int64_t>, 3>;

/// out[z][y][x] = in[index[0][z]][index[1][y]][index[2][x]] in every plane, for any element of whole bytes. Both views
/// have `rank` dimensions in a plane and the same ones before, and all places are inside: the caller's to check.
void gather_planes(const TensorView& in, const TensorView& out, int rank, const PlaneIndex& index);

}  // namespace drydock::ops::kernels
