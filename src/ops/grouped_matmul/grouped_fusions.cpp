#include <cstring>
#include <string>
#include <vector>

#include "ops/clear_view.h"
#include "ops/grouped_matmul/groups.h"
#include "ops/quant/dynamic_rows.h"
#include "ops/quant/integer_rows.h"
#include "ops/shapes.h"

// Grouped products fused with what follows them: the sum of a token's experts, or SwiGLU and a quantisation.

namespace drydock::ops::kernels {
namespace {

struct FinalizeCall {
  TensorView x, weight, scale, bias, offset, row_scale, list, shared, logit, rows;
  int64_t list_type = 0;
};

/// x1, x2, scale and bias come first; `row_scale` is the operand from which the others follow each other.
FinalizeCall finalize_arguments(const KernelCall& call, int row_scale) {
  FinalizeCall args;
  args.x = call.operand(0);
  args.weight = call.operand(1);
  args.scale = call.operand(2);
  args.bias = call.operand(3);
  args.row_scale = call.operand(row_scale);
  args.list = call.operand(row_scale + 1);
  args.shared = call.operand(row_scale + 2);
  args.logit = call.operand(row_scale + 3);
  args.rows = call.operand(row_scale + 4);
  args.list_type = call.integer(2);
  return args;
}

/// out[rows[i]] += logit[i] * product row i; out[sharedOffset + r] += sharedWeight * shared[r].
Status multiply_and_combine(const KernelCall& call, const FinalizeCall& args) {
  const TensorView& out = call.output(0);
  const auto shared_weight = static_cast<float>(call.number(0));
  const int64_t shared_offset = call.integer(1);
  if (call.integer(0) != 0) return invalid(call, "dtype must be 0, fp32");
  if (call.boolean(0) || call.boolean(1)) return invalid(call, "x1 and x2 must not be transposed");
  if (!args.x.defined || args.x.dims.size() != 2 || !args.weight.defined || args.weight.dims.size() != 3 ||
      !out.defined || out.dims.size() != 2 || out.dtype != DataType::kFloat) {
    return invalid(call, "x1 must be (m, k), x2 (e, k, n) and out fp32 (batch, n)");
  }
  if (is_present(args.offset)) return not_computed(call, "an asymmetric quantisation");
  if (!is_present(args.scale)) return not_computed(call, "a product without scales");
  const int64_t rows = args.x.dims[0];
  const int64_t length = out.dims[1];
  std::vector<GroupRange> ranges;
  DRYDOCK_RETURN_IF_ERROR(ranges_of_groups(call, args.list, args.list_type, rows, &ranges));
  std::vector<int64_t> targets;
  std::vector<float> weights;
  if (!is_present(args.rows)) return not_computed(call, "a call without rowIndex");
  if (!read_integers(args.rows, &targets) || static_cast<int64_t>(targets.size()) < rows) {
    return invalid(call, "rowIndex must have one element for each row of x1");
  }
  if (is_present(args.logit) && (!read_floats(args.logit, &weights) || static_cast<int64_t>(weights.size()) < rows)) {
    return invalid(call, "logit must have one element for each row of x1");
  }
  for (const GroupRange& range : ranges) {
    for (int64_t row = range.begin; row < range.end; ++row) {
      const int64_t target = targets[static_cast<size_t>(row)];
      if (target < 0 || target >= out.dims[0]) return device_fault(call, "rowIndex is out of range");
    }
  }
  std::vector<float> sums(static_cast<size_t>(out.numel()));
  if (is_present(args.shared)) {
    std::vector<float> shared;
    if (args.shared.dims.size() != 2 || args.shared.dims[1] != length || shared_offset < 0 ||
        shared_offset + args.shared.dims[0] > out.dims[0] || !read_floats(args.shared, &shared)) {
      return invalid(call, "sharedInput does not fit into out");
    }
    for (size_t k = 0; k < shared.size(); ++k) {
      sums[static_cast<size_t>(shared_offset * length) + k] += shared_weight * shared[k];
    }
  }
  for (size_t group = 0; group < ranges.size(); ++group) {
    const GroupRange& range = ranges[group];
    if (range.begin == range.end) continue;
    if (range.weight >= args.weight.dims[0]) return invalid(call, "there must be one weight for each group");
    GroupProduct product;
    product.x = rows_between(args.x, range.begin, range.end);
    product.weight = slice_at(args.weight, range.weight);
    product.scale = parameter_of_group(args.scale, range.weight);
    product.bias = parameter_of_group(args.bias, range.weight);
    DRYDOCK_RETURN_IF_ERROR(rows_of_scale(call, args.row_scale, range.begin, range.end, &product.row_scale));
    GroupResult result;
    DRYDOCK_RETURN_IF_ERROR(multiply_group(call, product, &result));
    if (result.is_whole || result.columns != length) return invalid(call, "out has another size than the products");
    for (int64_t row = range.begin; row < range.end; ++row) {
      const float weight = weights.empty() ? 1.0f : weights[static_cast<size_t>(row)];
      float* to = sums.data() + targets[static_cast<size_t>(row)] * length;
      const float* from = result.values.data() + (row - range.begin) * length;
      for (int64_t k = 0; k < length; ++k) to[k] += weight * from[k];
    }
  }
  Rows(out, all_axes(2)).write<float>(0, sums.data());
  return Status::ok();
}

/// SwiGLU of the two halves of each row, an optional factor, then int8 by the row's largest magnitude.
Status swiglu_and_quantise(const KernelCall& call, const GroupResult& result, int64_t first_row,
                           const std::vector<float>& smooth, const DynamicOutputs& outputs) {
  const int64_t width = result.columns / 2;
  if (outputs.rows().length() != width) return invalid(call, "output must have half the columns of the weights");
  for_each_row(result.rows, width, [&](int64_t row, float* buffer) {
    const float* values = result.values.data() + row * result.columns;
    for (int64_t k = 0; k < width; ++k) {
      buffer[k] = silu(values[k]) * values[width + k];
      if (!smooth.empty()) buffer[k] *= smooth[smooth.size() == 1 ? 0 : static_cast<size_t>(k)];
    }
    outputs.write(first_row + row, buffer);
  });
  return Status::ok();
}

/// A weight that has the sizes of its storage in NZ, (..., n / b, k / 16, 16, b), as a plain one (..., k, n) in
/// `plain`.
TensorView out_of_storage(const TensorView& weight, std::vector<char>* plain) {
  const int rank = weight.dims.size();
  const int64_t columns = weight.dims[rank - 4];
  const int64_t rows = weight.dims[rank - 3] * weight.dims[rank - 2];
  const int64_t run = bytes_of(weight.dtype, weight.dims[rank - 1]);
  Dims dims;
  for (int axis = 0; axis < rank - 4; ++axis) dims.push_back(weight.dims[axis]);
  dims.push_back(rows);
  dims.push_back(columns * weight.dims[rank - 1]);
  plain->resize(static_cast<size_t>(bytes_of(weight.dtype, weight.numel())));
  const char* blocks = static_cast<const char*>(weight.data);
  const int64_t all_rows = plain->empty() ? 0 : dims.product() / dims[dims.size() - 1];
  base::parallel_for(all_rows, 64, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const char* from = blocks + (row / rows * columns * rows + row % rows) * run;
      char* to = plain->data() + row * columns * run;
      for (int64_t column = 0; column < columns; ++column) {
        std::memcpy(to + column * run, from + column * rows * run, static_cast<size_t>(run));
      }
    }
  });
  return contiguous_view(plain->data(), weight.dtype, dims);
}

