#include <algorithm>

#include "ops/recurrent/gru_run.h"

// GRU over whole sequences, and its gradient. Gates stand in the order reset, update, new.

namespace drydock::ops::kernels {
namespace {

using namespace recurrent;

/// The manual: a batch of sizes is not taken yet.
Status refuse_packed(const KernelCall& call, const TensorView& batch_sizes) {
  return batch_sizes.defined && batch_sizes.numel() > 0
             ? invalid(call, "batchSizes must be null: the device does not take packed sequences")
             : Status::ok();
}

}  // namespace

Status gru(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 1, 2));
  DRYDOCK_RETURN_IF_ERROR(refuse_packed(call, call.operand(2)));
  Sizes sizes;
  sizes.gates = 3;
  sizes.layers = call.integer(0);
  sizes.with_bias = call.boolean(0);
  sizes.directions = call.boolean(2) ? 2 : 1;
  sizes.batch_first = call.boolean(3);
  const bool train = call.boolean(1);
  const TensorView& input = call.operand(0);
  const TensorView& initial = call.operand(1);
  const std::vector<TensorView>& params = call.operand_list(0);
  DRYDOCK_RETURN_IF_ERROR(read_sizes(call, input, {}, params, &sizes));
  const int64_t runs = sizes.layers * sizes.directions;
  const int64_t plane = sizes.batch * sizes.hidden;
  const int64_t output_width = sizes.directions * sizes.hidden;
  const Dims state_dims = {runs, sizes.batch, sizes.hidden};
  if (initial.defined) DRYDOCK_RETURN_IF_ERROR(expect_shape(call, initial, state_dims, "hx"));
  DRYDOCK_RETURN_IF_ERROR(expect_shape(call, call.output(0), sequence_dims(sizes, output_width), "output"));
  DRYDOCK_RETURN_IF_ERROR(expect_shape(call, call.output(1), state_dims, "hy"));
  for (int list = 0; train && list < 5; ++list) {
    if (static_cast<int64_t>(call.output_list(list).size()) != runs) {
      return invalid(call, "a list of outputs needs " + std::to_string(runs) + " tensors");
    }
    for (const TensorView& output : call.output_list(list)) {
      DRYDOCK_RETURN_IF_ERROR(
          expect_shape(call, output, {sizes.steps, sizes.batch, sizes.hidden}, "an output of the training"));
    }
  }
  Buffer layer_input = load(by_steps(input, sizes), sizes.rows() * sizes.inputs);
  Buffer state = load(initial, runs * plane);
  for (int64_t layer = 0; layer < sizes.layers; ++layer) {
    Buffer layer_output(static_cast<size_t>(sizes.rows() * output_width));
    for (int64_t direction = 0; direction < sizes.directions; ++direction) {
      const int64_t run = layer * sizes.directions + direction;
      GruTrace trace(sizes);
      gru_forward(sizes, {sizes.steps, direction == 1}, load_weights(params, sizes, layer, direction), layer_input,
                  sizes.layer_inputs(layer), state.data() + run * plane, trace);
      place_direction(trace.state, sizes, direction, layer_output);
      for (int list = 0; train && list < 5; ++list) {
        store(call.output_list(list)[static_cast<size_t>(run)], *trace.parts()[static_cast<size_t>(list)]);
      }
    }
    layer_input = std::move(layer_output);
  }
  store(by_steps(call.output(0), sizes), layer_input);
  store(call.output(1), state);
  return Status::ok();
}

