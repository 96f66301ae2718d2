#pragma once

#include <cstdint>

// Loops over rows of fp32 for the widest vectors that this machine has, where a matrix engine would not pay.

namespace drydock::ops::kernels {

/// to[i * to_stride] += scale * from[i * from_stride] for all i < count. At least one stride is usually 1.
void add_scaled(float* to, int64_t to_stride, const float* from, int64_t from_stride, float scale,
                int64_t count) noexcept;

/// Sum over i < count of a[i * a_stride] * b[i]. In 64 partial sums on every machine.
float dot_product(const float* a, int64_t a_stride, const float* b, int64_t count) noexcept;

}  // namespace drydock::ops::kernels
