#pragma once

#include <array>

#include "ops/recurrent/sequence.h"

// One direction of one GRU layer. Gates stand in the order reset, update, new.

namespace drydock::ops::kernels::recurrent {

/// What the forward pass keeps of one direction of one layer, each (steps, batch, hidden).
struct GruTrace {
  explicit GruTrace(const Sizes& sizes) {
    for (Buffer* part : parts()) part->resize(static_cast<size_t>(sizes.rows() * sizes.hidden));
  }
  /// In the order of the output lists.
  std::array<Buffer*, 5> parts() { return {&reset, &update, &fresh, &hidden_part, &state}; }

  Buffer reset, update, fresh;  ///< the gates r, z, n
  Buffer hidden_part;           ///< what the hidden state gives to n, before r weighs it
  Buffer state;
};

/// Runs one direction over the sequence; `state` (batch, hidden) goes from the initial to the final one.
void gru_forward(const Sizes& sizes, const Order& order, const Weights& weights, const Buffer& layer_input,
                 int64_t inputs, float* state, GruTrace& trace);

/// Gradients of the gates of one direction; `state_grad` goes from that of the final to that of the initial state.
GateGradients gru_backward_gates(const Sizes& sizes, const Order& order, const Weights& weights, const GruTrace& trace,
                                 const Buffer& previous, const Buffer& output_grad, float* state_grad);

}  // namespace drydock::ops::kernels::recurrent
