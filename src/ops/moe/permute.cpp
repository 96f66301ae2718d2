#include <numeric>
#include <string>

#include "base/saturating.h"
#include "ops/moe/rows.h"

// Tokens permuted by expert and back, with the gradients of both.

namespace drydock::ops::kernels {
namespace {

/// out[i] = sum over the `choices` slots of token i of weight * from[row of the slot]. Slots whose row is not there
/// (dropped tokens) count nothing.
void sum_slots(const TokenRows& from, const std::vector<int64_t>& row_of_slot, int64_t choices,
               const std::vector<float>& weights, const TokenRows& out) {
  const int64_t length = out.length();
  for_each_row(out.count(), 2 * length, [&](int64_t token, float* sum) {
    std::fill_n(sum, length, 0.0f);
    for (int64_t choice = 0; choice < choices; ++choice) {
      const auto slot = static_cast<size_t>(token * choices + choice);
      const int64_t row = row_of_slot[slot];
      if (row < 0 || row >= from.count()) continue;
      const float* values = from.read(row, sum + length);
      const float weight = weights.empty() ? 1.0f : weights[slot];
      for (int64_t k = 0; k < length; ++k) sum[k] += weight * values[k];
    }
    out.write(token, sum);
  });
}

/// Slots of each token, from the number of indices.
Status slots_of_token(const KernelCall& call, size_t slots, int64_t tokens, int64_t* choices) {
  *choices = tokens > 0 ? static_cast<int64_t>(slots) / tokens : 0;
  if (*choices * tokens == static_cast<int64_t>(slots)) return Status::ok();
  return invalid(call, std::to_string(slots) + " indices do not divide among " + std::to_string(tokens) + " tokens");
}

Status no_padded_mode(const KernelCall& call) {
  return call.boolean(0) ? invalid(call, "paddedMode must be false") : Status::ok();
}

}  // namespace

/// aclnnMoeTokenPermute(tokens, indices, numOutTokens, paddedMode, permuteTokens, sortedIndices).
Status moe_token_permute(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 2, 2));
  DRYDOCK_RETURN_IF_ERROR(no_padded_mode(call));
  const TensorView& tokens = call.operand(0);
  const TensorView& indices = call.operand(1);
  const TensorView& out = call.output(0);
  if (indices.dims.empty() || indices.dims.size() > 2 || tokens.dims.empty() || indices.dims[0] != tokens.dims[0]) {
    return invalid(call, "indices must have one row for each token");
  }
  DRYDOCK_RETURN_IF_ERROR(expect_same_rows(call, tokens, out));
  std::vector<int64_t> experts;
  DRYDOCK_RETURN_IF_ERROR(integers_of(call, indices, "indices", &experts));
  const int64_t choices = indices.dims.size() == 2 ? indices.dims[1] : 1;
  if (out.dims[0] > static_cast<int64_t>(experts.size())) return invalid(call, "permuteTokensOut has too many rows");
  const std::vector<int64_t> order = stable_order(experts);
  DRYDOCK_RETURN_IF_ERROR(write_integers(call, call.output(1), "sortedIndicesOut", inverse_of(order)));
  const TokenRows from(tokens), to(out);
  base::parallel_for(to.count(), 64, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) to.copy(row, from, order[static_cast<size_t>(row)] / choices);
  });
  return Status::ok();
}

/// aclnnMoeTokenPermuteGrad(permutedOutputGrad, sortedIndices, numTopk, paddedMode, out).
Status moe_token_permute_grad(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 2, 1));
  DRYDOCK_RETURN_IF_ERROR(no_padded_mode(call));
  const TensorView& out = call.output(0);
  std::vector<int64_t> rows;
  DRYDOCK_RETURN_IF_ERROR(expect_same_rows(call, call.operand(0), out));
  DRYDOCK_RETURN_IF_ERROR(integers_of(call, call.operand(1), "sortedIndices", &rows));
  if (static_cast<int64_t>(rows.size()) != saturating_product(out.dims[0], call.integer(0))) {
    return invalid(call, "sortedIndices must have numTopk elements for each token");
  }
  sum_slots(TokenRows(call.operand(0)), rows, call.integer(0), {}, TokenRows(out));
  return Status::ok();
}

