#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <string_view>
#include <vector>

#include "base/thread_pool.h"
#include "ops/kernel_access.h"
#include "ops/kernel_call.h"

// How quantised values are written and read: int8, uint8, int32, int4 (two a byte, the first in the low half) and int4
// packed eight to an int32 (the first in the lowest bits).

namespace drydock::ops::kernels {

/// How a scaled value becomes an integer. The vendor's "round" and "rint" both break ties to even.
enum class Rounding : uint8_t { kNearestEven, kFloor, kCeil, kTrunc };

/// The rounding that a text argument names; absent is nearest even.
Status rounding_of(const KernelCall& call, std::string_view name, Rounding* rounding);

inline float rounded(float value, Rounding rounding) {
  switch (rounding) {
    case Rounding::kNearestEven: return std::nearbyint(value);
    case Rounding::kFloor: return std::floor(value);
    case Rounding::kCeil: return std::ceil(value);
    case Rounding::kTrunc: return std::trunc(value);
  }
  return value;
}

/// True for an optional tensor that was given: torch_npu passes absent ones as null or without elements.
inline bool is_present(const TensorView& view) { return view.defined && view.numel() > 0; }

/// Eight int4 values lie in one int32.
inline constexpr int64_t kInt4PerInt32 = 8;

/// Rows of integers along the last axis of an output, written from scaled, not yet rounded floats. Values saturate, NaN
/// becomes 0.
class IntegerRows {
 public:
  IntegerRows() : rows_(TensorView{}, Dims{}) {}
  /// `shape`: one entry per value. The output has this shape, or, where it packs int4 into int32, an eighth of the last
  /// axis. `packs_int32`: an int32 output holds int4 values.
  static Status make(const KernelCall& call, const TensorView& out, const Dims& shape, bool packs_int32,
                     IntegerRows* made);

  int64_t length() const { return length_; }
  int64_t count() const { return count_; }
  /// Largest value that is written: 127, 7, 255 ...
  float highest() const { return highest_; }
  float lowest() const { return lowest_; }
  /// Rounds and writes one row; `values` are overwritten.
  void write(int64_t row, float* values, Rounding rounding = Rounding::kNearestEven) const;
  /// A row of zeros.
  void clear(int64_t row) const;

 private:
  void store(int64_t row, const float* values) const;

  TensorView out_;
  Rows rows_;
  bool packed_ = false;
  int64_t length_ = 0;
  int64_t count_ = 0;
  float lowest_ = 0;
  float highest_ = 0;
};

/// The int4 value number `index` of packed elements, two a byte.
inline int int4_at(const char* data, int64_t index) {
  const int byte = static_cast<unsigned char>(data[index >> 1]);
  const int half = (index & 1) != 0 ? byte >> 4 : byte & 0xf;
  return half >= 8 ? half - 16 : half;
}

/// All elements as floats in row-major order; int4 too. False for types without a meaning as numbers.
bool read_floats(const TensorView& view, std::vector<float>* values);
/// The same for integer types.
bool read_integers(const TensorView& view, std::vector<int64_t>* values);

/// A view of eight times the last axis (or, for a transposed matrix, the axis that lies densely), of type int4, over an
/// int32 tensor that packs int4 values. Any other view comes back as it is.
TensorView unpacked_int4(const TensorView& view);

/// select() and narrow() of the first axis, for int4 too (whose slices begin at whole bytes).
TensorView slice_at(const TensorView& view, int64_t index);
TensorView rows_between(const TensorView& view, int64_t begin, int64_t end);

/// `parameter` seen as a tensor of `dims`, by strides of 0: it has one element, or one for each index of `axis`, either
/// alone or between axes of size 1.
Status along_axis(const KernelCall& call, const TensorView& parameter, std::string_view name, const Dims& dims,
                  int axis, TensorView* view);

/// Calls `body(row, buffer)` for every row on the pool; `buffer` holds `floats` floats of the thread's own.
template <class Body>
void for_each_row(int64_t rows, int64_t floats, Body&& body) {
  const int64_t grain = std::max<int64_t>(1, 16384 / std::max<int64_t>(floats, 1));
  base::parallel_for(rows, grain, [&](int64_t begin, int64_t end) {
    std::vector<float> buffer(static_cast<size_t>(floats));
    for (int64_t row = begin; row < end; ++row) body(row, buffer.data());
  });
}

inline float largest_magnitude(const float* values, int64_t count) {
  float largest = 0;
  for (int64_t k = 0; k < count; ++k) largest = std::max(largest, std::abs(values[k]));
  return largest;
}

/// What a symmetric quantisation of one row divides by: its largest magnitude over the largest value of the type.
inline float symmetric_scale(const float* values, int64_t count, float highest) {
  return largest_magnitude(values, count) / highest;
}

}  // namespace drydock::ops::kernels
