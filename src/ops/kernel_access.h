#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "base/status.h"
#include "ops/kernel_call.h"
#include "ops/type_promotion.h"

// How kernels reach elements: conversion between the element types and the four compute types, walks over strided
// views, and the errors they answer with. Kernels stay independent of element types: a run of elements is loaded into
// compute values, worked on, and stored, so that each operation is compiled once per compute type.

namespace drydock::ops::kernels {

/// ACLNN_ERR_PARAM_INVALID: the values or shapes of this call are wrong, also on the real device.
inline constexpr int32_t kParameterInvalid = 161002;
/// ACL_ERROR_RT_VECTOR_CORE_EXCEPTION: a value that the device meets while it works is wrong (an index out of range).
inline constexpr int32_t kDeviceFault = 507035;
/// ACLNN_ERR_INNER_FIND_KERNEL_ERROR: nothing is wrong with the call, but no kernel here computes it (complex or packed
/// types, a form not modelled). Nothing was written; the caller makes the outputs ghosts.
inline constexpr int32_t kNotComputed = 561003;

/// An error with kParameterInvalid whose message starts with the operator's name.
Status invalid(const KernelCall& call, const std::string& what);
/// An error with kDeviceFault.
Status device_fault(const KernelCall& call, const std::string& what);
/// An error with kNotComputed.
Status not_computed(const KernelCall& call, const std::string& why);

/// Fails with kNotComputed unless the first `operands` operands and `outputs` outputs exist, are defined and have real
/// element types. Every kernel starts with it, so that none meets a null or a type it cannot read.
Status expect(const KernelCall& call, int operands, int outputs);
/// The same without a condition on element types, for kernels that only move elements.
Status expect_defined(const KernelCall& call, int operands, int outputs);

/// Axis of a dimension that may count from the end; fails outside [-rank, rank). Rank 0 counts as rank 1.
Status wrap_dim(const KernelCall& call, int64_t dim, int rank, int* axis);

/// Most elements that are converted at once; bounds the buffers on the stack.
inline constexpr int64_t kChunk = 256;

/// Converts `count` elements at `from`, `stride_bytes` apart, to C. Returns `buffer`, or the elements themselves if
/// they already are contiguous Cs. C is int64_t, uint64_t, float or double.
template <class C>
using Loader = const C* (*)(const char* from, int64_t stride_bytes, int64_t count, C* buffer);
/// Converts `count` values to elements at `to`, `stride_bytes` apart: round to nearest even for fp16 and bf16, two's
/// complement wrap between integers, truncation from floating to integer (saturating, NaN is 0), non-zero is true.
template <class C>
using Storer = void (*)(char* to, int64_t stride_bytes, int64_t count, const C* values);

/// Null for types that are not real elements.
template <class C>
Loader<C> loader_of(DataType type) noexcept;
template <class C>
Storer<C> storer_of(DataType type) noexcept;

/// Rounds values to what an element of `type` can hold, as a conversion to that type and back does.
template <class C>
void round_through(DataType type, C* values, int64_t count) noexcept;

/// The first element of a view as one value.
double as_double(const TensorView& view) noexcept;
int64_t as_int64(const TensorView& view) noexcept;
template <class C>
C as_value(const TensorView& view) noexcept {
  C buffer{};
  return *loader_of<C>(view.dtype)(view.data, 0, 1, &buffer);
}
template <class C>
void set_value(const TensorView& view, C value) noexcept {
  storer_of<C>(view.dtype)(view.data, 0, 1, &value);
}

/// Calls `body.operator()<C>()` with the C++ type behind `type`.
template <class Body>
Status with_compute_type(ComputeType type, Body&& body) {
  switch (type) {
    case ComputeType::kInt64: return body.template operator()<int64_t>();
    case ComputeType::kUInt64: return body.template operator()<uint64_t>();
    case ComputeType::kFloat: return body.template operator()<float>();
    case ComputeType::kDouble: return body.template operator()<double>();
  }
  return body.template operator()<double>();
}

/// The same for operations without a meaning for integers, which compute in fp32.
template <class Body>
Status with_floating_type(ComputeType type, Body&& body) {
  return type == ComputeType::kDouble ? body.template operator()<double>() : body.template operator()<float>();
}

/// Up to kMaxViews views walked together in row-major order of `dims`. Adjacent dimensions that lie one behind the
/// other in every view are merged, so that the callback sees few long runs.
class StridedWalk {
 public:
  static constexpr int kMaxViews = 6;

  explicit StridedWalk(const Dims& dims);

