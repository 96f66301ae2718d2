#include "ops/quant/quant_product.h"

#include <cmath>
#include <string>

#include "ops/matmul/gemm.h"
#include "ops/quant/dynamic_rows.h"
#include "ops/quant/integer_rows.h"
#include "ops/quant/quant_parameters.h"
#include "ops/sigmoid.h"

namespace drydock::ops::kernels {
namespace {

// Sums of this many products of 8-bit integers stay below 2^24, so that fp32 holds them exactly.
constexpr int64_t kExactDepth = 1024;

float at(const std::vector<float>& values, int64_t index) {
  return values[values.size() == 1 ? 0 : static_cast<size_t>(index)];
}

}  // namespace

Status read_matrix(const KernelCall& call, const TensorView& view, bool transpose, std::string_view name,
                   FloatMatrix* matrix) {
  if (!view.defined || view.dims.size() != 2) return invalid(call, std::string(name) + " must be a matrix");
  TensorView seen = view;
  if (transpose) {
    std::swap(seen.dims[0], seen.dims[1]);
    std::swap(seen.strides[0], seen.strides[1]);
  }
  matrix->rows = seen.dims[0];
  matrix->columns = seen.dims[1];
  if (read_floats(seen, &matrix->values)) return Status::ok();
  return not_computed(call, std::string(name) + " of type " + std::string(name_of(view.dtype)));
}

TensorView unpacked_factor(const TensorView& view, int depth_axis, int64_t depth) {
  TensorView unpacked = unpacked_int4(view);
  if (view.dtype != DataType::kInt32 || unpacked.dims[depth_axis] == depth) return unpacked;
  // The dense axis was ambiguous (a size of 1): the other one is packed.
  const int other = view.dims[depth_axis] == depth ? 1 - depth_axis : depth_axis;
  TensorView second = view;
  second.dtype = DataType::kInt4;
  for (int axis = 0; axis < 2; ++axis) second.strides[axis] = view.strides[axis] * kInt4PerInt32;
  second.dims[other] = view.dims[other] * kInt4PerInt32;
  second.strides[other] = 1;
  return view.strides[other] == 1 || view.dims[other] == 1 ? second : unpacked;
}

std::vector<int32_t> multiply_exactly(const FloatMatrix& a, const FloatMatrix& b) {
  const auto count = static_cast<size_t>(a.rows * b.columns);
  std::vector<int32_t> sums(count);
  if (count == 0) return sums;
  std::vector<float> part(count);
  for (int64_t begin = 0; begin < a.columns; begin += kExactDepth) {
    const int64_t depth = std::min(kExactDepth, a.columns - begin);
    gemm<float>(a.rows, b.columns, depth, a.values.data() + begin, a.columns, false,
                b.values.data() + begin * b.columns, b.columns, false, part.data(), b.columns);
    base::parallel_for(static_cast<int64_t>(count), 1 << 15, [&](int64_t first, int64_t last) {
      for (auto k = static_cast<size_t>(first); k < static_cast<size_t>(last); ++k) {
        const auto addend = static_cast<uint32_t>(static_cast<int32_t>(part[k]));
        sums[k] = static_cast<int32_t>(static_cast<uint32_t>(sums[k]) + addend);
      }
    });
  }
  return sums;
}

std::vector<float> multiply_floats(const FloatMatrix& a, const FloatMatrix& b) {
  std::vector<float> sums(static_cast<size_t>(a.rows * b.columns));
  if (sums.empty()) return sums;
  gemm<float>(a.rows, b.columns, a.columns, a.values.data(), a.columns, false, b.values.data(), b.columns, false,
              sums.data(), b.columns);
  return sums;
}

Status multiply_by_groups(const KernelCall& call, const FloatMatrix& a, const FloatMatrix& b,
                          const std::vector<float>& scales, std::vector<float>* sums) {
  const int64_t columns = b.columns;
  sums->assign(static_cast<size_t>(a.rows * columns), 0.0f);
  if (sums->empty() || a.columns == 0) return Status::ok();
  const int64_t groups = static_cast<int64_t>(scales.size()) / columns;
  if (groups * columns != static_cast<int64_t>(scales.size()) || groups == 0 || a.columns % groups != 0) {
    return invalid(call, "the scales of groups must have one row of the columns for each part of the depth");
  }
  const int64_t depth = a.columns / groups;
  std::vector<float> part(sums->size());
  for (int64_t group = 0; group < groups; ++group) {
    gemm<float>(a.rows, columns, depth, a.values.data() + group * depth, a.columns, false,
                b.values.data() + group * depth * columns, columns, false, part.data(), columns);
    const float* scale = scales.data() + group * columns;
    for_each_row(a.rows, columns, [&](int64_t row, float*) {
      float* to = sums->data() + row * columns;
      const float* from = part.data() + row * columns;
      for (int64_t k = 0; k < columns; ++k) to[k] += from[k] * scale[k];
    });
  }
  return Status::ok();
}

Status antiquantise(const KernelCall& call, const std::vector<float>& scales, const std::vector<float>& offsets,
                    int64_t group_size, FloatMatrix* weights) {
  const int64_t columns = weights->columns;
  const auto count = static_cast<int64_t>(scales.size());
  if (!offsets.empty() && offsets.size() != scales.size()) {
    return invalid(call, "antiquantOffset must have the shape of antiquantScale");
  }
  const bool single = count == 1;
  const int64_t groups = single || columns == 0 ? 1 : count / columns;
  if (!single && groups * columns != count) return invalid(call, "antiquantScale does not fit the weights");
  if (groups == 0) return invalid(call, "antiquantScale does not fit the weights");
  int64_t depth = group_size;
  if (depth <= 0 || groups == 1) depth = std::max<int64_t>((weights->rows + groups - 1) / groups, 1);
  if ((weights->rows + depth - 1) / depth > groups)
    return invalid(call, "there are fewer scales than groups of weights");
  base::parallel_for(weights->rows, 16, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      float* values = weights->values.data() + row * columns;
      const int64_t first = single ? 0 : row / depth * columns;
      for (int64_t k = 0; k < columns; ++k) {
        const auto own = static_cast<size_t>(single ? 0 : first + k);
        const float shifted = offsets.empty() ? values[k] : values[k] + offsets[own];
        values[k] = shifted * scales[own];
      }
    }
  });
  return Status::ok();
}

