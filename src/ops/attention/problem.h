#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "ops/attention/block_math.h"
#include "ops/kernel_access.h"

// One attention over many sequences, free of layouts: what the kernels of all attention operators make of their call.

namespace drydock::ops::kernels::attention {

/// Queries and keys that are worked on at once.
inline constexpr int64_t kQueryBlock = 64;
inline constexpr int64_t kKeyBlock = 128;

/// No bound of a band; far from overflow when offsets are added.
inline constexpr int64_t kUnbounded = int64_t{1} << 40;

/// Elements by head, query and key, one tensor seen from one sequence. Strides in bytes, 0 where broadcast.
struct ScoreView {
  const char* data = nullptr;  ///< null: none
  int64_t head_stride = 0;
  int64_t query_stride = 0;
  int64_t key_stride = 0;
};

/// One entry of the batch.
struct Sequence {
  int64_t queries = 0;
  int64_t keys = 0;
  // Query i sees the keys i - before ... i + after, and those below prefix, but for the masked ones.
  int64_t before = kUnbounded;
  int64_t after = kUnbounded;
  int64_t prefix = 0;
  ScoreView mask;              ///< one byte each; not zero: masked
  int64_t mask_first_key = 0;  ///< the mask's first column; no key before it is masked
  ScoreView shift;
  /// Rows of `shift` are those from this query on; earlier queries use its first row, moved along the diagonal.
  int64_t shift_first_query = 0;
  const float* slopes = nullptr;  ///< by head, for a shift of -slope * distance
  int64_t distance_offset = 0;    ///< first query's place minus first key's
  int64_t keep_bit = 0;           ///< number of the first bit in Problem::keep_bits

  int64_t query_offset = 0;  ///< queries of all sequences before
  int64_t key_offset = 0;
};

/// Rows of all sequences and heads in fp32: [sequence][head][row][width], width padded with zeros.
class PackedRows {
 public:
  PackedRows() = default;
  PackedRows(int64_t rows_times_heads, int64_t width)
      : stride_(padded_to_lanes(width)),
        values_(std::make_unique_for_overwrite<float[]>(static_cast<size_t>(rows_times_heads * stride_))) {}
  int64_t stride() const { return stride_; }
  float* row(int64_t index) const { return values_.get() + index * stride_; }
  Block block(int64_t index) const { return {row(index), stride_}; }

 private:
  int64_t stride_ = 0;
  std::unique_ptr<float[]> values_;
};

struct Problem {
  int64_t heads = 0;
  int64_t key_heads = 1;
  int64_t key_width = 0;    ///< of queries and keys
  int64_t value_width = 0;  ///< of values and results
  std::vector<Sequence> sequences;
  int64_t queries = 0;  ///< of all sequences
  int64_t keys = 0;

  bool is_bf16 = false;  ///< queries, keys, values and gradients of results hold bf16 values
  float scale = 1;
  bool scales_shift = true;  ///< scale * (score + shift), else scale * score + shift
  DataType shift_type = DataType::kFloat;
  bool root_of_distance = false;
  float keep_probability = 1;
  const char* keep_bits = nullptr;  ///< null: no dropout
  int64_t keep_byte_stride = 1;
  const float* sinks = nullptr;  ///< by head: the logit of a key that all see and whose value is zero

  int64_t group() const { return heads / key_heads; }
  /// Adds a sequence behind the others.
  void add(Sequence sequence);
  /// Index of a row in PackedRows.
  int64_t query_row(const Sequence& s, int64_t head, int64_t query) const {
    return s.query_offset * heads + head * s.queries + query;
  }
  int64_t key_row(const Sequence& s, int64_t key_head, int64_t key) const {
    return s.key_offset * key_heads + key_head * s.keys + key;
  }
};

/// Reads or writes `count` rows of one head from `first` on: `rows.stride` floats apart.
using ReadRows = std::function<void(int64_t sequence, int64_t head, int64_t first, int64_t count, Block rows)>;
using WriteRows = std::function<void(int64_t sequence, int64_t head, int64_t first, int64_t count, ConstBlock rows)>;
/// Results of `count` queries: rows, the maximum of their scores, the sum of exponentials above it. A query that sees
/// no key has zeros, kMaskedMaximum and kMaskedSum.
using WriteResults = std::function<void(int64_t sequence, int64_t head, int64_t first, int64_t count, ConstBlock rows,
                                        const float* maxima, const float* sums)>;

inline constexpr float kMaskedMaximum = -3.402823466e38f;
inline constexpr float kMaskedSum = 3.402823466e38f;

PackedRows pack_queries(const Problem& problem, int64_t width, const ReadRows& read);
PackedRows pack_keys(const Problem& problem, int64_t width, const ReadRows& read);

/// Rows by keys in blocks of kKeyBlock columns: [sequence][head][block][width][kKeyBlock], columns that no key has
/// zero.
class PackedColumns {
 public:
  PackedColumns(const Problem& problem, int64_t width, const PackedRows& rows);
  ConstBlock block(int64_t sequence, int64_t head, int64_t key_block) const {
    const int64_t blocks = blocks_[static_cast<size_t>(sequence)];
    const int64_t index = first_[static_cast<size_t>(sequence)] + head * blocks + key_block;
    return {values_.get() + index * width_ * kKeyBlock, kKeyBlock};
  }

 private:
  int64_t width_;
  std::vector<int64_t> first_, blocks_;
  std::unique_ptr<float[]> values_;
};

/// Scratch of score_block.
struct ScoreScratch {
  float shift[kKeyBlock];
};

/// Turns products of queries and keys into scores: scale, shift, mask (minus infinity). Columns beyond the keys, up to
/// a multiple of kLanes, are masked too.
void finish_scores(const Problem& problem, const Sequence& sequence, int64_t head, int64_t first_query, int64_t queries,
                   int64_t first_key, int64_t keys, Block scores, ScoreScratch& scratch);

/// True if none of these queries sees any of these keys, by band and prefix alone.
bool sees_nothing(const Sequence& sequence, int64_t first_query, int64_t queries, int64_t first_key, int64_t keys);

/// Factors of dropout for one query: 0 or 1 / keep_probability, up to a multiple of kLanes.
void keep_factors(const Problem& problem, const Sequence& sequence, int64_t head, int64_t query, int64_t first_key,
                  int64_t keys, float* factors);

void attend(const Problem& problem, const PackedRows& queries, const PackedColumns& keys, const PackedRows& values,
            const WriteResults& write);

/// The same for problems that run on tiles, with rows as they are read. The readers leave the padding of rows alone.
void attend_on_tiles(const Problem& problem, const ReadRows& read_queries, const ReadRows& read_keys,
                     const ReadRows& read_values, const WriteResults& write);

/// True if every key head has few queries and there is no dropout: attend_few is then the faster way.
bool has_few_queries(const Problem& problem);
/// The same as attend, with keys and values as they are read. The reader leaves the padding of rows alone.
void attend_few(const Problem& problem, const PackedRows& queries, const ReadRows& read_keys,
                const ReadRows& read_values, const WriteResults& write);

/// What the backward pass has of the forward one: by query_row.
struct ForwardState {
  PackedRows queries, keys, values, gradients;  ///< gradients of the results
  std::vector<float> maxima, sums, deltas;      ///< delta: dot product of a result's row and its gradient
};

struct Gradients {
  PackedRows queries;       ///< by query_row
  PackedRows keys, values;  ///< by key_row, summed over the heads of a group
  std::vector<float> sinks;
};

Gradients attend_backward(const Problem& problem, const ForwardState& state);

}  // namespace drydock::ops::kernels::attention
