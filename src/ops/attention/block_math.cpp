#include "ops/attention/block_math.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "ops/matmul/transpose.h"

// Compiled with -O3 and contraction of a*b+c in all presets (cmake/product.cmake). The code generator is asked for one
// variant per level of x86-64; vectors are 16 lanes wide in all of them.
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define DRYDOCK_PER_HOST __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define DRYDOCK_PER_HOST
#endif
#define DRYDOCK_INLINE [[gnu::always_inline]] inline

namespace drydock::ops::kernels::attention {

namespace {

using Lanes = float __attribute__((vector_size(kLanes * sizeof(float))));
using IntLanes = int32_t __attribute__((vector_size(kLanes * sizeof(int32_t))));

DRYDOCK_INLINE void load(Lanes& lanes, const float* from) { std::memcpy(&lanes, from, sizeof lanes); }
DRYDOCK_INLINE void store_lanes(float* to, const Lanes& lanes) { std::memcpy(to, &lanes, sizeof lanes); }

/// One tile of c: rows by vectors of kLanes columns.
template <int kRows, int kVectors>
DRYDOCK_INLINE void multiply_tile(int64_t inner, const float* a, int64_t a_stride, const float* b, int64_t b_stride,
                                  float* c, int64_t c_stride, bool add) {
  Lanes sums[kRows][kVectors] = {};
  for (int64_t k = 0; k < inner; ++k, b += b_stride) {
    Lanes right[kVectors];
#pragma GCC unroll 4
    for (int j = 0; j < kVectors; ++j) load(right[j], b + j * kLanes);
#pragma GCC unroll 16
    for (int row = 0; row < kRows; ++row) {
#pragma GCC unroll 4
      for (int j = 0; j < kVectors; ++j) sums[row][j] += a[row * a_stride + k] * right[j];
    }
  }
#pragma GCC unroll 16
  for (int row = 0; row < kRows; ++row) {
#pragma GCC unroll 4
    for (int j = 0; j < kVectors; ++j) {
      float* at = c + row * c_stride + j * kLanes;
      if (add) {
        Lanes before;
        load(before, at);
        sums[row][j] += before;
      }
      store_lanes(at, sums[row][j]);
    }
  }
}

template <int kRows, int kVectors>
DRYDOCK_INLINE void multiply_panel(int64_t rows, int64_t inner, const ConstBlock& a, const float* b, int64_t b_stride,
                                   float* c, int64_t c_stride, bool add) {
  int64_t row = 0;
  for (; row + kRows <= rows; row += kRows) {
    multiply_tile<kRows, kVectors>(inner, a.data + row * a.stride, a.stride, b, b_stride, c + row * c_stride, c_stride,
                                   add);
  }
  for (; row + 2 <= rows; row += 2) {
    multiply_tile<2, kVectors>(inner, a.data + row * a.stride, a.stride, b, b_stride, c + row * c_stride, c_stride,
                               add);
  }
  for (; row < rows; ++row) {
    multiply_tile<1, kVectors>(inner, a.data + row * a.stride, a.stride, b, b_stride, c + row * c_stride, c_stride,
                               add);
  }
}

template <int kRows, int kVectors>
DRYDOCK_INLINE void multiply_blocks(int64_t rows, int64_t columns, int64_t inner, const ConstBlock& a,
                                    const ConstBlock& b, const Block& c, Store store) {
  const bool add = store == Store::kAdd;
  int64_t column = 0;
  for (; column + kVectors * kLanes <= columns; column += kVectors * kLanes) {
    multiply_panel<kRows, kVectors>(rows, inner, a, b.data + column, b.stride, c.data + column, c.stride, add);
  }
  for (; column < columns; column += kLanes) {
    multiply_panel<kRows, 1>(rows, inner, a, b.data + column, b.stride, c.data + column, c.stride, add);
  }
}

using Multiply = void (*)(int64_t rows, int64_t columns, int64_t inner, const ConstBlock& a, const ConstBlock& b,
                          const Block& c, Store store);

// Tiles that fill the registers: 32 of 16 lanes, 16 of 8, 16 of 4.
#if defined(__x86_64__)
[[gnu::target("avx512f")]] void multiply_avx512(int64_t rows, int64_t columns, int64_t inner, const ConstBlock& a,
                                                const ConstBlock& b, const Block& c, Store store) {
  multiply_blocks<8, 2>(rows, columns, inner, a, b, c, store);
}
[[gnu::target("avx2,fma")]] void multiply_avx2(int64_t rows, int64_t columns, int64_t inner, const ConstBlock& a,
                                               const ConstBlock& b, const Block& c, Store store) {
  multiply_blocks<6, 1>(rows, columns, inner, a, b, c, store);
}
#endif
void multiply_baseline(int64_t rows, int64_t columns, int64_t inner, const ConstBlock& a, const ConstBlock& b,
                       const Block& c, Store store) {
  multiply_blocks<3, 1>(rows, columns, inner, a, b, c, store);
}

Multiply best_multiply() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return multiply_avx512;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return multiply_avx2;
#endif
  return multiply_baseline;
}

DRYDOCK_INLINE float sum_of(const Lanes& lanes) {
  float parts[kLanes];
  store_lanes(parts, lanes);
  for (int64_t width = kLanes / 2; width > 0; width /= 2) {
    for (int64_t k = 0; k < width; ++k) parts[k] += parts[k + width];
  }
  return parts[0];
}

/// exp, by 2^n and a polynomial on [-ln 2 / 2, ln 2 / 2].
DRYDOCK_INLINE void exponential(Lanes& x) {
  constexpr float kToInteger = 12582912.0f;  // 1.5 * 2^23: an addition of it rounds to an integer
  const Lanes argument = x;
  const Lanes shifted = argument * 1.44269504f + kToInteger;
  const Lanes whole = shifted - kToInteger;
  Lanes rest = argument - whole * 0.693359375f;
  rest = rest - whole * -2.12194440e-4f;
  Lanes series = rest * 1.9875691500e-4f + 1.3981999507e-3f;
  series = series * rest + 8.3334519073e-3f;
  series = series * rest + 4.1665795894e-2f;
  series = series * rest + 1.6666665459e-1f;
  series = series * rest + 5.0000001201e-1f;
  series = series * (rest * rest) + rest + 1.0f;
  IntLanes exponent;
  std::memcpy(&exponent, &shifted, sizeof exponent);
  exponent = (exponent - 0x4b400000 + 127) << 23;
  Lanes power;
  std::memcpy(&power, &exponent, sizeof power);
  const Lanes result = series * power;
  const Lanes zero = {};
  const Lanes infinity = zero + std::numeric_limits<float>::infinity();
  x = argument < -87.3f ? zero : argument > 88.3f ? infinity : result;
}

}  // namespace

