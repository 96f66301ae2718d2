#include <cmath>
#include <limits>
#include <numeric>
#include <string>

#include "ops/moe/rows.h"
#include "ops/sigmoid.h"

// The choice of experts for each token: the best k of a softmax or a sigmoid, also by groups, and its gradient.

namespace drydock::ops::kernels {
namespace {

void softmax_row(const float* values, int64_t count, float* out) {
  const float top = *std::max_element(values, values + count);
  float total = 0;
  for (int64_t k = 0; k < count; ++k) {
    out[k] = std::exp(values[k] - top);
    total += out[k];
  }
  for (int64_t k = 0; k < count; ++k) out[k] /= total;
}

/// The places of the `wanted` largest values, descending; of equal ones the first, NaN before all.
void largest_places(const float* values, int64_t count, int64_t wanted, std::vector<int64_t>* places) {
  places->resize(static_cast<size_t>(count));
  std::iota(places->begin(), places->end(), 0);
  const auto before = [values](int64_t a, int64_t b) {
    const bool a_nan = std::isnan(values[a]);
    const bool b_nan = std::isnan(values[b]);
    if (a_nan != b_nan) return a_nan;
    if (!a_nan && values[a] != values[b]) return values[a] > values[b];
    return a < b;
  };
  std::partial_sort(places->begin(), places->begin() + wanted, places->end(), before);
  places->resize(static_cast<size_t>(wanted));
}

/// What the gating operators share: scores as rows, k chosen of each.
struct Gate {
  int64_t rows = 0;
  int64_t experts = 0;
  int64_t k = 0;
};

Status prepare_gate(const KernelCall& call, int64_t k, Gate* gate) {
  const TensorView& x = call.operand(0);
  if (x.dims.size() < 2) return invalid(call, "x must have two dimensions or more");
  gate->experts = x.dims[x.dims.size() - 1];
  gate->k = k;
  if (k < 0 || k > gate->experts) {
    return invalid(call, "k is " + std::to_string(k) + " for " + std::to_string(gate->experts) + " experts");
  }
  gate->rows = gate->experts > 0 ? x.numel() / gate->experts : 0;
  for (int index = 0; index < 2; ++index) {
    const TensorView& out = call.output(index);
    if (!out.defined || !is_real_element(out.dtype)) return not_computed(call, "yOut or expertIdxOut is null");
    if (out.dims.size() != x.dims.size() || out.numel() != gate->rows * k ||
        (k > 0 && out.dims[out.dims.size() - 1] != k)) {
      return invalid(call, "yOut and expertIdxOut must be shaped as x with k in place of the experts");
    }
  }
  return Status::ok();
}

Status softmax_gate(KernelCall& call, bool renormalises, const TensorView& softmax_out, const TensorView& row_out) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 1, 2));
  const TensorView& x = call.operand(0);
  Gate gate;
  DRYDOCK_RETURN_IF_ERROR(prepare_gate(call, call.integer(0), &gate));
  std::vector<int64_t> finished;
  if (is_present(call.operand(1))) {
    DRYDOCK_RETURN_IF_ERROR(integers_of(call, call.operand(1), "finished", &finished));
    if (static_cast<int64_t>(finished.size()) != gate.rows) {
      return invalid(call, "finished must have one element for each token");
    }
  }
  if (is_present(softmax_out) && !(softmax_out.dims == x.dims)) {
    return invalid(call, "softmaxResultOut must have the shape of x");
  }
  if (is_present(row_out)) {
    // Numbered by columns: the j-th choice of token i is number j * tokens + i.
    std::vector<int64_t> numbers(static_cast<size_t>(gate.rows * gate.k));
    for (int64_t row = 0; row < gate.rows; ++row) {
      for (int64_t at = 0; at < gate.k; ++at) numbers[static_cast<size_t>(row * gate.k + at)] = at * gate.rows + row;
    }
    DRYDOCK_RETURN_IF_ERROR(write_integers(call, row_out, "rowIdxOut", numbers));
  }
  if (gate.k == 0) return Status::ok();
  const int last = x.dims.size() - 1;
  const Rows scores(x, last), values(call.output(0), last), indices(call.output(1), last);
  const Rows softmaxes(is_present(softmax_out) ? softmax_out : x, last);
  for_each_row(gate.rows, 2 * gate.experts + gate.k, [&](int64_t row, float* buffer) {
    const float* own = scores.read<float>(row, buffer);
    float* softmax = buffer + gate.experts;
    float* chosen = softmax + gate.experts;
    softmax_row(own, gate.experts, softmax);
    if (is_present(softmax_out)) softmaxes.write<float>(row, softmax);
    std::vector<int64_t> places;
    largest_places(renormalises ? own : softmax, gate.experts, gate.k, &places);
    for (size_t at = 0; at < places.size(); ++at) chosen[at] = (renormalises ? own : softmax)[places[at]];
    if (renormalises) softmax_row(chosen, gate.k, chosen);
    if (!finished.empty() && finished[static_cast<size_t>(row)] != 0) {
      std::fill(places.begin(), places.end(), gate.experts);
    }
    values.write<float>(row, chosen);
    indices.write<int64_t>(row, places.data());
  });
  return Status::ok();
}

