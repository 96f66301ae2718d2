#include <array>
#include <string>

#include "ops/quant/integer_rows.h"

// Quantisation with given scales, and its inverse.

namespace drydock::ops::kernels {
namespace {

/// Rows of x along its last axis, with parameters spread over it.
struct StaticQuantisation {
  const TensorView* x = nullptr;
  TensorView scale;
  TensorView offset;  ///< undefined: none
  bool divides = false;
  bool squares = false;  ///< the scale is applied twice
  Rounding rounding = Rounding::kNearestEven;
};

Status quantise(const IntegerRows& out, const StaticQuantisation& how) {
  const int last = how.x->dims.size() - 1;
  const Rows x(*how.x, last);
  const Rows scales(how.scale, last);
  const Rows offsets(how.offset.defined ? how.offset : how.scale, last);
  const int64_t length = out.length();
  for_each_row(out.count(), 3 * length, [&](int64_t row, float* buffer) {
    const float* values = x.read<float>(row, buffer);
    const float* scale = scales.read<float>(row, buffer + length);
    const float* offset = how.offset.defined ? offsets.read<float>(row, buffer + 2 * length) : nullptr;
    for (int64_t k = 0; k < length; ++k) {
      float value = how.divides ? values[k] / scale[k] : values[k] * scale[k];
      if (how.squares) value *= scale[k];
      buffer[k] = offset != nullptr ? value + offset[k] : value;
    }
    out.write(row, buffer, how.rounding);
  });
  return Status::ok();
}

/// aclnnAscendQuant(x, scale, offset, sqrtMode, roundMode, dstType, y), V3 with the axis of the scale.
Status ascend_quant_along(KernelCall& call, int64_t dim) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 2, 0));
  const TensorView& x = call.operand(0);
  if (x.dims.empty()) return invalid(call, "x must have at least one dimension");
  StaticQuantisation how;
  how.x = &x;
  how.squares = call.boolean(0);
  DRYDOCK_RETURN_IF_ERROR(rounding_of(call, call.text(0), &how.rounding));
  int axis = 0;
  DRYDOCK_RETURN_IF_ERROR(wrap_dim(call, dim, x.dims.size(), &axis));
  if (axis < x.dims.size() - 2) return invalid(call, "axis must be one of the last two of x");
  DRYDOCK_RETURN_IF_ERROR(along_axis(call, call.operand(1), "scale", x.dims, axis, &how.scale));
  if (is_present(call.operand(2))) {
    if (!is_real_element(call.operand(2).dtype)) return not_computed(call, "an offset of this type");
    DRYDOCK_RETURN_IF_ERROR(along_axis(call, call.operand(2), "offset", x.dims, axis, &how.offset));
  }
  IntegerRows out;
  DRYDOCK_RETURN_IF_ERROR(IntegerRows::make(call, call.output(0), x.dims, true, &out));
  return quantise(out, how);
}

}  // namespace

Status ascend_quant(KernelCall& call) { return ascend_quant_along(call, -1); }
Status ascend_quant_axis(KernelCall& call) { return ascend_quant_along(call, call.integer(1)); }

/// aclnnQuantize(x, scales, zeroPoints, dtype, axis, out): out = round(x / scales + zeroPoints).
Status quantize(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 2, 0));
  const TensorView& x = call.operand(0);
  if (x.dims.empty()) return invalid(call, "x must have at least one dimension");
  StaticQuantisation how;
  how.x = &x;
  how.divides = true;
  const bool spread = call.operand(1).numel() != 1;
  int axis = 0;
  if (spread) DRYDOCK_RETURN_IF_ERROR(wrap_dim(call, call.integer(0), x.dims.size(), &axis));
  DRYDOCK_RETURN_IF_ERROR(along_axis(call, call.operand(1), "scales", x.dims, axis, &how.scale));
  if (is_present(call.operand(2))) {
    if (!is_real_element(call.operand(2).dtype)) return not_computed(call, "zeroPoints of this type");
    DRYDOCK_RETURN_IF_ERROR(along_axis(call, call.operand(2), "zeroPoints", x.dims, axis, &how.offset));
  }
  IntegerRows out;
  DRYDOCK_RETURN_IF_ERROR(IntegerRows::make(call, call.output(0), x.dims, false, &out));
  return quantise(out, how);
}

