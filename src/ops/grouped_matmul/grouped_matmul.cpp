#include <string>

#include "ops/grouped_matmul/groups.h"
#include "ops/matmul/gemm.h"
#include "ops/quant/integer_rows.h"

// aclnnGroupedMatmul: the products of several groups in one call, their matrices in lists or one behind the other.

namespace drydock::ops::kernels {
namespace {

using List = std::vector<TensorView>;

/// Lists by role. The first versions of the operator have fewer of them.
struct GroupedCall {
  const List* x;
  const List* weight;
  const List* bias;
  const List* scale;
  const List* offset;
  const List* antiquant_scale;
  const List* antiquant_offset;
  const List* row_scale;  ///< null: none
  const List* out;
  ProductActivation activation = ProductActivation::kNone;
};

GroupedCall lists_of(const KernelCall& call) {
  return {&call.operand_list(0), &call.operand_list(1),   &call.operand_list(2), &call.operand_list(3),
          &call.operand_list(4), &call.operand_list(5),   &call.operand_list(6), nullptr,
          &call.output_list(0),  ProductActivation::kNone};
}

/// Leading dimensions as one; fails unless they lie one behind the other.
Status as_matrix(const KernelCall& call, const TensorView& view, TensorView* matrix) {
  if (!view.defined || view.dims.size() < 2) return invalid(call, "x and out must have two dimensions or more");
  *matrix = view;
  const int last = view.dims.size() - 1;
  int64_t rows = view.dims[last - 1];
  for (int axis = last - 2; axis >= 0; --axis) {
    if (view.dims[axis] != 1 && view.strides[axis] != rows * view.strides[last - 1]) {
      return not_computed(call, "an x or out of more than two dimensions that is not contiguous");
    }
    rows *= view.dims[axis];
  }
  matrix->dims = Dims{rows, view.dims[last]};
  matrix->strides = Dims{view.strides[last - 1], view.strides[last]};
  return Status::ok();
}

void fill_parameters(const GroupedCall& grouped, int64_t group, int64_t groups, GroupProduct* product) {
  product->bias = parameter_of_group(*grouped.bias, group, groups);
  product->scale = parameter_of_group(*grouped.scale, group, groups);
  product->offset = parameter_of_group(*grouped.offset, group, groups);
  product->antiquant_scale = parameter_of_group(*grouped.antiquant_scale, group, groups);
  product->antiquant_offset = parameter_of_group(*grouped.antiquant_offset, group, groups);
  product->activation = grouped.activation;
}

/// Groups of rows. `ranges` are those of the rows of the only x, or of lists of x one behind the other.
Status multiply_rows(const KernelCall& call, const GroupedCall& grouped, const std::vector<GroupRange>& ranges) {
  const List& weights = *grouped.weight;
  const bool one_weight = weights.size() == 1;
  const auto groups = static_cast<int64_t>(ranges.size());
  for (size_t group = 0; group < ranges.size(); ++group) {
    const GroupRange& range = ranges[group];
    if (range.begin == range.end) continue;
    GroupProduct product;
    if (one_weight && weights[0].defined && weights[0].dims.size() == 3) {
      if (range.weight < 0 || range.weight >= weights[0].dims[0]) return device_fault(call, "a group without a weight");
      product.weight = slice_at(weights[0], range.weight);
    } else {
      if (range.weight < 0 || range.weight >= static_cast<int64_t>(weights.size())) {
        return invalid(call, "there must be one weight for each group");
      }
      product.weight = weights[static_cast<size_t>(range.weight)];
    }
    TensorView x;
    if (grouped.x->size() == 1) {
      DRYDOCK_RETURN_IF_ERROR(as_matrix(call, grouped.x->front(), &x));
      x = rows_between(x, range.begin, range.end);
    } else {
      DRYDOCK_RETURN_IF_ERROR(as_matrix(call, (*grouped.x)[group], &x));
    }
    product.x = x;
    fill_parameters(grouped, range.weight, one_weight ? std::max<int64_t>(groups, weights[0].dims[0]) : groups,
                    &product);
    if (grouped.row_scale != nullptr && !grouped.row_scale->empty()) {
      DRYDOCK_RETURN_IF_ERROR(
          rows_of_scale(call, grouped.row_scale->front(), range.begin, range.end, &product.row_scale));
    }
    TensorView out;
    if (grouped.out->size() == 1) {
      DRYDOCK_RETURN_IF_ERROR(as_matrix(call, grouped.out->front(), &out));
      if (range.end > out.dims[0]) return invalid(call, "the output has fewer rows than the groups");
      out = narrow(out, 0, range.begin, range.end - range.begin);
    } else {
      if (group >= grouped.out->size()) return invalid(call, "there must be one output for each group");
      DRYDOCK_RETURN_IF_ERROR(as_matrix(call, (*grouped.out)[group], &out));
    }
    GroupResult result;
    DRYDOCK_RETURN_IF_ERROR(multiply_group(call, product, &result));
    DRYDOCK_RETURN_IF_ERROR(store_group(call, result, out));
  }
  return Status::ok();
}

/// Groups of the depth: x is (M, K), a group's product has M rows.
Status multiply_depths(const KernelCall& call, const GroupedCall& grouped, const std::vector<GroupRange>& ranges) {
  if (grouped.x->size() != 1 || !grouped.x->front().defined || grouped.x->front().dims.size() != 2) {
    return invalid(call, "groups of the depth need one x of two dimensions");
  }
  const TensorView& x = grouped.x->front();
  const List& weights = *grouped.weight;
  for (size_t group = 0; group < ranges.size(); ++group) {
    const GroupRange& range = ranges[group];
    const int64_t depth = range.end - range.begin;
    GroupProduct product;
    product.x = narrow(x, 1, range.begin, depth);
    if (weights.size() == 1) {
      if (!weights[0].defined || weights[0].dims.size() != 2 || range.end > weights[0].dims[0]) {
        return invalid(call, "the weight must be (K, N)");
      }
      product.weight = narrow(weights[0], 0, range.begin, depth);
    } else {
      product.weight = weights[group];
    }
    TensorView out;
    if (grouped.out->size() == 1 && grouped.out->front().defined && grouped.out->front().dims.size() == 3) {
      const TensorView& all = grouped.out->front();
      if (range.weight < 0 || range.weight >= all.dims[0])
        return invalid(call, "there must be one output for each group");
      out = select(all, 0, range.weight);
    } else {
      if (group >= grouped.out->size()) return invalid(call, "there must be one output for each group");
      out = (*grouped.out)[group];
    }
    GroupResult result;
    DRYDOCK_RETURN_IF_ERROR(multiply_group(call, product, &result));
    DRYDOCK_RETURN_IF_ERROR(store_group(call, result, out));
  }
  return Status::ok();
}

Status all_defined(const KernelCall& call, const List& list, const char* name) {
  if (list.empty()) return invalid(call, std::string(name) + " is an empty list");
  for (const TensorView& view : list) {
    if (!view.defined) return invalid(call, std::string(name) + " has an undefined tensor");
  }
  return Status::ok();
}

/// One range for each x of a list, one behind the other; and for each weight where x is one.
Status ranges_of_lists(const KernelCall& call, const List& x, std::vector<GroupRange>* ranges) {
  int64_t begin = 0;
  for (size_t group = 0; group < x.size(); ++group) {
    TensorView matrix;
    DRYDOCK_RETURN_IF_ERROR(as_matrix(call, x[group], &matrix));
    ranges->push_back({begin, begin + matrix.dims[0], static_cast<int64_t>(group)});
    begin += matrix.dims[0];
  }
  return Status::ok();
}

Status activation_of(const KernelCall& call, int64_t type, ProductActivation* activation) {
  switch (type) {
    case 0: *activation = ProductActivation::kNone; return Status::ok();
    case 1: *activation = ProductActivation::kRelu; return Status::ok();
    case 2: *activation = ProductActivation::kGeluTanh; return Status::ok();
    case 4: *activation = ProductActivation::kFastGelu; return Status::ok();
    case 5: *activation = ProductActivation::kSilu; return Status::ok();
    default: return invalid(call, "actType must be 0, 1, 2, 4 or 5 on this device");
  }
}

}  // namespace

/// aclnnGroupedMatmul(x, weight, bias, scale, offset, antiquantScale, antiquantOffset, groupList, splitItem, y): the
/// list says where groups of rows end.
Status grouped_matmul(KernelCall& call) {
  const GroupedCall grouped = lists_of(call);
  DRYDOCK_RETURN_IF_ERROR(all_defined(call, *grouped.x, "x"));
  DRYDOCK_RETURN_IF_ERROR(all_defined(call, *grouped.weight, "weight"));
  DRYDOCK_RETURN_IF_ERROR(all_defined(call, *grouped.out, "y"));
  std::vector<GroupRange> ranges;
  if (grouped.x->size() > 1 || !call.has_ints(0) || call.ints(0).empty()) {
    DRYDOCK_RETURN_IF_ERROR(ranges_of_lists(call, *grouped.x, &ranges));
    return multiply_rows(call, grouped, ranges);
  }
  TensorView x;
  DRYDOCK_RETURN_IF_ERROR(as_matrix(call, grouped.x->front(), &x));
  int64_t begin = 0;
  for (size_t group = 0; group < call.ints(0).size(); ++group) {
    const int64_t end = call.ints(0)[group];
    if (end < begin || end > x.dims[0]) return invalid(call, "groupList must ascend to the rows of x");
    ranges.push_back({begin, end, static_cast<int64_t>(group)});
    begin = end;
  }
  return multiply_rows(call, grouped, ranges);
}

/// aclnnGroupedMatmulV4 and V5(x, weight, bias, scale, offset, antiquantScale, antiquantOffset, perTokenScale,
/// groupList, activationInput, activationQuantScale, activationQuantOffset, splitItem, groupType, groupListType,
/// actType, ..., out, activationFeatureOut, dynQuantScaleOut).
Status grouped_matmul_types(KernelCall& call) {
  GroupedCall grouped = lists_of(call);
  grouped.row_scale = &call.operand_list(7);
  DRYDOCK_RETURN_IF_ERROR(all_defined(call, *grouped.x, "x"));
  DRYDOCK_RETURN_IF_ERROR(all_defined(call, *grouped.weight, "weight"));
  DRYDOCK_RETURN_IF_ERROR(all_defined(call, *grouped.out, "out"));
  DRYDOCK_RETURN_IF_ERROR(activation_of(call, call.integer(3), &grouped.activation));
  const int64_t type = call.integer(1);
  const TensorView& list = call.operand(0);
  std::vector<GroupRange> ranges;
  if (type == 2) {
    const TensorView& x = grouped.x->front();
    if (x.dims.size() != 2) return invalid(call, "groups of the depth need an x of two dimensions");
    if (is_present(list)) {
      DRYDOCK_RETURN_IF_ERROR(ranges_of_groups(call, list, call.integer(2), x.dims[1], &ranges));
    } else {
      int64_t begin = 0;
      for (size_t group = 0; group < grouped.weight->size(); ++group) {
        const TensorView& weight = (*grouped.weight)[group];
        const int64_t end = begin + (weight.dims.empty() ? 0 : weight.dims[0]);
        if (end > x.dims[1]) return invalid(call, "the weights are deeper than x");
        ranges.push_back({begin, end, static_cast<int64_t>(group)});
        begin = end;
      }
    }
    return multiply_depths(call, grouped, ranges);
  }
  if (type != 0 && type != -1) return invalid(call, "groupType must be -1, 0 or 2");
  if (type == -1 || grouped.x->size() > 1) {
    DRYDOCK_RETURN_IF_ERROR(ranges_of_lists(call, *grouped.x, &ranges));
    return multiply_rows(call, grouped, ranges);
  }
  TensorView x;
  DRYDOCK_RETURN_IF_ERROR(as_matrix(call, grouped.x->front(), &x));
  DRYDOCK_RETURN_IF_ERROR(ranges_of_groups(call, list, call.integer(2), x.dims[0], &ranges));
  return multiply_rows(call, grouped, ranges);
}

/// aclnnGroupedMatmulWeightNz: the same with one argument more, quantGroupSize behind actType.
Status grouped_matmul_weight_nz(KernelCall& call) {
  if (call.integer(4) != 0) return not_computed(call, "scales by groups of the depth (quantGroupSize)");
  return grouped_matmul_types(call);
}

namespace {

/// aclnnGroupedMatmulAdd(x, weight, groupList, yRef, transposeX, transposeWeight, groupType): y[g] += x_g^T @ weight_g
/// for groups of the depth, the rows of both.
Status multiply_add(KernelCall& call, int64_t list_type) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 4, 1));
  const TensorView& x = call.operand(0);
  const TensorView& weight = call.operand(1);
  const TensorView& y = call.output(0);
  if (!call.boolean(0) || call.boolean(1) || call.integer(0) != 2) {
    return invalid(call, "transposeX must be true, transposeWeight false and groupType 2");
  }
  if (x.dims.size() != 2 || weight.dims.size() != 2 || x.dims[0] != weight.dims[0]) {
    return invalid(call, "x must be (K, M) and weight (K, N)");
  }
  std::vector<GroupRange> ranges;
  DRYDOCK_RETURN_IF_ERROR(ranges_of_groups(call, call.operand(2), list_type, x.dims[0], &ranges));
  const int64_t rows = x.dims[1];
  const int64_t columns = weight.dims[1];
  TensorView sums;
  DRYDOCK_RETURN_IF_ERROR(as_matrix(call, y, &sums));
  if (sums.dims[1] != columns || sums.dims[0] != rows * static_cast<int64_t>(ranges.size())) {
    return invalid(call, "yRef must be (groups, M, N)");
  }
  FloatMatrix left;
  FloatMatrix right;
  DRYDOCK_RETURN_IF_ERROR(read_matrix(call, x, false, "x", &left));
  DRYDOCK_RETURN_IF_ERROR(read_matrix(call, weight, false, "weight", &right));
  std::vector<float> group_sums(static_cast<size_t>(rows * columns));
  for (size_t group = 0; group < ranges.size(); ++group) {
    const GroupRange& range = ranges[group];
    if (range.begin == range.end || group_sums.empty()) continue;
    const TensorView own = narrow(sums, 0, static_cast<int64_t>(group) * rows, rows);
    if (!read_floats(own, &group_sums)) return not_computed(call, "a yRef of this type");
    gemm<float>(rows, columns, range.end - range.begin, left.values.data() + range.begin * rows, rows, true,
                right.values.data() + range.begin * columns, columns, false, group_sums.data(), columns, 1.0f, 1.0f);
    DRYDOCK_RETURN_IF_ERROR(store_product(call, own, group_sums, Epilogue{}));
  }
  return Status::ok();
}

}  // namespace

Status grouped_matmul_add(KernelCall& call) { return multiply_add(call, 0); }
/// V2 with a groupListType of 0 or 1 behind groupType.
Status grouped_matmul_add_types(KernelCall& call) {
  if (call.integer(1) != 0 && call.integer(1) != 1) return invalid(call, "groupListType must be 0 or 1");
  return multiply_add(call, call.integer(1));
}

}  // namespace drydock::ops::kernels
