#include <algorithm>
#include <cmath>

#include "base/thread_pool.h"
#include "ops/attention/problem.h"

// The backward pass: probabilities are computed again from the forward pass's maxima and sums, block by block. One task
// is one head of one sequence, which owns the sums of its gradients; a group's heads are added up in order afterwards.

namespace drydock::ops::kernels::attention {

namespace {

/// Row of a key in buffers that have keys for each query head.
int64_t own_key_row(const Problem& problem, const Sequence& s, int64_t head, int64_t key) {
  return s.key_offset * problem.heads + head * s.keys + key;
}

void clear(const PackedRows& rows, int64_t first, int64_t count) {
  std::fill(rows.row(first), rows.row(first + count), 0.0f);
}

class HeadBackward {
 public:
  HeadBackward(const Problem& problem, const ForwardState& state, const PackedColumns& keys,
               const PackedColumns& values, Gradients& gradients)
      : problem_(problem),
        state_(state),
        keys_(keys),
        values_(values),
        gradients_(gradients),
        probabilities_(kQueryBlock * kKeyBlock),
        score_gradients_(kQueryBlock * kKeyBlock),
        transposed_(kQueryBlock * kKeyBlock) {}

  void run(int64_t sequence, int64_t head) {
    const Sequence& s = problem_.sequences[static_cast<size_t>(sequence)];
    clear(gradients_.queries, problem_.query_row(s, head, 0), s.queries);
    clear(gradients_.keys, own_key_row(problem_, s, head, 0), s.keys);
    clear(gradients_.values, own_key_row(problem_, s, head, 0), s.keys);
    for (int64_t first_key = 0; first_key < s.keys; first_key += kKeyBlock) {
      const int64_t keys = std::min(kKeyBlock, s.keys - first_key);
      for (int64_t first = 0; first < s.queries; first += kQueryBlock) {
        const int64_t queries = std::min(kQueryBlock, s.queries - first);
        if (sees_nothing(s, first, queries, first_key, keys)) continue;
        add_block(sequence, s, head, first, queries, first_key, keys);
      }
    }
    for (int64_t row = 0; row < s.queries; ++row) {
      scale(gradients_.queries.row(problem_.query_row(s, head, row)), gradients_.queries.stride(), problem_.scale);
    }
    for (int64_t row = 0; row < s.keys; ++row) {
      scale(gradients_.keys.row(own_key_row(problem_, s, head, row)), gradients_.keys.stride(), problem_.scale);
    }
  }

 private:
  static Block block_of(std::vector<float>& values, int64_t stride = kKeyBlock) { return {values.data(), stride}; }

  void add_block(int64_t sequence, const Sequence& s, int64_t head, int64_t first, int64_t queries, int64_t first_key,
                 int64_t keys) {
    const int64_t key_head = head / problem_.group();
    const int64_t columns = padded_to_lanes(keys);
    const int64_t query_row = problem_.query_row(s, head, first);
    const int64_t key_row = own_key_row(problem_, s, head, first_key);
    const Block probabilities = block_of(probabilities_);
    const Block score_gradients = block_of(score_gradients_);
    multiply(queries, columns, problem_.key_width, state_.queries.block(query_row),
             keys_.block(sequence, key_head, first_key / kKeyBlock), probabilities, Store::kReplace);
    finish_scores(problem_, s, head, first, queries, first_key, keys, probabilities, scratch_);
    multiply(queries, columns, problem_.value_width, state_.gradients.block(query_row),
             values_.block(sequence, key_head, first_key / kKeyBlock), score_gradients, Store::kReplace);
    for (int64_t q = 0; q < queries; ++q) {
      const size_t state_row = static_cast<size_t>(query_row + q);
      float* row = probabilities.data + q * kKeyBlock;
      float* gradient = score_gradients.data + q * kKeyBlock;
      exponentials(row, columns, state_.maxima[state_row]);
      scale(row, columns, 1.0f / state_.sums[state_row]);
      if (problem_.keep_bits != nullptr) {
        keep_factors(problem_, s, head, first + q, first_key, keys, factors_);
        multiply_by(gradient, factors_, columns);
      }
      softmax_backward(gradient, row, columns, state_.deltas[state_row]);
      if (problem_.keep_bits != nullptr) multiply_by(row, factors_, columns);
    }
    const Block transposed = block_of(transposed_, kQueryBlock);
    transpose(queries, keys, probabilities, transposed);
    multiply(keys, gradients_.values.stride(), queries, transposed, state_.gradients.block(query_row),
             gradients_.values.block(key_row), Store::kAdd);
    transpose(queries, keys, score_gradients, transposed);
    multiply(keys, gradients_.keys.stride(), queries, transposed, state_.queries.block(query_row),
             gradients_.keys.block(key_row), Store::kAdd);
    multiply(queries, gradients_.queries.stride(), keys, score_gradients,
             state_.keys.block(problem_.key_row(s, key_head, first_key)), gradients_.queries.block(query_row),
             Store::kAdd);
  }