/// The arguments of aclnnMoeGatingTopK behind k.
struct GroupedGate {
  int64_t kept_groups = 1;
  int64_t groups = 1;
  bool scores_by_two_best = false;
  bool renormalises = false;
  bool sigmoids = false;
  float factor = 1;
  float epsilon = 0;

  /// Minus infinity for the experts of all groups but the best ones.
  void mask_groups(float* scores, int64_t experts) const {
    const int64_t size = experts / groups;
    std::vector<float> group_scores(static_cast<size_t>(groups));
    for (int64_t group = 0; group < groups; ++group) {
      float best = -std::numeric_limits<float>::infinity();
      float second = best;
      for (int64_t k = group * size; k < (group + 1) * size; ++k) {
        if (scores[k] > best) {
          second = best;
          best = scores[k];
        } else if (scores[k] > second) {
          second = scores[k];
        }
      }
      group_scores[static_cast<size_t>(group)] = scores_by_two_best ? best + second : best;
    }
    std::vector<int64_t> kept;
    largest_places(group_scores.data(), groups, kept_groups, &kept);
    std::vector<bool> keeps(static_cast<size_t>(groups));
    for (int64_t group : kept) keeps[static_cast<size_t>(group)] = true;
    for (int64_t k = 0; k < experts; ++k) {
      if (!keeps[static_cast<size_t>(k / size)]) scores[k] = -std::numeric_limits<float>::infinity();
    }
  }
};

/// `ids` and `table`: the experts of each token come from a table instead of the scores.
Status grouped_gate(KernelCall& call, const TensorView& ids, const TensorView& table) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 1, 2));
  const TensorView& x = call.operand(0);
  Gate gate;
  DRYDOCK_RETURN_IF_ERROR(prepare_gate(call, call.integer(0), &gate));
  GroupedGate how;
  how.kept_groups = call.integer(1);
  how.groups = call.integer(2);
  how.scores_by_two_best = call.integer(3) == 1;
  how.sigmoids = call.integer(5) == 1;
  how.renormalises = how.sigmoids || call.integer(4) == 1;
  how.factor = static_cast<float>(call.number(0));
  how.epsilon = static_cast<float>(call.number(1));
  if (how.groups < 1 || gate.experts % how.groups != 0) return invalid(call, "groupCount must divide the experts");
  if (how.kept_groups < 1 || how.kept_groups > how.groups) return invalid(call, "kGroup must be from 1 to groupCount");
  const int64_t group_size = gate.experts / how.groups;
  if (gate.k < 1 || gate.k > group_size * how.kept_groups)
    return invalid(call, "k exceeds the experts of kGroup groups");
  if (call.integer(3) < 0 || call.integer(3) > 1 || group_size <= call.integer(3)) {
    return invalid(call, "groupSelectMode must be 0, or 1 for groups of two or more");
  }
  if (call.integer(5) < 0 || call.integer(5) > 1) return invalid(call, "normType must be 0 or 1 on this device");
  const bool writes_norm = call.boolean(0) && is_present(call.output(2));
  if (writes_norm && !(call.output(2).dims == x.dims)) return invalid(call, "outOut must have the shape of x");
  std::vector<float> bias;
  if (is_present(call.operand(1)) &&
      (!read_floats(call.operand(1), &bias) || static_cast<int64_t>(bias.size()) != gate.experts)) {
    return invalid(call, "bias must have one element for each expert");
  }
  std::vector<int64_t> keys;
  std::vector<int64_t> experts_of_key;
  const bool hashes = is_present(ids) && is_present(table);
  if (hashes) {
    DRYDOCK_RETURN_IF_ERROR(integers_of(call, ids, "inputIds", &keys));
    DRYDOCK_RETURN_IF_ERROR(integers_of(call, table, "tid2eid", &experts_of_key));
    if (static_cast<int64_t>(keys.size()) != gate.rows || table.dims.size() != 2 || table.dims[1] != gate.k) {
      return invalid(call, "inputIds must have one element for each token, tid2eid k columns");
    }
    for (int64_t key : keys) {
      if (key < 0 || key >= table.dims[0]) return device_fault(call, "an inputId is not a row of tid2eid");
    }
    for (int64_t expert : experts_of_key) {
      if (expert < 0 || expert >= gate.experts) return device_fault(call, "tid2eid names an expert that is not there");
    }
  }
  const int last = x.dims.size() - 1;
  const Rows scores(x, last), values(call.output(0), last), indices(call.output(1), last);
  const Rows norms(writes_norm ? call.output(2) : x, last);
  for_each_row(gate.rows, 2 * gate.experts + gate.k, [&](int64_t row, float* buffer) {
    const float* own = scores.read<float>(row, buffer);
    float* norm = buffer + gate.experts;
    float* chosen = norm + gate.experts;
    if (how.sigmoids) {
      for (int64_t k = 0; k < gate.experts; ++k) norm[k] = sigmoid(own[k]);
    } else {
      softmax_row(own, gate.experts, norm);
    }
    if (writes_norm) norms.write<float>(row, norm);
    std::vector<int64_t> places;
    if (hashes) {
      const auto first = experts_of_key.begin() + keys[static_cast<size_t>(row)] * gate.k;
      places.assign(first, first + gate.k);
    } else {
      for (int64_t k = 0; k < gate.experts; ++k)
        buffer[k] = bias.empty() ? norm[k] : norm[k] + bias[static_cast<size_t>(k)];
      if (how.groups > 1) how.mask_groups(buffer, gate.experts);
      largest_places(buffer, gate.experts, gate.k, &places);
    }
    float total = 0;
    for (size_t at = 0; at < places.size(); ++at) total += chosen[at] = norm[places[at]];
    for (int64_t at = 0; at < gate.k; ++at) {
      if (how.renormalises) chosen[at] /= total + how.epsilon;
      chosen[at] *= how.factor;
    }
    values.write<float>(row, chosen);
    indices.write<int64_t>(row, places.data());
  });
  return Status::ok();
}

}  // namespace

