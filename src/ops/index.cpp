#include "ops/index.h"

#include <algorithm>
#include <atomic>

#include "base/instruction_set.h"
#include "base/thread_pool.h"
#include "ops/elementwise.h"
#include "ops/index_lanes.h"
#include "ops/kernel_call.h"
#include "ops/shapes.h"

// Reads at given places: gather, index_select, embedding, take, and indexing by several tensors at once.

namespace drydock::ops::kernels {
namespace {

/// True if all indices are in [-size, size).
bool all_inside(const TensorView& index, int64_t size) {
  StridedWalk walk(index.dims);
  walk.add(index);
  walk.merge();
  const Loader<int64_t> load = loader_of<int64_t>(index.dtype);
  std::atomic<bool> inside{true};
  base::parallel_for(walk.numel(), 65536, [&](int64_t begin, int64_t end) {
    walk.for_each_run_in(begin, end, [&](char* const* pointers, const int64_t* strides, int64_t count) {
      int64_t buffer[kChunk];
      for (int64_t done = 0; done < count; done += kChunk) {
        const int64_t length = std::min(kChunk, count - done);
        const int64_t* values = load(pointers[0] + done * strides[0], strides[0], length, buffer);
        int64_t wrong = 0;
        base::vectorized([&wrong, values, length, size] {
          int64_t outside = 0;
          for (int64_t k = 0; k < length; ++k) outside |= ((values[k] < -size) | (values[k] >= size)) ? 1 : 0;
          wrong = outside;
        });
        if (wrong != 0) inside.store(false, std::memory_order_relaxed);
      }
    });
  });
  return inside.load(std::memory_order_relaxed);
}

}  // namespace

Status checked_indices(const KernelCall& call, const TensorView& index, int64_t size, std::vector<int64_t>* indices) {
  if (!is_real_element(index.dtype) || is_floating(index.dtype)) return invalid(call, "an index must be of integers");
  indices->clear();
  indices->reserve(static_cast<size_t>(index.numel()));
  Status status = Status::ok();
  for_each_value<int64_t>(index, [&](int64_t value) {
    int64_t wrapped = 0;
    if (status.is_ok()) status = checked_index(call, value, size, &wrapped);
    indices->push_back(wrapped);
  });
  return status;
}

Status expect_indices(const KernelCall& call, const TensorView& index, int64_t size) {
  if (!is_real_element(index.dtype) || is_floating(index.dtype)) return invalid(call, "an index must be of integers");
  if (all_inside(index, size)) return Status::ok();
  // The first one that is wrong makes the message.
  Status status = Status::ok();
  for_each_value<int64_t>(index, [&](int64_t value) {
    int64_t wrapped = 0;
    if (status.is_ok()) status = checked_index(call, value, size, &wrapped);
  });
  return status;
}

Status start_from(const KernelCall& call, int output, int operand) {
  const TensorView& out = call.output(output);
  const TensorView& in = call.operand(operand);
  if (out.data == in.data && out.dims == in.dims && out.strides == in.strides) return Status::ok();
  if (!(out.dims == in.dims) || !copy_view(out, in)) {
    return invalid(call, "the output must have the shape and type of the input");
  }
  return Status::ok();
}

Status expect_same_type(const KernelCall& call, const TensorView& a, const TensorView& b) {
  if (a.dtype == b.dtype) return Status::ok();
  return invalid(call, "the element types " + std::string(name_of(a.dtype)) + " and " + std::string(name_of(b.dtype)) +
                           " must be the same");
}

void combine_elements(char* to, int64_t to_stride, DataType to_type, const char* from, int64_t from_stride,
                      DataType from_type, int64_t count, Combination combination, double alpha) {
  const Status done = with_compute_type(compute_type_of(to_type), [&]<class C>() {
    const Loader<C> load_to = loader_of<C>(to_type);
    const Loader<C> load_from = loader_of<C>(from_type);
    const Storer<C> store = storer_of<C>(to_type);
    C to_buffer[kChunk];
    C from_buffer[kChunk];
    C results[kChunk];
    for (int64_t at = 0; at < count; at += kChunk) {
      const int64_t length = std::min(kChunk, count - at);
      char* target = to + at * to_stride;
      const C* old_values = load_to(target, to_stride, length, to_buffer);
      const C* new_values = load_from(from + at * from_stride, from_stride, length, from_buffer);
      for (int64_t k = 0; k < length; ++k) {
        const C scaled = alpha == 1.0 ? new_values[k] : wrapping_multiply(static_cast<C>(alpha), new_values[k]);
        results[k] = combined(old_values[k], scaled, combination);
      }
      store(target, to_stride, length, results);
    }
    return Status::ok();
  });
  static_cast<void>(done);  // never fails
}

namespace {

/// Slices of self along `axis`, chosen by `indices`, put one behind the other into `out` (same rank as self).
Status select_slices(const KernelCall& call, const TensorView& out, const TensorView& self, int axis,
                     const std::vector<int64_t>& indices) {
  const int64_t count = static_cast<int64_t>(indices.size());
  if (out.dims[axis] != count) return invalid(call, "the output must have one slice for each index");
  if (count == 0) return Status::ok();
  // One walk over the shape of a slice serves all of them.
  const TensorView to = select(out, axis, 0);
  const TensorView from = select(self, axis, 0);
  if (!(to.dims == from.dims)) return shapes_do_not_fit(call);
  const int64_t size = bytes_of(self.dtype, 1);
  SlicePair slices(to.dims, strides_bytes(to), strides_bytes(from));
  for (int64_t k = 0; k < count; ++k) {
    slices.copy(to.data + k * out.strides[axis] * size,
                from.data + indices[static_cast<size_t>(k)] * self.strides[axis] * size, size);
  }
  return Status::ok();
}

}  // namespace

Status index_select(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect_defined(call, 2, 1));
  TensorView self = call.operand(0);
  TensorView out = call.output(0);
  DRYDOCK_RETURN_IF_ERROR(expect_same_type(call, out, self));
  int axis = 0;
  DRYDOCK_RETURN_IF_ERROR(wrap_dim(call, call.integer(0), self.dims.size(), &axis));
  if (self.dims.empty()) self = unsqueeze(self, 0);
  if (out.dims.empty()) out = unsqueeze(out, 0);
  if (out.dims.size() != self.dims.size()) return invalid(call, "self and output differ in rank");
  std::vector<int64_t> indices;
  DRYDOCK_RETURN_IF_ERROR(checked_indices(call, call.operand(1), self.dims[axis], &indices));
  return select_slices(call, out, self, axis, indices);
}

