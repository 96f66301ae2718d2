#pragma once

#include "ops/recurrent/sequence.h"

// The legacy operators (DynamicRNN and its kin) do one direction of one layer at a time and hold their weights the
// other way round: (inputs, gates * hidden).

namespace drydock::ops::kernels::recurrent {

/// A matrix with rows and columns exchanged.
TensorView transposed(const TensorView& view);
/// `view` if it has `count` real elements.
Status expect_count(const KernelCall& call, const TensorView& view, int64_t count, const std::string& what);
/// Sizes of a call with the input (steps, batch, inputs), or (batch, inputs) for one step, and hidden weights that are
/// `hidden` high.
Status legacy_sizes(const KernelCall& call, const TensorView& input, int64_t gates, int64_t hidden, Sizes* sizes);

}  // namespace drydock::ops::kernels::recurrent
