#pragma once

#include <vector>

#include "ops/kernel_access.h"

namespace drydock::ops::kernels::rotary {

/// Writes rows into a cache of keys or values, in one of its arrangements, as floating values or rounded to int8.
class CacheWriter {
 public:
  enum class Arrangement {
    kBatch,   ///< [batch, heads, positions, width]
    kBlocks,  ///< [blocks, block size, heads, width]
    kChunks,  ///< the same sizes, but one row's elements lie in chunks of 32 bytes, block size apart
  };
  enum class Rounding {
    kNone,
    kMultiply,  ///< value * scale + offset
    kDivide,    ///< value / scale + offset
  };

  /// False if the cache does not have this arrangement. Of chunks there is one head.
  bool set(const TensorView& cache, Arrangement arrangement);
  /// Chunks with heads and elements merged: [blocks, heads * width / chunk, block size, chunk].
  bool set_merged_chunks(const TensorView& cache, int64_t heads, int64_t width);
  /// Scales (and offsets, or none) by head and element, by element, or one for all. False if the sizes do not fit.
  bool set_rounding(Rounding rounding, const TensorView& scales, const TensorView& offsets);

  int64_t heads() const { return heads_; }
  int64_t width() const { return width_; }
  int64_t block_size() const { return block_size_; }
  /// Number of rows that a slot may name.
  int64_t slots() const { return slots_; }

  /// `slot` is block * block size + position, or a position in the batch.
  void write(int64_t batch, int64_t slot, int64_t head, const float* values) const;

 private:
  char* element(int64_t batch, int64_t slot, int64_t head, int64_t at) const;

  TensorView cache_;
  Dims strides_;
  Arrangement arrangement_ = Arrangement::kBatch;
  int64_t heads_ = 0;
  int64_t width_ = 0;
  int64_t block_size_ = 0;
  int64_t slots_ = 0;
  int64_t chunk_ = 0;  ///< elements that lie together
  Rounding rounding_ = Rounding::kNone;
  std::vector<float> scales_, offsets_;
};

/// The slots that an operator's index gives to rows.
class Slots {
 public:
  /// `length` rows in each of `batches`, one number for each row, or for each block of rows. Numbers are below `limit`.
  Status set(const KernelCall& call, const TensorView& index, int64_t batches, int64_t length, int64_t block_size,
             bool by_block, int64_t limit);
  /// -1: the row is not kept.
  int64_t of(int64_t batch, int64_t row) const;

 private:
  std::vector<int64_t> slots_;
  int64_t length_ = 0;
  int64_t block_size_ = 0;
  bool by_block_ = false;
};

/// All elements; none of an undefined view.
std::vector<float> floats_of(const TensorView& view);

}  // namespace drydock::ops::kernels::rotary