  const Problem& problem_;
  const ForwardState& state_;
  const PackedColumns& keys_;
  const PackedColumns& values_;
  Gradients& gradients_;
  std::vector<float> probabilities_;
  std::vector<float> score_gradients_;
  std::vector<float> transposed_;
  float factors_[kKeyBlock];
  ScoreScratch scratch_;
};

/// Adds the heads of each group.
PackedRows sum_groups(const Problem& problem, const PackedRows& own, int64_t width) {
  PackedRows sums(problem.keys * problem.key_heads, width);
  for (const Sequence& s : problem.sequences) {
    base::parallel_for(problem.key_heads * s.keys, 64, [&](int64_t begin, int64_t end) {
      for (int64_t at = begin; at < end; ++at) {
        const int64_t key_head = at / s.keys;
        const int64_t key = at % s.keys;
        float* to = sums.row(problem.key_row(s, key_head, key));
        const int64_t head = key_head * problem.group();
        std::copy_n(own.row(own_key_row(problem, s, head, key)), sums.stride(), to);
        for (int64_t member = 1; member < problem.group(); ++member) {
          const float* from = own.row(own_key_row(problem, s, head + member, key));
          for (int64_t k = 0; k < sums.stride(); ++k) to[k] += from[k];
        }
      }
    });
  }
  return sums;
}

/// The sink's probability falls where the result of its row lies along the gradient.
std::vector<float> sink_gradients(const Problem& problem, const ForwardState& state) {
  std::vector<float> gradients(static_cast<size_t>(problem.heads));
  for (int64_t head = 0; head < problem.heads; ++head) {
    double total = 0;
    for (const Sequence& s : problem.sequences) {
      for (int64_t query = 0; query < s.queries; ++query) {
        const size_t row = static_cast<size_t>(problem.query_row(s, head, query));
        const double probability =
            std::exp(static_cast<double>(problem.sinks[head]) - state.maxima[row]) / state.sums[row];
        total -= probability * state.deltas[row];
      }
    }
    gradients[static_cast<size_t>(head)] = static_cast<float>(total);
  }
  return gradients;
}

}  // namespace

Gradients attend_backward(const Problem& problem, const ForwardState& state) {
  const PackedColumns keys(problem, problem.key_width, state.keys);
  const PackedColumns values(problem, problem.value_width, state.values);
  Gradients gradients;
  gradients.queries = PackedRows(problem.queries * problem.heads, problem.key_width);
  gradients.keys = PackedRows(problem.keys * problem.heads, problem.key_width);
  gradients.values = PackedRows(problem.keys * problem.heads, problem.value_width);
  const int64_t tasks = static_cast<int64_t>(problem.sequences.size()) * problem.heads;
  base::parallel_for(tasks, 1, [&](int64_t begin, int64_t end) {
    HeadBackward backward(problem, state, keys, values, gradients);
    for (int64_t task = begin; task < end; ++task) backward.run(task / problem.heads, task % problem.heads);
  });
  if (problem.group() > 1) {
    gradients.keys = sum_groups(problem, gradients.keys, problem.key_width);
    gradients.values = sum_groups(problem, gradients.values, problem.value_width);
  }
  if (problem.sinks != nullptr) gradients.sinks = sink_gradients(problem, state);
  return gradients;
}

}  // namespace drydock::ops::kernels::attention
