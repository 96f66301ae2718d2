#include <optional>
#include <string>

#include "ops/quant/dynamic_rows.h"
#include "ops/quant/integer_rows.h"
#include "ops/sigmoid.h"

// SwiGLU between a dequantisation and a quantisation, with parameters for each group of rows.

namespace drydock::ops::kernels {
namespace {

/// Values of `groups` groups, each either one for all columns or one for each.
class GroupParameters {
 public:
  /// Absent tensors make none.
  static Status make(const KernelCall& call, const TensorView& view, std::string_view name, int64_t groups,
                     int64_t columns, GroupParameters* made) {
    made->values_.clear();
    if (!is_present(view)) return Status::ok();
    if (!read_floats(view, &made->values_)) return not_computed(call, std::string(name) + " of this type");
    if (view.numel() == groups * columns) {
      made->columns_ = columns;
    } else if (view.numel() == groups) {
      made->columns_ = 1;
    } else {
      return invalid(call, std::string(name) + " must have one element, or one row, for each group");
    }
    return Status::ok();
  }

  bool present() const { return !values_.empty(); }
  float at(int64_t group, int64_t column) const {
    return values_[static_cast<size_t>(columns_ == 1 ? group : group * columns_ + column)];
  }

 private:
  std::vector<float> values_;
  int64_t columns_ = 1;
};

/// The group of each row, -1 for rows of no group. `counts`: sizes of the groups, else the rows where they end.
Status groups_of_rows(const KernelCall& call, const TensorView& view, bool counts, int64_t rows,
                      std::vector<int>* groups, int64_t* group_count) {
  groups->assign(static_cast<size_t>(rows), 0);
  *group_count = 1;
  if (!is_present(view)) return Status::ok();
  std::vector<int64_t> values;
  if (view.dims.size() != 1 || !read_integers(view, &values)) {
    return invalid(call, "groupIndex must be a vector of integers");
  }
  *group_count = static_cast<int64_t>(values.size());
  std::fill(groups->begin(), groups->end(), -1);
  int64_t begin = 0;
  for (size_t group = 0; group < values.size(); ++group) {
    const int64_t end = counts ? begin + values[group] : values[group];
    if (end < begin || end > rows) {
      return device_fault(call, "groupIndex reaches row " + std::to_string(end) + " of " + std::to_string(rows));
    }
    std::fill(groups->begin() + begin, groups->begin() + end, static_cast<int>(group));
    begin = end;
  }
  return Status::ok();
}

/// The variants of SwiGLU that models ask for.
struct Glu {
  int64_t mode = 0;
  bool activate_left = true;
  float limit = 0;
  float alpha = 0;
  float bias = 0;

  /// `pair`: 2 * width values in, the first `width` of `out` written.
  void apply(const float* pair, int64_t width, float* out) const {
    const bool interleaved = mode == 1;
    const int64_t step = interleaved ? 2 : 1;
    const float* left = pair;
    const float* right = pair + (interleaved ? 1 : width);
    if (!activate_left) std::swap(left, right);
    for (int64_t k = 0; k < width; ++k) {
      float gate = left[k * step];
      float up = right[k * step];
      if (mode == 0) {
        out[k] = silu(gate) * up;
        continue;
      }
      up = std::clamp(up, -limit, limit);
      if (mode == 3) {
        out[k] = std::min(silu(gate), limit) * up;
      } else {
        gate = std::min(gate, limit);
        out[k] = gate * sigmoid(alpha * gate) * (up + bias);
      }
    }
  }
};

Status dequant_glu_quant(KernelCall& call, const Glu& glu, Rounding rounding) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 1, 2));
  const TensorView& x = call.operand(0);
  if (x.dims.size() < 2 || x.dims[x.dims.size() - 1] % 2 != 0) {
    return invalid(call, "x must have two dimensions or more, the last one even");
  }
  const bool is_dynamic = call.text(0) == "dynamic";
  if (!is_dynamic && !call.text(0).empty() && call.text(0) != "static") {
    return invalid(call, "quantMode must be static or dynamic");
  }
  const int last = x.dims.size() - 1;
  const int64_t columns = x.dims[last];
  const int64_t width = columns / 2;
  Dims shape = x.dims;
  shape[last] = width;
  DynamicOutputs outputs;
  DRYDOCK_RETURN_IF_ERROR(DynamicOutputs::make(call, call.output(0), call.output(1), shape, &outputs));
  const int64_t rows = outputs.rows().count();

  std::vector<int> groups;
  int64_t group_count = 1;
  DRYDOCK_RETURN_IF_ERROR(groups_of_rows(call, call.operand(6), true, rows, &groups, &group_count));
  const bool whole = is_integral(x.dtype);
  const TensorView& bias_view = call.operand(3);
  if (whole != is_present(call.operand(1))) return invalid(call, "weightScale belongs to an integer x, and only to it");
  if (!whole && (is_present(call.operand(2)) || is_present(bias_view))) {
    return invalid(call, "activationScale and bias belong to an integer x");
  }
  GroupParameters weight_scale, bias, quant_scale, quant_offset;
  DRYDOCK_RETURN_IF_ERROR(
      GroupParameters::make(call, call.operand(1), "weightScale", group_count, columns, &weight_scale));
  DRYDOCK_RETURN_IF_ERROR(GroupParameters::make(call, bias_view, "bias", group_count, columns, &bias));
  DRYDOCK_RETURN_IF_ERROR(GroupParameters::make(call, call.operand(4), "quantScale", group_count, width, &quant_scale));
  DRYDOCK_RETURN_IF_ERROR(
      GroupParameters::make(call, call.operand(5), "quantOffset", group_count, width, &quant_offset));
  if (is_dynamic && quant_offset.present()) return invalid(call, "a dynamic quantisation takes no offset");
  std::vector<float> row_scale;
  if (is_present(call.operand(2)) && (!read_floats(call.operand(2), &row_scale) || call.operand(2).numel() != rows)) {
    return invalid(call, "activationScale must have one element for each row");
  }
  const bool bias_first = bias.present() && is_integral(bias_view.dtype);

  const Rows from(x, last);
  for_each_row(rows, columns + width, [&](int64_t row, float* buffer) {
    const int64_t group = groups[static_cast<size_t>(row)];
    if (group < 0) return;  // no part of the result
    const float* values = from.read<float>(row, buffer);
    if (whole) {
      for (int64_t k = 0; k < columns; ++k) {
        float value = values[k];
        if (bias_first) value += bias.at(group, k);
        value *= weight_scale.at(group, k);
        if (!row_scale.empty()) value *= row_scale[static_cast<size_t>(row)];
        if (bias.present() && !bias_first) value += bias.at(group, k);
        buffer[k] = value;
      }
      values = buffer;
    }
    float* out = buffer + columns;
    glu.apply(values, width, out);
    for (int64_t k = 0; k < width; ++k) {
      if (quant_scale.present()) {
        out[k] = is_dynamic ? out[k] * quant_scale.at(group, k) : out[k] / quant_scale.at(group, k);
      }
      if (quant_offset.present()) out[k] += quant_offset.at(group, k);
    }
    if (is_dynamic) {
      outputs.write(row, out);
    } else {
      outputs.rows().write(row, out, rounding);
      outputs.set_scale(row, 0);
    }
  });
  return Status::ok();
}

}  // namespace

