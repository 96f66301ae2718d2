#include <algorithm>

#include "base/saturating.h"
#include "base/thread_pool.h"
#include "ops/kernel_call.h"
#include "ops/rotary/rotary.h"

// aclnnRopeWithSinCosCache: angles looked up by position, one position for each token or one for each section.

namespace drydock::ops::kernels {

namespace rotary {

namespace {

struct CachedAngles {
  std::vector<float> cache;         ///< rows of cos, then sin
  int64_t half = 0;                 ///< elements of cos in a row
  std::vector<int64_t> positions;   ///< [section][token]
  std::vector<int64_t> section_of;  ///< by element of cos
  int64_t tokens = 0;

  void read(int64_t token, float* cos, float* sin) const {
    for (int64_t k = 0; k < half; ++k) {
      const int64_t section = section_of[static_cast<size_t>(k)];
      const int64_t position = positions[static_cast<size_t>(section * tokens + token)];
      cos[k] = cache[static_cast<size_t>(position * 2 * half + k)];
      sin[k] = cache[static_cast<size_t>(position * 2 * half + half + k)];
    }
  }
};

Status sections_of(const KernelCall& call, int64_t sections, int64_t cache_mode, CachedAngles* angles) {
  angles->section_of.assign(static_cast<size_t>(angles->half), 0);
  if (sections == 0) return Status::ok();
  const std::span<const int64_t> lengths = call.ints(0);
  int64_t total = 0;
  for (int64_t length : lengths) total = saturating_sum(total, std::max<int64_t>(0, length));
  if (static_cast<int64_t>(lengths.size()) != sections || total != angles->half) {
    return invalid(call, "mropeSection must hold " + std::to_string(sections) + " lengths that add up to " +
                             std::to_string(angles->half));
  }
  if (cache_mode == 1) {
    // Sections take turns: elements 1, 4, 7 ... and 2, 5, 8 ... as far as the second section's length goes.
    if (sections != 3) return invalid(call, "cacheMode 1 takes three sections");
    for (int64_t k = 0; k < std::min(angles->half, lengths[1] * 3); ++k) {
      angles->section_of[static_cast<size_t>(k)] = k % 3;
    }
    return Status::ok();
  }
  int64_t at = 0;
  for (size_t section = 0; section < lengths.size(); ++section) {
    for (int64_t k = 0; k < lengths[section]; ++k) {
      angles->section_of[static_cast<size_t>(at++)] = static_cast<int64_t>(section);
    }
  }
  return Status::ok();
}

Status read_angles(const KernelCall& call, CachedAngles* angles) {
  const TensorView& positions = call.operand(0);
  const TensorView& cache = call.operand(3);
  const int rank = positions.dims.size();
  if (cache.dims.size() != 2 || cache.dims[1] % 2 != 0 || rank < 1 || rank > 2 || is_floating(positions.dtype)) {
    return invalid(call, "positions must be [tokens] or [sections, tokens], cosSinCache [positions, 2 n]: " +
                             sizes_of(positions) + " and " + sizes_of(cache));
  }
  angles->half = cache.dims[1] / 2;
  angles->tokens = positions.dims[rank - 1];
  const int64_t cache_mode = call.integer(1);
  DRYDOCK_RETURN_IF_ERROR(sections_of(call, rank == 2 ? positions.dims[0] : 0, cache_mode, angles));
  Status status = Status::ok();
  for_each_value<int64_t>(positions, [&](int64_t position) {
    if (status.is_ok() && (position < 0 || position >= cache.dims[0])) {
      status = device_fault(call, "position " + std::to_string(position) + " is beyond the " +
                                      std::to_string(cache.dims[0]) + " of cosSinCache");
    }
    angles->positions.push_back(position);
  });
  if (!status.is_ok()) return status;
  angles->cache.reserve(static_cast<size_t>(cache.numel()));
  for_each_value<float>(cache, [&](float value) { angles->cache.push_back(value); });
  return Status::ok();
}

Status check_rows(const KernelCall& call, const TensorView& in, const TensorView& out, int64_t head_size,
                  const CachedAngles& angles) {
  if (in.dims.size() == 2 && in.dims == out.dims && in.dims[0] == angles.tokens && head_size > 0 &&
      in.dims[1] % head_size == 0 && 2 * angles.half <= head_size) {
    return Status::ok();
  }
  return invalid(call, "query and key must be [" + std::to_string(angles.tokens) + ", heads * " +
                           std::to_string(head_size) + "], not " + sizes_of(in) + " and " + sizes_of(out));
}

void rotate_heads(const TensorView& in, const TensorView& out, int64_t head_size, Mode mode,
                  const CachedAngles& angles) {
  const Rows in_rows(in, 1), out_rows(out, 1);
  const int64_t half = angles.half;
  const Rotation rotation(mode, 2 * half);
  base::parallel_for(in_rows.count(), 16, [&](int64_t begin, int64_t end) {
    const size_t width = static_cast<size_t>(in_rows.length());
    std::vector<float> x_buffer(width), y(width), cos(static_cast<size_t>(2 * half)), sin(cos.size());
    std::vector<float> half_cos(static_cast<size_t>(half)), half_sin(half_cos.size());
    for (int64_t token = begin; token < end; ++token) {
      angles.read(token, half_cos.data(), half_sin.data());
      // Both elements of a pair turn by one angle.
      for (int64_t k = 0; k < half; ++k) {
        for (int64_t at : {mode == Mode::kHalf ? k : 2 * k, mode == Mode::kHalf ? k + half : 2 * k + 1}) {
          cos[static_cast<size_t>(at)] = half_cos[static_cast<size_t>(k)];
          sin[static_cast<size_t>(at)] = half_sin[static_cast<size_t>(k)];
        }
      }
      const float* x = in_rows.read<float>(token, x_buffer.data());
      std::copy_n(x, width, y.data());
      for (int64_t start = 0; start < in_rows.length(); start += head_size) {
        rotation.apply(x + start, cos.data(), sin.data(), y.data() + start);
      }
      out_rows.write<float>(token, y.data());
    }
  });
}

}  // namespace

}  // namespace rotary

Status rope_with_sin_cos_cache(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 4, 2));
  const int64_t head_size = call.integer(0);
  rotary::CachedAngles angles;
  DRYDOCK_RETURN_IF_ERROR(rotary::read_angles(call, &angles));
  for (int which = 0; which < 2; ++which) {
    DRYDOCK_RETURN_IF_ERROR(rotary::check_rows(call, call.operand(which + 1), call.output(which), head_size, angles));
  }
  const rotary::Mode mode = call.boolean(0) ? rotary::Mode::kHalf : rotary::Mode::kInterleave;
  for (int which = 0; which < 2; ++which) {
    rotary::rotate_heads(call.operand(which + 1), call.output(which), head_size, mode, angles);
  }
  return Status::ok();
}

}  // namespace drydock::ops::kernels
