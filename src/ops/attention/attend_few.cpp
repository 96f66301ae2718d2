#include <algorithm>
#include <cmath>
#include <limits>

#include "base/thread_pool.h"
#include "ops/attention/problem.h"

// The forward pass where there are few queries, as when tokens are generated one by one: every key and value is read
// once, for all heads that share it, and none is kept.

namespace drydock::ops::kernels::attention {

namespace {

constexpr float kNothing = -std::numeric_limits<float>::infinity();
constexpr int64_t kMostRows = 32;

/// All queries of the heads that share a key head, of one sequence.
class SharedKeys {
 public:
  SharedKeys(const Problem& problem, const ReadRows& read_keys, const ReadRows& read_values)
      : problem_(problem),
        read_keys_(read_keys),
        read_values_(read_values),
        key_stride_(padded_to_lanes(problem.key_width)),
        value_stride_(padded_to_lanes(problem.value_width)),
        keys_(static_cast<size_t>(kKeyBlock * key_stride_)),
        values_(static_cast<size_t>(kKeyBlock * value_stride_)),
        scores_(kMostRows * kKeyBlock),
        results_(static_cast<size_t>(kMostRows * value_stride_)),
        maxima_(kMostRows),
        sums_(kMostRows) {}

  void run(int64_t sequence, int64_t key_head, const PackedRows& queries, const WriteResults& write) {
    const Sequence& s = problem_.sequences[static_cast<size_t>(sequence)];
    std::fill(maxima_.begin(), maxima_.end(), kNothing);
    std::fill(sums_.begin(), sums_.end(), 0.0f);
    std::fill(results_.begin(), results_.end(), 0.0f);
    const int64_t first_head = key_head * problem_.group();
    for (int64_t first_key = 0; first_key < s.keys; first_key += kKeyBlock) {
      const int64_t keys = std::min(kKeyBlock, s.keys - first_key);
      if (sees_nothing(s, 0, s.queries, first_key, keys)) continue;
      read_keys_(sequence, key_head, first_key, keys, {keys_.data(), key_stride_});
      read_values_(sequence, key_head, first_key, keys, {values_.data(), value_stride_});
      for (int64_t member = 0; member < problem_.group(); ++member) {
        score(s, first_head + member, member * s.queries, first_key, keys, queries);
      }
      multiply(problem_.group() * s.queries, value_stride_, keys, {scores_.data(), kKeyBlock},
               {values_.data(), value_stride_}, {results_.data(), value_stride_}, Store::kAdd);
    }
    for (int64_t member = 0; member < problem_.group(); ++member) {
      const int64_t row = member * s.queries;
      for (int64_t query = 0; query < s.queries; ++query) finish(first_head + member, row + query);
      write(sequence, first_head + member, 0, s.queries, {results_.data() + row * value_stride_, value_stride_},
            maxima_.data() + row, sums_.data() + row);
    }
  }

 private:
  void score(const Sequence& s, int64_t head, int64_t first_row, int64_t first_key, int64_t keys,
             const PackedRows& queries) {
    const Block block{scores_.data() + first_row * kKeyBlock, kKeyBlock};
    for (int64_t query = 0; query < s.queries; ++query) {
      const float* own = queries.row(problem_.query_row(s, head, query));
      float* row = block.data + query * block.stride;
      for (int64_t key = 0; key < keys; ++key)
        row[key] = dot(own, keys_.data() + key * key_stride_, problem_.key_width);
    }
    finish_scores(problem_, s, head, 0, s.queries, first_key, keys, block, scratch_);
    const int64_t columns = padded_to_lanes(keys);
    for (int64_t query = 0; query < s.queries; ++query) {
      float* row = block.data + query * block.stride;
      const int64_t at = first_row + query;
      raise_maximum(at, maximum(row, columns));
      const float top = maxima_[static_cast<size_t>(at)];
      sums_[static_cast<size_t>(at)] += exponentials(row, columns, top == kNothing ? 0.0f : top);
    }
  }

  void raise_maximum(int64_t row, float top) {
    float& maximum = maxima_[static_cast<size_t>(row)];
    if (!(top > maximum)) return;
    if (maximum != kNothing) {
      const float factor = std::exp(maximum - top);
      sums_[static_cast<size_t>(row)] *= factor;
      scale(results_.data() + row * value_stride_, value_stride_, factor);
    }
    maximum = top;
  }

  void finish(int64_t head, int64_t row) {
    const size_t at = static_cast<size_t>(row);
    if (problem_.sinks != nullptr) {
      raise_maximum(row, problem_.sinks[head]);
      sums_[at] += std::exp(problem_.sinks[head] - maxima_[at]);
    }
    if (maxima_[at] == kNothing && sums_[at] == 0) {
      maxima_[at] = kMaskedMaximum;
      sums_[at] = kMaskedSum;
      return;
    }
    scale(results_.data() + row * value_stride_, value_stride_, 1.0f / sums_[at]);
  }

  const Problem& problem_;
  const ReadRows& read_keys_;
  const ReadRows& read_values_;
  int64_t key_stride_;
  int64_t value_stride_;
  std::vector<float> keys_, values_, scores_, results_;
  std::vector<float> maxima_, sums_;
  ScoreScratch scratch_;
};

}  // namespace

bool has_few_queries(const Problem& problem) {
  return problem.keep_bits == nullptr &&
         std::all_of(problem.sequences.begin(), problem.sequences.end(),
                     [&](const Sequence& s) { return s.queries * problem.group() <= kMostRows; });
}

void attend_few(const Problem& problem, const PackedRows& queries, const ReadRows& read_keys,
                const ReadRows& read_values, const WriteResults& write) {
  const int64_t tasks = static_cast<int64_t>(problem.sequences.size()) * problem.key_heads;
  base::parallel_for(tasks, 1, [&](int64_t begin, int64_t end) {
    SharedKeys shared(problem, read_keys, read_values);
    for (int64_t task = begin; task < end; ++task) {
      shared.run(task / problem.key_heads, task % problem.key_heads, queries, write);
    }
  });
}

}  // namespace drydock::ops::kernels::attention
