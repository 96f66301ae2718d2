#include "ops/grouped_matmul/groups.h"

#include <string>

#include "ops/quant/integer_rows.h"
#include "ops/quant/quant_parameters.h"

namespace drydock::ops::kernels {

Status ranges_of_groups(const KernelCall& call, const TensorView& list, int64_t type, int64_t length,
                        std::vector<GroupRange>* ranges) {
  ranges->clear();
  if (type < 0 || type > 2) return invalid(call, "groupListType must be from 0 to 2");
  std::vector<int64_t> values;
  if (!list.defined || !read_integers(list, &values)) return invalid(call, "groupList must be of integers");
  if (type == 2 && (list.dims.size() != 2 || list.dims[1] != 2)) {
    return invalid(call, "groupList must have two columns where groupListType is 2");
  }
  const size_t step = type == 2 ? 2 : 1;
  int64_t begin = 0;
  for (size_t at = 0; at < values.size(); at += step) {
    const int64_t end = type == 0 ? values[at] : begin + values[at + step - 1];
    if (end < begin || end > length) {
      return device_fault(call, "groupList reaches " + std::to_string(end) + " of " + std::to_string(length));
    }
    ranges->push_back({begin, end, type == 2 ? values[at] : static_cast<int64_t>(at)});
    begin = end;
  }
  return Status::ok();
}

namespace {

bool is_narrow_integer(DataType type) { return type == DataType::kInt8 || type == DataType::kInt4; }

Status read_epilogue(const KernelCall& call, const GroupProduct& product, bool bias_to_sums, Epilogue* epilogue) {
  epilogue->row_scale = product.row_scale;
  epilogue->activation = product.activation;
  DRYDOCK_RETURN_IF_ERROR(read_parameter(call, product.offset, "offset", &epilogue->offset));
  return bias_to_sums ? read_bias(call, product.bias, epilogue)
                      : read_parameter(call, product.bias, "bias", &epilogue->late_bias);
}

void finish(const Epilogue& epilogue, const std::vector<float>& sums, GroupResult* result) {
  result->values.resize(sums.size());
  for_each_row(result->rows, result->columns, [&](int64_t row, float*) {
    const int64_t first = row * result->columns;
    epilogue.apply(row, sums.data() + first, result->columns, result->values.data() + first);
  });
}

}  // namespace

Status multiply_group(const KernelCall& call, const GroupProduct& product, GroupResult* result) {
  FloatMatrix x;
  FloatMatrix weight;
  const TensorView x_view = product.x.dtype == DataType::kInt32 ? unpacked_int4(product.x) : product.x;
  DRYDOCK_RETURN_IF_ERROR(read_matrix(call, x_view, false, "x", &x));
  const TensorView weight_view = unpacked_factor(product.weight, 0, x.columns);
  DRYDOCK_RETURN_IF_ERROR(read_matrix(call, weight_view, false, "weight", &weight));
  if (x.columns != weight.rows) {
    return invalid(
        call, "x has a depth of " + std::to_string(x.columns) + ", its weight one of " + std::to_string(weight.rows));
  }
  result->rows = x.rows;
  result->columns = weight.columns;
  result->is_whole = false;
  Epilogue epilogue;
  if (is_floating(x_view.dtype)) {
    if (is_narrow_integer(weight_view.dtype)) {
      std::vector<float> scales;
      std::vector<float> offsets;
      DRYDOCK_RETURN_IF_ERROR(read_parameter(call, product.antiquant_scale, "antiquantScale", &scales));
      DRYDOCK_RETURN_IF_ERROR(read_parameter(call, product.antiquant_offset, "antiquantOffset", &offsets));
      if (scales.empty()) return invalid(call, "integer weights under a floating x need antiquantScale");
      DRYDOCK_RETURN_IF_ERROR(antiquantise(call, scales, offsets, 0, &weight));
    } else if (!is_floating(weight_view.dtype)) {
      return not_computed(call, "weights of type " + std::string(name_of(weight_view.dtype)));
    }
    DRYDOCK_RETURN_IF_ERROR(read_epilogue(call, product, false, &epilogue));
    DRYDOCK_RETURN_IF_ERROR(epilogue.check(call, x.rows, weight.columns));
    finish(epilogue, multiply_floats(x, weight), result);
    return Status::ok();
  }
  if (!is_narrow_integer(x_view.dtype) || !is_narrow_integer(weight_view.dtype)) {
    return not_computed(call, "x or weight of another type than floats, int8 and int4");
  }
  std::vector<float> scales;
  DRYDOCK_RETURN_IF_ERROR(read_parameter(call, product.scale, "scale", &scales));
  const bool mixed = x_view.dtype == DataType::kInt8 && weight_view.dtype == DataType::kInt4;
  const bool by_depth = static_cast<int64_t>(scales.size()) > weight.columns && weight.columns > 0;
  if (mixed) {
    // The device splits int8 into two halves and takes 8 from the lower one; the bias makes up for that.
    if (is_present(product.offset)) return not_computed(call, "int8 by int4 with an offset");
    std::vector<float> assist;
    DRYDOCK_RETURN_IF_ERROR(read_parameter(call, product.bias, "bias", &assist));
    if (static_cast<int64_t>(assist.size()) != weight.columns) {
      return invalid(call, "int8 by int4 needs a bias, the sum of 8 times the scaled weights");
    }
    for (float& value : x.values) value -= 8;
    std::vector<float> sums;
    DRYDOCK_RETURN_IF_ERROR(multiply_by_groups(call, x, weight, scales, &sums));
    for (size_t k = 0; k < sums.size(); ++k) sums[k] += assist[k % assist.size()];
    epilogue.row_scale = product.row_scale;
    epilogue.activation = product.activation;
    DRYDOCK_RETURN_IF_ERROR(epilogue.check(call, x.rows, weight.columns));
    finish(epilogue, sums, result);
    return Status::ok();
  }
  DRYDOCK_RETURN_IF_ERROR(read_epilogue(call, product, true, &epilogue));
  if (by_depth) {
    std::vector<float> sums;
    DRYDOCK_RETURN_IF_ERROR(multiply_by_groups(call, x, weight, scales, &sums));
    if (!epilogue.whole_bias.empty()) return not_computed(call, "a whole bias with scales by groups of the depth");
    DRYDOCK_RETURN_IF_ERROR(epilogue.check(call, x.rows, weight.columns));
    finish(epilogue, sums, result);
    return Status::ok();
  }
  epilogue.column_scale = scales;
  DRYDOCK_RETURN_IF_ERROR(epilogue.check(call, x.rows, weight.columns));
  std::vector<int32_t> sums = multiply_exactly(x, weight);
  if (scales.empty() && product.row_scale.empty() && epilogue.late_bias.empty() && epilogue.offset.empty() &&
      product.activation == ProductActivation::kNone) {
    result->is_whole = true;
    for (size_t k = 0; !epilogue.whole_bias.empty() && k < sums.size(); ++k) {
      const size_t column = epilogue.whole_bias.size() == 1 ? 0 : k % epilogue.whole_bias.size();
      sums[k] = static_cast<int32_t>(sums[k] + epilogue.whole_bias[column]);
    }
    result->whole = std::move(sums);
    return Status::ok();
  }
  result->values.resize(sums.size());
  for_each_row(result->rows, result->columns, [&](int64_t row, float*) {
    const int64_t first = row * result->columns;
    epilogue.apply(row, sums.data() + first, result->columns, result->values.data() + first);
  });
  return Status::ok();
}

Status store_group(const KernelCall& call, const GroupResult& result, const TensorView& out) {
  if (!out.defined || out.dims.size() != 2 || out.dims[0] != result.rows || out.dims[1] != result.columns) {
    return invalid(call, "a result of " + std::to_string(result.rows) + " x " + std::to_string(result.columns) +
                             " does not fit its output");
  }
  if (result.is_whole) return store_product(call, out, result.whole, Epilogue{});
  return store_product(call, out, result.values, Epilogue{});
}

TensorView parameter_of_group(const TensorView& tensor, int64_t group) {
  if (!is_present(tensor) || tensor.dims.empty()) return tensor;
  return group < tensor.dims[0] ? select(tensor, 0, group) : TensorView{};
}

TensorView parameter_of_group(const std::vector<TensorView>& list, int64_t group, int64_t groups) {
  if (list.empty()) return {};
  if (list.size() == 1 && groups != 1) return parameter_of_group(list[0], group);
  if (list.size() == 1) {
    // One group: with or without an axis that counts groups.
    const TensorView& only = list[0];
    return is_present(only) && only.dims.size() > 1 && only.dims[0] == 1 ? select(only, 0, 0) : only;
  }
  return group < static_cast<int64_t>(list.size()) ? list[static_cast<size_t>(group)] : TensorView{};
}

Status rows_of_scale(const KernelCall& call, const TensorView& scale, int64_t begin, int64_t end,
                     std::vector<float>* values) {
  values->clear();
  if (!is_present(scale)) return Status::ok();
  std::vector<float> all;
  if (!read_floats(scale, &all)) return not_computed(call, "scales of rows of this type");
  if (end > static_cast<int64_t>(all.size())) return invalid(call, "there must be one scale for each row of x");
  values->assign(all.begin() + begin, all.begin() + end);
  return Status::ok();
}

}  // namespace drydock::ops::kernels
