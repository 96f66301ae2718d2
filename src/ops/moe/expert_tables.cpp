#include <algorithm>
#include <string>

#include "base/saturating.h"
#include "ops/moe/rows.h"

// Counts of tokens by expert, tokens regrouped from ranks to experts, and logical experts mapped to their copies.

namespace drydock::ops::kernels {

/// aclnnMoeComputeExpertTokens(sortedExperts, numExperts, out): where each expert's tokens end.
Status moe_compute_expert_tokens(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 1, 1));
  std::vector<int64_t> sorted;
  DRYDOCK_RETURN_IF_ERROR(integers_of(call, call.operand(0), "sortedExperts", &sorted));
  if (call.integer(0) <= 0 || call.integer(0) != call.output(0).numel()) {
    return invalid(call, "numExperts must be positive, and the size of out");
  }
  std::vector<int64_t> ends(static_cast<size_t>(call.integer(0)));
  for (size_t expert = 0; expert < ends.size(); ++expert) {
    ends[expert] = std::upper_bound(sorted.begin(), sorted.end(), static_cast<int64_t>(expert)) - sorted.begin();
  }
  return write_integers(call, call.output(0), "out", ends);
}

/// aclnnMoeReRouting(tokens, expertTokenNumPerRank, perTokenScales, expertTokenNumType, idxType, permuteTokens,
/// permutePerTokenScales, permuteTokenIdx, expertTokenNum): rows ordered by rank, then expert, become ordered by
/// expert, then rank.
Status moe_re_routing(KernelCall& call) {
  const TensorView& tokens = call.operand(0);
  const TensorView& counts_view = call.operand(1);
  const TensorView& scales = call.operand(2);
  DRYDOCK_RETURN_IF_ERROR(expect_defined(call, 2, 1));
  if (counts_view.dims.size() != 2) return invalid(call, "expertTokenNumPerRank must be (ranks, experts)");
  if (call.integer(0) != 1) return invalid(call, "expertTokenNumType must be 1");
  if (call.integer(1) != 0) return invalid(call, "idxType must be 0 on this device");
  DRYDOCK_RETURN_IF_ERROR(expect_same_rows(call, tokens, call.output(0)));
  std::vector<int64_t> counts;
  DRYDOCK_RETURN_IF_ERROR(integers_of(call, counts_view, "expertTokenNumPerRank", &counts));
  const int64_t ranks = counts_view.dims[0];
  const int64_t experts = counts_view.dims[1];
  int64_t total = 0;
  std::vector<int64_t> starts;
  for (int64_t count : counts) {
    if (count < 0) return device_fault(call, "a negative number of tokens");
    starts.push_back(total);
    total = saturating_sum(total, count);
  }
  if (total > tokens.dims[0] || total > call.output(0).dims[0]) {
    return device_fault(call, std::to_string(total) + " tokens of " + std::to_string(tokens.dims[0]));
  }
  std::vector<int64_t> sources;
  std::vector<int64_t> of_expert(static_cast<size_t>(experts));
  for (int64_t expert = 0; expert < experts; ++expert) {
    for (int64_t rank = 0; rank < ranks; ++rank) {
      const auto at = static_cast<size_t>(rank * experts + expert);
      for (int64_t k = 0; k < counts[at]; ++k) sources.push_back(starts[at] + k);
      of_expert[static_cast<size_t>(expert)] += counts[at];
    }
  }
  const TokenRows from(tokens), to(call.output(0));
  base::parallel_for(total, 64, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) to.copy(row, from, sources[static_cast<size_t>(row)]);
  });
  if (is_present(scales) && is_present(call.output(1))) {
    DRYDOCK_RETURN_IF_ERROR(expect_same_rows(call, scales, call.output(1)));
    if (scales.dims[0] < total || call.output(1).dims[0] < total) {
      return invalid(call, "there must be a scale for each token");
    }
    const TokenRows scales_from(scales), scales_to(call.output(1));
    for (int64_t row = 0; row < total; ++row) scales_to.copy(row, scales_from, sources[static_cast<size_t>(row)]);
  }
  if (is_present(call.output(2))) {
    sources.resize(static_cast<size_t>(call.output(2).numel()));
    DRYDOCK_RETURN_IF_ERROR(write_integers(call, call.output(2), "permuteTokenIdxOut", sources));
  }
  return write_integers(call, call.output(3), "expertTokenNumOut", of_expert);
}

