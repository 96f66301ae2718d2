#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <type_traits>

#include "base/instruction_set.h"
#include "base/thread_pool.h"
#include "ops/kernel_access.h"

// Elements found by an index along one axis, in tensors of the same rank: gather and scatter. Elements that differ in
// another coordinate never meet, so that ranges of another dimension are worked on in parallel.

namespace drydock::ops::kernels {

/// Fails unless the index is of integers in [-size, size).
Status expect_indices(const KernelCall& call, const TensorView& index, int64_t size);

namespace detail {

inline TensorView moved_to_front(const TensorView& view, int axis) {
  TensorView result = view;
  for (int k = axis; k > 0; --k) {
    result.dims[k] = view.dims[k - 1];
    result.strides[k] = view.strides[k - 1];
  }
  result.dims[0] = view.dims[axis];
  result.strides[0] = view.strides[axis];
  return result;
}

/// One range: `found` is walked by the index along `axis`, `other` along with it.
template <class Run>
void walk_lanes(const TensorView& index, const TensorView& found, const TensorView& other, int axis, Run&& run) {
  Dims found_strides = strides_bytes(found);
  const int64_t step = found_strides[axis];
  const int64_t size = found.dims[axis];
  found_strides[axis] = 0;
  StridedWalk walk(index.dims);
  walk.add(index.data, strides_bytes(index));
  walk.add(found.data, found_strides);
  walk.add(other.data, strides_bytes(other));
  const Loader<int64_t> load = loader_of<int64_t>(index.dtype);
  walk.for_each_run([&](char* const* pointers, const int64_t* strides, int64_t count) {
    int64_t buffer[kChunk];
    uintptr_t places[kChunk];
    for (int64_t done = 0; done < count; done += kChunk) {
      const int64_t length = std::min(kChunk, count - done);
      const int64_t* numbers = load(pointers[0] + done * strides[0], strides[0], length, buffer);
      // As integers, because loops over pointers do not vectorise.
      const auto first = reinterpret_cast<uintptr_t>(pointers[1] + done * strides[1]);
      const int64_t stride = strides[1];
      base::vectorized([numbers, first, stride, step, size, length, found_at = places] {
        for (int64_t k = 0; k < length; ++k) {
          const int64_t at = numbers[k] < 0 ? numbers[k] + size : numbers[k];
          found_at[k] = first + static_cast<uintptr_t>(k * stride + at * step);
        }
      });
      run(static_cast<const uintptr_t*>(places), pointers[2] + done * strides[2], strides[2], length);
    }
  });
}

}  // namespace detail

/// Calls `run(addresses of elements of found, first element of other, its stride in bytes, count)` for all elements of
/// the index, of which `other` has the shape; for one place in `found`, in the index's order. All indices were checked.
template <class Run>
void for_each_found(const TensorView& index, const TensorView& found, const TensorView& other, int axis, Run&& run) {
  int split = -1;
  for (int dim = 0; dim < index.dims.size(); ++dim) {
    if (dim != axis && (split < 0 || index.dims[dim] > index.dims[split])) split = dim;
  }
  const int64_t elements = index.numel();
  if (split < 0 || elements < 32768) return detail::walk_lanes(index, found, other, axis, run);
  const TensorView front_index = detail::moved_to_front(index, split);
  const TensorView front_found = detail::moved_to_front(found, split);
  const TensorView front_other = detail::moved_to_front(other, split);
  const int front_axis = axis < split ? axis + 1 : axis;
  const int64_t each = std::max<int64_t>(1, elements / front_index.dims[0]);
  base::parallel_for(front_index.dims[0], std::max<int64_t>(1, 16384 / each), [&](int64_t begin, int64_t end) {
    detail::walk_lanes(narrow(front_index, 0, begin, end - begin), narrow(front_found, 0, begin, end - begin),
                       narrow(front_other, 0, begin, end - begin), front_axis, run);
  });
}

/// Calls `body.operator()<Element>()` with an unsigned type of `size` bytes, or of 16 bytes for any other size.
struct Bytes16 {
  std::array<uint64_t, 2> words;
};
template <class Body>
void with_element_of(int64_t size, Body&& body) {
  switch (size) {
    case 1: return body.template operator()<uint8_t>();
    case 2: return body.template operator()<uint16_t>();
    case 4: return body.template operator()<uint32_t>();
    case 8: return body.template operator()<uint64_t>();
    default: return body.template operator()<Bytes16>();
  }
}

/// The elements of a view as contiguous Cs: they themselves where that is possible, else copies that `write_back`
/// rounds once. For sums of many terms.
template <class C>
class Accumulation {
 public:
  explicit Accumulation(const TensorView& target) : target_(target) {
    constexpr DataType kOwn = std::is_same_v<C, float>     ? DataType::kFloat
                              : std::is_same_v<C, double>  ? DataType::kDouble
                              : std::is_same_v<C, int64_t> ? DataType::kInt64
                                                           : DataType::kUInt64;
    view_ = target;
    if (target.dtype == kOwn && target.strides == contiguous_strides(target.dims)) return;
    copy_.reset(new C[static_cast<size_t>(std::max<int64_t>(1, target.numel()))]);
    view_ = contiguous_view(copy_.get(), kOwn, target.dims);
    copy_view(view_, target);
  }
  const TensorView& view() const { return view_; }
  C* data() const { return reinterpret_cast<C*>(view_.data); }
  void write_back() const {
    if (copy_) copy_view(target_, view_);
  }

 private:
  TensorView target_, view_;
  std::unique_ptr<C[]> copy_;
};

}  // namespace drydock::ops::kernels
