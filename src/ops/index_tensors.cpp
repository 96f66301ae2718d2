#include "ops/elementwise.h"
#include "ops/index.h"
#include "ops/kernel_call.h"
#include "ops/shapes.h"

// Indexing by a list of tensors (index, index_put), by flat numbers (put), by masks, and by tuples of numbers.

namespace drydock::ops::kernels {
namespace {

/// Indexing by tensors, taken apart: a place of the broadcast indices is an offset into self, and each place stands for
/// a slice of the dimensions that have no index.
struct Indexing {
  Dims places;                     ///< shape the indices broadcast to
  std::vector<int64_t> offsets;    ///< bytes from self's start, for each place in row-major order
  Dims before, after;              ///< sizes of the unindexed dimensions around `places` in the result
  Dims slice_dims, slice_strides;  ///< all unindexed dimensions of self; strides in bytes

  Dims result_dims() const {
    Dims dims = before;
    for (int64_t size : places) dims.push_back(size);
    for (int64_t size : after) dims.push_back(size);
    return dims;
  }
};

/// An index for one dimension: numbers, and the shape they have before broadcasting.
struct DimensionIndex {
  int axis;
  std::vector<int64_t> numbers;
  Dims dims;
};

bool is_mask(const TensorView& view) { return view.dtype == DataType::kBool || view.dtype == DataType::kUInt8; }

/// A mask over several dimensions is one index for each of them.
Status expand_mask(const KernelCall& call, const TensorView& mask, const TensorView& self, int axis,
                   std::vector<DimensionIndex>* indices) {
  const int rank = mask.dims.size();
  for (int other = 0; other < rank; ++other) {
    if (axis + other >= self.dims.size() || self.dims[axis + other] != mask.dims[other]) {
      return invalid(call, "the shape of a mask index must match the dimensions that it indexes");
    }
  }
  std::vector<std::vector<int64_t>> found(static_cast<size_t>(rank));
  int64_t number = 0;
  for_each_value<int64_t>(mask, [&](int64_t chosen) {
    int64_t rest = number++;
    if (chosen == 0) return;
    for (int other = rank - 1; other >= 0; --other) {
      found[static_cast<size_t>(other)].push_back(rest % mask.dims[other]);
      rest /= mask.dims[other];
    }
  });
  for (int other = 0; other < rank; ++other) {
    std::vector<int64_t>& numbers = found[static_cast<size_t>(other)];
    const Dims dims{static_cast<int64_t>(numbers.size())};
    indices->push_back({axis + other, std::move(numbers), dims});
  }
  return Status::ok();
}

/// An undefined index comes as null, or (from torch_npu) as an empty vector next to indices that are not empty.
bool is_absent(const TensorView& view, bool others_have_places) {
  return !view.defined || (others_have_places && view.dims == Dims{0});
}

Status take_apart(const KernelCall& call, const TensorView& self, const std::vector<TensorView>& list, bool has_places,
                  Indexing* indexing) {
  std::vector<DimensionIndex> indices;
  int axis = 0;
  for (const TensorView& view : list) {
    if (is_absent(view, has_places)) {
      ++axis;
      continue;
    }
    if (axis >= self.dims.size()) return invalid(call, "more indices than self has dimensions");
    if (is_mask(view)) {
      DRYDOCK_RETURN_IF_ERROR(expand_mask(call, view, self, axis, &indices));
      axis += view.dims.size();
      continue;
    }
    DimensionIndex index{axis, {}, view.dims};
    DRYDOCK_RETURN_IF_ERROR(checked_indices(call, view, self.dims[axis], &index.numbers));
    indices.push_back(std::move(index));
    ++axis;
  }
  for (const DimensionIndex& index : indices) {
    if (!broadcast_dims(indexing->places, index.dims, &indexing->places)) {
      return invalid(call, "the shapes of the indices cannot be broadcast together");
    }
  }
  const Dims strides = strides_bytes(self);
  indexing->offsets.assign(static_cast<size_t>(indexing->places.product()), 0);
  std::array<bool, kMaxRank> indexed{};
  for (DimensionIndex& index : indices) {
    indexed[static_cast<size_t>(index.axis)] = true;
    TensorView wide;
    broadcast_view(contiguous_view(index.numbers.data(), DataType::kInt64, index.dims), indexing->places, &wide);
    size_t place = 0;
    for_each_value<int64_t>(wide, [&](int64_t number) { indexing->offsets[place++] += number * strides[index.axis]; });
  }
  // Indices of adjacent dimensions keep their position in the result, others go to the front.
  const bool adjacent =
      !indices.empty() && indices.back().axis - indices.front().axis + 1 == static_cast<int>(indices.size());
  for (int other = 0; other < self.dims.size(); ++other) {
    if (indexed[static_cast<size_t>(other)]) continue;
    const bool in_front = adjacent && other < indices.front().axis;
    (in_front ? indexing->before : indexing->after).push_back(self.dims[other]);
    indexing->slice_dims.push_back(self.dims[other]);
    indexing->slice_strides.push_back(strides[other]);
  }
  return Status::ok();
}

/// Calls `each(other, other_stride, self, self_stride, count)` with matching runs of `other`, a view in the shape of
/// the result, and of self.
template <class Each>
void for_each_indexed_run(const Indexing& indexing, const TensorView& self, const TensorView& other, Each&& each) {
  const Dims strides = strides_bytes(other);
  Dims place_strides, slice_strides;
  const int first_place = indexing.before.size();
  for (int axis = 0; axis < strides.size(); ++axis) {
    const bool is_place = axis >= first_place && axis < first_place + indexing.places.size();
    (is_place ? place_strides : slice_strides).push_back(strides[axis]);
  }
  SlicePair slices(indexing.slice_dims, slice_strides, indexing.slice_strides);
  StridedWalk places(indexing.places);
  places.add(other.data, place_strides);
  size_t at = 0;
  places.for_each_run([&](char* const* pointers, const int64_t* steps, int64_t count) {
    for (int64_t k = 0; k < count; ++k) {
      slices.at(pointers[0] + k * steps[0], self.data + indexing.offsets[at++], each);
    }
  });
}

}  // namespace

Status index(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect_defined(call, 1, 1));
  const TensorView& self = call.operand(0);
  const TensorView& out = call.output(0);
  DRYDOCK_RETURN_IF_ERROR(expect_same_type(call, out, self));
  if (out.numel() == 0) return Status::ok();
  Indexing indexing;
  DRYDOCK_RETURN_IF_ERROR(take_apart(call, self, call.operand_list(0), true, &indexing));
  if (!(indexing.result_dims() == out.dims)) return invalid(call, "the output has not the shape of the indexed tensor");
  const int64_t size = bytes_of(self.dtype, 1);
  for_each_indexed_run(indexing, self, out,
                       [size](char* to, int64_t to_stride, char* from, int64_t from_stride, int64_t count) {
                         copy_elements(to, to_stride, from, from_stride, count, size);
                       });
  return Status::ok();
}

