#include "ops/matmul/micro_kernel.h"

#include <cstring>

// Compiled with -O3 and contraction of a*b+c in all presets (cmake/product.cmake): each variant exists once, behind a
// target attribute, so that nothing else of this library needs more than the baseline instruction set.

namespace drydock::ops::kernels {
namespace {

template <class T, int kRows, int kVectors, int kBytes>
[[gnu::always_inline]] inline void multiply(int64_t depth, const T* __restrict a, const T* __restrict b,
                                            T* __restrict tile, int64_t tile_stride, bool add) {
  using Vector [[gnu::vector_size(kBytes)]] = T;
  using Unaligned [[gnu::vector_size(kBytes), gnu::aligned(alignof(T)), gnu::may_alias]] = T;
  constexpr int kLanes = kBytes / static_cast<int>(sizeof(T));
  constexpr int kColumns = kLanes * kVectors;
  Vector sums[kRows][kVectors] = {};
  if (add) {
    for (int i = 0; i < kRows; ++i) {
      for (int j = 0; j < kVectors; ++j) __builtin_prefetch(tile + i * tile_stride + j * kLanes, 1);
    }
  }
  for (int64_t p = 0; p < depth; ++p, a += kRows, b += kColumns) {
    Vector right[kVectors];
#pragma GCC unroll 16
    for (int j = 0; j < kVectors; ++j) right[j] = *reinterpret_cast<const Unaligned*>(b + j * kLanes);
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 16
      for (int j = 0; j < kVectors; ++j) sums[i][j] += a[i] * right[j];
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 16
    for (int j = 0; j < kVectors; ++j) {
      auto* at = reinterpret_cast<Unaligned*>(tile + i * tile_stride + j * kLanes);
      *at = add ? *at + sums[i][j] : sums[i][j];
    }
  }
}

#define DRYDOCK_MICRO_KERNEL(name, isa, T, rows, vectors, bytes)                                             \
  [[gnu::target(isa)]] void name(int64_t depth, const T* a, const T* b, T* tile, int64_t stride, bool add) { \
    multiply<T, rows, vectors, bytes>(depth, a, b, tile, stride, add);                                       \
  }

#if defined(__x86_64__)
DRYDOCK_MICRO_KERNEL(avx512_float, "avx512f", float, 12, 2, 64)
DRYDOCK_MICRO_KERNEL(avx512_double, "avx512f", double, 12, 2, 64)
DRYDOCK_MICRO_KERNEL(avx2_float, "avx2,fma", float, 6, 2, 32)
DRYDOCK_MICRO_KERNEL(avx2_double, "avx2,fma", double, 6, 2, 32)
#endif

// Registers of 16 bytes are what every machine has that this library is built for.
template <class T>
void baseline(int64_t depth, const T* a, const T* b, T* tile, int64_t stride, bool add) {
  multiply<T, 4, 2, 16>(depth, a, b, tile, stride, add);
}

template <class T>
MicroKernel<T> choose() noexcept {
  constexpr int kScale = static_cast<int>(sizeof(float)) * 8 / static_cast<int>(sizeof(T));
#if defined(__x86_64__)
  constexpr bool kIsFloat = sizeof(T) == sizeof(float);
  if (__builtin_cpu_supports("avx512f")) {
    if constexpr (kIsFloat)
      return {12, 4 * kScale, avx512_float};
    else
      return {12, 4 * kScale, avx512_double};
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    if constexpr (kIsFloat)
      return {6, 2 * kScale, avx2_float};
    else
      return {6, 2 * kScale, avx2_double};
  }
#endif
  return {4, kScale, baseline<T>};
}

}  // namespace

template <class T>
const MicroKernel<T>& micro_kernel() noexcept {
  static const MicroKernel<T> kernel = choose<T>();
  return kernel;
}

template const MicroKernel<float>& micro_kernel<float>() noexcept;
template const MicroKernel<double>& micro_kernel<double>() noexcept;

}  // namespace drydock::ops::kernels
