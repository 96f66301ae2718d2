#include "ops/quant/quant_parameters.h"

#include <bit>
#include <cmath>

#include "ops/quant/integer_rows.h"

// The scales of quantised matrix products as the device reads them, the inverse of a quantised product, and a scatter
// of quantised rows.

namespace drydock::ops::kernels {
namespace {

// A packed scale: the upper 19 bits of the fp32 scale in the lower word, a 9-bit offset at bit 37, a mark at bit 46.
constexpr uint32_t kUpper19 = 0xffffe000u;
constexpr uint64_t kScaleMark = uint64_t{1} << 46;
constexpr int kOffsetShift = 37;
constexpr uint64_t kNineBits = 0x1ff;

/// To the nearest value with 19 bits, ties to even; subnormal scales become zero, NaN and infinity stay.
uint32_t rounded_to_19_bits(uint32_t bits) {
  const uint32_t exponent = (bits >> 23) & 0xffu;
  if (exponent == 0) return bits & 0x80000000u;
  if (exponent == 0xffu) return bits & kUpper19;
  return (bits + 0xfffu + ((bits >> 13) & 1u)) & kUpper19;
}

Status pack_scales(KernelCall& call, bool rounds) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 1, 1));
  const TensorView& scale = call.operand(0);
  const TensorView& offset = call.operand(1);
  const TensorView& out = call.output(0);
  if (out.dtype != DataType::kUInt64 && out.dtype != DataType::kInt64) {
    return invalid(call, "out must be of 64-bit integers");
  }
  std::vector<float> scales;
  std::vector<float> offsets;
  if (!read_floats(scale, &scales)) return not_computed(call, "scales of this type");
  if (is_present(offset) && !read_floats(offset, &offsets)) return not_computed(call, "offsets of this type");
  const size_t count = std::max(scales.size(), offsets.size());
  const auto fits = [count](size_t own) { return own == count || own == 1 || own == 0; };
  if (scales.empty() || !fits(scales.size()) || !fits(offsets.size()) || out.numel() != static_cast<int64_t>(count)) {
    return invalid(call, "out must have as many elements as the longer of scale and offset, the other one or as many");
  }
  std::vector<uint64_t> packed(count);
  for (size_t k = 0; k < count; ++k) {
    uint32_t bits = std::bit_cast<uint32_t>(scales[scales.size() == 1 ? 0 : k]);
    bits = rounds ? rounded_to_19_bits(bits) : bits & kUpper19;
    packed[k] = bits | kScaleMark;
    if (offsets.empty()) continue;
    const float own = std::nearbyint(offsets[offsets.size() == 1 ? 0 : k]);
    const auto level = static_cast<int64_t>(std::isnan(own) ? 0.0f : std::clamp(own, -256.0f, 255.0f));
    packed[k] |= (static_cast<uint64_t>(level) & kNineBits) << kOffsetShift;
  }
  Rows(out, all_axes(out.dims.size())).write<uint64_t>(0, packed.data());
  return Status::ok();
}

}  // namespace

float packed_scale(uint64_t packed) { return std::bit_cast<float>(static_cast<uint32_t>(packed) & kUpper19); }

float packed_offset(uint64_t packed) {
  const auto level = static_cast<int>((packed >> kOffsetShift) & kNineBits);
  return static_cast<float>(level >= 256 ? level - 512 : level);
}

bool read_scales(const TensorView& view, std::vector<float>* scales, std::vector<float>* offsets) {
  if (view.dtype != DataType::kUInt64 && view.dtype != DataType::kInt64) return read_floats(view, scales);
  std::vector<int64_t> packed;
  if (!read_integers(view, &packed)) return false;
  scales->clear();
  if (offsets != nullptr) offsets->clear();
  for (int64_t element : packed) {
    scales->push_back(packed_scale(static_cast<uint64_t>(element)));
    if (offsets != nullptr) offsets->push_back(packed_offset(static_cast<uint64_t>(element)));
  }
  return true;
}

/// aclnnTransQuantParamV2(scale, offset, out).
Status trans_quant_param(KernelCall& call) { return pack_scales(call, false); }
/// aclnnTransQuantParamV3(scale, offset, roundMode, out).
Status trans_quant_param_rounded(KernelCall& call) {
  if (call.integer(0) != 0 && call.integer(0) != 1) return invalid(call, "roundMode must be 0 or 1");
  return pack_scales(call, call.integer(0) == 1);
}

