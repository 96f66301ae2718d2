#include "ops/elementwise.h"
#include "ops/index.h"
#include "ops/kernel_call.h"

// Writes at given places along one dimension: scatter and its reductions, index_add, index_fill, index_copy.

namespace drydock::ops::kernels {
namespace {

/// A source that is read along with an index: a tensor at least as large, or one value for all places.
struct Source {
  char* data;
  Dims strides;  // in bytes
};

Status combination_of(const KernelCall& call, int64_t number, Combination* combination) {
  if (number < 0 || number > static_cast<int64_t>(Combination::kMean)) {
    return invalid(call, "reduce must be 0 (none), 1 (add), 2 (mul), 3 (max), 4 (min) or 5 (mean)");
  }
  *combination = static_cast<Combination>(number);
  return Status::ok();
}

/// Calls `each(element of out, element of source)` for every index, after all were checked.
template <class Each>
Status for_each_place(const KernelCall& call, int64_t dim, TensorView out, TensorView index, const Source& source,
                      Each&& each) {
  int axis = 0;
  DRYDOCK_RETURN_IF_ERROR(wrap_dim(call, dim, out.dims.size(), &axis));
  std::vector<int64_t> indices;
  DRYDOCK_RETURN_IF_ERROR(checked_indices(call, index, out.dims[axis], &indices));
  Dims to_strides = strides_bytes(out);
  const int64_t step = to_strides[axis];
  to_strides[axis] = 0;
  StridedWalk walk(index.dims);
  walk.add(out.data, to_strides);
  walk.add(source.data, source.strides);
  size_t at = 0;
  walk.for_each_run([&](char* const* pointers, const int64_t* strides, int64_t count) {
    for (int64_t k = 0; k < count; ++k) {
      each(pointers[0] + k * strides[0] + indices[at++] * step, pointers[1] + k * strides[1]);
    }
  });
  return Status::ok();
}

Status expect_index_fits(const KernelCall& call, const TensorView& out, const TensorView& index,
                         const TensorView* source, int64_t dim) {
  int axis = 0;
  DRYDOCK_RETURN_IF_ERROR(wrap_dim(call, dim, out.dims.size(), &axis));
  if (index.numel() == 0) return Status::ok();
  if (index.dims.size() != out.dims.size() || (source != nullptr && source->dims.size() != index.dims.size())) {
    return invalid(call, "self, index and src must have the same rank");
  }
  for (int other = 0; other < index.dims.size(); ++other) {
    if ((other != axis && index.dims[other] > out.dims[other]) ||
        (source != nullptr && index.dims[other] > source->dims[other])) {
      return invalid(call, "index must not be larger than self (but along dim) or src");
    }
  }
  return Status::ok();
}

TensorView at_least_one_dimension(const TensorView& view) { return view.dims.empty() ? unsqueeze(view, 0) : view; }

/// Operands 0 and 1 are self and index; output 0 starts as self. Without `include_self`, the first value that comes to
/// a place replaces what is there.
Status scatter_into(KernelCall& call, const TensorView& source, bool source_is_value, Combination combination,
                    bool include_self) {
  DRYDOCK_RETURN_IF_ERROR(start_from(call, 0, 0));
  const int64_t dim = call.integer(0);
  const TensorView out = at_least_one_dimension(call.output(0));
  const TensorView index = at_least_one_dimension(call.operand(1));
  const TensorView wide_source = at_least_one_dimension(source);
  DRYDOCK_RETURN_IF_ERROR(expect_index_fits(call, out, index, source_is_value ? nullptr : &wide_source, dim));
  if (index.numel() == 0) return Status::ok();
  Source from{source.data, strides_bytes(wide_source)};
  if (source_is_value) {
    from.strides.clear();
    while (from.strides.size() < index.dims.size()) from.strides.push_back(0);
  }
  const DataType dtype = out.dtype;
  if (combination == Combination::kReplace) {
    const int64_t size = bytes_of(dtype, 1);
    return for_each_place(call, dim, out, index, from,
                          [&](char* to, const char* value) { copy_element(to, value, size); });
  }
  if (!is_real_element(dtype)) return not_computed(call, "a reduction of this element type is not computed");
  // How many values came to each place, as a tensor of the output's shape.
  std::vector<int64_t> arrivals(static_cast<size_t>(out.numel()));
  const TensorView counts = contiguous_view(arrivals.data(), DataType::kInt64, out.dims);
  std::vector<int64_t> order;  // the arrival counter of each index, in the order of the walk
  order.reserve(static_cast<size_t>(index.numel()));
  DRYDOCK_RETURN_IF_ERROR(for_each_place(call, dim, counts, index, from, [&](char* counter, const char*) {
    order.push_back(reinterpret_cast<int64_t*>(counter) - arrivals.data());
  }));
  size_t at = 0;
  DRYDOCK_RETURN_IF_ERROR(for_each_place(call, dim, out, index, from, [&](char* to, const char* value) {
    int64_t& arrived = arrivals[static_cast<size_t>(order[at++])];
    combine_elements(to, 0, dtype, value, 0, dtype, 1,
                     arrived == 0 && !include_self ? Combination::kReplace : combination);
    ++arrived;
  }));
  if (combination != Combination::kMean) return Status::ok();
  for (int64_t& arrived : arrivals) arrived = std::max<int64_t>(1, arrived + (include_self && arrived > 0 ? 1 : 0));
  return apply<2>(
      call, out, {Operand{&out, false}, Operand{&counts, false}}, Domain::kAny,
      []<class C>(C total, C count) { return std::is_integral_v<C> ? floor_quotient(total, count) : total / count; });
}

Status scatter_tensor(KernelCall& call, Combination combination, bool include_self) {
  DRYDOCK_RETURN_IF_ERROR(expect_defined(call, 3, 1));
  DRYDOCK_RETURN_IF_ERROR(expect_same_type(call, call.output(0), call.operand(2)));
  return scatter_into(call, call.operand(2), false, combination, include_self);
}

/// A value converted to the output's element type.
struct Cell {
  alignas(16) std::array<char, 16> bytes{};
  TensorView view;
  bool set(DataType dtype, const TensorView& value) {
    view = contiguous_view(bytes.data(), dtype, Dims());
    return fill_view(view, value);
  }
};

/// Calls `each(slice of output 0, number of the index)` for every index along the dimension.
template <class Each>
Status for_each_slice(KernelCall& call, const std::vector<int64_t>& indices, int axis, Each&& each) {
  const TensorView out = at_least_one_dimension(call.output(0));
  for (size_t k = 0; k < indices.size(); ++k) {
    if (!each(select(out, axis, indices[k]), static_cast<int64_t>(k))) return shapes_do_not_fit(call);
  }
  return Status::ok();
}

Status axis_and_indices(KernelCall& call, const TensorView& index, int* axis, std::vector<int64_t>* indices) {
  const TensorView out = at_least_one_dimension(call.output(0));
  DRYDOCK_RETURN_IF_ERROR(wrap_dim(call, call.integer(0), out.dims.size(), axis));
  return checked_indices(call, index, out.dims[*axis], indices);
}

Status fill_slices(KernelCall& call, const TensorView& index, const TensorView& value) {
  if (value.numel() != 1) return invalid(call, "value must have one element");
  DRYDOCK_RETURN_IF_ERROR(start_from(call, 0, 0));
  int axis = 0;
  std::vector<int64_t> indices;
  DRYDOCK_RETURN_IF_ERROR(axis_and_indices(call, index, &axis, &indices));
  return for_each_slice(call, indices, axis, [&](const TensorView& slice, int64_t) { return fill_view(slice, value); });
}

}  // namespace

Status scatter(KernelCall& call) {
  Combination combination{};
  DRYDOCK_RETURN_IF_ERROR(combination_of(call, call.integer(1), &combination));
  return scatter_tensor(call, combination, true);
}

Status scatter_add(KernelCall& call) { return scatter_tensor(call, Combination::kAdd, true); }

Status scatter_reduce(KernelCall& call) {
  Combination combination{};
  DRYDOCK_RETURN_IF_ERROR(combination_of(call, call.integer(1), &combination));
  return scatter_tensor(call, combination, call.boolean(0));
}

Status scatter_value(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect_defined(call, 3, 1));
  Combination combination{};
  DRYDOCK_RETURN_IF_ERROR(combination_of(call, call.integer(1), &combination));
  if (call.operand(2).numel() != 1) return invalid(call, "value must have one element");
  Cell value;
  if (!value.set(call.output(0).dtype, call.operand(2))) return not_computed(call, "the value does not convert");
  return scatter_into(call, value.view, true, combination, true);
}

