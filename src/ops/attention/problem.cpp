#include "ops/attention/problem.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/thread_pool.h"

// The parts of an attention that its forward and backward pass share: packing, and scores out of products.

namespace drydock::ops::kernels::attention {

namespace {

constexpr float kMasked = -std::numeric_limits<float>::infinity();
constexpr int64_t kRowsAtOnce = 64;

struct RowRange {
  int64_t sequence;
  int64_t head;
  int64_t first;
  int64_t count;
};

/// Cuts the rows of all sequences and heads into ranges to be worked on one by one.
template <class RowsOf>
std::vector<RowRange> row_ranges(const Problem& problem, int64_t heads, int64_t at_once, RowsOf rows_of) {
  std::vector<RowRange> ranges;
  for (size_t s = 0; s < problem.sequences.size(); ++s) {
    const int64_t rows = rows_of(problem.sequences[s]);
    for (int64_t head = 0; head < heads; ++head) {
      for (int64_t first = 0; first < rows; first += at_once) {
        ranges.push_back({static_cast<int64_t>(s), head, first, std::min(at_once, rows - first)});
      }
    }
  }
  return ranges;
}

/// Sets the padding behind each row to zero, then reads.
void read_block(const ReadRows& read, const RowRange& range, int64_t width, Block rows) {
  for (int64_t row = 0; row < range.count; ++row) {
    std::fill(rows.data + row * rows.stride + width, rows.data + (row + 1) * rows.stride, 0.0f);
  }
  read(range.sequence, range.head, range.first, range.count, rows);
}

}  // namespace

void Problem::add(Sequence sequence) {
  sequence.query_offset = queries;
  sequence.key_offset = keys;
  queries += sequence.queries;
  keys += sequence.keys;
  sequences.push_back(sequence);
}

PackedRows pack_queries(const Problem& problem, int64_t width, const ReadRows& read) {
  PackedRows packed(problem.queries * problem.heads, width);
  const auto ranges = row_ranges(problem, problem.heads, kRowsAtOnce, [](const Sequence& s) { return s.queries; });
  base::parallel_for(static_cast<int64_t>(ranges.size()), 1, [&](int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; ++k) {
      const RowRange& range = ranges[static_cast<size_t>(k)];
      const Sequence& sequence = problem.sequences[static_cast<size_t>(range.sequence)];
      read_block(read, range, width, packed.block(problem.query_row(sequence, range.head, range.first)));
    }
  });
  return packed;
}

PackedRows pack_keys(const Problem& problem, int64_t width, const ReadRows& read) {
  PackedRows packed(problem.keys * problem.key_heads, width);
  const auto ranges = row_ranges(problem, problem.key_heads, kRowsAtOnce, [](const Sequence& s) { return s.keys; });
  base::parallel_for(static_cast<int64_t>(ranges.size()), 1, [&](int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; ++k) {
      const RowRange& range = ranges[static_cast<size_t>(k)];
      const Sequence& sequence = problem.sequences[static_cast<size_t>(range.sequence)];
      read_block(read, range, width, packed.block(problem.key_row(sequence, range.head, range.first)));
    }
  });
  return packed;
}

PackedColumns::PackedColumns(const Problem& problem, int64_t width, const PackedRows& rows) : width_(width) {
  int64_t total = 0;
  for (const Sequence& sequence : problem.sequences) {
    first_.push_back(total);
    blocks_.push_back((sequence.keys + kKeyBlock - 1) / kKeyBlock);
    total += blocks_.back() * problem.key_heads;
  }
  values_ = std::make_unique_for_overwrite<float[]>(static_cast<size_t>(total * width * kKeyBlock));
  const auto ranges = row_ranges(problem, problem.key_heads, kKeyBlock, [](const Sequence& s) { return s.keys; });
  base::parallel_for(static_cast<int64_t>(ranges.size()), 1, [&](int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; ++k) {
      const RowRange& range = ranges[static_cast<size_t>(k)];
      const Sequence& sequence = problem.sequences[static_cast<size_t>(range.sequence)];
      float* to = values_.get() + k * width * kKeyBlock;
      if (range.count < kKeyBlock) std::fill(to, to + width * kKeyBlock, 0.0f);
      transpose(range.count, width, rows.block(problem.key_row(sequence, range.head, range.first)), {to, kKeyBlock});
    }
  });
}