Status gru_backward(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 1, 2));
  DRYDOCK_RETURN_IF_ERROR(refuse_packed(call, call.operand(4)));
  Sizes sizes;
  sizes.gates = 3;
  sizes.layers = call.integer(0);
  sizes.with_bias = call.boolean(0);
  sizes.directions = call.boolean(1) ? 2 : 1;
  sizes.batch_first = call.boolean(2);
  const TensorView& input = call.operand(0);
  const TensorView& initial = call.operand(1);
  const std::vector<TensorView>& params = call.operand_list(0);
  DRYDOCK_RETURN_IF_ERROR(read_sizes(call, input, {}, params, &sizes));
  const int64_t runs = sizes.layers * sizes.directions;
  const int64_t plane = sizes.batch * sizes.hidden;
  const int64_t output_width = sizes.directions * sizes.hidden;
  const Dims state_dims = {runs, sizes.batch, sizes.hidden};
  if (initial.defined) DRYDOCK_RETURN_IF_ERROR(expect_shape(call, initial, state_dims, "hx"));
  DRYDOCK_RETURN_IF_ERROR(expect_shape(call, call.operand(2), sequence_dims(sizes, output_width), "dy"));
  DRYDOCK_RETURN_IF_ERROR(expect_shape(call, call.operand(3), state_dims, "dh"));
  for (int list = 1; list < 6; ++list) {
    if (static_cast<int64_t>(call.operand_list(list).size()) != runs) {
      return invalid(call, "a list of what the forward pass kept needs " + std::to_string(runs) + " tensors");
    }
    for (const TensorView& kept : call.operand_list(list)) {
      DRYDOCK_RETURN_IF_ERROR(
          expect_shape(call, kept, {sizes.steps, sizes.batch, sizes.hidden}, "what the forward pass kept"));
    }
  }
  DRYDOCK_RETURN_IF_ERROR(expect_shape(call, call.output(0), input.dims, "dxOut"));
  DRYDOCK_RETURN_IF_ERROR(expect_shape(call, call.output(1), state_dims, "dhPrevOut"));
  const std::vector<TensorView>& param_grads = call.output_list(0);
  if (param_grads.size() != params.size()) return invalid(call, "dparamsOut and params differ in length");
  for (size_t k = 0; k < params.size(); ++k) {
    DRYDOCK_RETURN_IF_ERROR(expect_shape(call, param_grads[k], params[k].dims, "a tensor of dparamsOut"));
  }
  const std::vector<int64_t> all_rows(static_cast<size_t>(sizes.steps), sizes.batch);
  Buffer output_grad = load(by_steps(call.operand(2), sizes), sizes.rows() * output_width);
  Buffer state_grad = load(call.operand(3), runs * plane);
  const Buffer first_state = load(initial, runs * plane);
  const int64_t trace_count = sizes.rows() * sizes.hidden;
  for (int64_t layer = sizes.layers - 1; layer >= 0; --layer) {
    const int64_t inputs = sizes.layer_inputs(layer);
    Buffer layer_input(static_cast<size_t>(sizes.rows() * inputs));
    if (layer == 0) {
      layer_input = load(by_steps(input, sizes), sizes.rows() * inputs);
    } else {
      for (int64_t direction = 0; direction < sizes.directions; ++direction) {
        const auto below = static_cast<size_t>((layer - 1) * sizes.directions + direction);
        place_direction(load(call.operand_list(5)[below], trace_count), sizes, direction, layer_input);
      }
    }
    Buffer input_grad(layer_input.size());
    for (int64_t direction = 0; direction < sizes.directions; ++direction) {
      const int64_t run = layer * sizes.directions + direction;
      const Order order{sizes.steps, direction == 1};
      const Weights weights = load_weights(params, sizes, layer, direction);
      GruTrace trace(sizes);
      for (int list = 0; list < 5; ++list) {
        *trace.parts()[static_cast<size_t>(list)] =
            load(call.operand_list(list + 1)[static_cast<size_t>(run)], trace_count);
      }
      const Buffer before = previous_states(trace.state, first_state.data() + run * plane, sizes, order, all_rows);
      const GateGradients gates =
          gru_backward_gates(sizes, order, weights, trace, before, take_direction(output_grad, sizes, direction),
                             state_grad.data() + run * plane);
      finish_gradients(sizes, layer, direction, weights, gates, layer_input, before, param_grads, input_grad);
    }
    output_grad = std::move(input_grad);
  }
  store(by_steps(call.output(0), sizes), output_grad);
  store(call.output(1), state_grad);
  return Status::ok();
}

}  // namespace drydock::ops::kernels
