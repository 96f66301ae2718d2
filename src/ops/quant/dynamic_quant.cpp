#include <string>

#include "ops/quant/dynamic_rows.h"
#include "ops/quant/integer_rows.h"

// Quantisation whose scale comes from the values: one scale for each row, or each block of a row.

namespace drydock::ops::kernels {

Status DynamicOutputs::make(const KernelCall& call, const TensorView& y, const TensorView& scale, const Dims& shape,
                            DynamicOutputs* made) {
  DRYDOCK_RETURN_IF_ERROR(IntegerRows::make(call, y, shape, true, &made->rows_));
  if (!scale.defined) return not_computed(call, "the output of scales is null");
  if (!is_floating(scale.dtype) || !is_real_element(scale.dtype)) return invalid(call, "scales must be floating");
  if (scale.numel() != made->rows_.count()) return invalid(call, "there must be one scale for each row");
  made->scale_ = scale;
  return Status::ok();
}

void DynamicOutputs::write(int64_t row, float* values, Rounding rounding) const {
  const float scale = symmetric_scale(values, rows_.length(), rows_.highest());
  for (int64_t k = 0; k < rows_.length(); ++k) values[k] /= scale;
  rows_.write(row, values, rounding);
  set_scale(row, scale);
}

void DynamicOutputs::set_scale(int64_t row, float scale) const {
  storer_of<float>(scale_.dtype)(flat_element(scale_, row), 0, 1, &scale);
}

namespace {

/// The factors of each row's values: none, the same for all rows, or those of the group that the row belongs to.
class SmoothScales {
 public:
  static Status make(const KernelCall& call, const TensorView& scales, const TensorView& group_ends, int64_t length,
                     SmoothScales* made) {
    made->length_ = length;
    if (!is_present(scales)) {
      if (is_present(group_ends)) return invalid(call, "groupIndex needs smoothScales");
      return Status::ok();
    }
    int64_t groups = 1;
    if (is_present(group_ends)) {
      if (!read_integers(group_ends, &made->ends_)) return invalid(call, "groupIndex must be of integers");
      groups = static_cast<int64_t>(made->ends_.size());
    }
    if (scales.numel() != groups * length) {
      return invalid(call, "smoothScales must have one row of the length of x's last axis for each group");
    }
    if (!read_floats(scales, &made->factors_)) return not_computed(call, "smoothScales of this type");
    return Status::ok();
  }

  /// False for a row behind the last group.
  bool apply(int64_t row, float* values) const {
    if (factors_.empty()) return true;
    int64_t group = 0;
    if (!ends_.empty()) {
      group = std::upper_bound(ends_.begin(), ends_.end(), row) - ends_.begin();
      if (group == static_cast<int64_t>(ends_.size())) return false;
    }
    const float* factors = factors_.data() + group * length_;
    for (int64_t k = 0; k < length_; ++k) values[k] *= factors[k];
    return true;
  }

 private:
  int64_t length_ = 0;
  std::vector<float> factors_;
  std::vector<int64_t> ends_;
};

/// A row as values that may be overwritten.
void read_row(const Rows& rows, int64_t row, float* buffer) {
  const float* values = rows.read<float>(row, buffer);
  if (values != buffer) std::copy_n(values, rows.length(), buffer);
}

/// Asymmetric: the smallest value becomes the lowest integer and the largest the highest.
void write_asymmetric(const IntegerRows& out, const TensorView& scales, const TensorView& offsets, int64_t row,
                      float* values) {
  const auto [low, high] = std::minmax_element(values, values + out.length());
  const float scale = (*high - *low) / (out.highest() - out.lowest());
  const float offset = out.highest() - *high / scale;
  for (int64_t k = 0; k < out.length(); ++k) values[k] = values[k] / scale + offset;
  out.write(row, values);
  storer_of<float>(scales.dtype)(flat_element(scales, row), 0, 1, &scale);
  storer_of<float>(offsets.dtype)(flat_element(offsets, row), 0, 1, &offset);
}

Status dynamic_quantise(KernelCall& call, const TensorView& group_ends, const TensorView* offsets) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 1, 0));
  const TensorView& x = call.operand(0);
  if (x.dims.empty()) return invalid(call, "x must have at least one dimension");
  const int last = x.dims.size() - 1;
  DynamicOutputs outputs;
  DRYDOCK_RETURN_IF_ERROR(DynamicOutputs::make(call, call.output(0), call.output(1), x.dims, &outputs));
  if (offsets != nullptr && (offsets->numel() != outputs.rows().count() || !is_real_element(offsets->dtype))) {
    return invalid(call, "there must be one offset for each row");
  }
  SmoothScales smooth;
  DRYDOCK_RETURN_IF_ERROR(SmoothScales::make(call, call.operand(1), group_ends, x.dims[last], &smooth));
  const Rows rows(x, last);
  for_each_row(outputs.rows().count(), rows.length(), [&](int64_t row, float* values) {
    read_row(rows, row, values);
    if (!smooth.apply(row, values)) return;
    if (offsets != nullptr) {
      write_asymmetric(outputs.rows(), call.output(1), *offsets, row, values);
    } else {
      outputs.write(row, values);
    }
  });
  return Status::ok();
}

}  // namespace

