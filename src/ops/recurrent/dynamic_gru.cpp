#include <utility>

#include "ops/recurrent/gru_run.h"
#include "ops/recurrent/legacy_weights.h"

// DynamicGRUV2, through which torch_npu sends GRUs in bf16 or of mixed element types.

namespace drydock::ops::kernels {
namespace {

using namespace recurrent;

/// x, weight_input and weight_hidden are operands 0 to 2.
Status read_problem(const KernelCall& call, const TensorView& input_bias, const TensorView& hidden_bias,
                    const TensorView& initial, Sizes* sizes, Weights* weights) {
  const TensorView& hidden_weight = call.operand(2);
  if (hidden_weight.dims.size() != 2) return invalid(call, "weight_hidden must be a matrix");
  const int64_t hidden = hidden_weight.dims[0];
  DRYDOCK_RETURN_IF_ERROR(legacy_sizes(call, call.operand(0), 3, hidden, sizes));
  DRYDOCK_RETURN_IF_ERROR(expect_shape(call, call.operand(1), {sizes->inputs, 3 * hidden}, "weight_input"));
  DRYDOCK_RETURN_IF_ERROR(expect_shape(call, hidden_weight, {hidden, 3 * hidden}, "weight_hidden"));
  for (const TensorView* bias : {&input_bias, &hidden_bias}) {
    if (bias->defined) DRYDOCK_RETURN_IF_ERROR(expect_shape(call, *bias, {3 * hidden}, "a bias"));
  }
  if (initial.defined) DRYDOCK_RETURN_IF_ERROR(expect_count(call, initial, sizes->batch * hidden, "init_h"));
  if (call.text(0) != "rzh") return not_computed(call, "gates in the order " + std::string(call.text(0)));
  weights->input = load(transposed(call.operand(1)), 3 * hidden * sizes->inputs);
  weights->hidden = load(transposed(hidden_weight), 3 * hidden * hidden);
  weights->input_bias = load(input_bias, 3 * hidden);
  weights->hidden_bias = load(hidden_bias, 3 * hidden);
  return Status::ok();
}

}  // namespace

/// Operands: x, weight_input, weight_hidden, bias_input, bias_hidden, init_h. Outputs: y, h, update, reset, new and
/// hidden_new, each (steps, batch, hidden).
Status dynamic_gru_v2(KernelCall& call) {
  if (call.operand_count() < 6) return not_computed(call, "operands are missing");
  DRYDOCK_RETURN_IF_ERROR(expect(call, 3, 6));
  Sizes sizes;
  Weights weights;
  const TensorView& initial = call.operand(5);
  DRYDOCK_RETURN_IF_ERROR(read_problem(call, call.operand(3), call.operand(4), initial, &sizes, &weights));
  for (int k = 0; k < 6; ++k) {
    DRYDOCK_RETURN_IF_ERROR(
        expect_shape(call, call.output(k), {sizes.steps, sizes.batch, sizes.hidden}, "output " + std::to_string(k)));
  }
  GruTrace trace(sizes);
  Buffer state = load(initial, sizes.batch * sizes.hidden);
  gru_forward(sizes, {sizes.steps, false}, weights, load(call.operand(0), sizes.rows() * sizes.inputs), sizes.inputs,
              state.data(), trace);
  store(call.output(0), trace.state);
  store(call.output(1), trace.state);
  store(call.output(2), trace.update);
  store(call.output(3), trace.reset);
  store(call.output(4), trace.fresh);
  store(call.output(5), trace.hidden_part);
  return Status::ok();
}

/// Operands: x, weight_input, weight_hidden, init_h, h, dy, dh, update, reset, new, hidden_new. Outputs: the gradients
/// of both weights, of both biases, of x and of init_h.
Status dynamic_gru_v2_grad(KernelCall& call) {
  if (call.operand_count() < 11) return not_computed(call, "operands are missing");
  DRYDOCK_RETURN_IF_ERROR(expect(call, 11, 6));
  Sizes sizes;
  Weights weights;
  DRYDOCK_RETURN_IF_ERROR(read_problem(call, {}, {}, call.operand(3), &sizes, &weights));
  const int64_t states = sizes.rows() * sizes.hidden;
  const int64_t plane = sizes.batch * sizes.hidden;
  for (int k = 4; k < 11; ++k) {
    DRYDOCK_RETURN_IF_ERROR(
        expect_count(call, call.operand(k), k == 6 ? plane : states, "operand " + std::to_string(k)));
  }
  DRYDOCK_RETURN_IF_ERROR(expect_shape(call, call.output(0), call.operand(1).dims, "dw_input"));
  DRYDOCK_RETURN_IF_ERROR(expect_shape(call, call.output(1), call.operand(2).dims, "dw_hidden"));
  DRYDOCK_RETURN_IF_ERROR(expect_count(call, call.output(2), 3 * sizes.hidden, "db_input"));
  DRYDOCK_RETURN_IF_ERROR(expect_count(call, call.output(3), 3 * sizes.hidden, "db_hidden"));
  DRYDOCK_RETURN_IF_ERROR(expect_shape(call, call.output(4), call.operand(0).dims, "dx"));
  DRYDOCK_RETURN_IF_ERROR(expect_count(call, call.output(5), plane, "dh_prev"));
  GruTrace trace(sizes);
  trace.state = load(call.operand(4), states);
  trace.update = load(call.operand(7), states);
  trace.reset = load(call.operand(8), states);
  trace.fresh = load(call.operand(9), states);
  trace.hidden_part = load(call.operand(10), states);
  const Order order{sizes.steps, false};
  const std::vector<int64_t> all_rows(static_cast<size_t>(sizes.steps), sizes.batch);
  const Buffer first = load(call.operand(3), plane);
  const Buffer before = previous_states(trace.state, first.data(), sizes, order, all_rows);
  Buffer state_grad = load(call.operand(6), plane);
  const GateGradients gates =
      gru_backward_gates(sizes, order, weights, trace, before, load(call.operand(5), states), state_grad.data());
  const Buffer input = load(call.operand(0), sizes.rows() * sizes.inputs);
  Buffer input_grad(input.size());
  const std::vector<TensorView> grads = {transposed(call.output(0)), transposed(call.output(1)), call.output(2),
                                         call.output(3)};
  finish_gradients(sizes, 0, 0, weights, gates, input, before, grads, input_grad);
  store(call.output(4), input_grad);
  store(call.output(5), state_grad);
  return Status::ok();
}

}  // namespace drydock::ops::kernels
