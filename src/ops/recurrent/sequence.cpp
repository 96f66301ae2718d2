#include "ops/recurrent/sequence.h"

#include <algorithm>

#include "base/saturating.h"
#include "ops/matmul/gemm.h"

namespace drydock::ops::kernels::recurrent {
namespace {

bool is_readable(const TensorView& view) { return view.defined && is_real_element(view.dtype); }

}  // namespace

Status expect_shape(const KernelCall& call, const TensorView& view, const Dims& dims, const std::string& what) {
  if (!view.defined) return invalid(call, what + " is missing");
  if (!is_real_element(view.dtype)) return not_computed(call, "no kernel for the elements of " + what);
  if (view.dims == dims) return Status::ok();
  return invalid(call, what + " must be of shape " + text_of(dims) + ", it is " + text_of(view.dims));
}

Status read_sizes(const KernelCall& call, const TensorView& input, const TensorView& batch_sizes,
                  const std::vector<TensorView>& params, Sizes* sizes) {
  sizes->packed = batch_sizes.defined && batch_sizes.numel() > 0;
  const int rank = sizes->packed ? 2 : 3;
  if (!is_readable(input) || input.dims.size() != rank) {
    return invalid(call,
                   "input must have " + std::to_string(rank) + " dimensions, its shape is " + text_of(input.dims));
  }
  if (params.size() < 2 || !is_readable(params[1]) || params[1].dims.size() != 2) {
    return invalid(call, "the list of parameters holds no weights");
  }
  if (sizes->packed) {
    sizes->steps = batch_sizes.numel();
    sizes->batch = input.dims[0] / sizes->steps;
    if (sizes->batch * sizes->steps != input.dims[0]) {
      return invalid(call, "input has " + std::to_string(input.dims[0]) + " rows, which " +
                               std::to_string(sizes->steps) + " steps do not divide");
    }
  } else {
    sizes->steps = input.dims[sizes->batch_first ? 1 : 0];
    sizes->batch = input.dims[sizes->batch_first ? 0 : 1];
  }
  sizes->inputs = input.dims[rank - 1];
  sizes->hidden = params[1].dims[1];
  const int64_t wanted = saturating_product(sizes->layers, sizes->directions, sizes->params_each());
  if (sizes->layers < 1 || static_cast<int64_t>(params.size()) != wanted) {
    return invalid(call, std::to_string(sizes->layers) + " layers need " + std::to_string(wanted) +
                             " parameters, there are " + std::to_string(params.size()));
  }
  const int64_t width = sizes->gates * sizes->hidden;
  for (size_t k = 0; k < params.size(); ++k) {
    const auto each = static_cast<size_t>(sizes->params_each());
    const auto layer = static_cast<int64_t>(k / each) / sizes->directions;
    const Dims expected = k % each == 0   ? Dims{width, sizes->layer_inputs(layer)}
                          : k % each == 1 ? Dims{width, sizes->hidden}
                                          : Dims{width};
    DRYDOCK_RETURN_IF_ERROR(expect_shape(call, params[k], expected, "parameter " + std::to_string(k)));
  }
  return Status::ok();
}

Status read_valid_rows(const KernelCall& call, const TensorView& batch_sizes, const Sizes& sizes,
                       std::vector<int64_t>* valid) {
  valid->assign(static_cast<size_t>(sizes.steps), sizes.batch);
  if (!sizes.packed) return Status::ok();
  if (!is_readable(batch_sizes)) return not_computed(call, "batchSizes must be integers");
  size_t step = 0;
  for_each_value<int64_t>(batch_sizes, [&](int64_t rows) { (*valid)[step++] = rows; });
  for (const int64_t rows : *valid) {
    if (rows < 0 || rows > sizes.batch) {
      return invalid(call, "a step has " + std::to_string(rows) + " of " + std::to_string(sizes.batch) + " rows");
    }
  }
  return Status::ok();
}

Buffer load(const TensorView& view, int64_t count) {
  Buffer values(static_cast<size_t>(count));
  if (view.defined && count > 0) copy_view(contiguous_view(values.data(), DataType::kFloat, view.dims), view);
  return values;
}

void store(const TensorView& view, const Buffer& values) {
  if (!view.defined || values.empty()) return;
  // The view is only read: copy_view takes no other.
  copy_view(view, contiguous_view(const_cast<float*>(values.data()), DataType::kFloat, view.dims));
}

TensorView by_steps(const TensorView& view, const Sizes& sizes) {
  TensorView result = view;
  if (!view.defined || view.dims.size() != 3 || !sizes.batch_first) return result;
  std::swap(result.dims[0], result.dims[1]);
  std::swap(result.strides[0], result.strides[1]);
  return result;
}

Dims sequence_dims(const Sizes& sizes, int64_t values) {
  return sizes.batch_first && !sizes.packed ? Dims{sizes.batch, sizes.steps, values}
                                            : Dims{sizes.steps, sizes.batch, values};
}

Weights load_weights(const std::vector<TensorView>& params, const Sizes& sizes, int64_t layer, int64_t direction) {
  const auto first = static_cast<size_t>((layer * sizes.directions + direction) * sizes.params_each());
  const int64_t width = sizes.gates * sizes.hidden;
  Weights weights;
  weights.input = load(params[first], width * sizes.layer_inputs(layer));
  weights.hidden = load(params[first + 1], width * sizes.hidden);
  weights.input_bias = sizes.with_bias ? load(params[first + 2], width) : Buffer(static_cast<size_t>(width));
  weights.hidden_bias = sizes.with_bias ? load(params[first + 3], width) : Buffer(static_cast<size_t>(width));
  return weights;
}

Buffer previous_states(const Buffer& states, const float* initial, const Sizes& sizes, const Order& order,
                       const std::vector<int64_t>& valid) {
  Buffer previous(states.size());
  const int64_t plane = sizes.batch * sizes.hidden;
  for (int64_t turn = 0; turn < sizes.steps; ++turn) {
    float* to = previous.data() + order.step(turn) * plane;
    std::copy_n(initial, plane, to);
    if (turn == 0) continue;
    const int64_t before = order.step(turn - 1);
    std::copy_n(states.data() + before * plane, valid[static_cast<size_t>(before)] * sizes.hidden, to);
  }
  return previous;
}

void add_columns(const Buffer& values, int64_t rows, int64_t width, Buffer& sums) {
  std::vector<double> totals(static_cast<size_t>(width));
  for (int64_t row = 0; row < rows; ++row) {
    const float* from = values.data() + row * width;
    for (int64_t k = 0; k < width; ++k) totals[static_cast<size_t>(k)] += from[k];
  }
  for (size_t k = 0; k < totals.size(); ++k) sums[k] += static_cast<float>(totals[k]);
}

void place_direction(const Buffer& source, const Sizes& sizes, int64_t direction, Buffer& target) {
  const int64_t width = sizes.directions * sizes.hidden;
  for (int64_t row = 0; row < sizes.rows(); ++row) {
    std::copy_n(source.data() + row * sizes.hidden, sizes.hidden,
                target.data() + row * width + direction * sizes.hidden);
  }
}

Buffer take_direction(const Buffer& source, const Sizes& sizes, int64_t direction) {
  Buffer part(static_cast<size_t>(sizes.rows() * sizes.hidden));
  const int64_t width = sizes.directions * sizes.hidden;
  for (int64_t row = 0; row < sizes.rows(); ++row) {
    std::copy_n(source.data() + row * width + direction * sizes.hidden, sizes.hidden, part.data() + row * sizes.hidden);
  }
  return part;
}

void finish_gradients(const Sizes& sizes, int64_t layer, int64_t direction, const Weights& weights,
                      const GateGradients& gates, const Buffer& layer_input, const Buffer& previous_hidden,
                      const std::vector<TensorView>& param_grads, Buffer& layer_input_grad) {
  const int64_t width = sizes.gates * sizes.hidden;
  const int64_t inputs = sizes.layer_inputs(layer);
  const int64_t rows = sizes.rows();
  gemm<float>(rows, inputs, width, gates.of_input.data(), width, false, weights.input.data(), inputs, false,
              layer_input_grad.data(), inputs, 1, 1);
  const auto first = static_cast<size_t>((layer * sizes.directions + direction) * sizes.params_each());
  Buffer input_grad(weights.input.size());
  gemm<float>(width, inputs, rows, gates.of_input.data(), width, true, layer_input.data(), inputs, false,
              input_grad.data(), inputs);
  store(param_grads[first], input_grad);
  Buffer hidden_grad(weights.hidden.size());
  gemm<float>(width, sizes.hidden, rows, gates.of_hidden.data(), width, true, previous_hidden.data(), sizes.hidden,
              false, hidden_grad.data(), sizes.hidden);
  store(param_grads[first + 1], hidden_grad);
  if (!sizes.with_bias) return;
  Buffer bias(static_cast<size_t>(width));
  add_columns(gates.of_input, rows, width, bias);
  store(param_grads[first + 2], bias);
  std::fill(bias.begin(), bias.end(), 0.0F);
  add_columns(gates.of_hidden, rows, width, bias);
  store(param_grads[first + 3], bias);
}

}  // namespace drydock::ops::kernels::recurrent