/// Operands: self and values; the indices are the list.
Status index_put(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect_defined(call, 2, 1));
  const TensorView& self = call.output(0);
  const TensorView& values = call.operand(call.operand_count() - 1);
  DRYDOCK_RETURN_IF_ERROR(expect_same_type(call, self, values));
  const bool accumulate = call.boolean(0);
  if (accumulate && !is_real_element(self.dtype)) return not_computed(call, "this element type is not added");
  const std::vector<TensorView>& list = call.operand_list(0);
  const bool has_places =
      std::any_of(list.begin(), list.end(), [](const TensorView& v) { return v.defined && v.numel() > 0; });
  if (!has_places || values.numel() == 0) return Status::ok();
  Indexing indexing;
  DRYDOCK_RETURN_IF_ERROR(take_apart(call, self, list, has_places, &indexing));
  TensorView wide;
  if (!broadcast_view(values, indexing.result_dims(), &wide)) {
    return invalid(call, "the values cannot be broadcast to the shape that the indices select, " +
                             text_of(indexing.result_dims()) + ": " + shapes_of(call));
  }
  const int64_t size = bytes_of(self.dtype, 1);
  for_each_indexed_run(
      indexing, self, wide, [&](char* from, int64_t from_stride, char* to, int64_t to_stride, int64_t count) {
        if (!accumulate) return copy_elements(to, to_stride, from, from_stride, count, size);
        combine_elements(to, to_stride, self.dtype, from, from_stride, self.dtype, count, Combination::kAdd);
      });
  return Status::ok();
}