bool sees_nothing(const Sequence& s, int64_t first_query, int64_t queries, int64_t first_key, int64_t keys) {
  if (first_key < s.prefix) return false;
  return first_key > first_query + queries - 1 + s.after || first_key + keys - 1 < first_query - s.before;
}

namespace {

/// The shift of one query's scores.
const float* shift_row(const Problem& problem, const Sequence& s, int64_t head, int64_t query, int64_t first_key,
                       int64_t keys, float* buffer) {
  std::fill(buffer + keys, buffer + padded_to_lanes(keys), 0.0f);
  if (s.slopes != nullptr) {
    const float slope = -s.slopes[head];
    for (int64_t k = 0; k < keys; ++k) {
      const float distance = static_cast<float>(std::abs(query + s.distance_offset - first_key - k));
      buffer[k] = slope * (problem.root_of_distance ? std::sqrt(distance) : distance);
    }
    return buffer;
  }
  const int64_t moved = std::max<int64_t>(0, s.shift_first_query - query);
  const char* from = s.shift.data + head * s.shift.head_stride +
                     std::max<int64_t>(0, query - s.shift_first_query) * s.shift.query_stride;
  // A key past the end of the moved row lies behind the query, where the band hides it.
  const int64_t start = std::min(first_key + moved, s.keys);
  const int64_t count = std::min(keys, s.keys - start);
  const float* values =
      loader_of<float>(problem.shift_type)(from + start * s.shift.key_stride, s.shift.key_stride, count, buffer);
  if (values != buffer) std::copy_n(values, count, buffer);
  std::fill(buffer + count, buffer + keys, 0.0f);
  return buffer;
}

/// Masks the columns that the band hides.
void apply_band(const Sequence& s, int64_t query, int64_t first_key, int64_t keys, float* row) {
  const auto column = [&](int64_t key) { return std::clamp<int64_t>(key - first_key, 0, keys); };
  const int64_t prefix_end = column(s.prefix);
  const int64_t begin = column(query - s.before);
  const int64_t end = std::max(begin, column(query + s.after + 1));
  if (prefix_end < begin) std::fill(row + prefix_end, row + begin, kMasked);
  std::fill(row + std::max(prefix_end, end), row + keys, kMasked);
}

}  // namespace

void finish_scores(const Problem& problem, const Sequence& s, int64_t head, int64_t first_query, int64_t queries,
                   int64_t first_key, int64_t keys, Block scores, ScoreScratch& scratch) {
  const int64_t columns = padded_to_lanes(keys);
  const bool has_shift = s.shift.data != nullptr || s.slopes != nullptr;
  const bool band = s.before < kUnbounded / 2 || s.after < kUnbounded / 2;
  for (int64_t q = 0; q < queries; ++q) {
    const int64_t query = first_query + q;
    float* row = scores.data + q * scores.stride;
    if (!has_shift) {
      scale(row, columns, problem.scale);
    } else {
      const float* shift = shift_row(problem, s, head, query, first_key, keys, scratch.shift);
      if (problem.scales_shift) {
        add_then_scale(row, shift, columns, problem.scale);
      } else {
        scale_then_add(row, shift, columns, problem.scale);
      }
    }
    if (band) apply_band(s, query, first_key, keys, row);
    if (s.mask.data != nullptr && first_key + keys > s.mask_first_key) {
      const int64_t skipped = std::max<int64_t>(0, s.mask_first_key - first_key);
      replace_where(row + skipped,
                    s.mask.data + head * s.mask.head_stride + query * s.mask.query_stride +
                        (first_key + skipped - s.mask_first_key) * s.mask.key_stride,
                    s.mask.key_stride, keys - skipped, kMasked);
    }
    std::fill(row + keys, row + columns, kMasked);
  }
}

void keep_factors(const Problem& problem, const Sequence& s, int64_t head, int64_t query, int64_t first_key,
                  int64_t keys, float* factors) {
  const float kept = 1.0f / problem.keep_probability;
  int64_t bit = s.keep_bit + (head * s.queries + query) * s.keys + first_key;
  for (int64_t k = 0; k < keys; ++k, ++bit) {
    const unsigned byte = static_cast<unsigned char>(problem.keep_bits[(bit / 8) * problem.keep_byte_stride]);
    factors[k] = (byte >> (bit % 8) & 1u) != 0 ? kept : 0.0f;
  }
  std::fill(factors + keys, factors + padded_to_lanes(keys), 0.0f);
}

}  // namespace drydock::ops::kernels::attention
