#pragma once

#include <algorithm>
#include <cstdint>

#include "ops/kernel_call.h"

// Around one call of a kernel: what the conversions of elements (kernel_access.h) had to leave undone makes it fail.

namespace drydock::ops::kernels {

/// Calls a kernel. Fails too, with kNotComputed, if the kernel converted elements of a type that it does not compute.
Status run_kernel(Kernel kernel, KernelCall& call);

/// Says that elements were met that have no compute value. Any thread may call.
void note_unconverted() noexcept;

/// The conversions of elements that have no compute value C: they load as 0 and are not stored.
template <class C>
const C* load_nothing(const char* /*from*/, int64_t /*stride_bytes*/, int64_t count, C* buffer) {
  if (count > 0) note_unconverted();
  std::fill_n(buffer, count, C{});
  return buffer;
}
template <class C>
void store_nothing(char* /*to*/, int64_t /*stride_bytes*/, int64_t count, const C* /*values*/) {
  if (count > 0) note_unconverted();
}

}  // namespace drydock::ops::kernels
