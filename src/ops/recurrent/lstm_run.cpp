#include "ops/recurrent/lstm_run.h"

#include <cmath>

#include "ops/matmul/gemm.h"
#include "ops/sigmoid.h"

namespace drydock::ops::kernels::recurrent {

void lstm_forward(const Sizes& sizes, const Order& order, const std::vector<int64_t>& valid, const Weights& weights,
                  const Buffer& layer_input, int64_t inputs, float* state, float* memory, LstmTrace& trace) {
  const int64_t hidden = sizes.hidden;
  const int64_t width = 4 * hidden;
  Buffer gates(static_cast<size_t>(sizes.rows() * width));
  for (int64_t row = 0; row < sizes.rows(); ++row) {
    for (int64_t k = 0; k < width; ++k) {
      const auto at = static_cast<size_t>(k);
      gates[static_cast<size_t>(row * width + k)] = weights.input_bias[at] + weights.hidden_bias[at];
    }
  }
  gemm<float>(sizes.rows(), width, inputs, layer_input.data(), inputs, false, weights.input.data(), inputs, true,
              gates.data(), width, 1, 1);
  for (int64_t turn = 0; turn < sizes.steps; ++turn) {
    const int64_t step = order.step(turn);
    const int64_t rows = valid[static_cast<size_t>(step)];
    float* of_step = gates.data() + step * sizes.batch * width;
    gemm<float>(rows, width, hidden, state, hidden, false, weights.hidden.data(), hidden, true, of_step, width, 1, 1);
    for (int64_t row = 0; row < rows; ++row) {
      const float* gate = of_step + row * width;
      for (int64_t k = 0; k < hidden; ++k) {
        const auto at = static_cast<size_t>((step * sizes.batch + row) * hidden + k);
        float& c = memory[row * hidden + k];
        trace.input[at] = sigmoid(gate[k]);
        trace.forget[at] = sigmoid(gate[hidden + k]);
        trace.cell[at] = std::tanh(gate[2 * hidden + k]);
        trace.output[at] = sigmoid(gate[3 * hidden + k]);
        c = trace.forget[at] * c + trace.input[at] * trace.cell[at];
        trace.memory[at] = c;
        trace.tanh_memory[at] = std::tanh(c);
        trace.state[at] = trace.output[at] * trace.tanh_memory[at];
        state[row * hidden + k] = trace.state[at];
      }
    }
  }
}

Buffer lstm_backward_gates(const Sizes& sizes, const Order& order, const std::vector<int64_t>& valid,
                           const Weights& weights, const LstmTrace& trace, const Buffer& previous_memory,
                           const Buffer& output_grad, float* state_grad, float* memory_grad) {
  const int64_t hidden = sizes.hidden;
  const int64_t width = 4 * hidden;
  Buffer gates(static_cast<size_t>(sizes.rows() * width));
  for (int64_t turn = sizes.steps - 1; turn >= 0; --turn) {
    const int64_t step = order.step(turn);
    const int64_t rows = valid[static_cast<size_t>(step)];
    float* of_step = gates.data() + step * sizes.batch * width;
    for (int64_t row = 0; row < rows; ++row) {
      float* gate = of_step + row * width;
      for (int64_t k = 0; k < hidden; ++k) {
        const auto at = static_cast<size_t>((step * sizes.batch + row) * hidden + k);
        float& dc_next = memory_grad[row * hidden + k];
        const float dh = output_grad[at] + state_grad[row * hidden + k];
        const float i = trace.input[at];
        const float f = trace.forget[at];
        const float g = trace.cell[at];
        const float o = trace.output[at];
        const float tanh_c = trace.tanh_memory[at];
        const float dc = dh * o * (1 - tanh_c * tanh_c) + dc_next;
        gate[k] = dc * g * i * (1 - i);
        gate[hidden + k] = dc * previous_memory[at] * f * (1 - f);
        gate[2 * hidden + k] = dc * i * (1 - g * g);
        gate[3 * hidden + k] = dh * tanh_c * o * (1 - o);
        dc_next = dc * f;
      }
    }
    gemm<float>(rows, hidden, width, of_step, width, false, weights.hidden.data(), hidden, false, state_grad, hidden);
  }
  return gates;
}

}  // namespace drydock::ops::kernels::recurrent