/// aclnnMoeTokenUnpermute(permutedTokens, sortedIndices, probs, paddedMode, restoreShape, out).
Status moe_token_unpermute(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 2, 1));
  DRYDOCK_RETURN_IF_ERROR(no_padded_mode(call));
  const TensorView& out = call.output(0);
  DRYDOCK_RETURN_IF_ERROR(expect_same_rows(call, call.operand(0), out));
  std::vector<int64_t> rows;
  DRYDOCK_RETURN_IF_ERROR(integers_of(call, call.operand(1), "sortedIndices", &rows));
  int64_t choices = 1;
  DRYDOCK_RETURN_IF_ERROR(slots_of_token(call, rows.size(), out.dims[0], &choices));
  std::vector<float> probs;
  if (is_present(call.operand(2)) &&
      (!read_floats(call.operand(2), &probs) || call.operand(2).numel() != static_cast<int64_t>(rows.size()))) {
    return invalid(call, "probs must have one element for each index");
  }
  sum_slots(TokenRows(call.operand(0)), rows, choices, probs, TokenRows(out));
  return Status::ok();
}

/// aclnnMoeTokenUnpermuteGrad(permutedTokens, unpermutedTokensGrad, sortedIndices, probs, paddedMode, restoreShape,
/// permutedTokensGrad, probsGrad).
Status moe_token_unpermute_grad(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(no_padded_mode(call));
  const TensorView& tokens = call.operand(0);
  const TensorView& grad = call.operand(1);
  const TensorView& out = call.output(0);
  if (!grad.defined || !out.defined || !is_real_element(grad.dtype)) return not_computed(call, "a null gradient");
  DRYDOCK_RETURN_IF_ERROR(expect_same_rows(call, grad, out));
  std::vector<int64_t> rows;
  DRYDOCK_RETURN_IF_ERROR(integers_of(call, call.operand(2), "sortedIndices", &rows));
  int64_t choices = 1;
  DRYDOCK_RETURN_IF_ERROR(slots_of_token(call, rows.size(), grad.dims[0], &choices));
  std::vector<float> probs;
  const bool weighs = is_present(call.operand(3));
  if (weighs &&
      (!read_floats(call.operand(3), &probs) || call.operand(3).numel() != static_cast<int64_t>(rows.size()))) {
    return invalid(call, "probs must have one element for each index");
  }
  if (weighs && (!is_present(tokens) || !call.output(1).defined || !is_real_element(call.output(1).dtype))) {
    return invalid(call, "probs need permutedTokens and a place for their gradient");
  }
  if (weighs) DRYDOCK_RETURN_IF_ERROR(expect_same_rows(call, tokens, grad));
  const TokenRows gradients(grad), to(out), from(weighs ? tokens : grad);
  const int64_t length = to.length();
  std::vector<float> prob_grads(weighs ? rows.size() : 0);
  // A row that no slot names (there is none in a full permutation) has no gradient.
  for (int64_t row = 0; row < to.count(); ++row) to.clear(row);
  for_each_row(gradients.count(), 3 * length, [&](int64_t token, float* buffer) {
    const float* upstream = gradients.read(token, buffer);
    float* scaled = buffer + length;
    for (int64_t choice = 0; choice < choices; ++choice) {
      const auto slot = static_cast<size_t>(token * choices + choice);
      const int64_t row = rows[slot];
      if (row < 0 || row >= to.count()) continue;
      const float weight = weighs ? probs[slot] : 1.0f;
      for (int64_t k = 0; k < length; ++k) scaled[k] = weight * upstream[k];
      to.write(row, scaled);
      if (!weighs) continue;
      const float* values = from.read(row, scaled + length);
      double total = 0;
      for (int64_t k = 0; k < length; ++k) total += static_cast<double>(values[k]) * static_cast<double>(upstream[k]);
      prob_grads[slot] = static_cast<float>(total);
    }
  });
  if (!weighs) return Status::ok();
  const TensorView& prob_out = call.output(1);
  if (prob_out.numel() != static_cast<int64_t>(rows.size()))
    return invalid(call, "probsGradOut must be shaped as probs");
  Rows(prob_out, all_axes(prob_out.dims.size())).write<float>(0, prob_grads.data());
  return Status::ok();
}

}  // namespace drydock::ops::kernels
