#pragma once

#include "ops/kernel_call.h"

// Around one call of a kernel: what the conversions of elements (kernel_access.h) had to leave undone makes it fail.

namespace drydock::ops::kernels {

/// Calls a kernel. Fails too, with kNotComputed, if the kernel converted elements of a type that it does not compute.
Status run_kernel(Kernel kernel, KernelCall& call);

/// Says that elements were met that have no compute value. Any thread may call.
void note_unconverted() noexcept;

}  // namespace drydock::ops::kernels