/// aclnnMoeGatingTopKSoftmax(x, finished, k, y, expertIdx, rowIdx).
Status moe_gating_softmax(KernelCall& call) { return softmax_gate(call, false, TensorView{}, call.output(2)); }

/// aclnnMoeGatingTopKSoftmaxV2(x, finished, k, renorm, outputSoftmaxResult, y, expertIdx, softmaxResult).
Status moe_gating_softmax_order(KernelCall& call) {
  if (call.integer(1) != 0 && call.integer(1) != 1) return invalid(call, "renorm must be 0 or 1");
  const bool renormalises = call.integer(1) == 1;
  const bool wants_softmax = call.boolean(0) && !renormalises;
  return softmax_gate(call, renormalises, wants_softmax ? call.output(2) : TensorView{}, TensorView{});
}

/// aclnnMoeGatingTopK(x, bias, k, kGroup, groupCount, groupSelectMode, renorm, normType, outFlag, routedScalingFactor,
/// eps, y, expertIdx, out).
Status moe_gating(KernelCall& call) { return grouped_gate(call, TensorView{}, TensorView{}); }
/// V2 with inputIds and tid2eid behind bias.
Status moe_gating_table(KernelCall& call) { return grouped_gate(call, call.operand(2), call.operand(3)); }

/// aclnnMoeGatingTopKBackward(xNorm, gradY, expertIdx, renorm, normType, routedScalingFactor, eps, out).
Status moe_gating_backward(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 3, 1));
  const TensorView& norm = call.operand(0);
  const TensorView& grad = call.operand(1);
  const TensorView& out = call.output(0);
  if (call.integer(1) != 1) return invalid(call, "normType must be 1, the sigmoid");
  if (norm.dims.size() != 2 || grad.dims.size() != 2 || grad.dims[0] != norm.dims[0] || !(out.dims == norm.dims) ||
      !(call.operand(2).dims == grad.dims)) {
    return invalid(call, "xNorm and out must be (M, N), gradY and expertIdx (M, K)");
  }
  std::vector<int64_t> experts;
  DRYDOCK_RETURN_IF_ERROR(integers_of(call, call.operand(2), "expertIdx", &experts));
  for (int64_t expert : experts) {
    if (expert < 0 || expert >= norm.dims[1]) return device_fault(call, "expertIdx names an expert that is not there");
  }
  const auto factor = static_cast<float>(call.number(0));
  const auto epsilon = static_cast<float>(call.number(1));
  const int64_t count = norm.dims[1];
  const int64_t k = grad.dims[1];
  const Rows norms(norm, 1), grads(grad, 1), results(out, 1);
  for_each_row(norm.dims[0], 2 * count + k, [&](int64_t row, float* buffer) {
    const float* own = norms.read<float>(row, buffer);
    const float* upstream = grads.read<float>(row, buffer + count);
    float* result = buffer + count + k;
    const int64_t* chosen = experts.data() + row * k;
    float total = epsilon;
    for (int64_t at = 0; at < k; ++at) total += own[chosen[at]];
    float mixed = 0;
    for (int64_t at = 0; at < k; ++at) mixed += own[chosen[at]] / total * factor * upstream[at];
    std::fill_n(result, count, 0.0f);
    for (int64_t at = 0; at < k; ++at) result[chosen[at]] += (factor * upstream[at] - mixed) / total;
    for (int64_t at = 0; at < count; ++at) result[at] *= own[at] * (1 - own[at]);
    results.write<float>(row, result);
  });
  return Status::ok();
}

}  // namespace drydock::ops::kernels
