#include <string>

#include "ops/quant/dynamic_rows.h"
#include "ops/quant/integer_rows.h"

// Dynamic quantisation of values that small matrices have mixed before.

namespace drydock::ops::kernels {
namespace {

/// out = a (m, k) times b (k, n), all dense.
void multiply(const float* a, const float* b, int64_t m, int64_t k, int64_t n, float* out) {
  std::fill_n(out, m * n, 0.0f);
  for (int64_t row = 0; row < m; ++row) {
    for (int64_t inner = 0; inner < k; ++inner) {
      const float factor = a[row * k + inner];
      const float* from = b + inner * n;
      float* to = out + row * n;
      for (int64_t column = 0; column < n; ++column) to[column] += factor * from[column];
    }
  }
}

}  // namespace

/// aclnnRotateQuant(x, rotation, alpha, axis, roundMode, scaleAlg, dstTypeMax, trans, y, scale): each run of K values
/// of a row times the rotation (K, K), then quantised row by row.
Status rotate_quant(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 2, 0));
  const TensorView& x = call.operand(0);
  const TensorView& rotation = call.operand(1);
  if (x.dims.size() != 2 || rotation.dims.size() != 2 || rotation.dims[0] != rotation.dims[1] ||
      rotation.dims[0] == 0 || x.dims[1] % rotation.dims[0] != 0) {
    return invalid(call, "x must be (M, N) and rotation (K, K), N a multiple of K");
  }
  if (is_present(call.operand(2))) return invalid(call, "alpha must be null on this device");
  if (call.integer(0) != -1 && call.integer(0) != 1) return invalid(call, "axis must be the last one");
  if (call.integer(1) != 0 || call.number(0) != 0 || call.boolean(0)) {
    return invalid(call, "scaleAlg and dstTypeMax must be 0 and trans false on this device");
  }
  Rounding rounding = Rounding::kNearestEven;
  DRYDOCK_RETURN_IF_ERROR(rounding_of(call, call.text(0), &rounding));
  DynamicOutputs outputs;
  DRYDOCK_RETURN_IF_ERROR(DynamicOutputs::make(call, call.output(0), call.output(1), x.dims, &outputs));
  std::vector<float> matrix;
  if (!read_floats(rotation, &matrix)) return not_computed(call, "a rotation of this type");
  const int64_t length = x.dims[1];
  const int64_t block = rotation.dims[0];
  const Rows rows(x, 1);
  for_each_row(rows.count(), 2 * length, [&](int64_t row, float* buffer) {
    const float* values = rows.read<float>(row, buffer);
    float* mixed = buffer + length;
    multiply(values, matrix.data(), length / block, block, block, mixed);
    outputs.write(row, mixed, rounding);
  });
  return Status::ok();
}

/// aclnnFlatQuant(x, kroneckerP1, kroneckerP2, clipRatio, out, quantScale): P1 @ x[i] @ P2, quantised to int4 with one
/// scale for each i.
Status flat_quant(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 3, 0));
  const TensorView& x = call.operand(0);
  const TensorView& left = call.operand(1);
  const TensorView& right = call.operand(2);
  if (x.dims.size() != 3 || !(left.dims == Dims{x.dims[1], x.dims[1]}) || !(right.dims == Dims{x.dims[2], x.dims[2]})) {
    return invalid(call, "x must be (M, N1, N2), kroneckerP1 (N1, N1) and kroneckerP2 (N2, N2)");
  }
  const auto clip_ratio = static_cast<float>(call.number(0));
  if (!(clip_ratio > 0 && clip_ratio <= 1)) return invalid(call, "clipRatio must be in (0, 1]");
  IntegerRows out;
  DRYDOCK_RETURN_IF_ERROR(IntegerRows::make(call, call.output(0), x.dims, true, &out));
  const TensorView& scales = call.output(1);
  if (!scales.defined || scales.dtype != DataType::kFloat || scales.numel() != x.dims[0]) {
    return invalid(call, "quantScale must be fp32 with one element for each matrix of x");
  }
  if (out.highest() != 7) return invalid(call, "out must hold int4 values");
  std::vector<float> p1;
  std::vector<float> p2;
  read_floats(left, &p1);
  read_floats(right, &p2);
  const int64_t rows = x.dims[1];
  const int64_t columns = x.dims[2];
  const Rows matrices(x, Dims{1, 2});
  for_each_row(x.dims[0], 2 * rows * columns, [&](int64_t index, float* buffer) {
    float* mixed = buffer + rows * columns;
    multiply(matrices.read<float>(index, buffer), p2.data(), rows, columns, columns, mixed);
    multiply(p1.data(), mixed, rows, rows, columns, buffer);
    const float scale = largest_magnitude(buffer, rows * columns) / (out.highest() / clip_ratio);
    for (int64_t k = 0; k < rows * columns; ++k) buffer[k] /= scale;
    for (int64_t row = 0; row < rows; ++row) out.write(index * rows + row, buffer + row * columns);
    storer_of<float>(scales.dtype)(flat_element(scales, index), 0, 1, &scale);
  });
  return Status::ok();
}

}  // namespace drydock::ops::kernels