/// Operands: self, index, source; indices count self's elements as if it were flat.
Status put(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect_defined(call, 3, 1));
  const TensorView& self = call.output(0);
  const TensorView& source = call.operand(2);
  DRYDOCK_RETURN_IF_ERROR(expect_same_type(call, self, source));
  const bool accumulates = call.boolean(0);
  const DataType part = part_type(self.dtype);
  if (accumulates && !is_real_element(part)) return not_computed(call, "this element type is not added");
  std::vector<int64_t> indices;
  DRYDOCK_RETURN_IF_ERROR(checked_indices(call, call.operand(1), self.numel(), &indices));
  if (source.numel() != static_cast<int64_t>(indices.size())) {
    return invalid(call, "index and source must have as many elements");
  }
  const int64_t size = bytes_of(self.dtype, 1);
  const int64_t part_size = bytes_of(part, 1);
  for (size_t k = 0; k < indices.size(); ++k) {
    char* const to = flat_element(self, indices[k]);
    const char* const from = flat_element(source, static_cast<int64_t>(k));
    if (accumulates) {
      combine_elements(to, part_size, part, from, part_size, part, size / part_size, Combination::kAdd);
    } else {
      copy_element(to, from, size);
    }
  }
  return Status::ok();
}

/// Operands: self, mask, source; the masked elements take the source's elements one after the other.
Status masked_scatter(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect_defined(call, 3, 1));
  const TensorView& self = call.output(0);
  const TensorView& source = call.operand(2);
  DRYDOCK_RETURN_IF_ERROR(expect_same_type(call, self, source));
  TensorView mask;
  if (!is_real_element(call.operand(1).dtype)) return not_computed(call, "the mask's type is not computed");
  if (!broadcast_view(call.operand(1), self.dims, &mask)) return shapes_do_not_fit(call);
  int64_t wanted = 0;
  for_each_value<int64_t>(mask, [&](int64_t chosen) { wanted += chosen != 0 ? 1 : 0; });
  if (wanted > source.numel()) {
    return invalid(call, "the mask selects " + std::to_string(wanted) + " elements but source has " +
                             std::to_string(source.numel()));
  }
  const int64_t size = bytes_of(self.dtype, 1);
  int64_t number = 0;
  int64_t taken = 0;
  for_each_value<int64_t>(mask, [&](int64_t chosen) {
    if (chosen != 0) copy_element(flat_element(self, number), flat_element(source, taken++), size);
    ++number;
  });
  return Status::ok();
}

/// Operands: self, indices, updates; the last dimension of indices holds the first coordinates of a slice.
Status scatter_nd_update(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect_defined(call, 3, 1));
  const TensorView& self = call.output(0);
  const TensorView& indices = call.operand(1);
  const TensorView& updates = call.operand(2);
  DRYDOCK_RETURN_IF_ERROR(expect_same_type(call, self, updates));
  if (indices.dims.empty() || !is_real_element(indices.dtype)) return invalid(call, "indices need a dimension");
  const int places = indices.dims.size() - 1;
  const int tuple = static_cast<int>(std::min<int64_t>(indices.dims[places], kMaxRank + 1));
  if (tuple > self.dims.size() || updates.dims.size() != places + self.dims.size() - tuple) {
    return invalid(call, "updates must have a slice of self for each index");
  }
  const Rows coordinates(indices, places);
  std::vector<int64_t> buffer(static_cast<size_t>(tuple) + 1);
  for (int64_t row = 0; row < coordinates.count(); ++row) {
    const int64_t* place = coordinates.read<int64_t>(row, buffer.data());
    TensorView target = self;
    for (int k = 0; k < tuple; ++k) {
      int64_t at = 0;
      DRYDOCK_RETURN_IF_ERROR(checked_index(call, place[k], target.dims[0], &at));
      target = select(target, 0, at);
    }
    TensorView update = updates;
    int64_t rest = row;
    for (int axis = places - 1; axis >= 0; --axis) {
      if (updates.dims[axis] != indices.dims[axis]) return shapes_do_not_fit(call);
      update = select(update, axis, rest % indices.dims[axis]);
      rest /= indices.dims[axis];
    }
    if (!copy_view(target, update)) return shapes_do_not_fit(call);
  }
  return Status::ok();
}

