#pragma once

#include <cstdint>

#include "base/data_type.h"

// Products of matrices. All products of this library end here: they run on the one thread pool, may be called inside a
// range of parallel_for (and then compute in the calling thread), and give the same bits for every number of threads.
// Sums run over the depth in order, in blocks of kDepthBlock, with fused multiply-add where the machine has it.

namespace drydock::ops::kernels {

/// C = alpha * op(A) * op(B) + beta * C, all row-major; op is the transpose where asked. `a_stride` and the others
/// count elements from row to row as stored. C is not read if beta is 0. T: float or double. C must not overlap A or B.
template <class T>
void gemm(int64_t rows, int64_t columns, int64_t depth, const T* a, int64_t a_stride, bool transpose_a, const T* b,
          int64_t b_stride, bool transpose_b, T* c, int64_t c_stride, T alpha = 1, T beta = 0);

/// How values are rounded before they are multiplied.
enum class InputRounding : uint8_t {
  kNone,
  kHalf,        ///< to fp16
  kTwelveBits,  ///< HF32: fp32 with a significand of 12 bits (11 stored), to nearest even
};

/// One factor of a product as the engine reads it: *lines* (rows of A, columns of B) that run along the depth.
template <class T>
class Factor {
 public:
  virtual ~Factor() = default;
  /// Writes `to[p * width + i]` = line `line + i` at depth `depth_begin + p` for all p < depth and i < lines, and 0 for
  /// lines <= i < width. Several threads call at once.
  virtual void pack(int64_t line, int64_t lines, int64_t depth_begin, int64_t depth, int width, T* to) const = 0;
};

/// Where a product goes.
template <class T>
class Product {
 public:
  virtual ~Product() = default;
  /// Takes the finished sums of a block: `values[i * stride + j]` is row `row + i`, column `column + j`. Several
  /// threads call at once, for blocks that do not overlap.
  virtual void store(int64_t row, int64_t rows, int64_t column, int64_t columns, const T* values,
                     int64_t stride) const = 0;
  /// Memory that may hold the sums while they grow, row by row `stride` elements apart, if store() can be called on it
  /// in place; null for none.
  virtual T* memory(int64_t* stride) const {
    *stride = 0;
    return nullptr;
  }
};

/// Computes all blocks. With a depth of 0 all sums are 0.
template <class T>
void multiply(int64_t rows, int64_t columns, int64_t depth, const Factor<T>& a, const Factor<T>& b,
              const Product<T>& product);

/// A strided matrix of any real element type as a factor. The depth may be two nested dimensions: index p of it is
/// (p / inner_depth, p % inner_depth).
template <class T>
class MatrixFactor : public Factor<T> {
 public:
  /// Strides in elements.
  MatrixFactor(const char* data, DataType dtype, int64_t line_stride, int64_t depth_stride,
               InputRounding rounding = InputRounding::kNone);
  void set_nested_depth(int64_t inner_depth, int64_t outer_stride);

  void pack(int64_t line, int64_t lines, int64_t depth_begin, int64_t depth, int width, T* to) const override;

 private:
  void pack_segment(const char* from, int64_t lines, int64_t depth, int width, T* to) const;

  const char* data_;
  DataType dtype_;
  InputRounding rounding_;
  int64_t line_stride_;  // bytes
  int64_t depth_stride_;
  int64_t inner_depth_ = INT64_MAX;
  int64_t outer_stride_ = 0;
};

/// Rounds `count` values in place.
void round_inputs(InputRounding rounding, float* values, int64_t count) noexcept;
void round_inputs(InputRounding rounding, double* values, int64_t count) noexcept;

}  // namespace drydock::ops::kernels