/// aclnnGroupQuant(x, scale, groupIndex, offset, dstType, y): row r of x takes the scale of the first group whose end
/// lies behind r.
Status group_quant(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 3, 0));
  const TensorView& x = call.operand(0);
  const TensorView& scale = call.operand(1);
  const TensorView& ends_view = call.operand(2);
  if (x.dims.size() != 2 || scale.dims.size() != 2 || ends_view.dims.size() != 1 || scale.dims[1] != x.dims[1] ||
      ends_view.dims[0] != scale.dims[0]) {
    return invalid(call, "x must be (S, H), scale (E, H) and groupIndex (E)");
  }
  std::vector<int64_t> ends;
  if (!read_integers(ends_view, &ends)) return invalid(call, "groupIndex must be of integers");
  float offset = 0;
  if (is_present(call.operand(3))) {
    if (call.operand(3).numel() != 1) return invalid(call, "offset must have one element");
    if (!is_real_element(call.operand(3).dtype)) return not_computed(call, "an offset of this type");
    offset = as_value<float>(call.operand(3));
  }
  IntegerRows out;
  DRYDOCK_RETURN_IF_ERROR(IntegerRows::make(call, call.output(0), x.dims, true, &out));
  const Rows rows(x, 1);
  const Rows scales(scale, 1);
  const int64_t length = x.dims[1];
  for_each_row(out.count(), 2 * length, [&](int64_t row, float* buffer) {
    const auto group = std::upper_bound(ends.begin(), ends.end(), row) - ends.begin();
    if (group == static_cast<int64_t>(ends.size())) return;  // behind the last group: not part of the result
    const float* values = rows.read<float>(row, buffer);
    const float* factors = scales.read<float>(group, buffer + length);
    for (int64_t k = 0; k < length; ++k) buffer[k] = values[k] * factors[k] + offset;
    out.write(row, buffer);
  });
  return Status::ok();
}

/// aclnnAscendAntiQuant(x, scale, offset, dstType, sqrtMode, y): y = (x + offset) * scale, the scale twice in sqrtMode.
Status ascend_anti_quant(KernelCall& call) {
  const TensorView& out = call.output(0);
  if (!call.operand(0).defined || !call.operand(1).defined || !out.defined) return not_computed(call, "a null tensor");
  const TensorView x = unpacked_int4(call.operand(0));
  if (!(x.dims == out.dims)) return invalid(call, "y does not have the shape of x");
  if (x.dims.empty()) return not_computed(call, "x of rank 0");
  if (!is_floating(out.dtype) || !is_real_element(out.dtype) || !is_real_element(call.operand(1).dtype)) {
    return not_computed(call, "a scale or an output of this type");
  }
  const int last = x.dims.size() - 1;
  TensorView scale;
  TensorView offset;
  DRYDOCK_RETURN_IF_ERROR(along_axis(call, call.operand(1), "scale", x.dims, last, &scale));
  if (is_present(call.operand(2))) {
    DRYDOCK_RETURN_IF_ERROR(along_axis(call, call.operand(2), "offset", x.dims, last, &offset));
    if (!is_real_element(offset.dtype)) return not_computed(call, "an offset of this type");
  }
  std::vector<float> values;
  if (!read_floats(x, &values)) return not_computed(call, "x of type " + std::string(name_of(x.dtype)));
  if (values.empty()) return Status::ok();
  const bool squares = call.boolean(0);
  const Rows scales(scale, last);
  const Rows offsets(offset.defined ? offset : scale, last);
  const Rows results(out, last);
  const int64_t length = x.dims[last];
  for_each_row(results.count(), 2 * length, [&](int64_t row, float* buffer) {
    float* row_values = values.data() + row * length;
    const float* factors = scales.read<float>(row, buffer);
    const float* shifts = offset.defined ? offsets.read<float>(row, buffer + length) : nullptr;
    for (int64_t k = 0; k < length; ++k) {
      const float shifted = shifts != nullptr ? row_values[k] + shifts[k] : row_values[k];
      row_values[k] = squares ? shifted * factors[k] * factors[k] : shifted * factors[k];
    }
    results.write<float>(row, row_values);
  });
  return Status::ok();
}

