#include "ops/matmul/thin_product.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/thread_pool.h"
#include "ops/kernel_access.h"
#include "ops/matmul/row_loops.h"

namespace drydock::ops::kernels {
namespace {

constexpr int64_t kLinesAtOnce = 256;
constexpr int64_t kDepthAtOnce = 1024;
// Sums over a block of the depth are kept apart, as the packed engine does.
constexpr int64_t kDepthBlock = 256;
constexpr int64_t kLeastElements = int64_t{1} << 15;

class ThinMultiplication {
 public:
  ThinMultiplication(const StridedLines& thin, const StridedLines& wide, int64_t depth, InputRounding rounding)
      : wide_(wide),
        depth_(depth),
        rounding_(rounding),
        thin_lines_(thin.lines),
        thin_(static_cast<size_t>(thin.lines * depth)),
        load_(loader_of<float>(wide.dtype)) {
    const Loader<float> load = loader_of<float>(thin.dtype);
    for (int64_t i = 0; i < thin.lines; ++i) {
      float* row = thin_.data() + i * depth;
      const float* values = load(thin.data + i * thin.line_stride, thin.depth_stride, depth, row);
      if (values != row) std::memcpy(row, values, static_cast<size_t>(depth) * sizeof(float));
      round_inputs(rounding, row, depth);
    }
  }

  /// sums[i * kLinesAtOnce + j] = thin line i times wide line first + j.
  void compute(int64_t first, int64_t count, float* sums) const {
    if (wide_.depth_stride == bytes_of(wide_.dtype, 1)) {
      compute_along_depth(first, count, sums);
    } else {
      compute_along_lines(first, count, sums);
    }
  }

 private:
  const float* rounded(const float* values, float* buffer, int64_t count) const {
    if (rounding_ == InputRounding::kNone) return values;
    if (values != buffer) std::memcpy(buffer, values, static_cast<size_t>(count) * sizeof(float));
    round_inputs(rounding_, buffer, count);
    return buffer;
  }

  void compute_along_depth(int64_t first, int64_t count, float* sums) const {
    float buffer[kDepthAtOnce];
    for (int64_t j = 0; j < count; ++j) {
      const char* line = wide_.data + (first + j) * wide_.line_stride;
      for (int64_t i = 0; i < thin_lines_; ++i) sums[i * kLinesAtOnce + j] = 0;
      for (int64_t p = 0; p < depth_; p += kDepthAtOnce) {
        const int64_t length = std::min(kDepthAtOnce, depth_ - p);
        const float* values =
            rounded(load_(line + p * wide_.depth_stride, wide_.depth_stride, length, buffer), buffer, length);
        for (int64_t i = 0; i < thin_lines_; ++i) {
          sums[i * kLinesAtOnce + j] += dot_product(values, 1, thin_.data() + i * depth_ + p, length);
        }
      }
    }
  }

  void compute_along_lines(int64_t first, int64_t count, float* sums) const {
    float buffer[kLinesAtOnce];
    float block[kMostThinLines * kLinesAtOnce];
    std::fill_n(sums, thin_lines_ * kLinesAtOnce, 0.0F);
    for (int64_t begin = 0; begin < depth_; begin += kDepthBlock) {
      std::fill_n(block, thin_lines_ * kLinesAtOnce, 0.0F);
      for (int64_t p = begin; p < std::min(begin + kDepthBlock, depth_); ++p) {
        const char* from = wide_.data + first * wide_.line_stride + p * wide_.depth_stride;
        const float* values = rounded(load_(from, wide_.line_stride, count, buffer), buffer, count);
        for (int64_t i = 0; i < thin_lines_; ++i) {
          add_scaled(block + i * kLinesAtOnce, 1, values, 1, thin_[static_cast<size_t>(i * depth_ + p)], count);
        }
      }
      for (int64_t k = 0; k < thin_lines_ * kLinesAtOnce; ++k) sums[k] += block[k];
    }
  }

  const StridedLines& wide_;
  int64_t depth_;
  InputRounding rounding_;
  int64_t thin_lines_;
  std::vector<float> thin_;
  Loader<float> load_;
};

}  // namespace

bool is_thin(const StridedLines& thin, const StridedLines& wide, int64_t depth) {
  const int64_t size = bytes_of(wide.dtype, 1);
  const bool is_read_in_order = wide.depth_stride == size || wide.line_stride == size || wide.lines == 1 || depth == 1;
  return thin.lines <= kMostThinLines && depth > 0 && is_read_in_order;
}

void multiply_thin(const StridedLines& thin, const StridedLines& wide, int64_t depth, InputRounding rounding,
                   bool thin_is_right, const Product<float>& product) {
  const ThinMultiplication multiplication(thin, wide, depth, rounding);
  const int64_t blocks = (wide.lines + kLinesAtOnce - 1) / kLinesAtOnce;
  const int64_t grain = std::max<int64_t>(1, kLeastElements / (std::min(kLinesAtOnce, wide.lines) * depth));
  base::parallel_for(blocks, grain, [&](int64_t begin, int64_t end) {
    float sums[kMostThinLines * kLinesAtOnce];
    float turned[kMostThinLines * kLinesAtOnce];
    for (int64_t block = begin; block < end; ++block) {
      const int64_t first = block * kLinesAtOnce;
      const int64_t count = std::min(kLinesAtOnce, wide.lines - first);
      multiplication.compute(first, count, sums);
      if (!thin_is_right) {
        product.store(0, thin.lines, first, count, sums, kLinesAtOnce);
        continue;
      }
      for (int64_t j = 0; j < count; ++j) {
        for (int64_t i = 0; i < thin.lines; ++i) turned[j * thin.lines + i] = sums[i * kLinesAtOnce + j];
      }
      product.store(first, count, 0, thin.lines, turned, thin.lines);
    }
  });
}

}  // namespace drydock::ops::kernels
