#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/thread_pool.h"
#include "ops/attention/problem.h"

// The forward pass: block by block over the keys with a running maximum and sum, so that no memory grows with the
// product of queries and keys.

namespace drydock::ops::kernels::attention {

namespace {

constexpr float kNothing = -std::numeric_limits<float>::infinity();

struct QueryBlock {
  int64_t sequence;
  int64_t head;
  int64_t first;
  int64_t count;
};

std::vector<QueryBlock> query_blocks(const Problem& problem) {
  std::vector<QueryBlock> blocks;
  for (size_t s = 0; s < problem.sequences.size(); ++s) {
    const int64_t queries = problem.sequences[s].queries;
    for (int64_t head = 0; head < problem.heads; ++head) {
      for (int64_t first = 0; first < queries; first += kQueryBlock) {
        blocks.push_back({static_cast<int64_t>(s), head, first, std::min(kQueryBlock, queries - first)});
      }
    }
  }
  return blocks;
}

class BlockAttention {
 public:
  BlockAttention(const Problem& problem, const PackedRows& queries, const PackedColumns& keys, const PackedRows& values)
      : problem_(problem),
        queries_(queries),
        keys_(keys),
        values_(values),
        scores_(kQueryBlock * kKeyBlock),
        sums_of_values_(static_cast<size_t>(kQueryBlock * padded_to_lanes(problem.value_width))) {}

  void run(const QueryBlock& block, const WriteResults& write) {
    const Sequence& s = problem_.sequences[static_cast<size_t>(block.sequence)];
    std::fill(maxima_.begin(), maxima_.end(), kNothing);
    std::fill(sums_.begin(), sums_.end(), 0.0f);
    std::fill(sums_of_values_.begin(), sums_of_values_.end(), 0.0f);
    for (int64_t first_key = 0; first_key < s.keys; first_key += kKeyBlock) {
      const int64_t keys = std::min(kKeyBlock, s.keys - first_key);
      if (!sees_nothing(s, block.first, block.count, first_key, keys)) add_keys(block, s, first_key, keys);
    }
    for (int64_t q = 0; q < block.count; ++q) finish(block.head, static_cast<size_t>(q));
    write(block.sequence, block.head, block.first, block.count, result(), maxima_.data(), sums_.data());
  }

 private:
  Block result() { return {sums_of_values_.data(), padded_to_lanes(problem_.value_width)}; }
  Block scores() { return {scores_.data(), kKeyBlock}; }

  void add_keys(const QueryBlock& block, const Sequence& s, int64_t first_key, int64_t keys) {
    const int64_t key_head = block.head / problem_.group();
    const int64_t columns = padded_to_lanes(keys);
    multiply(block.count, columns, problem_.key_width, queries_.block(problem_.query_row(s, block.head, block.first)),
             keys_.block(block.sequence, key_head, first_key / kKeyBlock), scores(), Store::kReplace);
    finish_scores(problem_, s, block.head, block.first, block.count, first_key, keys, scores(), scratch_);
    for (int64_t q = 0; q < block.count; ++q) {
      float* row = scores_.data() + q * kKeyBlock;
      raise_maximum(static_cast<size_t>(q), maximum(row, columns));
      const float top = maxima_[static_cast<size_t>(q)];
      // While a query has seen no key, its scores are all minus infinity: any finite shift makes them zeros.
      sums_[static_cast<size_t>(q)] += exponentials(row, columns, top == kNothing ? 0.0f : top);
      if (problem_.keep_bits != nullptr) {
        keep_factors(problem_, s, block.head, block.first + q, first_key, keys, factors_);
        multiply_by(row, factors_, columns);
      }
    }
    multiply(block.count, result().stride, keys, scores(), values_.block(problem_.key_row(s, key_head, first_key)),
             result(), Store::kAdd);
  }

  void raise_maximum(size_t q, float top) {
    if (!(top > maxima_[q])) return;
    if (maxima_[q] != kNothing) {
      const float factor = std::exp(maxima_[q] - top);
      sums_[q] *= factor;
      scale(sums_of_values_.data() + static_cast<int64_t>(q) * result().stride, result().stride, factor);
    }
    maxima_[q] = top;
  }

  void finish(int64_t head, size_t q) {
    if (problem_.sinks != nullptr) {
      raise_maximum(q, problem_.sinks[head]);
      sums_[q] += std::exp(problem_.sinks[head] - maxima_[q]);
    }
    float* row = sums_of_values_.data() + static_cast<int64_t>(q) * result().stride;
    // A NaN score has no maximum either, but a sum.
    if (maxima_[q] == kNothing && sums_[q] == 0) {
      maxima_[q] = kMaskedMaximum;
      sums_[q] = kMaskedSum;
      return;
    }
    scale(row, result().stride, 1.0f / sums_[q]);
  }

  const Problem& problem_;
  const PackedRows& queries_;
  const PackedColumns& keys_;
  const PackedRows& values_;
  std::vector<float> scores_;
  std::vector<float> sums_of_values_;
  std::array<float, kQueryBlock> maxima_;
  std::array<float, kQueryBlock> sums_;
  float factors_[kKeyBlock];
  ScoreScratch scratch_;
};

}  // namespace

void attend(const Problem& problem, const PackedRows& queries, const PackedColumns& keys, const PackedRows& values,
            const WriteResults& write) {
  const std::vector<QueryBlock> blocks = query_blocks(problem);
  base::parallel_for(static_cast<int64_t>(blocks.size()), 1, [&](int64_t begin, int64_t end) {
    BlockAttention attention(problem, queries, keys, values);
    for (int64_t k = begin; k < end; ++k) attention.run(blocks[static_cast<size_t>(k)], write);
  });
}

}  // namespace drydock::ops::kernels::attention
