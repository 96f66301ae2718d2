#pragma once

#include <cstdint>
#include <vector>

#include "ops/attention/problem.h"
#include "ops/matmul/bf16_tiles.h"

// The products of attention on the processor's tiles for bf16, for operands that were bf16 before they became fp32. The
// factors that attention computes itself, the probabilities and their gradients, are split into two bf16 parts each:
// their products are then right to 16 bits of the significand.

namespace drydock::ops::kernels::attention {

/// True if the problem's operands are bf16 and the processor has tiles for that.
bool runs_on_tiles(const Problem& problem);

/// Panels of one side of a product; `lines` is rounded up to what a product computes at once.
inline int64_t tile_elements(int64_t lines, int64_t depth) {
  constexpr int64_t kBlock = bf16_tiles::kBlock;
  return (lines + kBlock - 1) / kBlock * (kBlock / bf16_tiles::kLines) * bf16_tiles::steps_of(depth) *
         bf16_tiles::kTile;
}
inline int64_t padded_to_tiles(int64_t count) {
  return (count + bf16_tiles::kBlock - 1) / bf16_tiles::kBlock * bf16_tiles::kBlock;
}

/// Packed panels, aligned.
class TilePanels {
 public:
  explicit TilePanels(int64_t elements) : values_(static_cast<size_t>(elements + 32)) {}
  uint16_t* data() { return reinterpret_cast<uint16_t*>((reinterpret_cast<uintptr_t>(values_.data()) + 63) / 64 * 64); }

 private:
  std::vector<uint16_t> values_;
};

/// Rows of bf16 values as lines along their columns.
void pack_rows(ConstBlock rows, int64_t count, int64_t width, bf16_tiles::Side side, uint16_t* to);
/// Columns of the same as lines along the rows, `depth` elements long: zeros behind the last row.
void pack_columns(ConstBlock rows, int64_t count, int64_t width, int64_t depth, bf16_tiles::Side side, uint16_t* to);
/// Rows of any values as lines of the left side, `depth` elements long, in two parts whose sum they are.
void pack_parts(ConstBlock rows, int64_t count, int64_t width, int64_t depth, uint16_t* high, uint16_t* low);

/// c (rows x columns, both padded to tiles) = or += the product.
void multiply_tiles(int64_t rows, int64_t columns, int64_t depth, const uint16_t* left, const uint16_t* right, Block c,
                    Store store);

/// Keys and values of all sequences, heads and blocks of kKeyBlock keys, for attend_on_tiles.
class TileKeys {
 public:
  TileKeys(const Problem& problem, const ReadRows& read_keys, const ReadRows& read_values);
  const uint16_t* keys(int64_t sequence, int64_t head, int64_t key_block) const;
  const uint16_t* values(int64_t sequence, int64_t head, int64_t key_block) const;

 private:
  int64_t index_of(int64_t sequence, int64_t head, int64_t key_block) const;

  std::vector<int64_t> first_, blocks_;
  int64_t key_elements_, value_elements_;
  mutable TilePanels keys_, values_;
};

}  // namespace drydock::ops::kernels::attention
