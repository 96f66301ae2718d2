#pragma once

#include <array>
#include <vector>

#include "ops/recurrent/sequence.h"

// One direction of one LSTM layer. Gates stand in the order input, forget, cell, output. Rows of a step that its batch
// size leaves out keep their state; what is kept of them is 0.

namespace drydock::ops::kernels::recurrent {

/// What the forward pass keeps of one direction of one layer, each (steps, batch, hidden).
struct LstmTrace {
  explicit LstmTrace(const Sizes& sizes) {
    for (Buffer* part : parts()) part->resize(static_cast<size_t>(sizes.rows() * sizes.hidden));
  }
  /// In the order of the output lists.
  std::array<Buffer*, 7> parts() { return {&input, &cell, &forget, &output, &state, &memory, &tanh_memory}; }

  Buffer input, cell, forget, output;  ///< the gates
  Buffer state, memory, tanh_memory;   ///< h, c and tanh(c)
};

/// Runs one direction over the sequence; `state` and `memory` (batch, hidden) go from the initial to the final ones.
void lstm_forward(const Sizes& sizes, const Order& order, const std::vector<int64_t>& valid, const Weights& weights,
                  const Buffer& layer_input, int64_t inputs, float* state, float* memory, LstmTrace& trace);

/// Gradients of the gates of one direction. `state_grad` and `memory_grad` (batch, hidden) go from those of the final
/// to those of the initial states.
Buffer lstm_backward_gates(const Sizes& sizes, const Order& order, const std::vector<int64_t>& valid,
                           const Weights& weights, const LstmTrace& trace, const Buffer& previous_memory,
                           const Buffer& output_grad, float* state_grad, float* memory_grad);

}  // namespace drydock::ops::kernels::recurrent