struct SwigluCall {
  TensorView x, row_scale, list, smooth;
  std::vector<TensorView> weight, scale, assist;
  int64_t list_type = 0;
};

Status multiply_swiglu_quantise(const KernelCall& call, const SwigluCall& args) {
  if (!args.x.defined || args.x.dims.size() != 2 || args.weight.empty() || !args.weight.front().defined) {
    return invalid(call, "x must be (M, K), weight given");
  }
  if (!is_present(args.row_scale)) return invalid(call, "xScale must be given");
  const TensorView& out = call.output(0);
  if (!out.defined || out.dims.size() != 2 || out.dims[0] != args.x.dims[0] || out.dtype != DataType::kInt8) {
    return invalid(call, "output must be int8 with one row for each row of x");
  }
  DynamicOutputs outputs;
  DRYDOCK_RETURN_IF_ERROR(DynamicOutputs::make(call, out, call.output(1), out.dims, &outputs));
  std::vector<GroupRange> ranges;
  DRYDOCK_RETURN_IF_ERROR(ranges_of_groups(call, args.list, args.list_type, args.x.dims[0], &ranges));
  const bool one_weight = args.weight.size() == 1;
  const int64_t groups = one_weight ? (args.weight[0].dims.size() == 3 ? args.weight[0].dims[0] : 1)
                                    : static_cast<int64_t>(args.weight.size());
  for (const GroupRange& range : ranges) {
    if (range.begin == range.end) continue;
    if (range.weight >= groups) return invalid(call, "there must be one weight for each group");
    GroupProduct product;
    product.x = rows_between(args.x, range.begin, range.end);
    const TensorView& weight = args.weight[one_weight ? 0 : static_cast<size_t>(range.weight)];
    product.weight = weight.dims.size() == 3 ? slice_at(weight, range.weight) : weight;
    product.scale = one_weight && !args.scale.empty() ? parameter_of_group(args.scale[0], range.weight)
                                                      : parameter_of_group(args.scale, range.weight, groups);
    product.bias = one_weight && !args.assist.empty() ? parameter_of_group(args.assist[0], range.weight)
                                                      : parameter_of_group(args.assist, range.weight, groups);
    DRYDOCK_RETURN_IF_ERROR(rows_of_scale(call, args.row_scale, range.begin, range.end, &product.row_scale));
    if (!is_present(product.scale)) return invalid(call, "weightScale must be given");
    std::vector<float> smooth;
    DRYDOCK_RETURN_IF_ERROR(
        read_parameter(call, parameter_of_group(args.smooth, range.weight), "smoothScale", &smooth));
    GroupResult result;
    DRYDOCK_RETURN_IF_ERROR(multiply_group(call, product, &result));
    if (smooth.size() > 1 && static_cast<int64_t>(smooth.size()) != result.columns / 2) {
      return invalid(call, "smoothScale must have half the columns of the weights");
    }
    DRYDOCK_RETURN_IF_ERROR(swiglu_and_quantise(call, result, range.begin, smooth, outputs));
  }
  return Status::ok();
}

}  // namespace

