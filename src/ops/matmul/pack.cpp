#include <algorithm>
#include <bit>
#include <cstring>

#include "base/instruction_set.h"
#include "ops/kernel_access.h"
#include "ops/matmul/gemm.h"
#include "ops/matmul/micro_kernel.h"
#include "ops/matmul/transpose.h"

// Matrices as factors: elements of any type and stride into panels of compute values.

namespace drydock::ops::kernels {
namespace {

constexpr int64_t kLoaded = 64;  // elements of a line that are converted at once
constexpr int64_t kAhead = 16;   // steps of the depth that are fetched ahead where each is in another page

}  // namespace

void round_inputs(InputRounding rounding, float* values, int64_t count) noexcept {
  if (rounding == InputRounding::kHalf) return round_through<float>(DataType::kFloat16, values, count);
  if (rounding != InputRounding::kTwelveBits) return;
  base::vectorized([values, count] {
    for (int64_t k = 0; k < count; ++k) {
      const uint32_t bits = std::bit_cast<uint32_t>(values[k]);
      const bool is_finite = (bits & 0x7f800000u) != 0x7f800000u;
      const uint32_t rounded = (bits + 0x7ffu + ((bits >> 12) & 1u)) & 0xfffff000u;
      values[k] = std::bit_cast<float>(is_finite ? rounded : bits);
    }
  });
}

void round_inputs(InputRounding /*rounding*/, double* /*values*/, int64_t /*count*/) noexcept {}

template <class T>
MatrixFactor<T>::MatrixFactor(const char* data, DataType dtype, int64_t line_stride, int64_t depth_stride,
                              InputRounding rounding)
    : data_(data),
      dtype_(dtype),
      rounding_(rounding),
      line_stride_(bytes_of(dtype, 1) * line_stride),
      depth_stride_(bytes_of(dtype, 1) * depth_stride) {}

template <class T>
void MatrixFactor<T>::set_nested_depth(int64_t inner_depth, int64_t outer_stride) {
  inner_depth_ = std::max<int64_t>(inner_depth, 1);
  outer_stride_ = bytes_of(dtype_, 1) * outer_stride;
}

template <class T>
void MatrixFactor<T>::pack(int64_t line, int64_t lines, int64_t depth_begin, int64_t depth, int width, T* to) const {
  const char* base = data_ + line * line_stride_;
  for (int64_t done = 0; done < depth;) {
    const int64_t outer = (depth_begin + done) / inner_depth_;
    const int64_t inner = (depth_begin + done) % inner_depth_;
    const int64_t length = std::min(depth - done, inner_depth_ - inner);
    pack_segment(base + outer * outer_stride_ + inner * depth_stride_, lines, length, width, to + done * width);
    done += length;
  }
  if (lines < width) {
    for (int64_t p = 0; p < depth; ++p) std::fill(to + p * width + lines, to + (p + 1) * width, T(0));
  }
  round_inputs(rounding_, to, depth * width);
}

template <class T>
void MatrixFactor<T>::pack_segment(const char* from, int64_t lines, int64_t depth, int width, T* to) const {
  const int64_t size = bytes_of(dtype_, 1);
  const Loader<T> load = loader_of<T>(dtype_);
  if (line_stride_ == size) {
    for (int64_t p = 0; p < depth; ++p) {
      T* row = to + p * width;
      const char* ahead = from + std::min(p + kAhead, depth - 1) * depth_stride_;
      __builtin_prefetch(ahead);
      __builtin_prefetch(ahead + lines * size - 1);
      const T* values = load(from + p * depth_stride_, size, lines, row);
      if (values != row) std::memcpy(row, values, static_cast<size_t>(lines) * sizeof(T));
    }
    return;
  }
  constexpr bool kIsFloat = sizeof(T) == sizeof(float);
  if (depth_stride_ == size && dtype_ == (kIsFloat ? DataType::kFloat : DataType::kDouble)) {
    transpose<T>(strided_lines(reinterpret_cast<const T*>(from), line_stride_ / size), lines, depth, width, to);
    return;
  }
  T converted[kMostTileColumns * kLoaded];
  for (int64_t done = 0; done < depth; done += kLoaded) {
    const int64_t length = std::min(kLoaded, depth - done);
    for (int64_t line = 0; line < lines; ++line) {
      T* buffer = converted + line * kLoaded;
      const T* values = load(from + line * line_stride_ + done * depth_stride_, depth_stride_, length, buffer);
      if (values != buffer) std::memcpy(buffer, values, static_cast<size_t>(length) * sizeof(T));
    }
    transpose<T>(strided_lines<T>(converted, kLoaded), lines, length, width, to + done * width);
  }
}

template class MatrixFactor<float>;
template class MatrixFactor<double>;

}  // namespace drydock::ops::kernels
