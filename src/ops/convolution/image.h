#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "ops/convolution/geometry.h"
#include "ops/matmul/gemm.h"

namespace drydock::ops::kernels {

/// Zeros around each spatial dimension.
struct Margins {
  std::array<int64_t, 3> before{}, after{};
};

/// Spatial sizes of a tensor [N, C, D, H, W] with margins.
Dims padded_sizes(const TensorView& view, const Margins& margins);

/// Some batches of a tensor [N, C, D, H, W] as fp32 with zeros around: the tensor itself where it is that already, else
/// a copy. The innermost dimension is dense.
class PaddedImage {
 public:
  /// Batches [first, first + count).
  PaddedImage(const TensorView& view, int64_t first, int64_t count, const Margins& margins, InputRounding rounding);

  const float* data() const { return data_; }
  int64_t batch_stride() const { return strides_[0]; }
  int64_t channel_stride() const { return strides_[1]; }
  /// Elements from one index of spatial dimension `axis` (0, 1 or 2) to the next.
  int64_t stride(int axis) const { return strides_[static_cast<size_t>(axis + 2)]; }

 private:
  void copy(const TensorView& view, int64_t first, int64_t count, const Margins& margins, InputRounding rounding);

  const float* data_ = nullptr;
  std::array<int64_t, 5> strides_{};
  std::unique_ptr<float[]> owned_;
};

/// Batches of `view` that PaddedImage may hold at once without asking for much memory; at least 1.
int64_t batches_at_once(const TensorView& view, const Margins& margins);

/// The positions of a map as offsets into a padded image: where the first tap of position (n, d, h, w) reads.
struct Positions {
  std::array<int64_t, 3> sizes;  ///< of the map
  std::array<int64_t, 3> steps;  ///< offset in the image from one position to the next
  int64_t batch_step;

  int64_t per_batch() const { return sizes[0] * sizes[1] * sizes[2]; }
  /// offsets[i] = offset of position first + i, counted over all batches.
  void fill(int64_t first, int64_t count, int64_t* offsets) const;
};

/// The patches of an image under a filter, as a factor: lines are positions and the depth runs over (channel, tap), or
/// the other way round.
class PatchFactor final : public Factor<float> {
 public:
  enum class Lines : uint8_t { kPositions, kTaps };
  /// `tap_offsets`: offset in the image for each (channel, tap). All must outlive the factor.
  PatchFactor(const float* data, const Positions& positions, const int64_t* tap_offsets, Lines lines)
      : data_(data), positions_(positions), tap_offsets_(tap_offsets), lines_(lines) {}

  void pack(int64_t line, int64_t lines, int64_t depth_begin, int64_t depth, int width, float* to) const override;

 private:
  void pack_positions(int64_t line, int64_t lines, int64_t depth_begin, int64_t depth, int width, float* to) const;
  void pack_taps(int64_t line, int64_t lines, int64_t depth_begin, int64_t depth, int width, float* to) const;

  const float* data_;
  const Positions& positions_;
  const int64_t* tap_offsets_;
  Lines lines_;
};

}  // namespace drydock::ops::kernels
