#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

#include "base/instruction_set.h"
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

/// Never null: elements of a type without compute values load as 0, are not stored, and make run_kernel() fail.
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
  /// Lets the walk take the order in which view 0 lies in memory, instead of row-major order. Before the first run.
  void follow_first_view();

  /// Elements of each view.
  int64_t numel() const { return dims_.product(); }

  /// Calls `run(pointers, strides_bytes, count)` with the views started elsewhere: for walks of one shape at many
  /// places.
  template <class Run>
  void for_each_run_at(const std::array<char*, kMaxViews>& starts, Run&& run);

  /// Calls `run(pointers, strides_bytes, count)` for every run. Neither array may be kept.
  template <class Run>
  void for_each_run(Run&& run);

  /// The same for the elements [begin, end) of the walk alone. After merge(), from many threads at once.
  template <class Run>
  void for_each_run_in(int64_t begin, int64_t end, Run&& run) const;

  /// Joins adjacent dimensions where all views allow it; the other walks do it themselves.
  void merge();
  /// Sizes and strides of the dimensions after merge().
  const Dims& merged_dims() const { return dims_; }
  const Dims& merged_strides(int view) const { return strides_[static_cast<size_t>(view)]; }
  char* start(int view) const { return starts_[static_cast<size_t>(view)]; }

 private:
  /// Moves to the next run, along the first `outer_rank` dims; false behind the last one.
  bool advance(int outer_rank, std::array<int64_t, kMaxRank>& position, std::array<char*, kMaxViews>& pointers) const;

  bool merged_ = false;
  int view_count_ = 0;
  Dims dims_;
  std::array<Dims, kMaxViews> strides_;
  std::array<int64_t, kMaxViews> inner_strides_{};
  std::array<char*, kMaxViews> starts_{};
};

inline bool StridedWalk::advance(int outer_rank, std::array<int64_t, kMaxRank>& position,
                                 std::array<char*, kMaxViews>& pointers) const {
  for (int axis = outer_rank - 1; axis >= 0; --axis) {
    int64_t& at = position[static_cast<size_t>(axis)];
    const bool wraps = ++at == dims_[axis];
    const int64_t steps = wraps ? 1 - at : 1;
    for (int view = 0; view < view_count_; ++view) {
      pointers[static_cast<size_t>(view)] += steps * strides_[static_cast<size_t>(view)][axis];
    }
    if (!wraps) return true;
    at = 0;
  }
  return false;
}

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
    if (!advance(outer_rank, position, pointers)) return;
  }
}

template <class Run>
void StridedWalk::for_each_run_in(int64_t begin, int64_t end, Run&& run) const {
  if (begin >= end) return;
  const int last = dims_.empty() ? -1 : dims_.size() - 1;
  const int64_t row = last < 0 ? 1 : dims_[last];
  std::array<char*, kMaxViews> pointers = starts_;
  std::array<int64_t, kMaxRank> position{};
  int64_t rest = begin / row;
  for (int axis = last - 1; axis >= 0; --axis) {
    const int64_t at = rest % dims_[axis];
    rest /= dims_[axis];
    position[static_cast<size_t>(axis)] = at;
    for (int view = 0; view < view_count_; ++view) {
      pointers[static_cast<size_t>(view)] += at * strides_[static_cast<size_t>(view)][axis];
    }
  }
  int64_t skipped = begin % row;
  for (int64_t left = end - begin; left > 0;) {
    const int64_t count = std::min(row - skipped, left);
    std::array<char*, kMaxViews> starts = pointers;
    for (int view = 0; skipped > 0 && view < view_count_; ++view) {
      starts[static_cast<size_t>(view)] += skipped * inner_strides_[static_cast<size_t>(view)];
    }
    run(static_cast<char* const*>(starts.data()), static_cast<const int64_t*>(inner_strides_.data()), count);
    left -= count;
    skipped = 0;
    if (left > 0) advance(last, position, pointers);
  }
}

