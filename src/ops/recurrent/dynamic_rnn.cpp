#include <algorithm>
#include <string_view>
#include <utility>

#include "ops/recurrent/legacy_weights.h"
#include "ops/recurrent/lstm_run.h"

// DynamicRNN and DynamicRNNV2, through which torch_npu sends LSTMs of several layers or directions, packed sequences
// and single cells. The first has both weights in one tensor, one above the other.

namespace drydock::ops::kernels {
namespace {

using namespace recurrent;

/// (inputs, 4 * hidden) and (hidden, 4 * hidden): weights, or their gradients.
struct WeightViews {
  TensorView input;
  TensorView hidden;
};

/// The two parts of one tensor; undefined ones if it is no matrix of that height.
WeightViews split(const TensorView& both, const TensorView& x) {
  if (!both.defined || both.dims.size() != 2 || !x.defined || x.dims.size() != 3 || both.dims[0] <= x.dims[2])
    return {};
  return {narrow(both, 0, 0, x.dims[2]), narrow(both, 0, x.dims[2], both.dims[0] - x.dims[2])};
}

/// What both directions of time need.
struct Problem {
  Sizes sizes;
  Weights weights;
  std::vector<int64_t> valid;
  Order order{0, false};
  Buffer first_state;
  Buffer first_memory;
};

/// Valid rows of each step from a mask (steps, batch, ...) or from the length of each row.
Status read_mask(const KernelCall& call, const TensorView& mask, const Sizes& sizes, std::vector<int64_t>* valid) {
  valid->assign(static_cast<size_t>(sizes.steps), sizes.batch);
  const int rank = mask.defined ? mask.dims.size() : 0;
  if (rank == 0) return Status::ok();
  if (!is_real_element(mask.dtype)) return not_computed(call, "no kernel for the elements of seq_length");
  std::vector<double> rows;
  TensorView first = mask;
  while (first.dims.size() > 2) first = select(first, 2, 0);
  if (rank == 1 ? mask.dims[0] != sizes.batch : first.dims != Dims{sizes.steps, sizes.batch}) {
    return invalid(call, "seq_length fits neither the steps nor the batch");
  }
  for_each_value<double>(first, [&](double value) { rows.push_back(value); });
  for (int64_t step = 0; step < sizes.steps; ++step) {
    int64_t count = 0;
    for (int64_t row = 0; row < sizes.batch; ++row) {
      const bool inside = rank == 1 ? rows[static_cast<size_t>(row)] > static_cast<double>(step)
                                    : rows[static_cast<size_t>(step * sizes.batch + row)] != 0;
      if (inside && count < row) return not_computed(call, "the rows are not sorted by length");
      if (inside) ++count;
    }
    (*valid)[static_cast<size_t>(step)] = count;
  }
  return Status::ok();
}

Status read_problem(const KernelCall& call, const WeightViews& weights, const TensorView& bias, const TensorView& state,
                    const TensorView& memory, const TensorView& mask, Problem* problem) {
  const TensorView& x = call.operand(0);
  if (!weights.hidden.defined || weights.hidden.dims.size() != 2) return invalid(call, "the weights are no matrices");
  const int64_t hidden = weights.hidden.dims[0];
  Sizes& sizes = problem->sizes;
  DRYDOCK_RETURN_IF_ERROR(legacy_sizes(call, x, 4, hidden, &sizes));
  DRYDOCK_RETURN_IF_ERROR(expect_shape(call, weights.input, {sizes.inputs, 4 * hidden}, "the weight of the input"));
  DRYDOCK_RETURN_IF_ERROR(expect_shape(call, weights.hidden, {hidden, 4 * hidden}, "the weight of the hidden state"));
  if (bias.defined) DRYDOCK_RETURN_IF_ERROR(expect_shape(call, bias, {4 * hidden}, "the bias"));
  for (const TensorView* initial : {&state, &memory}) {
    if (initial->defined) {
      DRYDOCK_RETURN_IF_ERROR(expect_count(call, *initial, sizes.batch * hidden, "an initial state"));
    }
  }
  const std::string_view gates = call.text(1);
  if (gates != "ifjo" && gates != "ifco") return not_computed(call, "gates in the order " + std::string(gates));
  DRYDOCK_RETURN_IF_ERROR(read_mask(call, mask, sizes, &problem->valid));
  problem->order = {sizes.steps, call.text(0) == "REDIRECTIONAL"};
  problem->weights.input = load(transposed(weights.input), 4 * hidden * sizes.inputs);
  problem->weights.hidden = load(transposed(weights.hidden), 4 * hidden * hidden);
  problem->weights.input_bias = load(bias, 4 * hidden);
  problem->weights.hidden_bias.assign(problem->weights.input_bias.size(), 0.0F);
  problem->first_state = load(state, sizes.batch * hidden);
  problem->first_memory = load(memory, sizes.batch * hidden);
  return Status::ok();
}

/// The states of all steps, where rows that a step leaves out keep the one before.
Buffer carried(const Buffer& states, const Buffer& initial, const Problem& problem) {
  Buffer result = states;
  const int64_t hidden = problem.sizes.hidden;
  const int64_t plane = problem.sizes.batch * hidden;
  const float* before = initial.data();
  for (int64_t turn = 0; turn < problem.sizes.steps; ++turn) {
    const int64_t step = problem.order.step(turn);
    const int64_t first = problem.valid[static_cast<size_t>(step)] * hidden;
    std::copy(before + first, before + plane, result.data() + step * plane + first);
    before = result.data() + step * plane;
  }
  return result;
}

/// Outputs: y, h, c, i, j, f, o and tanh(c), each (steps, batch, hidden).
Status run_legacy_lstm(KernelCall& call, const WeightViews& weights, int bias) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 2, 8));
  Problem problem;
  DRYDOCK_RETURN_IF_ERROR(read_problem(call, weights, call.operand(bias), call.operand(bias + 2),
                                       call.operand(bias + 3), call.operand(bias + 1), &problem));
  const Sizes& sizes = problem.sizes;
  for (int k = 0; k < 8; ++k) {
    DRYDOCK_RETURN_IF_ERROR(
        expect_shape(call, call.output(k), {sizes.steps, sizes.batch, sizes.hidden}, "output " + std::to_string(k)));
  }
  LstmTrace trace(sizes);
  const Buffer input = load(call.operand(0), sizes.rows() * sizes.inputs);
  Buffer state = problem.first_state;
  Buffer memory = problem.first_memory;
  lstm_forward(sizes, problem.order, problem.valid, problem.weights, input, sizes.inputs, state.data(), memory.data(),
               trace);
  store(call.output(0), trace.state);
  store(call.output(1), carried(trace.state, problem.first_state, problem));
  store(call.output(2), carried(trace.memory, problem.first_memory, problem));
  store(call.output(3), trace.input);
  store(call.output(4), trace.cell);
  store(call.output(5), trace.forget);
  store(call.output(6), trace.output);
  store(call.output(7), trace.tanh_memory);
  return Status::ok();
}

