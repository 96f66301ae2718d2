#pragma once

#include "ops/matmul/gemm.h"

namespace drydock::ops::kernels {

/// One factor of a product with few lines on the other side.
struct StridedLines {
  const char* data;
  DataType dtype;
  int64_t lines;
  int64_t line_stride;   ///< bytes
  int64_t depth_stride;  ///< bytes
};

/// Most lines of the thin factor.
inline constexpr int64_t kMostThinLines = 4;

/// True if reading `wide` once, without packing, is the fastest way.
bool is_thin(const StridedLines& thin, const StridedLines& wide, int64_t depth);

/// The product of a matrix with few rows (or, if `thin_is_right`, columns) with another, which is read once in its own
/// order. The same bits for every number of threads.
void multiply_thin(const StridedLines& thin, const StridedLines& wide, int64_t depth, InputRounding rounding,
                   bool thin_is_right, const Product<float>& product);

}  // namespace drydock::ops::kernels