void activate(ProductActivation activation, float* values, int64_t count) {
  for (int64_t k = 0; k < count; ++k) {
    const float x = values[k];
    switch (activation) {
      case ProductActivation::kNone: return;
      case ProductActivation::kRelu: values[k] = x > 0 || std::isnan(x) ? x : 0; break;
      case ProductActivation::kGeluTanh: values[k] = gelu_tanh(x); break;
      case ProductActivation::kGeluErf: values[k] = gelu_erf(x); break;
      case ProductActivation::kFastGelu: values[k] = x * sigmoid(1.702f * x); break;
      case ProductActivation::kSilu: values[k] = silu(x); break;
    }
  }
}

Status Epilogue::check(const KernelCall& call, int64_t rows, int64_t columns) const {
  const auto fits = [columns](size_t count) { return count <= 1 || static_cast<int64_t>(count) == columns; };
  if (!fits(column_scale.size()) || !fits(offset.size()) || !fits(late_bias.size()) || !fits(whole_bias.size())) {
    return invalid(call, "scales, offsets and biases must have one element, or one for each of " +
                             std::to_string(columns) + " columns");
  }
  if (row_scale.size() <= 1 || static_cast<int64_t>(row_scale.size()) == rows) return Status::ok();
  return invalid(call, "there must be one scale for each of " + std::to_string(rows) + " rows");
}

void Epilogue::scale_row(int64_t row, int64_t columns, float* values) const {
  const float row_factor = row_scale.empty() ? 1.0f : at(row_scale, row);
  for (int64_t k = 0; k < columns; ++k) {
    float value = values[k];
    if (!column_scale.empty()) value *= at(column_scale, k);
    value *= row_factor;
    if (!offset.empty()) value += at(offset, k);
    if (!late_bias.empty()) value += at(late_bias, k);
    values[k] = value;
  }
  activate(activation, values, columns);
}

