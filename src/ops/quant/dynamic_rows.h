#pragma once

#include <cmath>

#include "ops/quant/integer_rows.h"

// Rows that are quantised symmetrically by their own largest magnitude, and the activations that come before.

namespace drydock::ops::kernels {

/// Quantised rows and one scale for each of them.
class DynamicOutputs {
 public:
  /// `scale` has as many elements as `shape` has rows, of any shape.
  static Status make(const KernelCall& call, const TensorView& y, const TensorView& scale, const Dims& shape,
                     DynamicOutputs* made);

  const IntegerRows& rows() const { return rows_; }
  /// Writes one row and its scale, the largest magnitude over the largest integer; `values` are overwritten.
  void write(int64_t row, float* values, Rounding rounding = Rounding::kNearestEven) const;
  void set_scale(int64_t row, float scale) const;

 private:
  IntegerRows rows_;
  TensorView scale_;
};

inline float silu(float x) { return x / (1.0f + std::exp(-x)); }
inline float gelu_erf(float x) { return 0.5f * x * (1.0f + std::erf(x * 0.70710678118654752f)); }
inline float gelu_tanh(float x) {
  return 0.5f * x * (1.0f + std::tanh(0.79788456080286536f * (x + 0.044715f * x * x * x)));
}

}  // namespace drydock::ops::kernels