namespace {

/// `bounds`: number of the integer argument quantMin, which quantMax follows.
Status fake_quantise(KernelCall& call, int axis, bool enabled, int bounds) {
  const TensorView& self = call.operand(0);
  const TensorView& out = call.output(0);
  const TensorView& mask = call.output(1);
  const auto low = static_cast<double>(call.integer(bounds));
  const auto high = static_cast<double>(call.integer(bounds + 1));
  if (low > high) return invalid(call, "quantMin must not exceed quantMax");
  if (!(out.dims == self.dims) || !(mask.dims == self.dims)) return invalid(call, "the outputs must be shaped as self");
  if (!is_floating(self.dtype)) return invalid(call, "self must be floating");
  if (mask.dtype != DataType::kBool) return invalid(call, "mask must be bool");
  TensorView scale;
  TensorView zero_point;
  DRYDOCK_RETURN_IF_ERROR(along_axis(call, call.operand(1), "scale", self.dims, axis, &scale));
  DRYDOCK_RETURN_IF_ERROR(along_axis(call, call.operand(2), "zeroPoint", self.dims, axis, &zero_point));
  const std::array<const TensorView*, 3> inputs{&self, &scale, &zero_point};
  const std::array<DataType, 3> plain{DataType::kUndefined, DataType::kUndefined, DataType::kUndefined};
  const auto level = [](float value, float step, float zero) {
    return static_cast<double>(std::nearbyint(value / step)) + static_cast<double>(std::nearbyint(zero));
  };
  // The mask first: out may be self.
  map_elements<float, 3>(mask, inputs, plain, [&](float value, float step, float zero) {
    const double at = level(value, step, zero);
    return !enabled || (at >= low && at <= high) ? 1.0f : 0.0f;
  });
  map_elements<float, 3>(out, inputs, plain, [&](float value, float step, float zero) {
    if (!enabled) return value;
    const double clamped = std::min(high, std::max(low, level(value, step, zero)));
    return (static_cast<float>(clamped) - zero) * step;
  });
  return Status::ok();
}

}  // namespace

/// aclnnFakeQuantPerTensorAffineCachemask(self, scale, zeroPoint, fakeQuantEnabled, quantMin, quantMax, out, mask).
Status fake_quant_per_tensor(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 3, 2));
  if (call.operand(1).numel() != 1 || call.operand(2).numel() != 1) {
    return invalid(call, "scale and zeroPoint must have one element");
  }
  return fake_quantise(call, 0, call.number(0) >= 1, 0);
}

/// aclnnFakeQuantPerChannelAffineCachemask(self, scale, zeroPoint, axis, quantMin, quantMax, out, mask).
Status fake_quant_per_channel(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 3, 2));
  const TensorView& self = call.operand(0);
  int axis = 0;
  DRYDOCK_RETURN_IF_ERROR(wrap_dim(call, call.integer(0), self.dims.size(), &axis));
  const int64_t channels = self.dims.empty() ? 1 : self.dims[axis];
  if (call.operand(1).numel() != channels || call.operand(2).numel() != channels) {
    return invalid(call, "scale and zeroPoint must have one element for each channel");
  }
  return fake_quantise(call, axis, true, 1);
}

}  // namespace drydock::ops::kernels
