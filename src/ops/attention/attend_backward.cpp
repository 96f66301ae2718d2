#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>

#include "base/thread_pool.h"
#include "ops/attention/problem.h"
#include "ops/attention/tile_blocks.h"

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

/// A block of queries and a block of keys of one head.
struct BlockPair {
  int64_t sequence, head, key_head;
  int64_t first_query, queries, first_key, keys;
  int64_t query_row;    ///< of the first query
  int64_t key_row;      ///< of the first key, by key head
  int64_t own_key_row;  ///< of the first key, by head
};

/// The five products of the backward pass. Blocks have kQueryBlock or kKeyBlock rows, a stride of kKeyBlock.
class BackwardProducts {
 public:
  virtual ~BackwardProducts() = default;
  /// Begins with a head of a sequence.
  virtual void start(const Sequence& sequence, int64_t query_row, int64_t key_row) = 0;
  /// Queries times keys, and gradients of results times values.
  virtual void score(const BlockPair& pair, Block scores, Block score_gradients) = 0;
  /// Adds to the gradients of values, keys and queries. Both blocks are 0 up to a multiple of kLanes beyond the keys.
  virtual void add_gradients(const BlockPair& pair, Block probabilities, Block score_gradients) = 0;
};

class LaneBackwardProducts final : public BackwardProducts {
 public:
  LaneBackwardProducts(const Problem& problem, const ForwardState& state, const PackedColumns& keys,
                       const PackedColumns& values, Gradients& gradients)
      : problem_(problem),
        state_(state),
        keys_(keys),
        values_(values),
        gradients_(gradients),
        transposed_(kQueryBlock * kKeyBlock) {}

  void start(const Sequence& /*sequence*/, int64_t /*query_row*/, int64_t /*key_row*/) override {}

  void score(const BlockPair& pair, Block scores, Block score_gradients) override {
    const int64_t columns = padded_to_lanes(pair.keys), key_block = pair.first_key / kKeyBlock;
    multiply(pair.queries, columns, problem_.key_width, state_.queries.block(pair.query_row),
             keys_.block(pair.sequence, pair.key_head, key_block), scores, Store::kReplace);
    multiply(pair.queries, columns, problem_.value_width, state_.gradients.block(pair.query_row),
             values_.block(pair.sequence, pair.key_head, key_block), score_gradients, Store::kReplace);
  }

  void add_gradients(const BlockPair& pair, Block probabilities, Block score_gradients) override {
    const Block transposed{transposed_.data(), kQueryBlock};
    transpose(pair.queries, pair.keys, probabilities, transposed);
    multiply(pair.keys, gradients_.values.stride(), pair.queries, transposed, state_.gradients.block(pair.query_row),
             gradients_.values.block(pair.own_key_row), Store::kAdd);
    transpose(pair.queries, pair.keys, score_gradients, transposed);
    multiply(pair.keys, gradients_.keys.stride(), pair.queries, transposed, state_.queries.block(pair.query_row),
             gradients_.keys.block(pair.own_key_row), Store::kAdd);
    multiply(pair.queries, gradients_.queries.stride(), pair.keys, score_gradients, state_.keys.block(pair.key_row),
             gradients_.queries.block(pair.query_row), Store::kAdd);
  }

 private:
  const Problem& problem_;
  const ForwardState& state_;
  const PackedColumns& keys_;
  const PackedColumns& values_;
  Gradients& gradients_;
  std::vector<float> transposed_;
};

class TileBackwardProducts final : public BackwardProducts {
 public:
  TileBackwardProducts(const Problem& problem, const ForwardState& state, Gradients& gradients)
      : problem_(problem),
        state_(state),
        gradients_(gradients),
        width_(padded_to_tiles(std::max(problem.key_width, problem.value_width))),
        transposed_(kQueryBlock * kKeyBlock),
        sums_(static_cast<size_t>(kKeyBlock * width_)),
        high_(tile_elements(kKeyBlock, kKeyBlock)),
        low_(tile_elements(kKeyBlock, kKeyBlock)) {}

  void start(const Sequence& sequence, int64_t query_row, int64_t key_row) override {
    query_panels_.pack(sequence.queries, kQueryBlock, state_.queries, query_row, problem_.key_width, Side::kLeft);
    gradient_panels_.pack(sequence.queries, kQueryBlock, state_.gradients, query_row, problem_.value_width,
                          Side::kLeft);
    key_panels_.pack(sequence.keys, kKeyBlock, state_.keys, key_row, problem_.key_width, Side::kRight);
    value_panels_.pack(sequence.keys, kKeyBlock, state_.values, key_row, problem_.value_width, Side::kRight);
  }

  void score(const BlockPair& pair, Block scores, Block score_gradients) override {
    multiply_tiles(pair.queries, pair.keys, problem_.key_width, query_panels_.rows(pair.first_query),
                   key_panels_.rows(pair.first_key), scores, Store::kReplace);
    multiply_tiles(pair.queries, pair.keys, problem_.value_width, gradient_panels_.rows(pair.first_query),
                   value_panels_.rows(pair.first_key), score_gradients, Store::kReplace);
  }

  void add_gradients(const BlockPair& pair, Block probabilities, Block score_gradients) override {
    const Block transposed{transposed_.data(), kQueryBlock};
    transpose(pair.queries, pair.keys, probabilities, transposed);
    add(transposed, pair.keys, pair.queries, kQueryBlock, gradient_panels_.columns(pair.first_query),
        problem_.value_width, gradients_.values, pair.own_key_row);
    transpose(pair.queries, pair.keys, score_gradients, transposed);
    add(transposed, pair.keys, pair.queries, kQueryBlock, query_panels_.columns(pair.first_query), problem_.key_width,
        gradients_.keys, pair.own_key_row);
    add(score_gradients, pair.queries, pair.keys, kKeyBlock, key_panels_.columns(pair.first_key), problem_.key_width,
        gradients_.queries, pair.query_row);
  }

