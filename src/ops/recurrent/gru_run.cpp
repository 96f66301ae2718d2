#include "ops/recurrent/gru_run.h"

#include <algorithm>
#include <cmath>

#include "ops/matmul/gemm.h"
#include "ops/sigmoid.h"

namespace drydock::ops::kernels::recurrent {

void gru_forward(const Sizes& sizes, const Order& order, const Weights& weights, const Buffer& layer_input,
                 int64_t inputs, float* state, GruTrace& trace) {
  const int64_t hidden = sizes.hidden;
  const int64_t width = 3 * hidden;
  Buffer from_input(static_cast<size_t>(sizes.rows() * width));
  for (int64_t row = 0; row < sizes.rows(); ++row) {
    std::copy_n(weights.input_bias.data(), width, from_input.data() + row * width);
  }
  gemm<float>(sizes.rows(), width, inputs, layer_input.data(), inputs, false, weights.input.data(), inputs, true,
              from_input.data(), width, 1, 1);
  Buffer from_state(static_cast<size_t>(sizes.batch * width));
  for (int64_t turn = 0; turn < sizes.steps; ++turn) {
    const int64_t step = order.step(turn);
    for (int64_t row = 0; row < sizes.batch; ++row) {
      std::copy_n(weights.hidden_bias.data(), width, from_state.data() + row * width);
    }
    gemm<float>(sizes.batch, width, hidden, state, hidden, false, weights.hidden.data(), hidden, true,
                from_state.data(), width, 1, 1);
    for (int64_t row = 0; row < sizes.batch; ++row) {
      const float* x = from_input.data() + (step * sizes.batch + row) * width;
      const float* h = from_state.data() + row * width;
      for (int64_t k = 0; k < hidden; ++k) {
        const auto at = static_cast<size_t>((step * sizes.batch + row) * hidden + k);
        float& current = state[row * hidden + k];
        const float r = sigmoid(x[k] + h[k]);
        const float z = sigmoid(x[hidden + k] + h[hidden + k]);
        const float n = std::tanh(x[2 * hidden + k] + r * h[2 * hidden + k]);
        current = (1 - z) * n + z * current;
        trace.reset[at] = r;
        trace.update[at] = z;
        trace.fresh[at] = n;
        trace.hidden_part[at] = h[2 * hidden + k];
        trace.state[at] = current;
      }
    }
  }
}

GateGradients gru_backward_gates(const Sizes& sizes, const Order& order, const Weights& weights, const GruTrace& trace,
                                 const Buffer& previous, const Buffer& output_grad, float* state_grad) {
  const int64_t hidden = sizes.hidden;
  const int64_t width = 3 * hidden;
  GateGradients gates;
  gates.of_input.resize(static_cast<size_t>(sizes.rows() * width));
  gates.of_hidden.resize(gates.of_input.size());
  for (int64_t turn = sizes.steps - 1; turn >= 0; --turn) {
    const int64_t step = order.step(turn);
    for (int64_t row = 0; row < sizes.batch; ++row) {
      float* of_input = gates.of_input.data() + (step * sizes.batch + row) * width;
      float* of_hidden = gates.of_hidden.data() + (step * sizes.batch + row) * width;
      for (int64_t k = 0; k < hidden; ++k) {
        const auto at = static_cast<size_t>((step * sizes.batch + row) * hidden + k);
        float& carried = state_grad[row * hidden + k];
        const float r = trace.reset[at];
        const float z = trace.update[at];
        const float n = trace.fresh[at];
        const float dh = output_grad[at] + carried;
        const float dn = dh * (1 - z) * (1 - n * n);
        of_input[k] = of_hidden[k] = dn * trace.hidden_part[at] * r * (1 - r);
        of_input[hidden + k] = of_hidden[hidden + k] = dh * (previous[at] - n) * z * (1 - z);
        of_input[2 * hidden + k] = dn;
        of_hidden[2 * hidden + k] = dn * r;
        carried = dh * z;
      }
    }
    gemm<float>(sizes.batch, hidden, width, gates.of_hidden.data() + step * sizes.batch * width, width, false,
                weights.hidden.data(), hidden, false, state_grad, hidden, 1, 1);
  }
  return gates;
}

}  // namespace drydock::ops::kernels::recurrent