/// aclnnDequantBias(x, weightScale, activateScale, bias, outputDtype, out): an integer bias is added before the scales,
/// a floating one behind them.
Status dequant_bias(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 2, 1));
  const TensorView& x = call.operand(0);
  const TensorView& out = call.output(0);
  if (x.dims.size() != 2 || !(out.dims == x.dims)) return invalid(call, "x and out must be matrices of one shape");
  const int64_t rows = x.dims[0];
  const int64_t columns = x.dims[1];
  std::vector<float> weight_scale;
  std::vector<float> row_scale;
  std::vector<float> bias;
  const TensorView& bias_view = call.operand(3);
  if (!read_floats(call.operand(1), &weight_scale) || call.operand(1).numel() != columns) {
    return invalid(call, "weightScale must have one element for each column");
  }
  if (is_present(call.operand(2)) && (!read_floats(call.operand(2), &row_scale) || call.operand(2).numel() != rows)) {
    return invalid(call, "activateScale must have one element for each row");
  }
  if (is_present(bias_view) && (!read_floats(bias_view, &bias) || bias_view.numel() != columns)) {
    return invalid(call, "bias must have one element for each column");
  }
  const bool integer_bias = is_present(bias_view) && is_integral(bias_view.dtype);
  std::vector<int64_t> whole_bias;
  if (integer_bias) read_integers(bias_view, &whole_bias);
  const Rows from(x, 1);
  const Rows to(out, 1);
  for_each_row(rows, columns, [&](int64_t row, float* buffer) {
    std::vector<int64_t> loaded(static_cast<size_t>(columns));
    const int64_t* sums = from.read<int64_t>(row, loaded.data());
    for (int64_t k = 0; k < columns; ++k) {
      const auto at = static_cast<size_t>(k);
      const int64_t sum = integer_bias ? sums[k] + whole_bias[at] : sums[k];
      float value = static_cast<float>(sum) * weight_scale[at];
      if (!row_scale.empty()) value *= row_scale[static_cast<size_t>(row)];
      buffer[k] = !bias.empty() && !integer_bias ? value + bias[at] : value;
    }
    to.write<float>(row, buffer);
  });
  return Status::ok();
}

/// aclnnInplaceQuantScatter(selfRef, indices, updates, quantScales, quantZeroPoints, axis, quantAxis, reduction): the
/// slice self[i] takes round(updates[i] / scales + zero points) from indices[i] on along `axis`.
Status quant_scatter(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 4, 1));
  const TensorView& self = call.output(0);
  const TensorView& indices = call.operand(1);
  const TensorView& updates = call.operand(2);
  const int rank = self.dims.size();
  if (rank < 2 || updates.dims.size() != rank) return invalid(call, "self and updates must have the same rank");
  int axis = 0;
  int quant_axis = 0;
  DRYDOCK_RETURN_IF_ERROR(wrap_dim(call, call.integer(0), rank, &axis));
  DRYDOCK_RETURN_IF_ERROR(wrap_dim(call, call.integer(1), rank, &quant_axis));
  if (axis != rank - 2 || axis == 0) return invalid(call, "axis must be -2 of at least three dimensions");
  if (quant_axis != rank - 1) return invalid(call, "quantAxis must be the last one");
  if (indices.dims.size() != 1 || indices.dims[0] != updates.dims[0]) {
    return invalid(call, "indices must have one element for each slice of updates");
  }
  for (int k = 0; k < rank; ++k) {
    const bool may_be_smaller = k == 0 || k == axis;
    if (updates.dims[k] > self.dims[k] || (!may_be_smaller && updates.dims[k] != self.dims[k])) {
      return invalid(call, "updates do not fit into self");
    }
  }
  const int64_t length = self.dims[rank - 1];
  std::vector<float> scales;
  std::vector<float> zero_points;
  if (!read_floats(call.operand(3), &scales) || static_cast<int64_t>(scales.size()) != length) {
    return invalid(call, "quantScales must have one element for each of the last axis");
  }
  if (is_present(call.operand(4)) &&
      (!read_floats(call.operand(4), &zero_points) || static_cast<int64_t>(zero_points.size()) != length)) {
    return invalid(call, "quantZeroPoints must have one element for each of the last axis");
  }
  std::vector<int64_t> starts;
  if (!read_integers(indices, &starts)) return invalid(call, "indices must be of integers");
  for (int64_t start : starts) {
    if (start < 0 || start > self.dims[axis] - updates.dims[axis]) {
      return device_fault(call, "index " + std::to_string(start) + " is out of range");
    }
  }
  std::vector<float> values(static_cast<size_t>(length));
  for (size_t slice = 0; slice < starts.size(); ++slice) {
    const auto index = static_cast<int64_t>(slice);
    const TensorView from = select(updates, 0, index);
    const TensorView to = narrow(select(self, 0, index), axis - 1, starts[slice], updates.dims[axis]);
    IntegerRows out;
    DRYDOCK_RETURN_IF_ERROR(IntegerRows::make(call, to, from.dims, false, &out));
    const Rows rows(from, rank - 2);
    for (int64_t row = 0; row < rows.count(); ++row) {
      const float* read = rows.read<float>(row, values.data());
      for (size_t k = 0; k < values.size(); ++k) {
        const float scaled = read[k] / scales[k];
        values[k] = zero_points.empty() ? scaled : scaled + zero_points[k];
      }
      out.write(row, values.data());
    }
  }
  return Status::ok();
}

}  // namespace drydock::ops::kernels
