#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <type_traits>

#include "ops/kernel_access.h"

// Tensors [N,] C, [[D,] H,] W as operators on images and volumes see them: many planes of up to three dimensions,
// worked on one by one.

namespace drydock::ops::kernels {

/// Sizes along depth, height and width; 1 where a plane has fewer dimensions.
using Extent = std::array<int64_t, 3>;

inline int64_t volume(const Extent& extent) { return extent[0] * extent[1] * extent[2]; }

/// Planes of a view: its last `rank` dimensions (1 to 3) are inside a plane, the others count the planes.
class Planes {
 public:
  Planes(const TensorView& view, int rank) : rows_(view, plane_axes(view.dims.size(), rank)), dtype_(view.dtype) {
    const int first = view.dims.size() - rank;
    int64_t dense = 1;
    for (int axis = view.dims.size() - 1; axis >= first; --axis) {
      extent_[static_cast<size_t>(axis - first + 3 - rank)] = view.dims[axis];
      if (view.dims[axis] != 1 && view.strides[axis] != dense) is_dense_ = false;
      dense *= view.dims[axis];
    }
    const Dims strides = strides_bytes(view);
    for (int axis = 0; axis < first; ++axis) {
      batch_.push_back(view.dims[axis]);
      batch_strides_.push_back(strides[axis]);
    }
    data_ = view.data;
  }

  int64_t count() const { return rows_.count(); }
  const Extent& extent() const { return extent_; }
  int64_t length() const { return volume(extent_); }
  /// Sizes of the dimensions that count the planes.
  const Dims& batch() const { return batch_; }

  /// First byte of a plane.
  char* start_of(int64_t plane) const {
    char* start = data_;
    for (int axis = batch_.size() - 1; axis >= 0; --axis) {
      start += plane % batch_[axis] * batch_strides_[axis];
      plane /= batch_[axis];
    }
    return start;
  }
  /// Plane `index` as contiguous Cs: either `buffer` (of length() values) or the elements themselves.
  template <class C>
  const C* read(int64_t index, C* buffer) const {
    return length() == 0 ? buffer : rows_.read<C>(index, buffer);
  }
  template <class C>
  void write(int64_t index, const C* values) const {
    if (length() > 0) rows_.write<C>(index, values);
  }
  /// The elements of a plane if they are contiguous Cs, else null.
  template <class C>
  C* elements(int64_t index) const {
    constexpr DataType kOwn = std::is_same_v<C, float>    ? DataType::kFloat
                              : std::is_same_v<C, double> ? DataType::kDouble
                                                          : DataType::kInt64;
    return is_dense_ && dtype_ == kOwn && !std::is_same_v<C, uint64_t> ? reinterpret_cast<C*>(start_of(index))
                                                                       : nullptr;
  }
  /// The elements themselves where that is possible, else `buffer`, which `write_back` then stores.
  template <class C>
  C* target(int64_t index, C* buffer) const {
    C* own = elements<C>(index);
    return own != nullptr ? own : buffer;
  }
  template <class C>
  void write_back(int64_t index, const C* target) const {
    if (elements<C>(index) == nullptr) write<C>(index, target);
  }

 private:
  static Dims plane_axes(int view_rank, int rank) {
    Dims axes;
    for (int axis = view_rank - rank; axis < view_rank; ++axis) axes.push_back(axis);
    return axes;
  }

  Rows rows_;
  DataType dtype_;
  char* data_ = nullptr;
  Extent extent_{1, 1, 1};
  Dims batch_, batch_strides_;  // strides in bytes
  bool is_dense_ = true;
};

/// Fails unless the views have `rank` dimensions inside a plane, one or two more before them, and agree in the latter.
Status expect_planes(const KernelCall& call, int rank, std::initializer_list<const TensorView*> views);

/// Planes that one thread takes at least, so that a range is worth the hand-over: `work` elements are touched in each.
inline int64_t plane_grain(int64_t work) { return std::max<int64_t>(1, 32768 / std::max<int64_t>(1, work)); }

/// Scratch memory without initial values.
template <class C>
std::unique_ptr<C[]> scratch(int64_t count) {
  return std::unique_ptr<C[]>(new C[static_cast<size_t>(std::max<int64_t>(count, 1))]);
}

}  // namespace drydock::ops::kernels
