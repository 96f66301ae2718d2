#include <algorithm>

#include "ops/recurrent/lstm_run.h"

// LSTM over whole sequences, and its gradient. Gates stand in the order input, forget, cell, output. Rows of a step
// that its batch size leaves out keep their state; what is written for them is 0.

namespace drydock::ops::kernels {
namespace {

using namespace recurrent;

Sizes sizes_of_call(const KernelCall& call) {
  Sizes sizes;
  sizes.gates = 4;
  sizes.layers = call.integer(0);
  sizes.with_bias = call.boolean(0);
  sizes.directions = call.boolean(2) ? 2 : 1;
  sizes.batch_first = call.boolean(3);
  return sizes;
}

Status expect_states(const KernelCall& call, const std::vector<TensorView>& states, const Sizes& sizes) {
  if (states.empty()) return Status::ok();  // zeros
  if (states.size() != 2) return invalid(call, "hx must hold h and c");
  const Dims dims = {sizes.layers * sizes.directions, sizes.batch, sizes.hidden};
  DRYDOCK_RETURN_IF_ERROR(expect_shape(call, states[0], dims, "h of hx"));
  return expect_shape(call, states[1], dims, "c of hx");
}

}  // namespace

Status lstm(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 1, 3));
  Sizes sizes = sizes_of_call(call);
  const TensorView& input = call.operand(0);
  const std::vector<TensorView>& params = call.operand_list(0);
  const std::vector<TensorView>& initial = call.operand_list(1);
  DRYDOCK_RETURN_IF_ERROR(read_sizes(call, input, call.operand(1), params, &sizes));
  std::vector<int64_t> valid;
  DRYDOCK_RETURN_IF_ERROR(read_valid_rows(call, call.operand(1), sizes, &valid));
  DRYDOCK_RETURN_IF_ERROR(expect_states(call, initial, sizes));
  const int64_t runs = sizes.layers * sizes.directions;
  const int64_t plane = sizes.batch * sizes.hidden;
  const Dims state_dims = {runs, sizes.batch, sizes.hidden};
  const int64_t output_width = sizes.directions * sizes.hidden;
  DRYDOCK_RETURN_IF_ERROR(expect_shape(call, call.output(0), sequence_dims(sizes, output_width), "output"));
  DRYDOCK_RETURN_IF_ERROR(expect_shape(call, call.output(1), state_dims, "hy"));
  DRYDOCK_RETURN_IF_ERROR(expect_shape(call, call.output(2), state_dims, "cy"));
  const Dims trace_dims = {sizes.steps, sizes.batch, sizes.hidden};
  const bool train = call.boolean(1);
  for (int list = 0; train && list < 7; ++list) {
    const std::vector<TensorView>& outputs = call.output_list(list);
    if (static_cast<int64_t>(outputs.size()) != runs) {
      return invalid(call, "a list of outputs needs " + std::to_string(runs) + " tensors");
    }
    for (const TensorView& output : outputs) {
      DRYDOCK_RETURN_IF_ERROR(expect_shape(call, output, trace_dims, "an output of the training"));
    }
  }

  Buffer layer_input = load(by_steps(input, sizes), sizes.rows() * sizes.inputs);
  Buffer state = load(initial.empty() ? TensorView{} : initial[0], runs * plane);
  Buffer memory = load(initial.empty() ? TensorView{} : initial[1], runs * plane);
  for (int64_t layer = 0; layer < sizes.layers; ++layer) {
    Buffer layer_output(static_cast<size_t>(sizes.rows() * output_width));
    for (int64_t direction = 0; direction < sizes.directions; ++direction) {
      const int64_t run = layer * sizes.directions + direction;
      const Weights weights = load_weights(params, sizes, layer, direction);
      LstmTrace trace(sizes);
      lstm_forward(sizes, {sizes.steps, direction == 1}, valid, weights, layer_input, sizes.layer_inputs(layer),
                   state.data() + run * plane, memory.data() + run * plane, trace);
      place_direction(trace.state, sizes, direction, layer_output);
      for (int list = 0; train && list < 7; ++list) {
        store(call.output_list(list)[static_cast<size_t>(run)], *trace.parts()[static_cast<size_t>(list)]);
      }
    }
    layer_input = std::move(layer_output);
  }
  store(by_steps(call.output(0), sizes), layer_input);
  store(call.output(1), state);
  store(call.output(2), memory);
  return Status::ok();
}