/// Elements of `view` (loaded as C) in row-major order: `each(value)`. False if they are not real elements.
template <class C, class Each>
bool for_each_value(const TensorView& view, Each&& each) {
  StridedWalk walk(view.dims);
  const Loader<C> load = loader_of<C>(view.dtype);
  if (load == nullptr || !walk.add(view)) return false;
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

/// results[k] = op(inputs[0][k], inputs[1][k], ...) for `count` values. The results may be one of the inputs.
template <class C>
using MapLoop = void (*)(const void* op, C* results, const C* const* inputs, int64_t count);

enum class MapOrder : uint8_t {
  kAny,       ///< ranges of elements on many threads, in the order in which they lie in memory
  kRowMajor,  ///< one element after the other, for operations that keep a state
};

/// The walk of map_elements, compiled once for all operations.
template <class C>
bool map_views(const TensorView& out, std::span<const TensorView* const> inputs, std::span<const DataType> rounds,
               MapOrder order, MapLoop<C> loop, const void* op);

namespace detail {

template <class C, class Op, size_t... I>
void map_loop(const void* op_pointer, C* results, const C* const* inputs, int64_t count, std::index_sequence<I...>) {
  base::vectorized([=] {
    const Op& op = *static_cast<const Op*>(op_pointer);
    const std::array<const C*, sizeof...(I)> in = {inputs[I]...};
    // Operations that are right in a range alone say so, and have an exact() for all else.
    if constexpr (requires { op.in_range(in[I][0]...); }) {
      int64_t inside = 0;
      for (int64_t k = 0; k < count; ++k) inside += op.in_range(in[I][k]...) ? 1 : 0;
      if (inside < count) {
        for (int64_t k = 0; k < count; ++k) results[k] = static_cast<C>(op.exact(in[I][k]...));
        return;
      }
    }
#pragma GCC ivdep
    for (int64_t k = 0; k < count; ++k) results[k] = static_cast<C>(op(in[I][k]...));
  });
}

}  // namespace detail

/// out = op(inputs...) element by element; inputs are broadcast to out. `rounds[i]` is the type through which input i
/// is rounded after loading, or kUndefined. False if a shape does not fit. `op` is called from many threads,
/// in any order: it must be a function of its arguments alone.
template <class C, size_t N, class Op>
bool map_elements(const TensorView& out, const std::array<const TensorView*, N>& inputs,
                  const std::array<DataType, N>& rounds, const Op& op) {
  const MapLoop<C> loop = [](const void* pointer, C* results, const C* const* values, int64_t count) {
    detail::map_loop<C, Op>(pointer, results, values, count, std::make_index_sequence<N>());
  };
  return map_views<C>(out, inputs, rounds, MapOrder::kAny, loop, &op);
}

/// The same in row-major order on one thread, for operations that keep a state.
template <class C, size_t N, class Op>
bool map_elements_in_order(const TensorView& out, const std::array<const TensorView*, N>& inputs, Op&& op) {
  using Plain = std::remove_cvref_t<Op>;
  const MapLoop<C> loop = [](const void* pointer, C* results, const C* const* values, int64_t count) {
    Plain& stateful = *static_cast<Plain*>(const_cast<void*>(pointer));
    [&]<size_t... I>(std::index_sequence<I...>) {
      for (int64_t k = 0; k < count; ++k) results[k] = static_cast<C>(stateful(values[I][k]...));
    }
    (std::make_index_sequence<N>());
  };
  std::array<DataType, N> none;
  none.fill(DataType::kUndefined);
  return map_views<C>(out, inputs, none, MapOrder::kRowMajor, loop, std::addressof(op));
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
  /// Elements [begin, end) of the row.
  template <class C>
  const C* read(int64_t index, int64_t begin, int64_t end, C* buffer) const;
  template <class C>
  void write(int64_t index, const C* values) const;
  /// True if the elements of neighbouring rows are dense in memory and those of a row are not, as in the columns of a
  /// matrix: then groups of rows are faster to reach than single ones.
  bool interleaved() const { return interleaved_; }
  /// Elements [begin, end) of `rows` neighbouring rows (none beyond the last outer dimension) of interleaved ones, to
  /// or from dense rows that begin `pitch` values apart.
  template <class C>
  void read_group(int64_t first, int64_t rows, int64_t begin, int64_t end, C* values, int64_t pitch) const;
  template <class C>
  void write_group(int64_t first, int64_t rows, const C* values, int64_t pitch) const;
  /// Row `index` = elements of the same type at `from`, `stride_bytes` apart.
  void copy_in(int64_t index, const char* from, int64_t stride_bytes) const;

 private:
  char* start_of(int64_t row) const;
  template <class Run>
  void for_each_run(int64_t row, Run&& run) const;

  DataType dtype_;
  char* data_;
  bool interleaved_ = false;
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
const C* Rows::read(int64_t row, int64_t begin, int64_t end, C* buffer) const {
  const Loader<C> load = loader_of<C>(dtype_);
  if (inner_.size() <= 1) {
    const int64_t stride = inner_.empty() ? 0 : inner_strides_[0];
    return load(start_of(row) + begin * stride, stride, end - begin, buffer);
  }
  StridedWalk walk(inner_);
  walk.add(start_of(row), inner_strides_);
  walk.merge();
  C* next = buffer;
  walk.for_each_run_in(begin, end, [&](char* const* pointers, const int64_t* strides, int64_t count) {
    const C* values = load(pointers[0], strides[0], count, next);
    if (values != next) std::copy_n(values, count, next);
    next += count;
  });
  return buffer;
}

template <class C>
void Rows::read_group(int64_t first, int64_t rows, int64_t begin, int64_t end, C* values, int64_t pitch) const {
  constexpr int64_t kMost = 16;
  const Loader<C> load = loader_of<C>(dtype_);
  const int64_t size = bytes_of(dtype_, 1);
  const int64_t step = inner_strides_[0];
  const char* from = start_of(first) + begin * step;
  for (int64_t k = 0; k < end - begin; ++k, from += step) {
    for (int64_t done = 0; done < rows; done += kMost) {
      std::array<C, kMost> buffer;
      const int64_t count = std::min(kMost, rows - done);
      const C* column = load(from + done * size, size, count, buffer.data());
      for (int64_t row = 0; row < count; ++row) values[(done + row) * pitch + k] = column[row];
    }
  }
}

template <class C>
void Rows::write_group(int64_t first, int64_t rows, const C* values, int64_t pitch) const {
  constexpr int64_t kMost = 16;
  const Storer<C> store = storer_of<C>(dtype_);
  const int64_t size = bytes_of(dtype_, 1);
  const int64_t step = inner_strides_[0];
  char* to = start_of(first);
  for (int64_t k = 0; k < length(); ++k, to += step) {
    for (int64_t done = 0; done < rows; done += kMost) {
      std::array<C, kMost> column;
      const int64_t count = std::min(kMost, rows - done);
      for (int64_t row = 0; row < count; ++row) column[static_cast<size_t>(row)] = values[(done + row) * pitch + k];
      store(to + done * size, size, count, column.data());
    }
  }
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