void Epilogue::apply(int64_t row, const int32_t* sums, int64_t columns, float* out) const {
  for (int64_t k = 0; k < columns; ++k) {
    const int64_t bias = whole_bias.empty() ? 0 : whole_bias[whole_bias.size() == 1 ? 0 : static_cast<size_t>(k)];
    out[k] = static_cast<float>(sums[k] + bias);
  }
  scale_row(row, columns, out);
}

void Epilogue::apply(int64_t row, const float* sums, int64_t columns, float* out) const {
  std::copy_n(sums, columns, out);
  scale_row(row, columns, out);
}

namespace {

template <class Sum>
Status store_sums(const KernelCall& call, const TensorView& out, const std::vector<Sum>& sums,
                  const Epilogue& epilogue) {
  const int64_t rows = out.dims[0];
  const int64_t columns = out.dims[1];
  if (static_cast<int64_t>(sums.size()) != rows * columns) return invalid(call, "the result has another shape");
  DRYDOCK_RETURN_IF_ERROR(epilogue.check(call, rows, columns));
  if (out.dtype == DataType::kInt8) {
    IntegerRows integers;
    DRYDOCK_RETURN_IF_ERROR(IntegerRows::make(call, out, out.dims, false, &integers));
    for_each_row(rows, columns, [&](int64_t row, float* buffer) {
      epilogue.apply(row, sums.data() + row * columns, columns, buffer);
      integers.write(row, buffer);
    });
    return Status::ok();
  }
  if (!is_floating(out.dtype) || !is_real_element(out.dtype)) {
    return not_computed(call, "a result of type " + std::string(name_of(out.dtype)));
  }
  const Rows results(out, 1);
  for_each_row(rows, columns, [&](int64_t row, float* buffer) {
    epilogue.apply(row, sums.data() + row * columns, columns, buffer);
    results.write<float>(row, buffer);
  });
  return Status::ok();
}

}  // namespace

Status store_product(const KernelCall& call, const TensorView& out, const std::vector<int32_t>& sums,
                     const Epilogue& epilogue) {
  if (!out.defined || out.dims.size() != 2) return invalid(call, "the result must be a matrix");
  if (out.dtype != DataType::kInt32) return store_sums(call, out, sums, epilogue);
  const int64_t columns = out.dims[1];
  if (static_cast<int64_t>(sums.size()) != out.numel()) return invalid(call, "the result has another shape");
  DRYDOCK_RETURN_IF_ERROR(epilogue.check(call, out.dims[0], columns));
  const Rows results(out, 1);
  std::vector<int64_t> row_sums(static_cast<size_t>(columns));
  for (int64_t row = 0; row < out.dims[0]; ++row) {
    for (size_t k = 0; k < row_sums.size(); ++k) {
      row_sums[k] = sums[static_cast<size_t>(row * columns) + k];
      if (!epilogue.whole_bias.empty()) row_sums[k] += epilogue.whole_bias[epilogue.whole_bias.size() == 1 ? 0 : k];
    }
    results.write<int64_t>(row, row_sums.data());
  }
  return Status::ok();
}

Status store_product(const KernelCall& call, const TensorView& out, const std::vector<float>& sums,
                     const Epilogue& epilogue) {
  if (!out.defined || out.dims.size() != 2) return invalid(call, "the result must be a matrix");
  return store_sums(call, out, sums, epilogue);
}

Status read_parameter(const KernelCall& call, const TensorView& view, std::string_view name,
                      std::vector<float>* values) {
  values->clear();
  if (!is_present(view)) return Status::ok();
  if (read_scales(view, values, nullptr)) return Status::ok();
  return not_computed(call, std::string(name) + " of type " + std::string(name_of(view.dtype)));
}

Status read_bias(const KernelCall& call, const TensorView& view, Epilogue* epilogue) {
  if (!is_present(view)) return Status::ok();
  if (!is_floating(view.dtype)) {
    return read_integers(view, &epilogue->whole_bias) ? Status::ok() : not_computed(call, "a bias of this type");
  }
  return read_parameter(call, view, "bias", &epilogue->late_bias);
}

}  // namespace drydock::ops::kernels
