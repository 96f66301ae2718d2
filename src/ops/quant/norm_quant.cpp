#include <string>

#include "ops/quant/dynamic_rows.h"
#include "ops/quant/integer_rows.h"

// RMS norm, alone or of a sum, followed by a quantisation.

namespace drydock::ops::kernels {
namespace {

/// The rows that a norm works on: the trailing dimensions that gamma has.
struct NormRows {
  int64_t length = 0;
  int64_t count = 0;
  Dims axes;
  std::vector<float> gamma;
  std::vector<float> beta;  ///< empty: none
};

Status prepare_norm(const KernelCall& call, const TensorView& x, const TensorView& gamma, const TensorView& beta,
                    NormRows* rows) {
  Dims shape = gamma.dims;
  // A gamma of (1, N) normalises over N.
  if (shape.size() == 2 && shape[0] == 1 && (x.dims.size() < 2 || x.dims[x.dims.size() - 2] != 1)) {
    shape = Dims{shape[1]};
  }
  const int first = x.dims.size() - shape.size();
  if (first < 0 || shape.empty()) return invalid(call, "gamma must have the trailing dimensions of x");
  rows->axes.clear();
  for (int axis = first; axis < x.dims.size(); ++axis) {
    if (x.dims[axis] != shape[axis - first]) return invalid(call, "gamma must have the trailing dimensions of x");
    rows->axes.push_back(axis);
  }
  rows->length = gamma.numel();
  rows->count = rows->length > 0 ? x.numel() / rows->length : 0;
  if (!read_floats(gamma, &rows->gamma)) return not_computed(call, "gamma of this type");
  if (!is_present(beta)) return Status::ok();
  if (beta.numel() != gamma.numel()) return invalid(call, "beta must have the shape of gamma");
  return read_floats(beta, &rows->beta) ? Status::ok() : not_computed(call, "beta of this type");
}

float inverse_rms(const float* values, int64_t count, double epsilon) {
  double squares = 0;
  for (int64_t k = 0; k < count; ++k) squares += static_cast<double>(values[k]) * static_cast<double>(values[k]);
  return static_cast<float>(1 / std::sqrt(squares / static_cast<double>(count) + epsilon));
}

/// An output shaped like x as rows of a norm; its integers are written in runs of the last axis.
Status make_integer_rows(const KernelCall& call, const TensorView& out, const TensorView& x, int64_t norm_length,
                         IntegerRows* made) {
  DRYDOCK_RETURN_IF_ERROR(IntegerRows::make(call, out, x.dims, true, made));
  if (made->length() > 0 && norm_length % made->length() != 0) return invalid(call, "gamma does not fit x");
  return Status::ok();
}

void write_norm_row(const IntegerRows& out, int64_t row, float* values, int64_t length) {
  const int64_t parts = length / out.length();
  for (int64_t part = 0; part < parts; ++part) out.write(row * parts + part, values + part * out.length());
}

/// Parameters of one quantisation of normalised rows.
struct RowQuantisation {
  IntegerRows out;
  std::vector<float> scale;
  std::vector<float> zero_point;  ///< empty: none
  bool wanted = false;