namespace {

/// One element of a view, by its number in row-major order.
TensorView flat_view(const TensorView& view, int64_t number) {
  return contiguous_view(flat_element(view, number), view.dtype, Dims());
}

/// Batch b of self takes updates at indices[b] (or, with pairs, row i says batch and start) along `axis`.
Status update_at(const KernelCall& call, const TensorView& self, const TensorView& updates, int axis, int64_t start) {
  if (updates.dims.size() != self.dims.size() || start < 0 || updates.dims[axis] > self.dims[axis] - start) {
    return invalid(call, "index " + std::to_string(start) + " with " + std::to_string(updates.dims[axis]) +
                             " updates exceeds a dimension of size " + std::to_string(self.dims[axis]));
  }
  return copy_view(narrow(self, axis, start, updates.dims[axis]), updates) ? Status::ok() : shapes_do_not_fit(call);
}

}  // namespace

Status scatter_update(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect_defined(call, 3, 1));
  const TensorView& self = call.output(0);
  const TensorView& indices = call.operand(1);
  const TensorView& updates = call.operand(2);
  DRYDOCK_RETURN_IF_ERROR(expect_same_type(call, self, updates));
  int axis = 0;
  DRYDOCK_RETURN_IF_ERROR(wrap_dim(call, call.integer(0), self.dims.size(), &axis));
  if (axis == 0 || updates.dims.size() != self.dims.size() || !is_real_element(indices.dtype)) {
    return invalid(call, "axis must not be the batch dimension, and updates must have self's rank");
  }
  const bool pairs = indices.dims.size() == 2 && indices.dims[1] == 2;
  if (indices.dims.size() != 1 && !pairs) return invalid(call, "indices must be a vector or a list of pairs");
  const int64_t count = std::min(indices.dims[0], updates.dims[0]);
  for (int64_t row = 0; row < count; ++row) {
    int64_t batch = row;
    int64_t start = 0;
    if (pairs) {
      DRYDOCK_RETURN_IF_ERROR(
          checked_index(call, as_int64(select(select(indices, 0, row), 0, 0)), self.dims[0], &batch));
      start = as_int64(select(select(indices, 0, row), 0, 1));
    } else {
      DRYDOCK_RETURN_IF_ERROR(checked_index(call, row, self.dims[0], &batch));
      start = as_int64(select(indices, 0, row));
    }
    DRYDOCK_RETURN_IF_ERROR(update_at(call, narrow(self, 0, batch, 1), narrow(updates, 0, row, 1), axis, start));
  }
  return Status::ok();
}

/// The list is written. Operands: indices, updates, mask (may be undefined). Tensor b of the list takes updates[b] at
/// indices[b] along the axis, of which row b of indices may also say the length; a mask of 0 leaves it out.
Status scatter_list(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect_defined(call, 2, 0));
  const std::vector<TensorView>& list = call.output_list(0);
  const TensorView& indices = call.operand(0);
  const TensorView& updates = call.operand(1);
  const TensorView& mask = call.operand(2);
  const auto count = static_cast<int64_t>(list.size());
  if (call.text(0) != "update") return invalid(call, "reduce must be \"update\"");
  int axis = 0;
  DRYDOCK_RETURN_IF_ERROR(wrap_dim(call, call.integer(0), updates.dims.size(), &axis));
  const bool pairs = indices.dims.size() == 2 && indices.dims[1] == 2;
  if (axis == 0 || (indices.dims.size() != 1 && !pairs) || indices.dims[0] != count || updates.dims[0] != count) {
    return invalid(call, "indices and updates need a row for each tensor, and the axis must not be the first");
  }
  if (!is_real_element(indices.dtype) || is_floating(indices.dtype)) return invalid(call, "indices must be integers");
  if (mask.defined && (mask.numel() != count || !is_real_element(mask.dtype))) {
    return invalid(call, "the mask needs a number for each tensor");
  }
  for (int64_t b = 0; b < count; ++b) {
    const TensorView& self = list[static_cast<size_t>(b)];
    if (!self.defined) return invalid(call, "a tensor of the list is missing");
    DRYDOCK_RETURN_IF_ERROR(expect_same_type(call, self, updates));
    if (mask.defined && as_int64(flat_view(mask, b)) == 0) continue;
    TensorView update = select(updates, 0, b);
    const int64_t start = as_int64(pairs ? select(select(indices, 0, b), 0, 0) : select(indices, 0, b));
    if (pairs) {
      const int64_t length = as_int64(select(select(indices, 0, b), 0, 1));
      update = narrow(update, axis - 1, 0, std::clamp<int64_t>(length, 0, update.dims[axis - 1]));
    }
    DRYDOCK_RETURN_IF_ERROR(update_at(call, self, update, axis - 1, start));
  }
  return Status::ok();
}

}  // namespace drydock::ops::kernels
