#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "ops/kernel_access.h"
#include "ops/kernel_call.h"

// Products of quantised matrices: exact sums of integers, then scales, offsets, biases and activations in fp32.

namespace drydock::ops::kernels {

/// A matrix in row-major floats. Integers of up to 8 bits are exact in it.
struct FloatMatrix {
  int64_t rows = 0;
  int64_t columns = 0;
  std::vector<float> values;
};

/// Reads a view of two dimensions, int4 too; transposed where asked.
Status read_matrix(const KernelCall& call, const TensorView& view, bool transpose, std::string_view name,
                   FloatMatrix* matrix);

/// The int4 matrix behind an int32 one whose axis `depth_axis` must come out as `depth` values.
TensorView unpacked_factor(const TensorView& view, int depth_axis, int64_t depth);

/// a * b for matrices of integers of up to 8 bits: exact, in int32 that wraps.
std::vector<int32_t> multiply_exactly(const FloatMatrix& a, const FloatMatrix& b);
/// a * b in fp32.
std::vector<float> multiply_floats(const FloatMatrix& a, const FloatMatrix& b);

/// sum over groups g of the depth of scale[g][column] * (a_g * b_g): `scales` has one row of b.columns values for each
/// group, groups are of equal depth.
Status multiply_by_groups(const KernelCall& call, const FloatMatrix& a, const FloatMatrix& b,
                          const std::vector<float>& scales, std::vector<float>* sums);

/// weights = (weights + offset) * scale; scale and offset have one element, one for each column, or one row of the
/// columns for each group of `group_size` rows (0: as many groups as there are rows of scales).
Status antiquantise(const KernelCall& call, const std::vector<float>& scales, const std::vector<float>& offsets,
                    int64_t group_size, FloatMatrix* weights);

enum class ProductActivation : uint8_t { kNone, kRelu, kGeluTanh, kGeluErf, kFastGelu, kSilu };
void activate(ProductActivation activation, float* values, int64_t count);

/// What happens to the sums of a quantised product. Vectors are empty (nothing), of one element (for all) or of one for
/// each column; row_scale of one for each row.
struct Epilogue {
  std::vector<int64_t> whole_bias;  ///< added to the integer sums
  std::vector<float> column_scale;
  std::vector<float> row_scale;
  std::vector<float> offset;  ///< added behind the scales
  std::vector<float> late_bias;
  ProductActivation activation = ProductActivation::kNone;

  /// Checks that all fit a result of this size.
  Status check(const KernelCall& call, int64_t rows, int64_t columns) const;
  /// One row of floats from a row of sums.
  void apply(int64_t row, const int32_t* sums, int64_t columns, float* out) const;
  /// The same from sums that are floats already (no whole_bias).
  void apply(int64_t row, const float* sums, int64_t columns, float* out) const;

 private:
  void scale_row(int64_t row, int64_t columns, float* values) const;
};

/// Writes sums to a result of two dimensions: floats, int8 (rounded, saturating), or int32 (the sums and the whole
/// bias, no scale).
Status store_product(const KernelCall& call, const TensorView& out, const std::vector<int32_t>& sums,
                     const Epilogue& epilogue);
Status store_product(const KernelCall& call, const TensorView& out, const std::vector<float>& sums,
                     const Epilogue& epilogue);

/// The values of an optional parameter; fails for types that are no numbers.
Status read_parameter(const KernelCall& call, const TensorView& view, std::string_view name,
                      std::vector<float>* values);

/// A bias: integers go to the sums, floats behind the scales.
Status read_bias(const KernelCall& call, const TensorView& view, Epilogue* epilogue);

}  // namespace drydock::ops::kernels