  void write(int64_t row, const float* values, int64_t length, bool divides, float* buffer) const {
    for (int64_t k = 0; k < length; ++k) {
      const float factor = scale[scale.size() == 1 ? 0 : static_cast<size_t>(k)];
      const float value = divides ? values[k] / factor : values[k] * factor;
      buffer[k] = zero_point.empty() ? value : value + zero_point[zero_point.size() == 1 ? 0 : static_cast<size_t>(k)];
    }
    write_norm_row(out, row, buffer, length);
  }
};

Status prepare_quantisation(const KernelCall& call, const TensorView& x, const TensorView& scale,
                            const TensorView& zero_point, const TensorView& out, int64_t length,
                            RowQuantisation* made) {
  made->wanted = true;
  DRYDOCK_RETURN_IF_ERROR(make_integer_rows(call, out, x, length, &made->out));
  const auto fits = [length](const TensorView& view) { return view.numel() == 1 || view.numel() == length; };
  if (!is_present(scale) || !fits(scale)) return invalid(call, "scales must have one element, or those of gamma");
  if (!read_floats(scale, &made->scale)) return not_computed(call, "scales of this type");
  if (!is_present(zero_point)) return Status::ok();
  if (!fits(zero_point)) return invalid(call, "zero points must have the shape of the scales");
  return read_floats(zero_point, &made->zero_point) ? Status::ok() : not_computed(call, "zero points of this type");
}

Status check_sum(const KernelCall& call) {
  const TensorView& x1 = call.operand(0);
  if (!(x1.dims == call.operand(1).dims)) return invalid(call, "x1 and x2 must have the same shape");
  const TensorView& sum = call.output(2);
  if (!sum.defined || !is_real_element(sum.dtype)) return not_computed(call, "xOut is null");
  if (!(sum.dims == x1.dims)) return invalid(call, "xOut must have the shape of x1");
  return Status::ok();
}

void add_rows(const Rows& x1, const Rows& x2, int64_t row, float* sum, float* buffer) {
  const float* first = x1.read<float>(row, sum);
  const float* second = x2.read<float>(row, buffer);
  for (int64_t k = 0; k < x1.length(); ++k) sum[k] = first[k] + second[k];
}

/// aclnnAddRmsNormQuant and V2. The fp16 form rounds the sum and the normalised values to fp16, as the vendor's
/// reference of this operator does; the bf16 form keeps fp32 until the end, but for the sum where there is a beta.
Status add_norm_quant(KernelCall& call, const TensorView& beta, const TensorView& normalised) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 4, 1));
  const TensorView& x1 = call.operand(0);
  DRYDOCK_RETURN_IF_ERROR(check_sum(call));
  NormRows norm;
  DRYDOCK_RETURN_IF_ERROR(prepare_norm(call, x1, call.operand(2), beta, &norm));
  RowQuantisation quants[2];
  DRYDOCK_RETURN_IF_ERROR(
      prepare_quantisation(call, x1, call.operand(3), call.operand(5), call.output(0), norm.length, &quants[0]));
  if (is_present(call.operand(4))) {
    DRYDOCK_RETURN_IF_ERROR(
        prepare_quantisation(call, x1, call.operand(4), call.operand(6), call.output(1), norm.length, &quants[1]));
  }
  const bool writes_norm = is_present(normalised);
  if (writes_norm && !(normalised.dims == x1.dims)) return invalid(call, "rmsNormOut must have the shape of x1");
  const bool divides = call.boolean(0);
  const double epsilon = call.number(0);
  const bool half = x1.dtype == DataType::kFloat16;
  const bool rounds_sum = half || !norm.beta.empty();
  const Rows rows1(x1, norm.axes), rows2(call.operand(1), norm.axes), sums(call.output(2), norm.axes);
  const Rows norms(writes_norm ? normalised : x1, norm.axes);
  const int64_t length = norm.length;
  for_each_row(norm.count, 2 * length, [&](int64_t row, float* sum) {
    float* buffer = sum + length;
    add_rows(rows1, rows2, row, sum, buffer);
    sums.write<float>(row, sum);
    if (rounds_sum) round_through<float>(x1.dtype, sum, length);
    const float factor = inverse_rms(sum, length, epsilon);
    for (int64_t k = 0; k < length; ++k) sum[k] *= factor;
    if (half) round_through<float>(DataType::kFloat16, sum, length);
    for (int64_t k = 0; k < length; ++k) sum[k] *= norm.gamma[static_cast<size_t>(k)];
    if (half) round_through<float>(DataType::kFloat16, sum, length);
    if (writes_norm) norms.write<float>(row, sum);
    for (size_t k = 0; k < norm.beta.size(); ++k) sum[k] += norm.beta[k];
    for (const RowQuantisation& quant : quants) {
      if (quant.wanted) quant.write(row, sum, length, divides, buffer);
    }
  });
  return Status::ok();
}

}  // namespace

