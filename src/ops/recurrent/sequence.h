#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "ops/kernel_access.h"

// What LSTM and GRU share: layers of two directions over sequences, in fp32.

namespace drydock::ops::kernels::recurrent {

using Buffer = std::vector<float>;

/// The sizes of a call, the same for all layers.
struct Sizes {
  int64_t steps = 0;
  int64_t batch = 0;
  int64_t inputs = 0;  ///< of the first layer
  int64_t hidden = 0;
  int64_t layers = 0;
  int64_t directions = 1;
  int64_t gates = 4;
  bool with_bias = false;
  bool batch_first = false;
  bool packed = false;  ///< the input is (steps * batch, inputs), with a number of valid rows for each step

  int64_t rows() const { return steps * batch; }
  int64_t layer_inputs(int64_t layer) const { return layer == 0 ? inputs : directions * hidden; }
  int params_each() const { return with_bias ? 4 : 2; }
};

/// Reads the sizes from the input and the weights, and checks all weights.
Status read_sizes(const KernelCall& call, const TensorView& input, const TensorView& batch_sizes,
                  const std::vector<TensorView>& params, Sizes* sizes);
/// Valid rows of each step: all, or what `batch_sizes` says.
Status read_valid_rows(const KernelCall& call, const TensorView& batch_sizes, const Sizes& sizes,
                       std::vector<int64_t>* valid);

Status expect_shape(const KernelCall& call, const TensorView& view, const Dims& dims, const std::string& what);
/// All elements in row-major order; zeros of `count` for a tensor that is not there.
Buffer load(const TensorView& view, int64_t count);
/// Nothing for a tensor that is not there.
void store(const TensorView& view, const Buffer& values);
/// (steps, batch, n) whatever the layout of the view.
TensorView by_steps(const TensorView& view, const Sizes& sizes);
/// The shape of the input and the output with this many values per step.
Dims sequence_dims(const Sizes& sizes, int64_t values);

/// The parameters of one direction of one layer.
struct Weights {
  Buffer input;   ///< (gates * hidden, layer_inputs)
  Buffer hidden;  ///< (gates * hidden, hidden)
  Buffer input_bias;
  Buffer hidden_bias;
};
Weights load_weights(const std::vector<TensorView>& params, const Sizes& sizes, int64_t layer, int64_t direction);

/// The order in which a direction meets the steps.
struct Order {
  int64_t steps;
  bool reverse;
  int64_t step(int64_t turn) const { return reverse ? steps - 1 - turn : turn; }
};

/// previous[t] = the state that step t of a direction begins with: the one that `states` (steps, batch, hidden) hold
/// for the step before it if that was valid, else the initial one.
Buffer previous_states(const Buffer& states, const float* initial, const Sizes& sizes, const Order& order,
                       const std::vector<int64_t>& valid);

/// Adds what (rows, width) holds, column by column, into `sums`.
void add_columns(const Buffer& values, int64_t rows, int64_t width, Buffer& sums);

/// target (steps, batch, directions * hidden): the part of one direction = source (steps, batch, hidden).
void place_direction(const Buffer& source, const Sizes& sizes, int64_t direction, Buffer& target);
Buffer take_direction(const Buffer& source, const Sizes& sizes, int64_t direction);

/// Gradients of one direction's parameters from those of its gates, written to the list of outputs; and, added to
/// `layer_input_grad`, the gradient of the layer's input.
struct GateGradients {
  Buffer of_input;   ///< (rows, gates * hidden): of what comes from the layer's input
  Buffer of_hidden;  ///< the same of what comes from the hidden state
};
void finish_gradients(const Sizes& sizes, int64_t layer, int64_t direction, const Weights& weights,
                      const GateGradients& gates, const Buffer& layer_input, const Buffer& previous_hidden,
                      const std::vector<TensorView>& param_grads, Buffer& layer_input_grad);

}  // namespace drydock::ops::kernels::recurrent
