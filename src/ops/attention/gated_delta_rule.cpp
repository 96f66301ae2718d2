#include <algorithm>
#include <cmath>

#include "base/saturating.h"
#include "base/thread_pool.h"
#include "ops/attention/call_arguments.h"
#include "ops/attention/layout.h"
#include "ops/kernel_call.h"

// aclnnChunkGatedDeltaRule and aclnnRecurrentGatedDeltaRule: linear attention with a state that fades and is corrected.
//   S = S faded;  S += beta (v - S k) k^T;  o = S q scale

namespace drydock::ops::kernels {

namespace attention {

namespace {

/// What both operators have: tokens of all sequences one behind the other, [tokens, heads, width].
struct DeltaRule {
  HeadView query, key, value, out;
  const TensorView* beta = nullptr;       ///< [tokens, value heads]
  const TensorView* decay = nullptr;      ///< logarithms, the same sizes; undefined: none
  const TensorView* key_decay = nullptr;  ///< logarithms, [tokens, value heads, key width]; undefined: none
  std::vector<int64_t> lengths, starts;
  float scale = 1;

  int64_t tokens() const { return value.rows; }
  int64_t heads() const { return value.heads; }

  Status parse(const KernelCall& call, const CallArguments& arguments);
  /// One token's step of one head; `state` is [value width, key width].
  void step(int64_t token, int64_t head, float* state, float* buffer) const;
};

float at(const TensorView& view, int64_t row, int64_t column) {
  return as_value<float>(select(select(view, 0, row), 0, column));
}

Status DeltaRule::parse(const KernelCall& call, const CallArguments& arguments) {
  const TensorView& q = arguments.tensor("query");
  const TensorView& k = arguments.tensor("key");
  const TensorView& v = arguments.tensor("value");
  beta = &arguments.tensor("beta");
  const std::string sizes =
      ": query " + sizes_of(q) + ", key " + sizes_of(k) + ", value " + sizes_of(v) + ", beta " + sizes_of(*beta);
  if (!head_view(q, "TND", 0, &query) || !head_view(k, "TND", 0, &key) || !head_view(v, "TND", 0, &value) ||
      !head_view(arguments.output("out"), "TND", 0, &out)) {
    return invalid(call, "query, key, value and out must be [tokens, heads, width]" + sizes);
  }
  const Dims by_head{value.rows, value.heads};
  if (query.rows != value.rows || key.rows != value.rows || query.heads != key.heads || query.width != key.width ||
      query.heads == 0 || value.heads % query.heads != 0 || out.rows != value.rows || out.heads != value.heads ||
      out.width != value.width || !beta->defined || !(beta->dims == by_head)) {
    return invalid(call, "query, key, value, beta and out do not fit together" + sizes);
  }
  if (decay->defined && !(decay->dims == by_head)) return invalid(call, "g must have the shape of beta" + sizes);
  if (key_decay->defined && !(key_decay->dims == Dims{value.rows, value.heads, key.width})) {
    return invalid(call, "gk must be [tokens, value heads, key width], not " + sizes_of(*key_decay));
  }
  const TensorView& given = arguments.tensor("actualSeqLengths");
  if (!given.defined || given.dims.size() != 1) return invalid(call, "actualSeqLengths must be given");
  int64_t start = 0;
  for_each_value<int64_t>(given, [&](int64_t length) {
    starts.push_back(start);
    lengths.push_back(length);
    start = saturating_sum(start, std::max<int64_t>(0, length));
  });
  if (std::any_of(lengths.begin(), lengths.end(), [](int64_t length) { return length < 0; }) || start > value.rows) {
    return invalid(call,
                   "actualSeqLengths must not be negative and add up to the " + std::to_string(value.rows) + " tokens");
  }
  scale = static_cast<float>(arguments.number("scaleValue", 1));
  return Status::ok();
}

void DeltaRule::step(int64_t token, int64_t head, float* state, float* buffer) const {
  const int64_t key_head = head / (value.heads / key.heads);
  float* q = buffer;
  float* k = q + key.width;
  float* v = k + key.width;
  float* fade = v + value.width;
  read_rows(query, 0, key_head, token, 1, {q, key.width});
  read_rows(key, 0, key_head, token, 1, {k, key.width});
  read_rows(value, 0, head, token, 1, {v, value.width});
  const float all = decay->defined ? std::exp(at(*decay, token, head)) : 1.0f;
  for (int64_t i = 0; i < key.width; ++i) {
    fade[i] = key_decay->defined ? all * std::exp(at(select(*key_decay, 0, token), head, i)) : all;
  }
  const float strength = at(*beta, token, head);
  for (int64_t j = 0; j < value.width; ++j) {
    float* row = state + j * key.width;
    for (int64_t i = 0; i < key.width; ++i) row[i] *= fade[i];
    const float correction = strength * (v[j] - dot(row, k, key.width));
    for (int64_t i = 0; i < key.width; ++i) row[i] += correction * k[i];
    v[j] = dot(row, q, key.width) * scale;
  }
  write_rows(out, 0, head, token, 1, ConstBlock(v, value.width));
}

/// [blocks, heads, value width, key width], rows of one head's state.
Status check_state(const KernelCall& call, const DeltaRule& rule, const TensorView& state, const char* what) {
  if (state.defined && state.dims.size() == 4 && state.dims[1] == rule.heads() && state.dims[2] == rule.value.width &&
      state.dims[3] == rule.key.width && is_floating(state.dtype)) {
    return Status::ok();
  }
  return invalid(call, std::string(what) + " must be [n, value heads, value width, key width], not " + sizes_of(state));
}

TensorView state_of(const TensorView& states, int64_t block, int64_t head) {
  return select(select(states, 0, block), 0, head);
}

}  // namespace

}  // namespace attention

Status chunk_gated_delta_rule(KernelCall& call) {
  using namespace attention;
  const CallArguments arguments(call);
  DeltaRule rule;
  const TensorView none{};
  rule.decay = &arguments.tensor("gOptional");
  rule.key_decay = &none;
  DRYDOCK_RETURN_IF_ERROR(rule.parse(call, arguments));
  const TensorView& initial = arguments.tensor("initialState");
  const TensorView& final = arguments.output("finalState");
  DRYDOCK_RETURN_IF_ERROR(check_state(call, rule, initial, "initialState"));
  DRYDOCK_RETURN_IF_ERROR(check_state(call, rule, final, "finalState"));
  const int64_t sequences = static_cast<int64_t>(rule.lengths.size());
  if (initial.dims[0] != sequences || final.dims[0] != sequences) {
    return invalid(call, "initialState and finalState must have one state for each of " + std::to_string(sequences) +
                             " sequences");
  }
  base::parallel_for(sequences * rule.heads(), 1, [&](int64_t begin, int64_t end) {
    std::vector<float> state(static_cast<size_t>(rule.value.width * rule.key.width));
    std::vector<float> buffer(static_cast<size_t>(3 * rule.key.width + rule.value.width));
    for (int64_t task = begin; task < end; ++task) {
      const int64_t sequence = task / rule.heads();
      const int64_t head = task % rule.heads();
      const Rows from(state_of(initial, sequence, head), all_axes(2));
      const float* values = from.read<float>(0, state.data());
      if (values != state.data()) std::copy_n(values, state.size(), state.data());
      const int64_t start = rule.starts[static_cast<size_t>(sequence)];
      for (int64_t token = 0; token < rule.lengths[static_cast<size_t>(sequence)]; ++token) {
        rule.step(start + token, head, state.data(), buffer.data());
      }
      Rows(state_of(final, sequence, head), all_axes(2)).write<float>(0, state.data());
    }
  });
  return Status::ok();
}

/// The state before a sequence is the one after its last accepted token; every token's state is kept.
Status recurrent_gated_delta_rule(KernelCall& call) {
  using namespace attention;
  const CallArguments arguments(call);
  DeltaRule rule;
  rule.decay = &arguments.tensor("g");
  rule.key_decay = &arguments.tensor("gk");
  DRYDOCK_RETURN_IF_ERROR(rule.parse(call, arguments));
  const TensorView& states = arguments.output("stateRef");
  DRYDOCK_RETURN_IF_ERROR(check_state(call, rule, states, "state"));
  std::vector<int64_t> blocks, accepted;
  const TensorView& indices = arguments.tensor("ssmStateIndices");
  if (!indices.defined || indices.numel() < rule.tokens()) {
    return invalid(call, "ssmStateIndices must hold one number for each token, not " + sizes_of(indices));
  }
  for_each_value<int64_t>(indices, [&](int64_t block) { blocks.push_back(block); });
  const TensorView& given = arguments.tensor("numAcceptedTokens");
  if (given.defined) for_each_value<int64_t>(given, [&](int64_t count) { accepted.push_back(count); });
  if (given.defined && accepted.size() != rule.lengths.size()) {
    return invalid(call, "numAcceptedTokens must hold one number for each sequence, not " + sizes_of(given));
  }
  for (size_t k = 0; k < rule.lengths.size(); ++k) {
    if (given.defined && (accepted[k] < 1 || accepted[k] > rule.lengths[k])) {
      return device_fault(call, "numAcceptedTokens " + std::to_string(accepted[k]) + " of a sequence of " +
                                    std::to_string(rule.lengths[k]));
    }
  }
  for (int64_t block : blocks) {
    if (block < 0 || block >= states.dims[0]) {
      return device_fault(
          call, "state " + std::to_string(block) + " does not exist, there are " + std::to_string(states.dims[0]));
    }
  }
  // Heads are apart in all states; sequences may share one.
  base::parallel_for(rule.heads(), 1, [&](int64_t begin, int64_t end) {
    std::vector<float> state(static_cast<size_t>(rule.value.width * rule.key.width));
    std::vector<float> buffer(static_cast<size_t>(3 * rule.key.width + rule.value.width));
    for (int64_t head = begin; head < end; ++head) {
      for (size_t sequence = 0; sequence < rule.lengths.size(); ++sequence) {
        if (rule.lengths[sequence] == 0) continue;
        const int64_t start = rule.starts[sequence];
        const int64_t first = accepted.empty() ? start : start + accepted[sequence] - 1;
        const Rows from(state_of(states, blocks[static_cast<size_t>(first)], head), all_axes(2));
        const float* values = from.read<float>(0, state.data());
        if (values != state.data()) std::copy_n(values, state.size(), state.data());
        for (int64_t token = start; token < start + rule.lengths[sequence]; ++token) {
          rule.step(token, head, state.data(), buffer.data());
          Rows(state_of(states, blocks[static_cast<size_t>(token)], head), all_axes(2)).write<float>(0, state.data());
        }
      }
    }
  });
  return Status::ok();
}

}  // namespace drydock::ops::kernels
