#pragma once

#include <cstdint>

#include "ops/matmul/gemm.h"

// Products of bf16 matrices on the tile registers that some processors have for them (AMX). Every product of two
// elements is exact and sums are fp32 there, as in the engine of gemm.h; subnormal numbers count as zeros, and the
// order of a sum is the processor's, so that last bits differ from the engine's. They do not depend on threads.

namespace drydock::ops::kernels {

/// True if this process may use such registers. Not while limit_instruction_set() asks for less.
bool has_bf16_tiles() noexcept;

/// Lines of bf16 elements as they lie in memory; strides in bytes.
struct Bf16Lines {
  const char* data;
  int64_t lines;
  int64_t line_stride;
  int64_t depth_stride;
};

namespace bf16_tiles {

/// A tile has so many lines and, along the depth, so many elements.
inline constexpr int64_t kLines = 16;
inline constexpr int64_t kDepth = 32;
inline constexpr int64_t kTile = kLines * kDepth;
/// Rows and columns of what multiply() computes: two tiles of either side.
inline constexpr int64_t kBlock = 2 * kLines;

inline int64_t steps_of(int64_t depth) { return (depth + kDepth - 1) / kDepth; }

enum class Side : uint8_t { kLeft, kRight };

/// Packs panels of kLines lines each, from line `first` on, with zeros for lines that do not exist and behind the
/// depth. A panel is steps_of(depth) * kTile elements; `to` is aligned to 64 bytes.
void pack(const Bf16Lines& from, int64_t first, int64_t panels, int64_t depth, Side side, uint16_t* to);

/// While it lives, its thread may call multiply().
class Session {
 public:
  Session();
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
};

/// sums (kBlock rows, `stride` floats apart) = or += the products of two packed panels of each side.
void multiply(const uint16_t* left0, const uint16_t* left1, const uint16_t* right0, const uint16_t* right1,
              int64_t steps, float* sums, int64_t stride, bool add);

}  // namespace bf16_tiles

/// As gemm.h's multiply(), for lines of bf16. Only where has_bf16_tiles().
void multiply_bf16(int64_t depth, const Bf16Lines& a, const Bf16Lines& b, const Product<float>& product);

}  // namespace drydock::ops::kernels
