#include <string>

#include "ops/quant/integer_rows.h"
#include "ops/quant/quant_parameters.h"
#include "ops/quant/quant_product.h"

// aclnnQuantMatmul: int8 or int4 matrices whose exact product is scaled, and aclnnWeightQuantBatchMatmul: floating
// activations times integer weights.

namespace drydock::ops::kernels {
namespace {

/// The arguments of aclnnQuantMatmulV5 and its kin. Undefined where absent.
struct QuantMatmul {
  TensorView x1, x2, row_scale, column_scale, column_offset, assist, bias, out;
  bool transpose1 = false;
  bool transpose2 = false;
  int64_t group_depth = 0;    ///< of the depth, 0: no groups
  int64_t group_columns = 0;  ///< of the columns
  ProductActivation activation = ProductActivation::kNone;
};

/// Batch dimensions of one operand, broadcast to those of the result.
TensorView matrix_of_batch(const TensorView& view, const Dims& batches, int64_t number) {
  TensorView matrix = view;
  const int own = view.dims.size() - 2;
  for (int axis = batches.size() - 1; axis >= 0; --axis) {
    const int64_t index = number % batches[axis];
    number /= batches[axis];
    const int mine = axis - (batches.size() - own);
    if (mine >= 0 && view.dims[mine] != 1) {
      const int64_t offset = index * view.strides[mine];
      // int4 elements lie two a byte; batches of them begin at whole bytes.
      matrix.data += view.dtype == DataType::kInt4 ? offset / 2 : bytes_of(view.dtype, offset);
    }
  }
  matrix.dims = Dims{view.dims[own], view.dims[own + 1]};
  matrix.strides = Dims{view.strides[own], view.strides[own + 1]};
  return matrix;
}

Status batches_fit(const KernelCall& call, const TensorView& view, const Dims& batches, const char* name) {
  const int own = view.dims.size() - 2;
  for (int axis = 0; axis < own; ++axis) {
    const int theirs = batches.size() - own + axis;
    if (theirs < 0 || (view.dims[axis] != 1 && view.dims[axis] != batches[theirs])) {
      return invalid(call, std::string("the batches of ") + name + " do not broadcast to those of out");
    }
  }
  return Status::ok();
}

/// x1 of int8 and x2 of int4: the device splits x1 into halves and takes 8 from the lower one; `assist` brings back
/// what that took away.
Status multiply_mixed(const KernelCall& call, const QuantMatmul& args, FloatMatrix& a, const FloatMatrix& b,
                      const TensorView& out) {
  Epilogue epilogue;
  std::vector<float> scales;
  DRYDOCK_RETURN_IF_ERROR(read_parameter(call, args.column_scale, "x2Scale", &scales));
  DRYDOCK_RETURN_IF_ERROR(read_parameter(call, args.row_scale, "x1Scale", &epilogue.row_scale));
  std::vector<float> assist;
  DRYDOCK_RETURN_IF_ERROR(read_parameter(call, args.assist, "yOffset", &assist));
  if (static_cast<int64_t>(assist.size()) != b.columns) return invalid(call, "yOffset must have one element a column");
  for (float& value : a.values) value -= 8;
  std::vector<float> sums;
  DRYDOCK_RETURN_IF_ERROR(multiply_by_groups(call, a, b, scales, &sums));
  for (size_t k = 0; k < sums.size(); ++k) sums[k] += assist[k % assist.size()];
  return store_product(call, out, sums, epilogue);
}

/// Both of int4, with a scale and an offset of the weights for each group of the depth.
Status multiply_offset_groups(const KernelCall& call, const QuantMatmul& args, const FloatMatrix& a, FloatMatrix& b,
                              const TensorView& out) {
  Epilogue epilogue;
  std::vector<float> scales;
  std::vector<float> offsets;
  DRYDOCK_RETURN_IF_ERROR(read_parameter(call, args.column_scale, "x2Scale", &scales));
  DRYDOCK_RETURN_IF_ERROR(read_parameter(call, args.column_offset, "x2Offset", &offsets));
  DRYDOCK_RETURN_IF_ERROR(read_parameter(call, args.row_scale, "x1Scale", &epilogue.row_scale));
  const int64_t groups = b.columns > 0 ? static_cast<int64_t>(scales.size()) / b.columns : 0;
  if (groups == 0 || b.rows % groups != 0 || (!offsets.empty() && offsets.size() != scales.size())) {
    return invalid(call, "x2Scale and x2Offset must have one row for each group of the depth");
  }
  const int64_t depth = b.rows / groups;
  for (int64_t row = 0; !offsets.empty() && row < b.rows; ++row) {
    const float* offset = offsets.data() + row / depth * b.columns;
    for (int64_t k = 0; k < b.columns; ++k) b.values[static_cast<size_t>(row * b.columns + k)] -= offset[k];
  }
  std::vector<float> sums;
  DRYDOCK_RETURN_IF_ERROR(multiply_by_groups(call, a, b, scales, &sums));
  return store_product(call, out, sums, epilogue);
}

/// Scales for each row of x1 and for each block of x2, both by blocks of the depth.
Status multiply_blocks(const KernelCall& call, const QuantMatmul& args, const FloatMatrix& a, const FloatMatrix& b,
                       const TensorView& out) {
  const int64_t blocks = (a.columns + args.group_depth - 1) / args.group_depth;
  const int64_t column_blocks = (b.columns + args.group_columns - 1) / args.group_columns;
  FloatMatrix row_scale;
  FloatMatrix block_scale;
  DRYDOCK_RETURN_IF_ERROR(read_matrix(call, args.row_scale, false, "x1Scale", &row_scale));
  DRYDOCK_RETURN_IF_ERROR(read_matrix(call, args.column_scale, args.transpose2, "x2Scale", &block_scale));
  if (row_scale.rows != a.rows || row_scale.columns != blocks) {
    return invalid(call, "x1Scale must have one element for each row and block of the depth");
  }
  // The weights' scales lie as the weights do; a transposed view of both comes without the flag.
  if (block_scale.rows != blocks || block_scale.columns != column_blocks) {
    return invalid(call, "x2Scale must have one element for each block of x2");
  }
  std::vector<float> sums(static_cast<size_t>(a.rows * b.columns));
  for (int64_t block = 0; block < blocks; ++block) {
    const int64_t begin = block * args.group_depth;
    const int64_t depth = std::min(args.group_depth, a.columns - begin);
    FloatMatrix left{a.rows, depth, {}};
    for (int64_t row = 0; row < a.rows; ++row) {
      const auto from = a.values.begin() + row * a.columns + begin;
      left.values.insert(left.values.end(), from, from + depth);
    }
    const auto first = b.values.begin() + begin * b.columns;
    const FloatMatrix right{depth, b.columns, {first, first + depth * b.columns}};
    const std::vector<float> part = multiply_floats(left, right);
    for (int64_t row = 0; row < a.rows; ++row) {
      const float factor = row_scale.values[static_cast<size_t>(row * blocks + block)];
      for (int64_t k = 0; k < b.columns; ++k) {
        const auto at = static_cast<size_t>(row * b.columns + k);
        sums[at] +=
            part[at] * factor * block_scale.values[static_cast<size_t>(block * column_blocks + k / args.group_columns)];
      }
    }
  }
  Epilogue epilogue;
  DRYDOCK_RETURN_IF_ERROR(read_bias(call, args.bias, &epilogue));
  return store_product(call, out, sums, epilogue);
}

/// `bias` may be (batches, 1, columns).
TensorView bias_of_batch(const TensorView& bias, int64_t number) {
  if (!bias.defined || bias.dims.size() != 3) return bias;
  return select(select(bias, 0, bias.dims[0] == 1 ? 0 : number), 0, 0);
}

Status multiply_one(const KernelCall& call, const QuantMatmul& args, FloatMatrix& a, FloatMatrix& b, bool mixed,
                    int64_t batch, const TensorView& out) {
  if (mixed) return multiply_mixed(call, args, a, b, out);
  if (args.group_depth > 0) {
    return args.group_columns > 0 ? multiply_blocks(call, args, a, b, out)
                                  : multiply_offset_groups(call, args, a, b, out);
  }
  Epilogue epilogue;
  epilogue.activation = args.activation;
  DRYDOCK_RETURN_IF_ERROR(read_bias(call, bias_of_batch(args.bias, batch), &epilogue));
  if (out.dtype != DataType::kInt32) {
    std::vector<float> packed_offsets;
    if (!is_present(args.column_scale)) return invalid(call, "x2Scale must be given for a result that is scaled");
    if (!read_scales(args.column_scale, &epilogue.column_scale, &packed_offsets)) {
      return not_computed(call, "x2Scale of this type");
    }
    DRYDOCK_RETURN_IF_ERROR(read_parameter(call, args.row_scale, "x1Scale", &epilogue.row_scale));
    DRYDOCK_RETURN_IF_ERROR(read_parameter(call, args.column_offset, "x2Offset", &epilogue.offset));
    if (out.dtype == DataType::kInt8 && epilogue.offset.empty()) epilogue.offset = packed_offsets;
  }
  return store_product(call, out, multiply_exactly(a, b), epilogue);
}

bool is_quantised(DataType type) { return type == DataType::kInt8 || type == DataType::kInt4; }

Status quant_multiply(const KernelCall& call, QuantMatmul args) {
  if (!args.x1.defined || !args.x2.defined || !args.out.defined) return not_computed(call, "a null matrix");
  if (args.x1.dims.size() < 2 || args.x2.dims.size() < 2 || args.out.dims.size() < 2) {
    return invalid(call, "x1, x2 and out must have two dimensions or more");
  }
  const bool mixed = args.x1.dtype == DataType::kInt8 && args.x2.dtype != DataType::kInt8;
  if (args.x1.dtype == DataType::kInt32) args.x1 = unpacked_int4(args.x1);
  if (args.x2.dtype == DataType::kInt32) {
    const int64_t depth = args.x1.dims[args.x1.dims.size() - (args.transpose1 ? 2 : 1)];
    args.x2 =
        args.x2.dims.size() == 2 ? unpacked_factor(args.x2, args.transpose2 ? 1 : 0, depth) : unpacked_int4(args.x2);
  }
  if (!is_quantised(args.x1.dtype) || !is_quantised(args.x2.dtype)) {
    return not_computed(call, "x1 or x2 of another type than int8 and int4");
  }
  Dims batches;
  for (int axis = 0; axis < args.out.dims.size() - 2; ++axis) batches.push_back(args.out.dims[axis]);
  DRYDOCK_RETURN_IF_ERROR(batches_fit(call, args.x1, batches, "x1"));
  DRYDOCK_RETURN_IF_ERROR(batches_fit(call, args.x2, batches, "x2"));
  if (is_present(args.bias) && args.bias.dims.size() == 3 &&
      (args.bias.dims[1] != 1 || (args.bias.dims[0] != 1 && args.bias.dims[0] != batches.product()))) {
    return invalid(call, "a bias of three dimensions must be (batches, 1, columns)");
  }
  for (int64_t batch = 0; batch < batches.product(); ++batch) {
    FloatMatrix a;
    FloatMatrix b;
    DRYDOCK_RETURN_IF_ERROR(read_matrix(call, matrix_of_batch(args.x1, batches, batch), args.transpose1, "x1", &a));
    DRYDOCK_RETURN_IF_ERROR(read_matrix(call, matrix_of_batch(args.x2, batches, batch), args.transpose2, "x2", &b));
    const TensorView out = matrix_of_batch(args.out, batches, batch);
    if (a.columns != b.rows || out.dims[0] != a.rows || out.dims[1] != b.columns) {
      return invalid(call, "matrices of " + std::to_string(a.rows) + " x " + std::to_string(a.columns) + " and " +
                               std::to_string(b.rows) + " x " + std::to_string(b.columns) + " do not make out");
    }
    DRYDOCK_RETURN_IF_ERROR(multiply_one(call, args, a, b, mixed, batch, out));
  }
  return Status::ok();
}

/// The tensors that QuantMatmulV5, its WeightNz form and the fused ones have in common.
QuantMatmul arguments_of(const KernelCall& call) {
  QuantMatmul args;
  args.x1 = call.operand(0);
  args.x2 = call.operand(1);
  args.row_scale = call.operand(2);
  args.column_scale = call.operand(3);
  args.column_offset = call.operand(6);
  args.assist = call.operand(7);
  args.bias = call.operand(8);
  args.out = call.output(0);
  return args;
}

}  // namespace

/// aclnnQuantMatmulV5(x1, x2, x1Scale, x2Scale, yScale, x1Offset, x2Offset, yOffset, bias, transposeX1, transposeX2,
/// groupSize, out).
Status quant_matmul(KernelCall& call) {
  QuantMatmul args = arguments_of(call);
  if (is_present(call.operand(4)) || is_present(call.operand(5))) {
    return invalid(call, "yScale and x1Offset must be null on this device");
  }
  args.transpose1 = call.boolean(0);
  args.transpose2 = call.boolean(1);
  const int64_t sizes = call.integer(0);
  args.group_depth = sizes & 0xffff;
  args.group_columns = sizes >> 16 & 0xffff;
  return quant_multiply(call, args);
}

/// aclnnFusedQuantMatmul(..., bias, x3, fusedOpType, groupSize, out).
Status fused_quant_matmul(KernelCall& call) {
  QuantMatmul args = arguments_of(call);
  for (int index : {4, 5, 6, 7, 9}) {
    if (is_present(call.operand(index))) return invalid(call, "yScale, the offsets and x3 must be null");
  }
  if (call.text(0) == "gelu_tanh") {
    args.activation = ProductActivation::kGeluTanh;
  } else if (call.text(0) == "gelu_erf") {
    args.activation = ProductActivation::kGeluErf;
  } else {
    return invalid(call, "fusedOpType must be gelu_tanh or gelu_erf");
  }
  return quant_multiply(call, args);
}

/// aclnnWeightQuantBatchMatmulV2(x, weight, antiquantScale, antiquantOffset, quantScale, quantOffset, bias,
/// antiquantGroupSize, y): y = x @ ((weight + offset) * scale) + bias, quantised to int8 where quantScale is given.
Status weight_quant_matmul(KernelCall& call) {
  const TensorView& x = call.operand(0);
  const TensorView& y = call.output(0);
  if (!x.defined || !call.operand(1).defined || !y.defined || x.dims.size() != 2 || call.operand(1).dims.size() != 2) {
    return invalid(call, "x and weight must be matrices");
  }
  if (!is_floating(x.dtype)) return not_computed(call, "x of type " + std::string(name_of(x.dtype)));
  const TensorView weight = unpacked_factor(call.operand(1), 0, x.dims[1]);
  if (!is_quantised(weight.dtype)) return not_computed(call, "weights of another type than int8 and int4");
  FloatMatrix a;
  FloatMatrix b;
  DRYDOCK_RETURN_IF_ERROR(read_matrix(call, x, false, "x", &a));
  DRYDOCK_RETURN_IF_ERROR(read_matrix(call, weight, false, "weight", &b));
  if (a.columns != b.rows) return invalid(call, "x and weight differ in depth");
  std::vector<float> scales;
  std::vector<float> offsets;
  if (!is_present(call.operand(2))) return invalid(call, "antiquantScale must be given");
  DRYDOCK_RETURN_IF_ERROR(read_parameter(call, call.operand(2), "antiquantScale", &scales));
  DRYDOCK_RETURN_IF_ERROR(read_parameter(call, call.operand(3), "antiquantOffset", &offsets));
  DRYDOCK_RETURN_IF_ERROR(antiquantise(call, scales, offsets, call.integer(0), &b));
  Epilogue epilogue;
  DRYDOCK_RETURN_IF_ERROR(read_parameter(call, call.operand(6), "bias", &epilogue.late_bias));
  std::vector<float> sums = multiply_floats(a, b);
  if (!is_present(call.operand(4))) return store_product(call, y, sums, epilogue);
  if (y.dtype != DataType::kInt8) return invalid(call, "y must be int8 where quantScale is given");
  DRYDOCK_RETURN_IF_ERROR(epilogue.check(call, a.rows, b.columns));
  std::vector<float> biased(sums.size());
  for (int64_t row = 0; row < a.rows; ++row) {
    epilogue.apply(row, sums.data() + row * b.columns, b.columns, biased.data() + row * b.columns);
  }
  Epilogue quantisation;
  if (!read_scales(call.operand(4), &quantisation.column_scale, &quantisation.offset)) {
    return not_computed(call, "quantScale of this type");
  }
  return store_product(call, y, biased, quantisation);
}

}  // namespace drydock::ops::kernels