/// Output shape: the index's dimensions in place of `axis`.
Status gather_slices(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect_defined(call, 2, 1));
  const TensorView& self = call.operand(0);
  const TensorView& index = call.operand(1);
  const TensorView& out = call.output(0);
  DRYDOCK_RETURN_IF_ERROR(expect_same_type(call, out, self));
  int axis = 0;
  DRYDOCK_RETURN_IF_ERROR(wrap_dim(call, call.integer(0), self.dims.size(), &axis));
  const int batches = static_cast<int>(call.integer(1));
  if (batches < 0 || batches > axis || batches > index.dims.size() || self.dims.empty()) {
    return invalid(call, "batchDims must not exceed dim or the rank of the index");
  }
  if (out.dims.size() != self.dims.size() - 1 + index.dims.size() - batches) return shapes_do_not_fit(call);
  for (int other = 0; other < batches; ++other) {
    if (self.dims[other] != index.dims[other]) return shapes_do_not_fit(call);
  }
  std::vector<int64_t> indices;
  DRYDOCK_RETURN_IF_ERROR(checked_indices(call, index, self.dims[axis], &indices));
  // Walk the index; for each of its elements one slice without the batch dimensions and the axis is copied.
  Dims to_strides, from_strides, slice, slice_to, slice_from;
  const Dims self_strides = strides_bytes(self);
  const Dims out_strides = strides_bytes(out);
  const int index_rank = index.dims.size();
  for (int other = 0; other < index_rank; ++other) {
    to_strides.push_back(out_strides[other < batches ? other : other - batches + axis]);
    from_strides.push_back(other < batches ? self_strides[other] : 0);
    if (out.dims[other < batches ? other : other - batches + axis] != index.dims[other]) return shapes_do_not_fit(call);
  }
  for (int other = batches; other < self.dims.size(); ++other) {
    if (other == axis) continue;
    const int in_out = other < axis ? other : other - 1 + index_rank - batches;
    if (out.dims[in_out] != self.dims[other]) return shapes_do_not_fit(call);
    slice.push_back(self.dims[other]);
    slice_to.push_back(out_strides[in_out]);
    slice_from.push_back(self_strides[other]);
  }
  const int64_t size = bytes_of(self.dtype, 1);
  SlicePair slices(slice, slice_to, slice_from);
  StridedWalk walk(index.dims);
  walk.add(out.data, to_strides);
  walk.add(self.data, from_strides);
  size_t at = 0;
  walk.for_each_run([&](char* const* pointers, const int64_t* strides, int64_t count) {
    for (int64_t k = 0; k < count; ++k) {
      slices.copy(pointers[0] + k * strides[0], pointers[1] + k * strides[1] + indices[at++] * self_strides[axis],
                  size);
    }
  });
  return Status::ok();
}