/// aclnnGroupedMatmulFinalizeRoutingV2 and V3(x1, x2, scale, bias, offset, antiquantScale, antiquantOffset,
/// pertokenScale, groupList, sharedInput, logit, rowIndex, dtype, sharedInputWeight, sharedInputOffset, transposeX1,
/// transposeX2, groupListType, ..., out).
Status grouped_matmul_finalize(KernelCall& call) {
  if (is_present(call.operand(5)) || is_present(call.operand(6))) {
    return invalid(call, "antiquantScale and antiquantOffset must be null");
  }
  FinalizeCall args = finalize_arguments(call, 7);
  args.offset = call.operand(4);
  return multiply_and_combine(call, args);
}

/// aclnnGroupedMatmulFinalizeRoutingWeightNz(x1, x2, scale, bias, pertokenScale, groupList, sharedInput, logit,
/// rowIndex,
/// ..., out): the same without offset and antiquantisation.
Status grouped_matmul_finalize_weight_nz(KernelCall& call) {
  return multiply_and_combine(call, finalize_arguments(call, 4));
}

/// aclnnGroupedMatmulSwigluQuantV2 and WeightNzV2(x, weight, weightScale, weightAssistMatrix, bias, xScale,
/// smoothScale, groupList, dequantMode, dequantDtype, quantMode, groupListType, tuningConfig, output, outputScale).
Status grouped_matmul_swiglu_quant(KernelCall& call) {
  if (is_present(call.operand(1))) return invalid(call, "bias must be null");
  SwigluCall args;
  args.x = call.operand(0);
  args.weight = call.operand_list(0);
  // Callers of the NZ form may give the sizes of the storage as those of the tensor: one dimension more each for n and
  // k.
  std::vector<std::vector<char>> plain(args.weight.size());
  for (size_t index = 0; index < plain.size(); ++index) {
    TensorView& weight = args.weight[index];
    if (!weight.defined || weight.dims.size() < 4) continue;
    const int last = weight.dims.size() - 1;
    if (!is_contiguous(weight) || weight.dims[last] * bits_of(weight.dtype) % 8 != 0) {
      return invalid(call, "a weight with the sizes of its storage must be dense, in blocks of whole bytes");
    }
    weight = out_of_storage(weight, &plain[index]);
  }
  args.scale = call.operand_list(1);
  args.assist = call.operand_list(2);
  args.row_scale = call.operand(2);
  args.smooth = call.operand(3);
  args.list = call.operand(4);
  args.list_type = call.integer(3);
  return multiply_swiglu_quantise(call, args);
}

/// aclnnGroupedMatmulSwigluQuantWeightNZ(x, weight, bias, offset, weightScale, xScale, groupList, output, outputScale,
/// outputOffset): one weight (e, k, n) and a list of sums.
Status grouped_matmul_swiglu_quant_weight_nz(KernelCall& call) {
  if (is_present(call.operand(2)) || is_present(call.operand(3))) {
    return not_computed(call, "bias and offset must be null");
  }
  if (call.output(2).defined) clear_view(call.output(2));  // a symmetric quantisation has no offset
  SwigluCall args;
  args.x = call.operand(0);
  args.weight = {call.operand(1)};
  args.scale = {call.operand(4)};
  args.row_scale = call.operand(5);
  args.list = call.operand(6);
  return multiply_swiglu_quantise(call, args);
}

}  // namespace drydock::ops::kernels