/// aclnnDequantSwigluQuant(x, weightScale, activationScale, bias, quantScale, quantOffset, groupIndex, activateLeft,
/// quantMode, y, scale).
Status dequant_swiglu_quant(KernelCall& call) {
  Glu glu;
  glu.activate_left = call.boolean(0);
  return dequant_glu_quant(call, glu, Rounding::kNearestEven);
}

/// V2: ..., quantMode, dstType, roundMode, activateDim, swigluMode, clampLimit, gluAlpha, gluBias, y, scale).
Status dequant_swiglu_quant_variants(KernelCall& call) {
  Glu glu;
  glu.activate_left = call.boolean(0);
  glu.mode = call.integer(2);
  glu.limit = static_cast<float>(call.number(0));
  glu.alpha = static_cast<float>(call.number(1));
  glu.bias = static_cast<float>(call.number(2));
  const TensorView& x = call.operand(0);
  const int64_t dim = call.integer(1);
  if (dim != -1 && dim != x.dims.size() - 1) return invalid(call, "activateDim must be the last one on this device");
  if (glu.mode < 0 || glu.mode > 3) return invalid(call, "swigluMode must be from 0 to 3");
  if (glu.mode == 1 && !glu.activate_left) return invalid(call, "swigluMode 1 needs activateLeft");
  if (!call.text(1).empty() && call.text(1) != "rint") return invalid(call, "roundMode must be rint on this device");
  return dequant_glu_quant(call, glu, Rounding::kNearestEven);
}

/// aclnnSwiGluQuantV2(x, smoothScales, offsets, groupIndex, activateLeft, quantMode, groupListType, dstType, y, scale).
/// In the dynamic mode scaleOut is what the values were multiplied by, the inverse of other operators' scales.
Status swiglu_quant(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 1, 0));
  const TensorView& x = call.operand(0);
  if (x.dims.size() < 2 || x.dims[x.dims.size() - 1] % 2 != 0) {
    return invalid(call, "x must have two dimensions or more, the last one even");
  }
  const bool is_dynamic = call.text(0) == "dynamic";
  if (!is_dynamic && call.text(0) != "static") return invalid(call, "quantMode must be static or dynamic");
  if (call.integer(0) != 0 && call.integer(0) != 1) return invalid(call, "groupListType must be 0 or 1");
  const int last = x.dims.size() - 1;
  const int64_t width = x.dims[last] / 2;
  Dims shape = x.dims;
  shape[last] = width;
  DynamicOutputs outputs;
  DRYDOCK_RETURN_IF_ERROR(DynamicOutputs::make(call, call.output(0), call.output(1), shape, &outputs));
  const int64_t rows = outputs.rows().count();
  std::vector<int> groups;
  int64_t group_count = 1;
  DRYDOCK_RETURN_IF_ERROR(groups_of_rows(call, call.operand(3), call.integer(0) == 1, rows, &groups, &group_count));
  GroupParameters smooth, offset;
  DRYDOCK_RETURN_IF_ERROR(GroupParameters::make(call, call.operand(1), "smoothScales", group_count, width, &smooth));
  if (!is_dynamic) {
    DRYDOCK_RETURN_IF_ERROR(GroupParameters::make(call, call.operand(2), "offsets", group_count, width, &offset));
  }
  Glu glu;
  glu.activate_left = call.boolean(0);
  const Rows from(x, last);
  for_each_row(rows, 3 * width, [&](int64_t row, float* buffer) {
    float* out = buffer + 2 * width;
    glu.apply(from.read<float>(row, buffer), width, out);
    const int64_t group = groups[static_cast<size_t>(row)];
    for (int64_t k = 0; group >= 0 && k < width; ++k) {
      if (smooth.present()) out[k] *= smooth.at(group, k);
      if (offset.present()) out[k] += offset.at(group, k);
    }
    float factor = 0;
    if (is_dynamic) {
      factor = outputs.rows().highest() / largest_magnitude(out, width);
      for (int64_t k = 0; k < width; ++k) out[k] *= factor;
    }
    outputs.rows().write(row, out);
    outputs.set_scale(row, factor);
  });
  return Status::ok();
}

}  // namespace drydock::ops::kernels
