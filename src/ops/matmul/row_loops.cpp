#include "ops/matmul/row_loops.h"

// Compiled with -O3 and contraction like micro_kernel.cpp. target_clones would need an ifunc, which runs while
// libraries are loaded; a check at each call is cheap next to a row.

namespace drydock::ops::kernels {
namespace {

[[gnu::always_inline]] inline void add_scaled_inline(float* __restrict to, int64_t to_stride,
                                                     const float* __restrict from, int64_t from_stride, float scale,
                                                     int64_t count) {
  if (to_stride == 1 && from_stride == 1) {
    for (int64_t i = 0; i < count; ++i) to[i] += scale * from[i];
  } else {
    for (int64_t i = 0; i < count; ++i) to[i * to_stride] += scale * from[i * from_stride];
  }
}

[[gnu::always_inline]] inline float dot_product_inline(const float* a, int64_t a_stride, const float* b,
                                                       int64_t count) {
  // Eight registers of eight: fewer would wait for each other.
  constexpr int64_t kLanes = 64;
  float sums[kLanes] = {};
  int64_t i = 0;
  if (a_stride == 1) {
    for (; i + kLanes <= count; i += kLanes) {
      for (int64_t lane = 0; lane < kLanes; ++lane) sums[lane] += a[i + lane] * b[i + lane];
    }
  }
  for (; i < count; ++i) sums[i % kLanes] += a[i * a_stride] * b[i];
  for (int64_t width = kLanes / 2; width > 0; width /= 2) {
    for (int64_t lane = 0; lane < width; ++lane) sums[lane] += sums[lane + width];
  }
  return sums[0];
}

#if defined(__x86_64__)
[[gnu::target("avx2,fma")]] void add_scaled_avx2(float* to, int64_t to_stride, const float* from, int64_t from_stride,
                                                 float scale, int64_t count) {
  add_scaled_inline(to, to_stride, from, from_stride, scale, count);
}
[[gnu::target("avx2,fma")]] float dot_product_avx2(const float* a, int64_t a_stride, const float* b, int64_t count) {
  return dot_product_inline(a, a_stride, b, count);
}

bool has_avx2() noexcept {
  static const bool has = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  return has;
}
#endif

}  // namespace

void add_scaled(float* to, int64_t to_stride, const float* from, int64_t from_stride, float scale,
                int64_t count) noexcept {
#if defined(__x86_64__)
  if (has_avx2()) return add_scaled_avx2(to, to_stride, from, from_stride, scale, count);
#endif
  add_scaled_inline(to, to_stride, from, from_stride, scale, count);
}

float dot_product(const float* a, int64_t a_stride, const float* b, int64_t count) noexcept {
#if defined(__x86_64__)
  if (has_avx2()) return dot_product_avx2(a, a_stride, b, count);
#endif
  return dot_product_inline(a, a_stride, b, count);
}

}  // namespace drydock::ops::kernels
