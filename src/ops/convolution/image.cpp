#include "ops/convolution/image.h"

#include <algorithm>
#include <cstring>

#ifdef __x86_64__
#include <immintrin.h>
#endif

#include "base/instruction_set.h"
#include "base/thread_pool.h"
#include "ops/matmul/micro_kernel.h"
#include "ops/matmul/transpose.h"

namespace drydock::ops::kernels {
namespace {

constexpr int64_t kMostElementsAtOnce = int64_t{1} << 24;
constexpr int64_t kLeastCopied = int64_t{1} << 15;

#ifdef __x86_64__
constexpr int64_t kVector = 16;

/// to[p * width + i] = data[offsets[i] + taps[p]] for i < lines, else 0; `width` and the room of `offsets` are a
/// multiple of kVector.
[[gnu::target("avx512f")]] void pack_by_vectors(const float* data, const int64_t* offsets, int64_t lines,
                                                const int64_t* taps, int64_t depth, int64_t width, float* to) {
  for (int64_t i = 0; i < width; i += kVector, to += kVector) {
    const int64_t count = std::clamp<int64_t>(lines - i, 0, kVector);
    if (count == 0) {
      for (int64_t p = 0; p < depth; ++p) _mm512_storeu_ps(to + p * width, _mm512_setzero_ps());
      continue;
    }
    const auto mask = static_cast<__mmask16>((1U << count) - 1);
    int32_t near[kVector] = {};
    bool dense = true, fits = true;
    for (int64_t k = 0; k < count; ++k) {
      const int64_t apart = offsets[i + k] - offsets[i];
      dense = dense && apart == k;
      fits = fits && apart >= INT32_MIN && apart <= INT32_MAX;
      near[k] = static_cast<int32_t>(apart);
    }
    const float* from = data + offsets[i];
    if (dense) {
      for (int64_t p = 0; p < depth; ++p) {
        _mm512_storeu_ps(to + p * width, _mm512_maskz_loadu_ps(mask, from + taps[p]));
      }
    } else if (fits) {
      const __m512i places = _mm512_loadu_si512(near);
      for (int64_t p = 0; p < depth; ++p) {
        const __m512 found = _mm512_mask_i32gather_ps(_mm512_setzero_ps(), mask, places, from + taps[p], 4);
        _mm512_storeu_ps(to + p * width, found);
      }
    } else {
      for (int64_t p = 0; p < depth; ++p) {
        for (int64_t k = 0; k < kVector; ++k) to[p * width + k] = k < count ? data[offsets[i + k] + taps[p]] : 0.0F;
      }
    }
  }
}
#endif

bool is_plain(const TensorView& view, const Margins& margins, InputRounding rounding) {
  if (view.dtype != DataType::kFloat || rounding != InputRounding::kNone) return false;
  if (view.dims[4] > 1 && view.strides[4] != 1) return false;
  for (size_t axis = 0; axis < 3; ++axis) {
    if (margins.before[axis] != 0 || margins.after[axis] != 0) return false;
  }
  return true;
}

}  // namespace

Dims padded_sizes(const TensorView& view, const Margins& margins) {
  Dims sizes;
  for (size_t axis = 0; axis < 3; ++axis) {
    sizes.push_back(view.dims[static_cast<int>(axis) + 2] + margins.before[axis] + margins.after[axis]);
  }
  return sizes;
}

PaddedImage::PaddedImage(const TensorView& view, int64_t first, int64_t count, const Margins& margins,
                         InputRounding rounding) {
  if (!is_plain(view, margins, rounding)) {
    copy(view, first, count, margins, rounding);
    return;
  }
  for (int axis = 0; axis < 5; ++axis) strides_[static_cast<size_t>(axis)] = view.strides[axis];
  strides_[4] = 1;
  data_ = reinterpret_cast<const float*>(view.data) + first * strides_[0];
}

void PaddedImage::copy(const TensorView& view, int64_t first, int64_t count, const Margins& margins,
                       InputRounding rounding) {
  const Dims sizes = padded_sizes(view, margins);
  const int64_t channels = view.dims[1];
  strides_ = {channels * sizes[0] * sizes[1] * sizes[2], sizes[0] * sizes[1] * sizes[2], sizes[1] * sizes[2], sizes[2],
              1};
  owned_.reset(new float[static_cast<size_t>(std::max<int64_t>(count * strides_[0], 1))]);
  data_ = owned_.get();
  const Dims bytes = strides_bytes(view);
  const Loader<float> load = loader_of<float>(view.dtype);
  const int64_t width = view.dims[4];
  base::parallel_for(count * channels, std::max<int64_t>(1, kLeastCopied / std::max<int64_t>(strides_[1], 1)),
                     [&](int64_t begin, int64_t end) {
                       for (int64_t plane = begin; plane < end; ++plane) {
                         float* to = owned_.get() + plane * strides_[1];
                         const char* from =
                             view.data + (first + plane / channels) * bytes[0] + plane % channels * bytes[1];
                         std::fill_n(to, strides_[1], 0.0F);
                         for (int64_t d = 0; d < view.dims[2]; ++d) {
                           for (int64_t h = 0; h < view.dims[3]; ++h) {
                             float* row = to + (d + margins.before[0]) * strides_[2] +
                                          (h + margins.before[1]) * strides_[3] + margins.before[2];
                             const float* values = load(from + d * bytes[2] + h * bytes[3], bytes[4], width, row);
                             if (values != row) std::memcpy(row, values, static_cast<size_t>(width) * sizeof(float));
                           }
                         }
                         round_inputs(rounding, to, strides_[1]);
                       }
                     });
}

int64_t batches_at_once(const TensorView& view, const Margins& margins) {
  const Dims sizes = padded_sizes(view, margins);
  const int64_t elements = std::max<int64_t>(1, view.dims[1] * sizes[0] * sizes[1] * sizes[2]);
  return std::clamp<int64_t>(kMostElementsAtOnce / elements, 1, std::max<int64_t>(view.dims[0], 1));
}

void Positions::fill(int64_t first, int64_t count, int64_t* offsets) const {
  int64_t w = first % sizes[2];
  int64_t rest = first / sizes[2];
  int64_t h = rest % sizes[1];
  rest /= sizes[1];
  int64_t d = rest % sizes[0];
  int64_t n = rest / sizes[0];
  for (int64_t i = 0; i < count; ++i) {
    offsets[i] = n * batch_step + d * steps[0] + h * steps[1] + w * steps[2];
    if (++w < sizes[2]) continue;
    w = 0;
    if (++h < sizes[1]) continue;
    h = 0;
    if (++d < sizes[0]) continue;
    d = 0;
    ++n;
  }
}

void PatchFactor::pack(int64_t line, int64_t lines, int64_t depth_begin, int64_t depth, int width, float* to) const {
#ifdef __x86_64__
  if (lines_ == Lines::kPositions && width % kVector == 0 && base::instruction_set() == base::InstructionSet::kAvx512) {
    int64_t offsets[kMostTileColumns] = {};
    positions_.fill(line, lines, offsets);
    return pack_by_vectors(data_, offsets, lines, tap_offsets_ + depth_begin, depth, width, to);
  }
#endif
  if (lines < width) std::fill_n(to, depth * width, 0.0F);
  if (lines_ == Lines::kPositions) {
    pack_positions(line, lines, depth_begin, depth, width, to);
  } else {
    pack_taps(line, lines, depth_begin, depth, width, to);
  }
}

void PatchFactor::pack_positions(int64_t line, int64_t lines, int64_t depth_begin, int64_t depth, int width,
                                 float* to) const {
  int64_t offsets[kMostTileColumns];
  positions_.fill(line, lines, offsets);
  const int64_t* taps = tap_offsets_ + depth_begin;
  for (int64_t i = 0; i < lines;) {
    int64_t run = 1;
    while (i + run < lines && offsets[i + run] == offsets[i] + run) ++run;
    const float* from = data_ + offsets[i];
    float* out = to + i;
    i += run;
    if (run == kMostTileColumns) {
      for (int64_t p = 0; p < depth; ++p)
        std::memcpy(out + p * width, from + taps[p], kMostTileColumns * sizeof(float));
    } else if (run == 1) {
      for (int64_t p = 0; p < depth; ++p) out[p * width] = from[taps[p]];
    } else {
      for (int64_t p = 0; p < depth; ++p) {
        const float* values = from + taps[p];
        for (int64_t k = 0; k < run; ++k) out[p * width + k] = values[k];
      }
    }
  }
}

void PatchFactor::pack_taps(int64_t line, int64_t lines, int64_t depth_begin, int64_t depth, int width,
                            float* to) const {
  constexpr int64_t kOffsets = 256;
  int64_t offsets[kOffsets];
  const int64_t* taps = tap_offsets_ + line;
  for (int64_t done = 0; done < depth; done += kOffsets) {
    const int64_t length = std::min(kOffsets, depth - done);
    positions_.fill(depth_begin + done, length, offsets);
    for (int64_t p = 0; p < length;) {
      int64_t run = 1;
      while (p + run < length && offsets[p + run] == offsets[p] + run) ++run;
      const float* from = data_ + offsets[p];
      float* out = to + (done + p) * width;
      p += run;
      if (run == 1) {
        for (int64_t i = 0; i < lines; ++i) out[i] = from[taps[i]];
      } else {
        transpose<float>([&](int64_t i) { return from + taps[i]; }, lines, run, width, out);
      }
    }
  }
}

}  // namespace drydock::ops::kernels