/// Operands: self, index, source, and alpha where there is one.
Status index_add(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 3, 1));
  DRYDOCK_RETURN_IF_ERROR(start_from(call, 0, 0));
  int axis = 0;
  std::vector<int64_t> indices;
  DRYDOCK_RETURN_IF_ERROR(axis_and_indices(call, call.operand(1), &axis, &indices));
  const TensorView source = at_least_one_dimension(call.operand(2));
  if (source.dims.size() <= axis || source.dims[axis] != static_cast<int64_t>(indices.size())) {
    return invalid(call, "source must have one slice for each index");
  }
  const double alpha = scalar_or(call, 3, 1.0);
  const TensorView out = at_least_one_dimension(call.output(0));
  const TensorView to = select(out, axis, 0);
  TensorView from;
  if (!broadcast_view(select(source, axis, 0), to.dims, &from)) return shapes_do_not_fit(call);
  SlicePair slices(to.dims, strides_bytes(to), strides_bytes(from));
  const int64_t to_step = strides_bytes(out)[axis];
  const int64_t from_step = strides_bytes(source)[axis];
  for (size_t k = 0; k < indices.size(); ++k) {
    slices.at(to.data + indices[k] * to_step, from.data + static_cast<int64_t>(k) * from_step,
              [&](char* target, int64_t target_stride, char* value, int64_t value_stride, int64_t count) {
                combine_elements(target, target_stride, out.dtype, value, value_stride, source.dtype, count,
                                 Combination::kAdd, alpha);
              });
  }
  return Status::ok();
}