Status lstm_backward(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 1, 3));
  Sizes sizes = sizes_of_call(call);
  const TensorView& input = call.operand(0);
  const std::vector<TensorView>& initial = call.operand_list(0);
  const std::vector<TensorView>& params = call.operand_list(1);
  DRYDOCK_RETURN_IF_ERROR(read_sizes(call, input, call.operand(4), params, &sizes));
  std::vector<int64_t> valid;
  DRYDOCK_RETURN_IF_ERROR(read_valid_rows(call, call.operand(4), sizes, &valid));
  DRYDOCK_RETURN_IF_ERROR(expect_states(call, initial, sizes));
  const int64_t runs = sizes.layers * sizes.directions;
  const int64_t plane = sizes.batch * sizes.hidden;
  const int64_t output_width = sizes.directions * sizes.hidden;
  const Dims state_dims = {runs, sizes.batch, sizes.hidden};
  const TensorView dy = by_steps(call.operand(1), sizes);
  if (dy.defined && (!is_real_element(dy.dtype) || dy.numel() != sizes.rows() * output_width)) {
    return invalid(call, "dy does not have the shape of the output");
  }
  for (int k = 2; k <= 3; ++k) {
    if (call.operand(k).defined) {
      DRYDOCK_RETURN_IF_ERROR(expect_shape(call, call.operand(k), state_dims, "the gradient of a state"));
    }
  }
  const Dims trace_dims = {sizes.steps, sizes.batch, sizes.hidden};
  for (int list = 2; list < 9; ++list) {
    if (static_cast<int64_t>(call.operand_list(list).size()) != runs) {
      return invalid(call, "a list of what the forward pass kept needs " + std::to_string(runs) + " tensors");
    }
    for (const TensorView& kept : call.operand_list(list)) {
      DRYDOCK_RETURN_IF_ERROR(expect_shape(call, kept, trace_dims, "what the forward pass kept"));
    }
  }
  DRYDOCK_RETURN_IF_ERROR(expect_shape(call, call.output(0), input.dims, "dxOut"));
  DRYDOCK_RETURN_IF_ERROR(expect_shape(call, call.output(1), state_dims, "dhPrevOut"));
  DRYDOCK_RETURN_IF_ERROR(expect_shape(call, call.output(2), state_dims, "dcPrevOut"));
  const std::vector<TensorView>& param_grads = call.output_list(0);
  if (param_grads.size() != params.size()) return invalid(call, "dparamsOut and params differ in length");
  for (size_t k = 0; k < params.size(); ++k) {
    DRYDOCK_RETURN_IF_ERROR(expect_shape(call, param_grads[k], params[k].dims, "a tensor of dparamsOut"));
  }

  Buffer output_grad = load(dy, sizes.rows() * output_width);
  Buffer state_grad = load(call.operand(2), runs * plane);
  Buffer memory_grad = load(call.operand(3), runs * plane);
  const Buffer first_state = load(initial.empty() ? TensorView{} : initial[0], runs * plane);
  const Buffer first_memory = load(initial.empty() ? TensorView{} : initial[1], runs * plane);
  const int64_t trace_count = sizes.rows() * sizes.hidden;
  for (int64_t layer = sizes.layers - 1; layer >= 0; --layer) {
    const int64_t inputs = sizes.layer_inputs(layer);
    Buffer layer_input(static_cast<size_t>(sizes.rows() * inputs));
    if (layer == 0) {
      layer_input = load(by_steps(input, sizes), sizes.rows() * inputs);
    } else {
      for (int64_t direction = 0; direction < sizes.directions; ++direction) {
        const auto below = static_cast<size_t>((layer - 1) * sizes.directions + direction);
        place_direction(load(call.operand_list(6)[below], trace_count), sizes, direction, layer_input);
      }
    }
    Buffer input_grad(layer_input.size());
    for (int64_t direction = 0; direction < sizes.directions; ++direction) {
      const int64_t run = layer * sizes.directions + direction;
      const Order order{sizes.steps, direction == 1};
      const Weights weights = load_weights(params, sizes, layer, direction);
      LstmTrace trace(sizes);
      for (int list = 0; list < 7; ++list) {
        *trace.parts()[static_cast<size_t>(list)] =
            load(call.operand_list(list + 2)[static_cast<size_t>(run)], trace_count);
      }
      const Buffer before = previous_states(trace.state, first_state.data() + run * plane, sizes, order, valid);
      const Buffer memory = previous_states(trace.memory, first_memory.data() + run * plane, sizes, order, valid);
      GateGradients gates;
      gates.of_input = lstm_backward_gates(sizes, order, valid, weights, trace, memory,
                                           take_direction(output_grad, sizes, direction),
                                           state_grad.data() + run * plane, memory_grad.data() + run * plane);
      gates.of_hidden = gates.of_input;
      finish_gradients(sizes, layer, direction, weights, gates, layer_input, before, param_grads, input_grad);
    }
    output_grad = std::move(input_grad);
  }
  store(by_steps(call.output(0), sizes), output_grad);
  store(call.output(1), state_grad);
  store(call.output(2), memory_grad);
  return Status::ok();
}

}  // namespace drydock::ops::kernels