/// Operands from `first` on: initial h and c, h, c, dy, dh, dc, i, j, f, o, tanh(c), seq_length. Outputs from
/// `first_output` on: the gradients of the bias, of x, of h and of c.
Status run_legacy_lstm_backward(KernelCall& call, const WeightViews& weights, const WeightViews& weight_grads,
                                int first, int first_output) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 2, first_output + 4));
  Problem problem;
  DRYDOCK_RETURN_IF_ERROR(read_problem(call, weights, {}, call.operand(first), call.operand(first + 1),
                                       call.operand(first + 12), &problem));
  const Sizes& sizes = problem.sizes;
  const int64_t hidden = sizes.hidden;
  const int64_t states = sizes.rows() * hidden;
  for (int k = first + 2; k < first + 12; ++k) {
    const bool final_grad = k == first + 5 || k == first + 6;
    DRYDOCK_RETURN_IF_ERROR(expect_count(call, call.operand(k), final_grad ? sizes.batch * hidden : states,
                                         "operand " + std::to_string(k)));
  }
  DRYDOCK_RETURN_IF_ERROR(expect_shape(call, weight_grads.input, weights.input.dims, "the gradient of a weight"));
  DRYDOCK_RETURN_IF_ERROR(expect_shape(call, weight_grads.hidden, weights.hidden.dims, "the gradient of a weight"));
  DRYDOCK_RETURN_IF_ERROR(expect_count(call, call.output(first_output), 4 * hidden, "db"));
  DRYDOCK_RETURN_IF_ERROR(expect_shape(call, call.output(first_output + 1), call.operand(0).dims, "dx"));
  DRYDOCK_RETURN_IF_ERROR(expect_count(call, call.output(first_output + 2), sizes.batch * hidden, "dh_prev"));
  DRYDOCK_RETURN_IF_ERROR(expect_count(call, call.output(first_output + 3), sizes.batch * hidden, "dc_prev"));
  LstmTrace trace(sizes);
  trace.state = load(call.operand(first + 2), states);
  trace.memory = load(call.operand(first + 3), states);
  trace.input = load(call.operand(first + 7), states);
  trace.cell = load(call.operand(first + 8), states);
  trace.forget = load(call.operand(first + 9), states);
  trace.output = load(call.operand(first + 10), states);
  trace.tanh_memory = load(call.operand(first + 11), states);
  Buffer state_grad = load(call.operand(first + 5), sizes.batch * hidden);
  Buffer memory_grad = load(call.operand(first + 6), sizes.batch * hidden);
  const Buffer before = previous_states(trace.state, problem.first_state.data(), sizes, problem.order, problem.valid);
  const Buffer memory = previous_states(trace.memory, problem.first_memory.data(), sizes, problem.order, problem.valid);
  GateGradients gates;
  gates.of_input = lstm_backward_gates(sizes, problem.order, problem.valid, problem.weights, trace, memory,
                                       load(call.operand(first + 4), states), state_grad.data(), memory_grad.data());
  gates.of_hidden = gates.of_input;
  const Buffer input = load(call.operand(0), sizes.rows() * sizes.inputs);
  Buffer input_grad(input.size());
  const std::vector<TensorView> grads = {transposed(weight_grads.input), transposed(weight_grads.hidden),
                                         call.output(first_output), TensorView{}};
  finish_gradients(sizes, 0, 0, problem.weights, gates, input, before, grads, input_grad);
  store(call.output(first_output + 1), input_grad);
  store(call.output(first_output + 2), state_grad);
  store(call.output(first_output + 3), memory_grad);
  return Status::ok();
}

}  // namespace

Status dynamic_rnn(KernelCall& call) {
  if (call.operand_count() < 6) return not_computed(call, "operands are missing");
  return run_legacy_lstm(call, split(call.operand(1), call.operand(0)), 2);
}

Status dynamic_rnn_v2(KernelCall& call) {
  if (call.operand_count() < 7) return not_computed(call, "operands are missing");
  return run_legacy_lstm(call, {call.operand(1), call.operand(2)}, 3);
}

Status dynamic_rnn_grad(KernelCall& call) {
  if (call.operand_count() < 15) return not_computed(call, "operands are missing");
  DRYDOCK_RETURN_IF_ERROR(expect(call, 2, 5));
  return run_legacy_lstm_backward(call, split(call.operand(1), call.operand(0)), split(call.output(0), call.operand(0)),
                                  2, 1);
}

Status dynamic_rnn_v2_grad(KernelCall& call) {
  if (call.operand_count() < 16) return not_computed(call, "operands are missing");
  DRYDOCK_RETURN_IF_ERROR(expect(call, 3, 6));
  return run_legacy_lstm_backward(call, {call.operand(1), call.operand(2)}, {call.output(0), call.output(1)}, 3, 2);
}

}  // namespace drydock::ops::kernels
