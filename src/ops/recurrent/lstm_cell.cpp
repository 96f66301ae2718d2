#include <algorithm>
#include <cmath>

#include "base/thread_pool.h"
#include "ops/recurrent/sequence.h"
#include "ops/sigmoid.h"

// One step of an LSTM from the products of its weights, and its gradient. Gates stand in the order input, forget, cell,
// output.

namespace drydock::ops::kernels {
namespace {

using namespace recurrent;

constexpr int64_t kGrain = 4096;  // elements of a gate

int64_t rows_each(int64_t hidden) { return std::max<int64_t>(1, kGrain / std::max<int64_t>(1, hidden)); }

}  // namespace

Status lstm_cell(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 3, 3));
  const TensorView& cx = call.operand(2);
  if (cx.dims.size() != 2) return invalid(call, "cx must have two dimensions");
  const int64_t batch = cx.dims[0];
  const int64_t hidden = cx.dims[1];
  const Dims gate_dims = {batch, 4 * hidden};
  DRYDOCK_RETURN_IF_ERROR(expect_shape(call, call.operand(0), gate_dims, "inputGates"));
  DRYDOCK_RETURN_IF_ERROR(expect_shape(call, call.operand(1), gate_dims, "hiddenGates"));
  Buffer gates = load(call.operand(0), batch * 4 * hidden);
  const Buffer hidden_gates = load(call.operand(1), batch * 4 * hidden);
  Buffer bias(static_cast<size_t>(4 * hidden));
  for (int k = 3; k <= 4 && k < call.operand_count(); ++k) {
    const TensorView& part = call.operand(k);
    if (!part.defined) continue;
    DRYDOCK_RETURN_IF_ERROR(expect_shape(call, part, {4 * hidden}, "a bias"));
    const Buffer values = load(part, 4 * hidden);
    for (size_t at = 0; at < bias.size(); ++at) bias[at] += values[at];
  }
  DRYDOCK_RETURN_IF_ERROR(expect_shape(call, call.output(0), cx.dims, "hyOut"));
  DRYDOCK_RETURN_IF_ERROR(expect_shape(call, call.output(1), cx.dims, "cyOut"));
  DRYDOCK_RETURN_IF_ERROR(expect_shape(call, call.output(2), gate_dims, "storageOut"));
  Buffer memory = load(cx, batch * hidden);
  Buffer state(memory.size());
  base::parallel_for(batch, rows_each(hidden), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      float* gate = gates.data() + row * 4 * hidden;
      const float* other = hidden_gates.data() + row * 4 * hidden;
      for (int64_t k = 0; k < 4 * hidden; ++k) {
        const float sum = gate[k] + other[k] + bias[static_cast<size_t>(k)];
        gate[k] = k / hidden == 2 ? std::tanh(sum) : sigmoid(sum);
      }
      for (int64_t k = 0; k < hidden; ++k) {
        const auto at = static_cast<size_t>(row * hidden + k);
        memory[at] = gate[hidden + k] * memory[at] + gate[k] * gate[2 * hidden + k];
        state[at] = gate[3 * hidden + k] * std::tanh(memory[at]);
      }
    }
  });
  store(call.output(0), state);
  store(call.output(1), memory);
  store(call.output(2), gates);
  return Status::ok();
}

Status lstm_cell_backward(KernelCall& call) {
  if (call.operand_count() < 5) return not_computed(call, "operands are missing");
  const TensorView& cx = call.operand(2);
  if (!cx.defined || cx.dims.size() != 2) return invalid(call, "cx must have two dimensions");
  const int64_t batch = cx.dims[0];
  const int64_t hidden = cx.dims[1];
  const Dims gate_dims = {batch, 4 * hidden};
  for (int k = 0; k <= 3; ++k) {
    if (k < 2 && !call.operand(k).defined) continue;  // a gradient of zeros
    DRYDOCK_RETURN_IF_ERROR(expect_shape(call, call.operand(k), cx.dims, "operand " + std::to_string(k)));
  }
  DRYDOCK_RETURN_IF_ERROR(expect_shape(call, call.operand(4), gate_dims, "storage"));
  DRYDOCK_RETURN_IF_ERROR(expect_shape(call, call.output(0), gate_dims, "gradGatesOut"));
  DRYDOCK_RETURN_IF_ERROR(expect_shape(call, call.output(1), cx.dims, "gradCxOut"));
  const bool with_bias = call.boolean(0) && call.output_count() > 2 && call.output(2).defined;
  if (with_bias) DRYDOCK_RETURN_IF_ERROR(expect_shape(call, call.output(2), {4 * hidden}, "gradBiasOut"));
  const Buffer state_grad = load(call.operand(0), batch * hidden);
  const Buffer next_grad = load(call.operand(1), batch * hidden);
  const Buffer before = load(cx, batch * hidden);
  const Buffer after = load(call.operand(3), batch * hidden);
  const Buffer storage = load(call.operand(4), batch * 4 * hidden);
  Buffer gates(storage.size());
  Buffer memory_grad(before.size());
  base::parallel_for(batch, rows_each(hidden), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const float* kept = storage.data() + row * 4 * hidden;
      float* gate = gates.data() + row * 4 * hidden;
      for (int64_t k = 0; k < hidden; ++k) {
        const auto at = static_cast<size_t>(row * hidden + k);
        const float i = kept[k];
        const float f = kept[hidden + k];
        const float g = kept[2 * hidden + k];
        const float o = kept[3 * hidden + k];
        const float tanh_c = std::tanh(after[at]);
        const float dc = state_grad[at] * o * (1 - tanh_c * tanh_c) + next_grad[at];
        gate[k] = dc * g * i * (1 - i);
        gate[hidden + k] = dc * before[at] * f * (1 - f);
        gate[2 * hidden + k] = dc * i * (1 - g * g);
        gate[3 * hidden + k] = state_grad[at] * tanh_c * o * (1 - o);
        memory_grad[at] = dc * f;
      }
    }
  });
  store(call.output(0), gates);
  store(call.output(1), memory_grad);
  if (with_bias) {
    Buffer bias(static_cast<size_t>(4 * hidden));
    add_columns(gates, batch, 4 * hidden, bias);
    store(call.output(2), bias);
  }
  return Status::ok();
}

}  // namespace drydock::ops::kernels
