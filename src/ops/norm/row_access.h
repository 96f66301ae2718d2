#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/thread_pool.h"
#include "ops/kernel_access.h"
#include "ops/shapes.h"

// Rows of several views worked on together: each row in contiguous compute values, without a copy where the elements
// already are, and rows spread over the threads.

namespace drydock::ops::kernels {

/// The sizes that count rows (all dimensions but the last `inner`), and those inside a row.
Dims leading_dims(const Dims& dims, int inner);
Dims trailing_dims(const Dims& dims, int inner);

template <class C>
constexpr DataType kDataTypeOf = std::is_same_v<C, double> ? DataType::kDouble : DataType::kFloat;

/// fp64 if one of the views has it, else fp32.
ComputeType floating_type_of(std::initializer_list<const TensorView*> views) noexcept;

/// True if the axes are the last ones of a contiguous view of Cs: row r is at data + r * length.
template <class C>
bool has_flat_rows(const TensorView& view, const Dims& axes) {
  return view.dtype == kDataTypeOf<C> && is_contiguous(view) &&
         (axes.empty() || axes[0] == view.dims.size() - axes.size());
}

/// Rows to read.
template <class C>
class RowSource {
 public:
  RowSource(const TensorView& view, const Dims& axes)
      : rows_(view, axes), flat_(has_flat_rows<C>(view, axes) ? reinterpret_cast<const C*>(view.data) : nullptr) {}
  RowSource(const TensorView& view, int axis) : RowSource(view, view.dims.empty() ? Dims() : Dims{axis}) {}

  int64_t count() const { return rows_.count(); }
  int64_t length() const { return rows_.length(); }
  /// Row `row`: the elements themselves, or `buffer` (of length() values) filled with them.
  const C* read(int64_t row, C* buffer) const {
    return flat_ != nullptr ? flat_ + row * rows_.length() : rows_.read<C>(row, buffer);
  }

 private:
  Rows rows_;
  const C* flat_;
};

/// Rows to write.
template <class C>
class RowTarget {
 public:
  RowTarget(const TensorView& view, const Dims& axes)
      : rows_(view, axes), flat_(has_flat_rows<C>(view, axes) ? reinterpret_cast<C*>(view.data) : nullptr) {}
  RowTarget(const TensorView& view, int axis) : RowTarget(view, view.dims.empty() ? Dims() : Dims{axis}) {}

  /// Where to put the values of row `row`: the elements themselves, or `buffer`, which `finish` then stores.
  C* start(int64_t row, C* buffer) const { return flat_ != nullptr ? flat_ + row * rows_.length() : buffer; }
  void finish(int64_t row, const C* values) const {
    if (flat_ == nullptr) rows_.write<C>(row, values);
  }

 private:
  Rows rows_;
  C* flat_;
};

/// Calls `body(row, scratch)` for all rows; `scratch` holds `buffers` rows of this length, for the row alone.
template <class C, class Body>
void for_each_row(int64_t rows, int64_t length, int buffers, Body&& body) {
  constexpr int64_t kWorthAThread = 16384;  // elements
  const int64_t grain = std::max<int64_t>(1, kWorthAThread / std::max<int64_t>(length, 1));
  base::parallel_for(rows, grain, [&](int64_t begin, int64_t end) {
    const std::unique_ptr<C[]> scratch(new C[static_cast<size_t>(length * buffers)]);
    for (int64_t row = begin; row < end; ++row) body(row, scratch.get());
  });
}

/// All elements of a view in row-major order.
template <class C>
std::vector<C> values_of(const TensorView& view) {
  std::vector<C> values;
  values.reserve(static_cast<size_t>(view.numel()));
  for_each_value<C>(view, [&](C value) { values.push_back(value); });
  return values;
}

/// Writes values in row-major order; nothing if the view is undefined.
template <class C>
void write_values(const TensorView& view, const std::vector<C>& values) {
  if (!view.defined || values.empty()) return;
  Rows(view, all_axes(view.dims.size())).write<C>(0, values.data());
}

/// Number of partial results that a loop over a row keeps, so that it can use vector registers; always the same, so
/// that results do not depend on the machine.
inline constexpr int64_t kLanes = 16;

/// Sum of term(0) ... term(count - 1). fp32 terms are added up in lanes of at most 256, then in fp64.
template <class C, class Term>
double sum_of(int64_t count, Term&& term) {
  constexpr int64_t kBlock = kLanes * 256;
  double total = 0;
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const int64_t end = std::min(begin + kBlock, count);
    C lanes[kLanes] = {};
    int64_t k = begin;
    for (; k + kLanes <= end; k += kLanes) {
      for (int64_t lane = 0; lane < kLanes; ++lane) lanes[lane] += term(k + lane);
    }
    for (int64_t lane = 0; k < end; ++k, ++lane) lanes[lane] += term(k);
    for (C lane : lanes) total += lane;
  }
  return total;
}

/// The largest of `count` >= 1 values. NaN are passed over.
template <class C>
C largest_of(const C* values, int64_t count) {
  C lanes[kLanes];
  std::fill_n(lanes, kLanes, values[0]);
  int64_t k = 0;
  for (; k + kLanes <= count; k += kLanes) {
    for (int64_t lane = 0; lane < kLanes; ++lane)
      lanes[lane] = values[k + lane] > lanes[lane] ? values[k + lane] : lanes[lane];
  }
  for (; k < count; ++k) lanes[0] = values[k] > lanes[0] ? values[k] : lanes[0];
  for (C lane : lanes) lanes[0] = lane > lanes[0] ? lane : lanes[0];
  return lanes[0];
}

}  // namespace drydock::ops::kernels
