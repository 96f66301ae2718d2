#pragma once

#include <array>
#include <cstdint>

namespace drydock::ops::kernels {

/// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3"): random words as a function of a place,
/// so that any part of a result may be drawn by any thread.
///
/// The stream of one call: key = seed; counter = the number of the block (low half) and the call's offset (high half),
/// so that two offsets never share a block. Word i is word i % 4 of block i / 4. Element e of a result takes
///   * fp32 and narrower: word e;
///   * fp64 and integers: words 2e (low) and 2e + 1 (high);
///   * normal values: elements 2k and 2k + 1 are the Box-Muller pair of the words of both.
/// Elements count in row-major order, so strides do not change what is drawn. A real device draws other values.
class Philox {
 public:
  using Block = std::array<uint32_t, 4>;

  Philox(uint64_t seed, uint64_t offset) noexcept : seed_(seed), offset_(offset) {}

  Block block(uint64_t index) const noexcept;
  /// Words first, first + 1, ... of the stream.
  void words(uint64_t first, int64_t count, uint32_t* out) const noexcept;

  /// Elements first, first + 1, ... uniform in [0, 1): 24 random bits, 53 for double.
  void units(uint64_t first, int64_t count, float* out) const noexcept;
  void units(uint64_t first, int64_t count, double* out) const noexcept;
  /// Elements first, first + 1, ... of the standard normal distribution.
  void normals(uint64_t first, int64_t count, float* out) const noexcept;
  void normals(uint64_t first, int64_t count, double* out) const noexcept;

  /// The 64 bits of element `index`.
  uint64_t bits(uint64_t index) const noexcept;
  double unit(uint64_t index) const noexcept { return static_cast<double>(bits(index) >> 11) * 0x1p-53; }
  /// Uniform in [0, range); all 64 bits if range is 0. The bias of at most range / 2^64 does not matter here.
  uint64_t below(uint64_t range, uint64_t index) const noexcept { return scale(bits(index), range); }
  static uint64_t scale(uint64_t bits, uint64_t range) noexcept {
    return range == 0 ? bits : static_cast<uint64_t>((static_cast<unsigned __int128>(bits) * range) >> 64);
  }

 private:
  uint64_t seed_;
  uint64_t offset_;
};

}  // namespace drydock::ops::kernels
