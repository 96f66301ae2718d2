#include "ops/attention/selected_attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/thread_pool.h"

namespace drydock::ops::kernels::attention {

namespace {

constexpr float kNothing = -std::numeric_limits<float>::infinity();

/// The work of one query at a time: its heads' rows, the keys it sees, and their scores.
class SelectedQuery {
 public:
  SelectedQuery(const Problem& problem, const PackedRows& keys, const PackedRows& values)
      : problem_(problem), keys_(keys), values_(values), columns_(static_cast<size_t>(problem.key_width * kKeyBlock)) {}

  const std::vector<int64_t>& seen() const { return seen_; }
  int64_t stride() const { return padded_to_lanes(static_cast<int64_t>(seen_.size())); }
  std::vector<float>& scores() { return scores_; }

  void choose(int64_t sequence, int64_t key_head, int64_t query, const SelectKeys& select) {
    sequence_ = &problem_.sequences[static_cast<size_t>(sequence)];
    key_head_ = key_head;
    seen_.clear();
    select(sequence, key_head, query, &seen_);
  }
  const float* key(size_t at) const { return keys_.row(problem_.key_row(*sequence_, key_head_, seen_[at])); }
  const float* value(size_t at) const { return values_.row(problem_.key_row(*sequence_, key_head_, seen_[at])); }
  int64_t key_row(size_t at) const { return problem_.key_row(*sequence_, key_head_, seen_[at]); }

  /// to = rows times the gathered keys (or values), block by block; columns behind the last are zeros.
  void products(ConstBlock rows, bool of_values, std::vector<float>* to) {
    const int64_t group = problem_.group();
    const int64_t count = static_cast<int64_t>(seen_.size());
    const int64_t width = of_values ? problem_.value_width : problem_.key_width;
    columns_.resize(static_cast<size_t>(width * kKeyBlock));
    to->assign(static_cast<size_t>(group * stride()), 0.0f);
    for (int64_t first = 0; first < count; first += kKeyBlock) {
      const int64_t block = std::min(kKeyBlock, count - first);
      std::fill(columns_.begin(), columns_.end(), 0.0f);
      for (int64_t k = 0; k < block; ++k) {
        const float* row = of_values ? value(static_cast<size_t>(first + k)) : key(static_cast<size_t>(first + k));
        for (int64_t i = 0; i < width; ++i) columns_[static_cast<size_t>(i * kKeyBlock + k)] = row[i];
      }
      multiply(group, padded_to_lanes(block), width, rows, {columns_.data(), kKeyBlock}, {to->data() + first, stride()},
               Store::kReplace);
    }
  }
  /// Scaled scores of the query's heads; padding is masked.
  void score(ConstBlock rows) {
    products(rows, false, &scores_);
    for (int64_t head = 0; head < problem_.group(); ++head) {
      float* row = scores_.data() + head * stride();
      scale(row, stride(), problem_.scale);
      std::fill(row + seen_.size(), row + stride(), kNothing);
    }
  }

