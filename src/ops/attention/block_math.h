#pragma once

#include <cstdint>

// The arithmetic of attention on small dense fp32 blocks, in vectors of a fixed number of lanes, which the compiler
// maps onto what the host has: sums are taken in the same order everywhere.

namespace drydock::ops::kernels::attention {

/// Columns of every block that is written are a multiple of this; the functions below count on it.
inline constexpr int64_t kLanes = 16;

inline int64_t padded_to_lanes(int64_t count) { return (count + kLanes - 1) / kLanes * kLanes; }

/// A row-major matrix: `stride` floats from row to row.
struct Block {
  float* data;
  int64_t stride;
};
struct ConstBlock {
  ConstBlock(const float* values, int64_t floats_per_row) : data(values), stride(floats_per_row) {}
  ConstBlock(const Block& block) : data(block.data), stride(block.stride) {}
  const float* data;
  int64_t stride;
};

enum class Store { kReplace, kAdd };

/// c (rows x columns) = a (rows x inner) times b (inner x columns); `columns` is a multiple of kLanes.
void multiply(int64_t rows, int64_t columns, int64_t inner, ConstBlock a, ConstBlock b, Block c, Store store);

/// to[column][row] = from[row][column].
void transpose(int64_t rows, int64_t columns, ConstBlock from, Block to);

/// The largest of `count` values, a multiple of kLanes; NaNs are passed over.
float maximum(const float* values, int64_t count);

/// values[k] = exp(values[k] - shift), at most 2 units in the last place off; returns their sum. `count` is a multiple
/// of kLanes. Results below the smallest normal number are 0.
float exponentials(float* values, int64_t count, float shift);

// Counts below are multiples of kLanes too, but where said otherwise.
void scale(float* values, int64_t count, float factor);
/// values = (values + added) * factor, or values * factor + added.
void add_then_scale(float* values, const float* added, int64_t count, float factor);
void scale_then_add(float* values, const float* added, int64_t count, float factor);
void multiply_by(float* values, const float* factors, int64_t count);

/// values[k] = replacement where mask[k * stride] is not zero; any count.
void replace_where(float* values, const char* mask, int64_t stride, int64_t count, float replacement);

/// Any count.
float dot(const float* a, const float* b, int64_t count);

/// gradients = probabilities * (gradients - shift): the softmax's backward.
void softmax_backward(float* gradients, const float* probabilities, int64_t count, float shift);

}  // namespace drydock::ops::kernels::attention
