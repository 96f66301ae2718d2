#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <memory>

#include "base/thread_pool.h"
#include "ops/attention/problem.h"
#include "ops/attention/tile_blocks.h"

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

/// The two products of attention: scores of a block of queries with a block of keys, and values weighted by them.
class Products {
 public:
  virtual ~Products() = default;
  /// Begins with a block of queries.
  virtual void start(const QueryBlock& block) = 0;
  virtual void score(const QueryBlock& block, int64_t first_key, int64_t keys, Block scores) = 0;
  /// Columns of the weights beyond the keys, up to a multiple of kLanes, are zero.
  virtual void add_values(const QueryBlock& block, int64_t first_key, int64_t keys, Block weights, Block results) = 0;
};

class LaneProducts final : public Products {
 public:
  LaneProducts(const Problem& problem, const PackedRows& queries, const PackedColumns& keys, const PackedRows& values)
      : problem_(problem), queries_(queries), keys_(keys), values_(values) {}
  void start(const QueryBlock& /*block*/) override {}
  void score(const QueryBlock& block, int64_t first_key, int64_t keys, Block scores) override {
    multiply(block.count, padded_to_lanes(keys), problem_.key_width,
             queries_.block(problem_.query_row(sequence(block), block.head, block.first)),
             keys_.block(block.sequence, block.head / problem_.group(), first_key / kKeyBlock), scores,
             Store::kReplace);
  }
  void add_values(const QueryBlock& block, int64_t first_key, int64_t keys, Block weights, Block results) override {
    const int64_t row = problem_.key_row(sequence(block), block.head / problem_.group(), first_key);
    multiply(block.count, padded_to_lanes(problem_.value_width), keys, weights, values_.block(row), results,
             Store::kAdd);
  }

 private:
  const Sequence& sequence(const QueryBlock& block) const {
    return problem_.sequences[static_cast<size_t>(block.sequence)];
  }
  const Problem& problem_;
  const PackedRows& queries_;
  const PackedColumns& keys_;
  const PackedRows& values_;
};

class TileProducts final : public Products {
 public:
  TileProducts(const Problem& problem, const ReadRows& read_queries, const TileKeys& keys)
      : problem_(problem),
        read_queries_(read_queries),
        keys_(keys),
        queries_(static_cast<size_t>(kQueryBlock * problem.key_width)),
        query_panels_(tile_elements(kQueryBlock, problem.key_width)),
        high_(tile_elements(kQueryBlock, kKeyBlock)),
        low_(tile_elements(kQueryBlock, kKeyBlock)) {}
  void start(const QueryBlock& block) override {
    const Block rows{queries_.data(), problem_.key_width};
    read_queries_(block.sequence, block.head, block.first, block.count, rows);
    pack_rows(rows, block.count, problem_.key_width, bf16_tiles::Side::kLeft, query_panels_.data());
  }
  void score(const QueryBlock& block, int64_t first_key, int64_t keys, Block scores) override {
    multiply_tiles(block.count, keys, problem_.key_width, query_panels_.data(),
                   keys_.keys(block.sequence, block.head / problem_.group(), first_key / kKeyBlock), scores,
                   Store::kReplace);
  }
  void add_values(const QueryBlock& block, int64_t first_key, int64_t keys, Block weights, Block results) override {
    // Panels of values are as deep as a block of keys.
    pack_parts(weights, block.count, padded_to_lanes(keys), kKeyBlock, high_.data(), low_.data());
    const uint16_t* values = keys_.values(block.sequence, block.head / problem_.group(), first_key / kKeyBlock);
    multiply_tiles(block.count, problem_.value_width, kKeyBlock, high_.data(), values, results, Store::kAdd);
    multiply_tiles(block.count, problem_.value_width, kKeyBlock, low_.data(), values, results, Store::kAdd);
  }

 private:
  const Problem& problem_;
  const ReadRows& read_queries_;
  const TileKeys& keys_;
  std::vector<float> queries_;
  const bf16_tiles::Session session_;
  TilePanels query_panels_, high_, low_;
};

class BlockAttention {
 public:
  BlockAttention(const Problem& problem, Products& products)
      : problem_(problem),
        products_(products),
        stride_(padded_to_tiles(problem.value_width)),
        scores_(kQueryBlock * kKeyBlock),
        sums_of_values_(static_cast<size_t>(kQueryBlock * stride_)) {}

  void run(const QueryBlock& block, const WriteResults& write) {
    const Sequence& s = problem_.sequences[static_cast<size_t>(block.sequence)];
    std::fill(maxima_.begin(), maxima_.end(), kNothing);
    std::fill(sums_.begin(), sums_.end(), 0.0f);
    std::fill(sums_of_values_.begin(), sums_of_values_.end(), 0.0f);
    products_.start(block);
    for (int64_t first_key = 0; first_key < s.keys; first_key += kKeyBlock) {
      const int64_t keys = std::min(kKeyBlock, s.keys - first_key);
      if (!sees_nothing(s, block.first, block.count, first_key, keys)) add_keys(block, s, first_key, keys);
    }
    for (int64_t q = 0; q < block.count; ++q) finish(block.head, static_cast<size_t>(q));
    write(block.sequence, block.head, block.first, block.count, result(), maxima_.data(), sums_.data());
  }

 private:
  Block result() { return {sums_of_values_.data(), stride_}; }
  Block scores() { return {scores_.data(), kKeyBlock}; }

  void add_keys(const QueryBlock& block, const Sequence& s, int64_t first_key, int64_t keys) {
    const int64_t columns = padded_to_lanes(keys);
    products_.score(block, first_key, keys, scores());
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
    products_.add_values(block, first_key, keys, scores(), result());
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
  Products& products_;
  const int64_t stride_;
  std::vector<float> scores_;
  std::vector<float> sums_of_values_;
  std::array<float, kQueryBlock> maxima_;
  std::array<float, kQueryBlock> sums_;
  float factors_[kKeyBlock];
  ScoreScratch scratch_;
};

/// `make_products()`: for one thread.
template <class MakeProducts>
void attend_in_blocks(const Problem& problem, MakeProducts make_products, const WriteResults& write) {
  const std::vector<QueryBlock> blocks = query_blocks(problem);
  base::parallel_for(static_cast<int64_t>(blocks.size()), 1, [&](int64_t begin, int64_t end) {
    const std::unique_ptr<Products> products = make_products();
    BlockAttention attention(problem, *products);
    for (int64_t k = begin; k < end; ++k) attention.run(blocks[static_cast<size_t>(k)], write);
  });
}

}  // namespace

void attend(const Problem& problem, const PackedRows& queries, const PackedColumns& keys, const PackedRows& values,
            const WriteResults& write) {
  attend_in_blocks(
      problem, [&] { return std::make_unique<LaneProducts>(problem, queries, keys, values); }, write);
}

void attend_on_tiles(const Problem& problem, const ReadRows& read_queries, const ReadRows& read_keys,
                     const ReadRows& read_values, const WriteResults& write) {
  const TileKeys tiles(problem, read_keys, read_values);
  attend_in_blocks(
      problem, [&] { return std::make_unique<TileProducts>(problem, read_queries, tiles); }, write);
}

}  // namespace drydock::ops::kernels::attention