/// aclnnDynamicQuant(x, smoothScales, y, scale).
Status dynamic_quant(KernelCall& call) { return dynamic_quantise(call, TensorView{}, nullptr); }

/// aclnnDynamicQuantV2(x, smoothScales, groupIndex, dstType, y, scale, offset); symmetric without an offset.
Status dynamic_quant_grouped(KernelCall& call) {
  const TensorView* offsets = is_present(call.output(2)) ? &call.output(2) : nullptr;
  return dynamic_quantise(call, call.operand(2), offsets);
}

/// aclnnDynamicBlockQuant(x, minScale, roundMode, dstType, rowBlockSize, colBlockSize, y, scale): a scale for each
/// block of a row.
Status dynamic_block_quant(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 1, 2));
  const TensorView& x = call.operand(0);
  const TensorView& scale = call.output(1);
  const int64_t block = call.integer(2);
  if (x.dims.size() != 2 && x.dims.size() != 3) return invalid(call, "x must have 2 or 3 dimensions");
  if (call.integer(1) != 1) return invalid(call, "rowBlockSize must be 1 on this device");
  if (block != 128 && block != 1) return invalid(call, "colBlockSize must be 128 on this device");
  if (!call.text(0).empty() && call.text(0) != "rint") return invalid(call, "roundMode must be rint on this device");
  if (call.number(0) < 0) return invalid(call, "minScale must not be negative");
  const int last = x.dims.size() - 1;
  const int64_t length = x.dims[last];
  Dims expected = x.dims;
  expected[last] = (length + block - 1) / block;
  if (!(scale.dims == expected)) return invalid(call, "scaleOut must have one element for each block");
  IntegerRows out;
  DRYDOCK_RETURN_IF_ERROR(IntegerRows::make(call, call.output(0), x.dims, true, &out));
  const float highest_scale =
      call.number(0) > 0 ? static_cast<float>(1 / call.number(0)) : std::numeric_limits<float>::infinity();
  const Rows rows(x, last);
  const Rows scales(scale, last);
  for_each_row(out.count(), length + expected[last], [&](int64_t row, float* values) {
    read_row(rows, row, values);
    float* row_scales = values + length;
    for (int64_t start = 0; start < length; start += block) {
      const int64_t width = std::min(block, length - start);
      const float own = std::min(symmetric_scale(values + start, width, out.highest()), highest_scale);
      for (int64_t k = start; k < start + width; ++k) values[k] /= own;
      row_scales[start / block] = own;
    }
    out.write(row, values);
    scales.write<float>(row, row_scales);
  });
  return Status::ok();
}

/// aclnnGeluQuant(self, inputScale, inputOffset, approximate, quantMode, roundMode, dstType, y, outScale).
Status gelu_quant(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 1, 0));
  const TensorView& self = call.operand(0);
  if (self.dims.empty()) return invalid(call, "self must have at least one dimension");
  if (call.text(0) != "none" && call.text(0) != "tanh") return invalid(call, "approximate must be none or tanh");
  if (call.text(1) != "static" && call.text(1) != "dynamic")
    return invalid(call, "quantMode must be static or dynamic");
  const bool tanh_form = call.text(0) == "tanh";
  const bool is_static = call.text(1) == "static";
  Rounding rounding = Rounding::kNearestEven;
  DRYDOCK_RETURN_IF_ERROR(rounding_of(call, call.text(2), &rounding));
  const int last = self.dims.size() - 1;
  const int64_t length = self.dims[last];
  std::vector<float> scale;
  std::vector<float> offset;
  for (const auto& [view, values] : {std::pair{&call.operand(1), &scale}, std::pair{&call.operand(2), &offset}}) {
    if (!is_present(*view)) continue;
    if (view->numel() != 1 && view->numel() != length) {
      return invalid(call, "inputScale and inputOffset must have one element or one for each of the last axis");
    }
    if (!read_floats(*view, values)) return not_computed(call, "a scale or an offset of this type");
    if (values->size() == 1) values->resize(static_cast<size_t>(length), values->front());
  }
  if (is_static && scale.empty()) return invalid(call, "the static mode needs inputScale");
  IntegerRows out;
  DRYDOCK_RETURN_IF_ERROR(IntegerRows::make(call, call.output(0), self.dims, false, &out));
  DynamicOutputs dynamic;
  if (!is_static) {
    DRYDOCK_RETURN_IF_ERROR(DynamicOutputs::make(call, call.output(0), call.output(1), self.dims, &dynamic));
  }
  const Rows rows(self, last);
  for_each_row(out.count(), length, [&](int64_t row, float* values) {
    read_row(rows, row, values);
    for (int64_t k = 0; k < length; ++k) {
      values[k] = tanh_form ? gelu_tanh(values[k]) : gelu_erf(values[k]);
      if (!scale.empty()) values[k] *= scale[static_cast<size_t>(k)];
      if (is_static && !offset.empty()) values[k] += offset[static_cast<size_t>(k)];
    }
    if (is_static) {
      out.write(row, values, rounding);
    } else {
      dynamic.write(row, values);
    }
  });
  return Status::ok();
}

}  // namespace drydock::ops::kernels