  /// Adds a view, broadcast to the dims; false (and nothing added) if its shape does not fit.
  bool add(const TensorView& view);
  /// Adds a view with strides of the caller's for each dim, in bytes.
  void add(char* data, const Dims& strides_bytes);
  /// Calls `run(pointers, strides_bytes, count)` with the views started elsewhere: for walks of one shape at many
  /// places.
  template <class Run>
  void for_each_run_at(const std::array<char*, kMaxViews>& starts, Run&& run);

  /// Calls `run(pointers, strides_bytes, count)` for every run. Neither array may be kept.
  template <class Run>
  void for_each_run(Run&& run);

 private:
  void merge();

  bool merged_ = false;
  int view_count_ = 0;
  Dims dims_;
  std::array<Dims, kMaxViews> strides_;
  std::array<int64_t, kMaxViews> inner_strides_{};
  std::array<char*, kMaxViews> starts_{};
};

template <class Run>
void StridedWalk::for_each_run(Run&& run) {
  for_each_run_at(starts_, run);
}

template <class Run>
void StridedWalk::for_each_run_at(const std::array<char*, kMaxViews>& starts, Run&& run) {
  if (!merged_) merge();
  if (dims_.product() == 0) return;
  const int outer_rank = dims_.empty() ? 0 : dims_.size() - 1;
  const int64_t count = dims_.empty() ? 1 : dims_[outer_rank];
  if (outer_rank == 0) return run(starts.data(), inner_strides_.data(), count);
  std::array<char*, kMaxViews> pointers = starts;
  std::array<int64_t, kMaxRank> position{};
  while (true) {
    run(static_cast<char* const*>(pointers.data()), static_cast<const int64_t*>(inner_strides_.data()), count);
    int axis = outer_rank - 1;
    for (; axis >= 0; --axis) {
      int64_t& at = position[static_cast<size_t>(axis)];
      const bool wraps = ++at == dims_[axis];
      const int64_t steps = wraps ? 1 - at : 1;
      for (int view = 0; view < view_count_; ++view) {
        pointers[static_cast<size_t>(view)] += steps * strides_[static_cast<size_t>(view)][axis];
      }
      if (!wraps) break;
      at = 0;
    }
    if (axis < 0) return;
  }
}

/// Elements of `view` (loaded as C) in row-major order of `dims`, to which it is broadcast: `each(value)`.
template <class C, class Each>
bool for_each_value(const TensorView& view, Each&& each) {
  StridedWalk walk(view.dims);
  if (!walk.add(view)) return false;
  const Loader<C> load = loader_of<C>(view.dtype);
  walk.for_each_run([&](char* const* pointers, const int64_t* strides, int64_t count) {
    C buffer[kChunk];
    for (int64_t done = 0; done < count; done += kChunk) {
      const int64_t length = std::min(kChunk, count - done);
      const C* values = load(pointers[0] + done * strides[0], strides[0], length, buffer);
      for (int64_t k = 0; k < length; ++k) each(values[k]);
    }
  });
  return true;
}

/// out = op(inputs...) element by element; inputs are broadcast to out. `rounds[i]` is the type through which input i
/// is rounded after loading, or kUndefined. False if a shape does not fit.
template <class C, size_t N, class Op>
bool map_elements(const TensorView& out, const std::array<const TensorView*, N>& inputs,
                  const std::array<DataType, N>& rounds, Op&& op) {
  StridedWalk walk(out.dims);
  if (!walk.add(out)) return false;
  std::array<Loader<C>, N> loaders{};
  for (size_t i = 0; i < N; ++i) {
    if (!walk.add(*inputs[i])) return false;
    loaders[i] = loader_of<C>(inputs[i]->dtype);
  }
  const Storer<C> store = storer_of<C>(out.dtype);
  walk.for_each_run([&](char* const* pointers, const int64_t* strides, int64_t count) {
    C buffers[N][kChunk];
    C results[kChunk];
    for (int64_t done = 0; done < count; done += kChunk) {
      const int64_t length = std::min(kChunk, count - done);
      std::array<const C*, N> values{};
      for (size_t i = 0; i < N; ++i) {
        values[i] = loaders[i](pointers[i + 1] + done * strides[i + 1], strides[i + 1], length, buffers[i]);
        if (rounds[i] == DataType::kUndefined) continue;
        if (values[i] != buffers[i]) std::copy_n(values[i], length, buffers[i]);
        round_through<C>(rounds[i], buffers[i], length);
        values[i] = buffers[i];
      }
      [&]<size_t... I>(std::index_sequence<I...>) {
        for (int64_t k = 0; k < length; ++k) results[k] = static_cast<C>(op(values[I][k]...));
      }
      (std::make_index_sequence<N>());
      store(pointers[0] + done * strides[0], strides[0], length, results);
    }
  });
  return true;
}

/// The elements of one view as rows along some of its dimensions: all other dimensions count the rows, in order.
/// A row is read into, or written from, contiguous compute values.
class Rows {
 public:
  /// `axes`: the dimensions inside a row, ascending. Rank 0 is one row of one element.
  Rows(const TensorView& view, const Dims& axes);
  Rows(const TensorView& view, int axis) : Rows(view, Dims{axis}) {}

