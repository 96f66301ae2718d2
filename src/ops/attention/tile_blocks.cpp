#include "ops/attention/tile_blocks.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/instruction_set.h"
#include "base/thread_pool.h"

namespace drydock::ops::kernels::attention {

namespace {

using bf16_tiles::kDepth;
using bf16_tiles::kTile;
using bf16_tiles::Side;
constexpr int64_t kBlock = bf16_tiles::kBlock;
constexpr int64_t kPanel = bf16_tiles::kLines;

/// The upper halves of `count` values.
void take_upper(const float* from, int64_t count, uint16_t* to) {
  base::vectorized([=] {
    for (int64_t k = 0; k < count; ++k) to[k] = static_cast<uint16_t>(std::bit_cast<uint32_t>(from[k]) >> 16);
  });
}

std::vector<uint16_t> as_bf16(ConstBlock rows, int64_t count, int64_t width) {
  std::vector<uint16_t> values(static_cast<size_t>(count * width));
  for (int64_t row = 0; row < count; ++row) {
    take_upper(rows.data + row * rows.stride, width, values.data() + row * width);
  }
  return values;
}

}  // namespace

bool runs_on_tiles(const Problem& problem) { return problem.is_bf16 && has_bf16_tiles(); }

void pack_rows(ConstBlock rows, int64_t count, int64_t width, Side side, uint16_t* to) {
  const std::vector<uint16_t> values = as_bf16(rows, count, width);
  const Bf16Lines lines{reinterpret_cast<const char*>(values.data()), count, 2 * width, 2};
  bf16_tiles::pack(lines, 0, padded_to_tiles(count) / kPanel, width, side, to);
}

void pack_columns(ConstBlock rows, int64_t count, int64_t width, int64_t depth, Side side, uint16_t* to) {
  std::vector<uint16_t> values = as_bf16(rows, count, width);
  values.resize(static_cast<size_t>(depth * width));
  const Bf16Lines lines{reinterpret_cast<const char*>(values.data()), width, 2, 2 * width};
  bf16_tiles::pack(lines, 0, padded_to_tiles(width) / kPanel, depth, side, to);
}

void pack_parts(ConstBlock rows, int64_t count, int64_t width, int64_t depth, uint16_t* high, uint16_t* low) {
  const int64_t steps = bf16_tiles::steps_of(depth);
  for (int64_t row = 0; row < padded_to_tiles(count); ++row) {
    const int64_t at = row / kPanel * steps * kTile + row % kPanel * kDepth;
    const int64_t columns = row < count ? width : 0;
    const float* from = rows.data + row * rows.stride;
    base::vectorized([=] {
      for (int64_t step = 0; step < steps; ++step) {
        const int64_t length = std::clamp<int64_t>(columns - step * kDepth, 0, kDepth);
        const float* values = from + step * kDepth;
        uint16_t* upper = high + at + step * kTile;
        uint16_t* rest = low + at + step * kTile;
        const auto split = [&](int64_t k) {
          const uint32_t bits = std::bit_cast<uint32_t>(values[k]);
          upper[k] = static_cast<uint16_t>(bits >> 16);
          const float left = values[k] - std::bit_cast<float>(bits & 0xffff0000U);
          rest[k] = static_cast<uint16_t>(std::bit_cast<uint32_t>(left) >> 16);
        };
        if (length == kDepth) {
#pragma GCC ivdep
          for (int64_t k = 0; k < kDepth; ++k) split(k);
          continue;
        }
        for (int64_t k = 0; k < length; ++k) split(k);
        for (int64_t k = length; k < kDepth; ++k) upper[k] = rest[k] = 0;
      }
    });
  }
}

void multiply_tiles(int64_t rows, int64_t columns, int64_t depth, const uint16_t* left, const uint16_t* right, Block c,
                    Store store) {
  const int64_t steps = bf16_tiles::steps_of(depth), panel = steps * kTile;
  for (int64_t column = 0; column < columns; column += kBlock) {
    const uint16_t* b = right + column / kPanel * panel;
    for (int64_t row = 0; row < rows; row += kBlock) {
      const uint16_t* a = left + row / kPanel * panel;
      bf16_tiles::multiply(a, a + panel, b, b + panel, steps, c.data + row * c.stride + column, c.stride,
                           store == Store::kAdd);
    }
  }
}

TileKeys::TileKeys(const Problem& problem, const ReadRows& read_keys, const ReadRows& read_values)
    : key_elements_(tile_elements(kKeyBlock, problem.key_width)),
      value_elements_(tile_elements(problem.value_width, kKeyBlock)),
      keys_(0),
      values_(0) {
  struct Place {
    int64_t sequence, head, first, count;
  };
  std::vector<Place> places;
  for (size_t number = 0; number < problem.sequences.size(); ++number) {
    const Sequence& s = problem.sequences[number];
    first_.push_back(static_cast<int64_t>(places.size()));
    blocks_.push_back((s.keys + kKeyBlock - 1) / kKeyBlock);
    for (int64_t head = 0; head < problem.key_heads; ++head) {
      for (int64_t first = 0; first < s.keys; first += kKeyBlock) {
        places.push_back({static_cast<int64_t>(number), head, first, std::min(kKeyBlock, s.keys - first)});
      }
    }
  }
  const int64_t count = static_cast<int64_t>(places.size());
  keys_ = TilePanels(count * key_elements_);
  values_ = TilePanels(count * value_elements_);
  uint16_t* const key_panels = keys_.data();
  uint16_t* const value_panels = values_.data();
  const int64_t stride = std::max(problem.key_width, problem.value_width);
  base::parallel_for(count, 1, [&](int64_t begin, int64_t end) {
    std::vector<float> buffer(static_cast<size_t>(kKeyBlock * stride));
    const Block rows{buffer.data(), stride};
    for (int64_t k = begin; k < end; ++k) {
      const auto& [sequence, head, first, length] = places[static_cast<size_t>(k)];
      read_keys(sequence, head, first, length, rows);
      pack_rows(rows, length, problem.key_width, Side::kRight, key_panels + k * key_elements_);
      read_values(sequence, head, first, length, rows);
      pack_columns(rows, length, problem.value_width, kKeyBlock, Side::kRight, value_panels + k * value_elements_);
    }
  });
}

int64_t TileKeys::index_of(int64_t sequence, int64_t head, int64_t key_block) const {
  const auto s = static_cast<size_t>(sequence);
  return first_[s] + head * blocks_[s] + key_block;
}

const uint16_t* TileKeys::keys(int64_t sequence, int64_t head, int64_t key_block) const {
  return keys_.data() + index_of(sequence, head, key_block) * key_elements_;
}

const uint16_t* TileKeys::values(int64_t sequence, int64_t head, int64_t key_block) const {
  return values_.data() + index_of(sequence, head, key_block) * value_elements_;
}

}  // namespace drydock::ops::kernels::attention