Status index_fill(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 3, 1));
  return fill_slices(call, call.operand(1), call.operand(2));
}

/// The indices are an int array here.
Status index_fill_array(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 2, 1));
  const std::span<const int64_t> array = call.ints(0);
  std::vector<int64_t> indices(array.begin(), array.end());
  const TensorView index =
      contiguous_view(indices.data(), DataType::kInt64, Dims{static_cast<int64_t>(indices.size())});
  return fill_slices(call, index, call.operand(1));
}

Status index_copy(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect_defined(call, 3, 1));
  DRYDOCK_RETURN_IF_ERROR(expect_same_type(call, call.output(0), call.operand(2)));
  DRYDOCK_RETURN_IF_ERROR(start_from(call, 0, 0));
  int axis = 0;
  std::vector<int64_t> indices;
  DRYDOCK_RETURN_IF_ERROR(axis_and_indices(call, call.operand(1), &axis, &indices));
  const TensorView source = at_least_one_dimension(call.operand(2));
  if (source.dims.size() <= axis || source.dims[axis] != static_cast<int64_t>(indices.size())) {
    return invalid(call, "source must have one slice for each index");
  }
  return for_each_slice(call, indices, axis,
                        [&](const TensorView& slice, int64_t k) { return copy_view(slice, select(source, axis, k)); });
}

}  // namespace drydock::ops::kernels
