#pragma once

#include <span>
#include <vector>

#include "ops/attention/layout.h"
#include "ops/attention/problem.h"

// Keys or values as inference keeps them: one tensor or one for each sequence, blocks that a table puts in order, a
// prefix that all sequences share, small integers with scales.

namespace drydock::ops::kernels::attention {

/// How elements kept in int8 become numbers: (element + offset) * scale.
struct Dequantization {
  enum class Kind { kNone, kTensor, kChannel, kHead, kToken };
  Kind kind = Kind::kNone;
  std::vector<float> scales;
  std::vector<float> offsets;    ///< empty: zeros
  int64_t tokens_per_batch = 0;  ///< of kToken

  void apply(int64_t batch, int64_t head, int64_t token, int64_t width, float* row) const;
};

class KeyCache {
 public:
  /// One tensor with the whole batch, or a tensor of batch 1 for each sequence. False if a tensor does not have the
  /// layout.
  bool set_tensors(std::span<const TensorView> tensors, std::string_view layout, int64_t heads);
  /// Blocks: [blocks, block_size, heads * width], [blocks, heads, block_size, width] or [blocks, heads, width / c,
  /// block_size, c].
  bool set_blocks(const TensorView& view, int64_t block_size, int64_t heads);
  bool set_prefix(const TensorView& view, std::string_view layout, int64_t heads, int64_t length);

  int64_t batches() const { return is_list_ ? static_cast<int64_t>(tensors_.size()) : first().batches; }
  int64_t heads() const { return first().heads; }
  int64_t width() const { return width_; }
  /// Rows of one sequence; of packed sequences, of all.
  int64_t rows(int64_t sequence) const { return tensors_[is_list_ ? static_cast<size_t>(sequence) : 0].rows; }
  int64_t blocks() const { return first().batches; }
  int64_t block_size() const { return first().rows; }
  bool is_list() const { return is_list_; }
  DataType dtype() const { return first().dtype; }
  int64_t prefix_length() const { return prefix_length_; }
  bool has_shape_of(const KeyCache& other) const;

  Dequantization& dequantization() { return dequantization_; }
  /// Block numbers of a sequence, in the order of its rows.
  void set_table(std::vector<std::vector<int64_t>> table) { table_ = std::move(table); }

  /// Row `token` of sequence `sequence`: of its prefix, then from `first_row` on of its own.
  void read(int64_t sequence, int64_t batch, int64_t first_row, int64_t head, int64_t token, float* to) const;

 private:
  const HeadView& first() const { return tensors_.front(); }
  void read_elements(const HeadView& view, const char* from, int64_t width, float* to) const;

  bool is_list_ = false;
  std::vector<HeadView> tensors_;
  int64_t width_ = 0;
  int64_t chunk_ = 0;         ///< elements that lie together; all where the width is in one dimension
  int64_t chunk_stride_ = 0;  ///< in bytes
  std::vector<std::vector<int64_t>> table_;
  HeadView prefix_;
  int64_t prefix_length_ = 0;
  Dequantization dequantization_;
};

}  // namespace drydock::ops::kernels::attention
