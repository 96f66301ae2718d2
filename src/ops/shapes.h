#pragma once

#include <string>

#include "ops/kernel_call.h"

// What kernels ask about the shape of a tensor, and say about those of a call.

namespace drydock::ops::kernels {

/// True if the elements follow each other in row-major order without gaps. Strides that no element needs (of dimensions
/// of size 1, of views without elements) say nothing: clients leave there what an earlier view had.
bool is_contiguous(const TensorView& view) noexcept;

/// The shapes of all tensors of a call by the names of its signature: "self [3], other [4, 3], out [3]".
std::string shapes_of(const KernelCall& call);

}  // namespace drydock::ops::kernels