Status embedding(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect_defined(call, 2, 1));
  const TensorView& weight = call.operand(0);
  const TensorView& out = call.output(0);
  DRYDOCK_RETURN_IF_ERROR(expect_same_type(call, out, weight));
  if (weight.dims.size() != 2 || out.dims.empty() || out.dims[out.dims.size() - 1] != weight.dims[1]) {
    return invalid(call, "weight must be a matrix, the output's last dimension its width");
  }
  std::vector<int64_t> indices;
  DRYDOCK_RETURN_IF_ERROR(checked_indices(call, call.operand(1), weight.dims[0], &indices));
  const Rows rows(out, out.dims.size() - 1);
  if (rows.count() != static_cast<int64_t>(indices.size())) return shapes_do_not_fit(call);
  const int64_t row_bytes = strides_bytes(weight)[0];
  const int64_t stride_bytes = strides_bytes(weight)[1];
  const int64_t grain = std::max<int64_t>(1, 16384 / std::max<int64_t>(1, weight.dims[1]));
  base::parallel_for(rows.count(), grain, [&](int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; ++k) {
      rows.copy_in(k, weight.data + indices[static_cast<size_t>(k)] * row_bytes, stride_bytes);
    }
  });
  return Status::ok();
}

/// out[...] = self[..., index[...], ...] along dim; index may be smaller than self in the other dimensions.
Status gather(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect_defined(call, 2, 1));
  TensorView self = call.operand(0);
  TensorView index = call.operand(1);
  TensorView out = call.output(0);
  DRYDOCK_RETURN_IF_ERROR(expect_same_type(call, out, self));
  if (index.numel() == 0 && out.numel() == 0) return Status::ok();  // of any rank
  if (self.dims.empty()) self = unsqueeze(self, 0);
  if (index.dims.empty()) index = unsqueeze(index, 0);
  if (out.dims.empty()) out = unsqueeze(out, 0);
  int axis = 0;
  DRYDOCK_RETURN_IF_ERROR(wrap_dim(call, call.integer(0), self.dims.size(), &axis));
  if (!(index.dims == out.dims) || index.dims.size() != self.dims.size()) return shapes_do_not_fit(call);
  for (int other = 0; other < self.dims.size(); ++other) {
    if (other != axis && index.dims[other] > self.dims[other]) return shapes_do_not_fit(call);
  }
  DRYDOCK_RETURN_IF_ERROR(expect_indices(call, index, self.dims[axis]));
  with_element_of(bytes_of(self.dtype, 1), [&]<class Element>() {
    for_each_found(index, self, out, axis, [](const uintptr_t* places, char* to, int64_t stride, int64_t count) {
      for (int64_t k = 0; k < count; ++k)
        std::memcpy(to + k * stride, reinterpret_cast<const char*>(places[k]), sizeof(Element));
    });
  });
  return Status::ok();
}

/// Indices into self as if it were flat.
Status take(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect_defined(call, 2, 1));
  const TensorView& self = call.operand(0);
  const TensorView& out = call.output(0);
  DRYDOCK_RETURN_IF_ERROR(expect_same_type(call, out, self));
  std::vector<int64_t> indices;
  DRYDOCK_RETURN_IF_ERROR(checked_indices(call, call.operand(1), self.numel(), &indices));
  if (out.numel() != static_cast<int64_t>(indices.size())) return shapes_do_not_fit(call);
  const int64_t size = bytes_of(self.dtype, 1);
  const bool is_dense = is_contiguous(self);
  size_t at = 0;
  StridedWalk walk(out.dims);
  walk.add(out);
  walk.for_each_run([&](char* const* pointers, const int64_t* strides, int64_t count) {
    for (int64_t k = 0; k < count; ++k) {
      const int64_t number = indices[at++];
      const char* element = is_dense ? self.data + number * size : flat_element(self, number);
      copy_element(pointers[0] + k * strides[0], element, size);
    }
  });
  return Status::ok();
}

}  // namespace drydock::ops::kernels