 private:
  using Side = bf16_tiles::Side;

  /// Blocks of rows of one head, with their rows as lines, and their columns as lines of the right side.
  class HeadPanels {
   public:
    void pack(int64_t count, int64_t block, const PackedRows& rows, int64_t first, int64_t width, Side side) {
      block_ = block;
      row_elements_ = tile_elements(block, width);
      column_elements_ = tile_elements(width, block);
      const int64_t blocks = (count + block - 1) / block;
      rows_.emplace(blocks * row_elements_);
      columns_.emplace(blocks * column_elements_);
      for (int64_t at = 0; at < count; at += block) {
        const int64_t length = std::min(block, count - at);
        pack_rows(rows.block(first + at), length, width, side, this->rows(at));
        pack_columns(rows.block(first + at), length, width, block, Side::kRight, columns(at));
      }
    }
    uint16_t* rows(int64_t at) { return rows_->data() + at / block_ * row_elements_; }
    uint16_t* columns(int64_t at) { return columns_->data() + at / block_ * column_elements_; }

   private:
    int64_t block_ = 1, row_elements_ = 0, column_elements_ = 0;
    std::optional<TilePanels> rows_, columns_;
  };

  /// Rows of `gradients` from `row` on += `factor` (lines x count, padded to `depth`) times the columns.
  void add(ConstBlock factor, int64_t lines, int64_t count, int64_t depth, const uint16_t* columns, int64_t width,
           const PackedRows& gradients, int64_t row) {
    pack_parts(factor, lines, count, depth, high_.data(), low_.data());
    const Block sums{sums_.data(), width_};
    multiply_tiles(lines, width, depth, high_.data(), columns, sums, Store::kReplace);
    multiply_tiles(lines, width, depth, low_.data(), columns, sums, Store::kAdd);
    for (int64_t line = 0; line < lines; ++line) {
      float* to = gradients.row(row + line);
      const float* from = sums.data + line * width_;
      for (int64_t k = 0; k < width; ++k) to[k] += from[k];
    }
  }

  const Problem& problem_;
  const ForwardState& state_;
  Gradients& gradients_;
  const int64_t width_;
  const bf16_tiles::Session session_;
  HeadPanels query_panels_, gradient_panels_, key_panels_, value_panels_;
  std::vector<float> transposed_, sums_;
  TilePanels high_, low_;
};

class HeadBackward {
 public:
  HeadBackward(const Problem& problem, const ForwardState& state, BackwardProducts& products, Gradients& gradients)
      : problem_(problem),
        state_(state),
        products_(products),
        gradients_(gradients),
        probabilities_(kQueryBlock * kKeyBlock),
        score_gradients_(kQueryBlock * kKeyBlock) {}

  void run(int64_t sequence, int64_t head) {
    const Sequence& s = problem_.sequences[static_cast<size_t>(sequence)];
    clear(gradients_.queries, problem_.query_row(s, head, 0), s.queries);
    clear(gradients_.keys, own_key_row(problem_, s, head, 0), s.keys);
    clear(gradients_.values, own_key_row(problem_, s, head, 0), s.keys);
    products_.start(s, problem_.query_row(s, head, 0), problem_.key_row(s, head / problem_.group(), 0));
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
  void add_block(int64_t sequence, const Sequence& s, int64_t head, int64_t first, int64_t queries, int64_t first_key,
                 int64_t keys) {
    const int64_t key_head = head / problem_.group();
    const int64_t columns = padded_to_lanes(keys);
    const int64_t query_row = problem_.query_row(s, head, first);
    const BlockPair pair{sequence,
                         head,
                         key_head,
                         first,
                         queries,
                         first_key,
                         keys,
                         query_row,
                         problem_.key_row(s, key_head, first_key),
                         own_key_row(problem_, s, head, first_key)};
    const Block probabilities{probabilities_.data(), kKeyBlock};
    const Block score_gradients{score_gradients_.data(), kKeyBlock};
    products_.score(pair, probabilities, score_gradients);
    finish_scores(problem_, s, head, first, queries, first_key, keys, probabilities, scratch_);
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
    products_.add_gradients(pair, probabilities, score_gradients);
  }

  const Problem& problem_;
  const ForwardState& state_;
  BackwardProducts& products_;
  Gradients& gradients_;
  std::vector<float> probabilities_;
  std::vector<float> score_gradients_;
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
  const bool on_tiles = runs_on_tiles(problem);
  std::optional<PackedColumns> keys, values;
  if (!on_tiles) {
    keys.emplace(problem, problem.key_width, state.keys);
    values.emplace(problem, problem.value_width, state.values);
  }
  Gradients gradients;
  gradients.queries = PackedRows(problem.queries * problem.heads, problem.key_width);
  gradients.keys = PackedRows(problem.keys * problem.heads, problem.key_width);
  gradients.values = PackedRows(problem.keys * problem.heads, problem.value_width);
  const int64_t tasks = static_cast<int64_t>(problem.sequences.size()) * problem.heads;
  base::parallel_for(tasks, 1, [&](int64_t begin, int64_t end) {
    std::unique_ptr<BackwardProducts> products;
    if (on_tiles) {
      products = std::make_unique<TileBackwardProducts>(problem, state, gradients);
    } else {
      products = std::make_unique<LaneBackwardProducts>(problem, state, *keys, *values, gradients);
    }
    HeadBackward backward(problem, state, *products, gradients);
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