/// aclnnMoeUpdateExpert(expertIds, eplbTable, expertScales, pruningThreshold, activeMask, localRankId, worldSize,
/// balanceMode, balancedExpertIds, balancedActiveMask).
Status moe_update_expert(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 2, 1));
  const TensorView& ids_view = call.operand(0);
  const TensorView& table_view = call.operand(1);
  if (ids_view.dims.size() != 2 || table_view.dims.size() != 2) {
    return invalid(call, "expertIds must be (tokens, K) and eplbTable (experts, copies + 1)");
  }
  const int64_t mode = call.integer(2);
  if (mode != 0 && mode != 1) return invalid(call, "balanceMode must be 0 or 1");
  const int64_t rank = call.integer(0);
  const int64_t world = call.integer(1);
  if (mode == 0 && (rank < 0 || rank >= world)) return invalid(call, "localRankId must be a rank of the world");
  std::vector<int64_t> ids;
  std::vector<int64_t> table;
  DRYDOCK_RETURN_IF_ERROR(integers_of(call, ids_view, "expertIds", &ids));
  DRYDOCK_RETURN_IF_ERROR(integers_of(call, table_view, "eplbTable", &table));
  const int64_t choices = ids_view.dims[1];
  const int64_t columns = table_view.dims[1];
  std::vector<int64_t> mapped;
  for (size_t at = 0; at < ids.size(); ++at) {
    if (ids[at] < 0 || ids[at] >= table_view.dims[0]) return device_fault(call, "expertIds is out of range");
    const int64_t* row = table.data() + ids[at] * columns;
    const int64_t copies = columns > 0 ? row[0] : 0;
    if (copies < 1 || copies >= columns) return device_fault(call, "eplbTable counts copies that are not there");
    int64_t place = 1;
    if (copies > 1 && mode == 0) {
      const int64_t ranks_each = (world + copies - 1) / copies;
      place = rank / ranks_each + 1;
    } else if (copies > 1) {
      place = static_cast<int64_t>(at) / choices % copies + 1;
    }
    mapped.push_back(row[place]);
  }
  DRYDOCK_RETURN_IF_ERROR(write_integers(call, call.output(0), "balancedExpertIds", mapped));
  if (!is_present(call.operand(2))) return Status::ok();
  std::vector<float> scales;
  std::vector<float> thresholds;
  std::vector<int64_t> active;
  if (!read_floats(call.operand(2), &scales) || scales.size() != ids.size() ||
      !read_floats(call.operand(3), &thresholds) || static_cast<int64_t>(thresholds.size()) != choices) {
    return invalid(call, "expertScales must be shaped as expertIds, pruningThreshold (K)");
  }
  if (is_present(call.operand(4))) {
    DRYDOCK_RETURN_IF_ERROR(integers_of(call, call.operand(4), "activeMask", &active));
    if (static_cast<int64_t>(active.size()) != ids_view.dims[0]) {
      return invalid(call, "activeMask must have one element for each token");
    }
  }
  std::vector<int64_t> kept(ids.size());
  for (int64_t token = 0; token < ids_view.dims[0]; ++token) {
    if (!active.empty() && active[static_cast<size_t>(token)] == 0) continue;
    float sum = 0;
    for (int64_t k = 0; k < choices; ++k) sum += scales[static_cast<size_t>(token * choices + k)];
    for (int64_t k = 0; k < choices; ++k) {
      const auto at = static_cast<size_t>(token * choices + k);
      kept[at] = scales[at] < sum * thresholds[static_cast<size_t>(k)] ? 0 : 1;
    }
  }
  return write_integers(call, call.output(1), "balancedActiveMask", kept);
}

}  // namespace drydock::ops::kernels