 private:
  const Problem& problem_;
  const PackedRows& keys_;
  const PackedRows& values_;
  const Sequence* sequence_ = nullptr;
  int64_t key_head_ = 0;
  std::vector<int64_t> seen_;
  std::vector<float> columns_;
  std::vector<float> scores_;
};

/// The rows of a group's heads for one query, one behind the other.
void copy_group(const Problem& problem, const PackedRows& from, const Sequence& s, int64_t first_head, int64_t query,
                std::vector<float>* to) {
  to->resize(static_cast<size_t>(problem.group() * from.stride()));
  for (int64_t head = 0; head < problem.group(); ++head) {
    std::copy_n(from.row(problem.query_row(s, first_head + head, query)), from.stride(),
                to->data() + head * from.stride());
  }
}

}  // namespace

void attend_selected(const Problem& problem, const PackedRows& queries, const PackedRows& keys,
                     const PackedRows& values, const SelectKeys& select, const WriteSelected& write) {
  const int64_t group = problem.group();
  for (size_t number = 0; number < problem.sequences.size(); ++number) {
    const Sequence& s = problem.sequences[number];
    base::parallel_for(problem.key_heads * s.queries, 1, [&](int64_t begin, int64_t end) {
      SelectedQuery selected(problem, keys, values);
      std::vector<float> rows, results(static_cast<size_t>(group * values.stride()));
      std::vector<float> maxima(static_cast<size_t>(group)), sums(maxima.size());
      for (int64_t task = begin; task < end; ++task) {
        const int64_t key_head = task / s.queries;
        const int64_t query = task % s.queries;
        selected.choose(static_cast<int64_t>(number), key_head, query, select);
        copy_group(problem, queries, s, key_head * group, query, &rows);
        selected.score({rows.data(), queries.stride()});
        std::fill(results.begin(), results.end(), 0.0f);
        for (int64_t head = 0; head < group; ++head) {
          const size_t at = static_cast<size_t>(head);
          float* scores = selected.scores().data() + head * selected.stride();
          float top = maximum(scores, selected.stride());
          if (problem.sinks != nullptr) top = std::max(top, problem.sinks[key_head * group + head]);
          if (top == kNothing) {
            maxima[at] = kMaskedMaximum;
            sums[at] = kMaskedSum;
            continue;
          }
          maxima[at] = top;
          sums[at] = exponentials(scores, selected.stride(), top);
          if (problem.sinks != nullptr) sums[at] += std::exp(problem.sinks[key_head * group + head] - top);
          scale(scores, selected.stride(), 1.0f / sums[at]);
          float* result = results.data() + head * values.stride();
          for (size_t k = 0; k < selected.seen().size(); ++k) {
            const float* value = selected.value(k);
            for (int64_t i = 0; i < problem.value_width; ++i) result[i] += scores[k] * value[i];
          }
        }
        write(static_cast<int64_t>(number), key_head * group, query, {results.data(), values.stride()}, maxima.data(),
              sums.data());
      }
    });
  }
}

Gradients attend_selected_backward(const Problem& problem, const ForwardState& state, const SelectKeys& select) {
  Gradients gradients;
  gradients.queries = PackedRows(problem.queries * problem.heads, problem.key_width);
  gradients.keys = PackedRows(problem.keys * problem.key_heads, problem.key_width);
  gradients.values = PackedRows(problem.keys * problem.key_heads, problem.value_width);
  const int64_t group = problem.group();
  const int64_t tasks = static_cast<int64_t>(problem.sequences.size()) * problem.key_heads;
  // A key's gradient is a sum over queries: one task does all queries of a key head, in order.
  base::parallel_for(tasks, 1, [&](int64_t begin, int64_t end) {
    SelectedQuery selected(problem, state.keys, state.values);
    std::vector<float> rows, seeds, score_gradients;
    for (int64_t task = begin; task < end; ++task) {
      const int64_t number = task / problem.key_heads;
      const int64_t key_head = task % problem.key_heads;
      const Sequence& s = problem.sequences[static_cast<size_t>(number)];
      const int64_t first_row = problem.key_row(s, key_head, 0);
      std::fill(gradients.keys.row(first_row), gradients.keys.row(first_row + s.keys), 0.0f);
      std::fill(gradients.values.row(first_row), gradients.values.row(first_row + s.keys), 0.0f);
      for (int64_t query = 0; query < s.queries; ++query) {
        selected.choose(number, key_head, query, select);
        copy_group(problem, state.queries, s, key_head * group, query, &rows);
        copy_group(problem, state.gradients, s, key_head * group, query, &seeds);
        selected.score({rows.data(), state.queries.stride()});
        selected.products({seeds.data(), state.gradients.stride()}, true, &score_gradients);
        for (int64_t head = 0; head < group; ++head) {
          const int64_t query_row = problem.query_row(s, key_head * group + head, query);
          const size_t at = static_cast<size_t>(query_row);
          float* weights = selected.scores().data() + head * selected.stride();
          float* gradient = score_gradients.data() + head * selected.stride();
          exponentials(weights, selected.stride(), state.maxima[at]);
          scale(weights, selected.stride(), 1.0f / state.sums[at]);
          softmax_backward(gradient, weights, selected.stride(), state.deltas[at]);
          float* to = gradients.queries.row(query_row);
          std::fill(to, to + gradients.queries.stride(), 0.0f);
          const float* own = state.queries.row(query_row);
          const float* seed = state.gradients.row(query_row);
          for (size_t k = 0; k < selected.seen().size(); ++k) {
            const float* key = selected.key(k);
            float* key_gradient = gradients.keys.row(selected.key_row(k));
            float* value_gradient = gradients.values.row(selected.key_row(k));
            const float score = gradient[k] * problem.scale;
            for (int64_t i = 0; i < problem.key_width; ++i) {
              to[i] += score * key[i];
              key_gradient[i] += score * own[i];
            }
            for (int64_t i = 0; i < problem.value_width; ++i) value_gradient[i] += weights[k] * seed[i];
          }
        }
      }
    }
  });
  return gradients;
}

}  // namespace drydock::ops::kernels::attention
