#include <algorithm>
#include <cstdlib>

#include "ops/kernel_access.h"

// Walks over strided views, and views as rows.

namespace drydock::ops::kernels {

StridedWalk::StridedWalk(const Dims& dims) : dims_(dims) {}

bool StridedWalk::add(const TensorView& view) {
  TensorView wide;
  if (!broadcast_view(view, dims_, &wide)) return false;
  add(wide.data, kernels::strides_bytes(wide));
  return true;
}

void StridedWalk::add(char* data, const Dims& strides_bytes) {
  starts_[static_cast<size_t>(view_count_)] = data;
  strides_[static_cast<size_t>(view_count_++)] = strides_bytes;
}

void StridedWalk::follow_first_view() {
  const auto distance = [&](int axis) { return std::abs(strides_[0][axis]); };
  bool in_order = true;
  int64_t last = INT64_MAX;
  for (int axis = 0; axis < dims_.size(); ++axis) {
    if (dims_[axis] == 1) continue;  // its stride says nothing
    in_order &= last >= distance(axis);
    last = distance(axis);
  }
  if (in_order) return;
  // Insertion: few axes, and std::stable_sort would allocate.
  std::array<int, kMaxRank> order;
  for (int axis = 0; axis < dims_.size(); ++axis) {
    auto place = static_cast<size_t>(axis);
    for (; place > 0 && distance(order[place - 1]) < distance(axis); --place) order[place] = order[place - 1];
    order[place] = axis;
  }
  const auto reordered = [&](const Dims& values) {
    Dims result = values;
    for (int axis = 0; axis < values.size(); ++axis) result[axis] = values[order[static_cast<size_t>(axis)]];
    return result;
  };
  dims_ = reordered(dims_);
  for (size_t view = 0; view < static_cast<size_t>(view_count_); ++view) strides_[view] = reordered(strides_[view]);
}

void StridedWalk::merge() {
  if (merged_) return;
  merged_ = true;
  Dims dims;
  std::array<Dims, kMaxViews> strides;
  for (int axis = 0; axis < dims_.size(); ++axis) {
    if (dims_[axis] == 1) continue;
    const int last = dims.size() - 1;
    bool joins = last >= 0;
    for (size_t view = 0; joins && view < static_cast<size_t>(view_count_); ++view) {
      joins = strides[view][last] == strides_[view][axis] * dims_[axis];
    }
    if (joins) {
      dims[last] *= dims_[axis];
    } else {
      dims.push_back(dims_[axis]);
    }
    for (size_t view = 0; view < static_cast<size_t>(view_count_); ++view) {
      if (joins) {
        strides[view][last] = strides_[view][axis];
      } else {
        strides[view].push_back(strides_[view][axis]);
      }
    }
  }
  dims_ = dims;
  strides_ = strides;
  for (size_t view = 0; view < static_cast<size_t>(view_count_); ++view) {
    inner_strides_[view] = dims.empty() ? 0 : strides[view][dims.size() - 1];
  }
}

Rows::Rows(const TensorView& view, const Dims& axes) : dtype_(view.dtype), data_(view.data) {
  const Dims strides = strides_bytes(view);
  int next = 0;
  for (int axis = 0; axis < view.dims.size(); ++axis) {
    const bool inside = next < axes.size() && axes[next] == axis;
    if (!inside) {
      outer_.push_back(view.dims[axis]);
      outer_strides_.push_back(strides[axis]);
      continue;
    }
    ++next;
    const int last = inner_.size() - 1;
    if (last >= 0 && inner_strides_[last] == strides[axis] * view.dims[axis]) {
      inner_[last] *= view.dims[axis];
      inner_strides_[last] = strides[axis];
    } else {
      inner_.push_back(view.dims[axis]);
      inner_strides_.push_back(strides[axis]);
    }
  }
  const int64_t size = bytes_of(dtype_, 1);
  const int last = outer_.size() - 1;
  interleaved_ = last >= 0 && outer_[last] >= 4 && outer_strides_[last] == size && inner_.size() == 1 &&
                 inner_[0] > 1 && inner_strides_[0] != size && inner_strides_[0] != 0;
}

char* Rows::start_of(int64_t row) const {
  char* start = data_;
  for (int axis = outer_.size() - 1; axis >= 0; --axis) {
    start += row % outer_[axis] * outer_strides_[axis];
    row /= outer_[axis];
  }
  return start;
}

void Rows::copy_in(int64_t row, const char* from, int64_t stride_bytes) const {
  const int64_t size = bytes_of(dtype_, 1);
  for_each_run(row, [&](char* to, int64_t stride, int64_t count) {
    copy_elements(to, stride, from, stride_bytes, count, size);
    from += count * stride_bytes;
  });
}

}  // namespace drydock::ops::kernels