void multiply(int64_t rows, int64_t columns, int64_t inner, ConstBlock a, ConstBlock b, Block c, Store store) {
  static const Multiply best = best_multiply();
  best(rows, columns, inner, a, b, c, store);
}

void transpose(int64_t rows, int64_t columns, ConstBlock from, Block to) {
  kernels::transpose<float>(strided_lines(from.data, from.stride), rows, columns, static_cast<int>(to.stride), to.data);
}

DRYDOCK_PER_HOST float maximum(const float* values, int64_t count) {
  Lanes top = Lanes{} - std::numeric_limits<float>::infinity();
  for (int64_t k = 0; k < count; k += kLanes) {
    Lanes lanes;
    load(lanes, values + k);
    top = lanes > top ? lanes : top;
  }
  float parts[kLanes];
  store_lanes(parts, top);
  return *std::max_element(parts, parts + kLanes);
}

DRYDOCK_PER_HOST float exponentials(float* values, int64_t count, float shift) {
  Lanes sum = {};
  for (int64_t k = 0; k < count; k += kLanes) {
    Lanes lanes;
    load(lanes, values + k);
    lanes -= shift;
    exponential(lanes);
    store_lanes(values + k, lanes);
    sum += lanes;
  }
  return sum_of(sum);
}

DRYDOCK_PER_HOST void scale(float* values, int64_t count, float factor) {
  for (int64_t k = 0; k < count; k += kLanes) {
    Lanes lanes;
    load(lanes, values + k);
    store_lanes(values + k, lanes * factor);
  }
}

DRYDOCK_PER_HOST void add_then_scale(float* values, const float* added, int64_t count, float factor) {
  for (int64_t k = 0; k < count; k += kLanes) {
    Lanes lanes, other;
    load(lanes, values + k);
    load(other, added + k);
    store_lanes(values + k, (lanes + other) * factor);
  }
}

DRYDOCK_PER_HOST void scale_then_add(float* values, const float* added, int64_t count, float factor) {
  for (int64_t k = 0; k < count; k += kLanes) {
    Lanes lanes, other;
    load(lanes, values + k);
    load(other, added + k);
    store_lanes(values + k, lanes * factor + other);
  }
}

DRYDOCK_PER_HOST void multiply_by(float* values, const float* factors, int64_t count) {
  for (int64_t k = 0; k < count; k += kLanes) {
    Lanes lanes, other;
    load(lanes, values + k);
    load(other, factors + k);
    store_lanes(values + k, lanes * other);
  }
}

void replace_where(float* values, const char* mask, int64_t stride, int64_t count, float replacement) {
  for (int64_t k = 0; k < count; ++k) values[k] = mask[k * stride] != 0 ? replacement : values[k];
}

DRYDOCK_PER_HOST float dot(const float* a, const float* b, int64_t count) {
  Lanes sum = {};
  int64_t k = 0;
  for (; k + kLanes <= count; k += kLanes) {
    Lanes left, right;
    load(left, a + k);
    load(right, b + k);
    sum += left * right;
  }
  float total = sum_of(sum);
  for (; k < count; ++k) total += a[k] * b[k];
  return total;
}

DRYDOCK_PER_HOST void softmax_backward(float* gradients, const float* probabilities, int64_t count, float shift) {
  for (int64_t k = 0; k < count; k += kLanes) {
    Lanes lanes, other;
    load(lanes, gradients + k);
    load(other, probabilities + k);
    store_lanes(gradients + k, other * (lanes - shift));
  }
}

}  // namespace drydock::ops::kernels::attention