  int64_t count() const { return outer_.product(); }
  int64_t length() const { return inner_.product(); }
  /// Sizes of the dimensions that count the rows.
  const Dims& outer() const { return outer_; }

  /// Row `index` as Cs: either `buffer` (of length() values) or the elements themselves.
  template <class C>
  const C* read(int64_t index, C* buffer) const;
  template <class C>
  void write(int64_t index, const C* values) const;
  /// Row `index` = elements of the same type at `from`, `stride_bytes` apart.
  void copy_in(int64_t index, const char* from, int64_t stride_bytes) const;

 private:
  char* start_of(int64_t row) const;
  template <class Run>
  void for_each_run(int64_t row, Run&& run) const;

  DataType dtype_;
  char* data_;
  Dims outer_, outer_strides_;  // strides in bytes
  Dims inner_, inner_strides_;
};

/// All axes of a rank; or the listed ones (empty list: all), wrapped, sorted, without repeats.
Dims all_axes(int rank);
Status axes_of(const KernelCall& call, std::span<const int64_t> dims, int rank, Dims* axes);

// Views of views. None touches memory; axes are valid indices.

/// Elements start, start + step, ... of an axis. `length` of them must exist.
TensorView narrow(const TensorView& view, int axis, int64_t start, int64_t length, int64_t step = 1);
/// The view without an axis, at one index of it.
TensorView select(const TensorView& view, int axis, int64_t index);
/// With one axis of size 1 more.
TensorView unsqueeze(const TensorView& view, int axis);
/// The view seen with other sizes, by strides of 0; false if its shape does not broadcast to them.
bool broadcast_view(const TensorView& view, const Dims& dims, TensorView* result);
/// The shape that two shapes broadcast to; false if they do not.
bool broadcast_dims(const Dims& a, const Dims& b, Dims* result);
/// Row-major view of a dense buffer.
TensorView contiguous_view(void* data, DataType dtype, const Dims& dims);
Dims contiguous_strides(const Dims& dims);
/// Strides of a view in bytes.
Dims strides_bytes(const TensorView& view);

/// out = in, broadcast and converted. Same element types (also complex) are copied as bytes. False if shapes do not fit
/// or the types do not convert.
bool copy_view(const TensorView& out, const TensorView& in);
/// All elements = the first element of `value`, converted.
bool fill_view(const TensorView& out, const TensorView& value);
/// Copies one element of `size` bytes.
void copy_element(char* to, const char* from, int64_t size) noexcept;
/// Copies `count` elements of `size` bytes between two strides in bytes.
void copy_elements(char* to, int64_t to_stride, const char* from, int64_t from_stride, int64_t count,
                   int64_t size) noexcept;
/// Address of the element that has this number in row-major order.
char* flat_element(const TensorView& view, int64_t number) noexcept;

/// Reads an index of any integer type, counting from the end if negative; fails outside [-size, size).
Status checked_index(const KernelCall& call, int64_t index, int64_t size, int64_t* wrapped);

template <class Run>
void Rows::for_each_run(int64_t row, Run&& run) const {
  char* start = start_of(row);
  if (inner_.size() <= 1) {
    run(start, inner_.empty() ? 0 : inner_strides_[0], length());
    return;
  }
  StridedWalk walk(inner_);
  walk.add(start, inner_strides_);
  walk.for_each_run(
      [&](char* const* pointers, const int64_t* strides, int64_t count) { run(pointers[0], strides[0], count); });
}

template <class C>
const C* Rows::read(int64_t row, C* buffer) const {
  const Loader<C> load = loader_of<C>(dtype_);
  const C* first = buffer;
  C* next = buffer;
  for_each_run(row, [&](char* from, int64_t stride, int64_t count) {
    const C* values = load(from, stride, count, next);
    if (count == length()) {
      first = values;
    } else if (values != next) {
      std::copy_n(values, count, next);
    }
    next += count;
  });
  return first;
}

template <class C>
void Rows::write(int64_t row, const C* values) const {
  const Storer<C> store = storer_of<C>(dtype_);
  for_each_run(row, [&](char* to, int64_t stride, int64_t count) {
    store(to, stride, count, values);
    values += count;
  });
}

}  // namespace drydock::ops::kernels
