#pragma once

#include <cstdint>

// The innermost loop of all matrix products: one tile of C from a panel of A and a panel of B, for the widest vectors
// that this machine has.

namespace drydock::ops::kernels {

/// tile[i][j] (+)= sum over p of a[p * rows + i] * b[p * columns + j], in the order of p, with fused multiply-add where
/// the machine has it. `a` and `b` are packed and zero-padded to the tile's sizes, `b` is aligned to 64 bytes.
template <class T>
struct MicroKernel {
  int rows;
  int columns;
  void (*run)(int64_t depth, const T* a, const T* b, T* tile, int64_t tile_stride, bool add);
};

/// T: float or double.
template <class T>
const MicroKernel<T>& micro_kernel() noexcept;

/// Largest tile of any machine, in elements.
inline constexpr int kMostTileRows = 12;
inline constexpr int kMostTileColumns = 32;

}  // namespace drydock::ops::kernels