/// aclnnRmsNormQuant(x, gamma, beta, scale, offset, epsilon, y).
Status rms_norm_quant(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 5, 0));
  const TensorView& x = call.operand(0);
  NormRows norm;
  DRYDOCK_RETURN_IF_ERROR(prepare_norm(call, x, call.operand(1), call.operand(2), &norm));
  if (call.operand(3).numel() != 1 || call.operand(4).numel() != 1) {
    return invalid(call, "scale and offset must have one element");
  }
  RowQuantisation quant;
  DRYDOCK_RETURN_IF_ERROR(
      prepare_quantisation(call, x, call.operand(3), call.operand(4), call.output(0), norm.length, &quant));
  const double epsilon = call.number(0);
  const Rows rows(x, norm.axes);
  const int64_t length = norm.length;
  for_each_row(norm.count, 2 * length, [&](int64_t row, float* buffer) {
    const float* values = rows.read<float>(row, buffer);
    const float factor = inverse_rms(values, length, epsilon);
    for (int64_t k = 0; k < length; ++k) {
      buffer[k] = values[k] * factor * norm.gamma[static_cast<size_t>(k)];
      if (!norm.beta.empty()) buffer[k] += norm.beta[static_cast<size_t>(k)];
    }
    quant.write(row, buffer, length, true, buffer + length);
  });
  return Status::ok();
}

/// aclnnAddRmsNormQuant(x1, x2, gamma, scales1, scales2, zeroPoints1, zeroPoints2, axis, epsilon, divMode, y1, y2, x).
Status add_rms_norm_quant(KernelCall& call) { return add_norm_quant(call, TensorView{}, TensorView{}); }
/// V2 with beta behind the zero points and the normalised values as a fourth output.
Status add_rms_norm_quant_beta(KernelCall& call) { return add_norm_quant(call, call.operand(7), call.output(3)); }

/// aclnnAddRmsNormDynamicQuantV2(x1, x2, gamma, smoothScale1, smoothScale2, beta, epsilon, outputMask, y1, y2, x,
/// scale1, scale2).
Status add_rms_norm_dynamic_quant(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 3, 0));
  const TensorView& x1 = call.operand(0);
  DRYDOCK_RETURN_IF_ERROR(check_sum(call));
  NormRows norm;
  DRYDOCK_RETURN_IF_ERROR(prepare_norm(call, x1, call.operand(2), call.operand(5), &norm));
  if (norm.axes.size() != 1) return invalid(call, "gamma must have the size of the last axis of x1");
  const auto mask = call.bools(0);
  if (!mask.empty() && mask.size() != 2) return invalid(call, "outputMask must have two elements");
  std::vector<float> smooth[2];
  for (int k = 0; k < 2; ++k) {
    const TensorView& view = call.operand(3 + k);
    if (is_present(view) && (view.numel() != norm.length || !read_floats(view, &smooth[k]))) {
      return invalid(call, "smoothScale must have the shape of gamma");
    }
  }
  const bool wanted[2] = {mask.empty() || mask[0] != 0,
                          mask.empty() ? !smooth[0].empty() && !smooth[1].empty() : mask[1] != 0};
  DynamicOutputs outputs[2];
  for (int k = 0; k < 2; ++k) {
    if (!wanted[k]) continue;
    DRYDOCK_RETURN_IF_ERROR(DynamicOutputs::make(call, call.output(k), call.output(3 + k), x1.dims, &outputs[k]));
  }
  const double epsilon = call.number(0);
  const Rows rows1(x1, norm.axes), rows2(call.operand(1), norm.axes), sums(call.output(2), norm.axes);
  const int64_t length = norm.length;
  for_each_row(norm.count, 2 * length, [&](int64_t row, float* sum) {
    float* buffer = sum + length;
    add_rows(rows1, rows2, row, sum, buffer);
    sums.write<float>(row, sum);
    const float factor = inverse_rms(sum, length, epsilon);
    for (int64_t k = 0; k < length; ++k) {
      sum[k] *= factor * norm.gamma[static_cast<size_t>(k)];
      if (!norm.beta.empty()) sum[k] += norm.beta[static_cast<size_t>(k)];
    }
    for (int k = 0; k < 2; ++k) {
      if (!wanted[k]) continue;
      for (int64_t at = 0; at < length; ++at) {
        buffer[at] = smooth[k].empty() ? sum[at] : sum[at] * smooth[k][static_cast<size_t>(at)];
      }
      outputs[k].write(row, buffer);
    }
  });
  return Status::ok();
}

}  // namespace drydock::ops::kernels
