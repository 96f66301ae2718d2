#include <type_traits>

#include "ops/elementwise.h"
#include "ops/index.h"
#include "ops/index_lanes.h"
#include "ops/kernel_call.h"

// Writes at given places along one dimension: scatter and its reductions, index_add, index_fill, index_copy.

namespace drydock::ops::kernels {
namespace {

Status combination_of(const KernelCall& call, int64_t number, Combination* combination) {
  if (number < 0 || number > static_cast<int64_t>(Combination::kMean)) {
    return invalid(call, "reduce must be 0 (none), 1 (add), 2 (mul), 3 (max), 4 (min) or 5 (mean)");
  }
  *combination = static_cast<Combination>(number);
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

/// Values of one type that come to elements of `out`: those of `source` along the index.
template <class C>
void combine_found(const TensorView& index, const TensorView& out, const TensorView& source, int axis,
                   Combination combination, bool include_self) {
  const Accumulation<C> results(out);
  // How many values came to each element, where that matters.
  const bool counts = !include_self || combination == Combination::kMean;
  std::vector<int32_t> arrivals(counts ? static_cast<size_t>(out.numel()) : 0);
  const Loader<C> load = loader_of<C>(source.dtype);
  C* const first = results.data();
  for_each_found(index, results.view(), source, axis,
                 [&](const uintptr_t* places, const char* from, int64_t stride, int64_t count) {
                   C buffer[kChunk];
                   const C* values = load(from, stride, count, buffer);
                   if (combination == Combination::kAdd && !counts) {
                     for (int64_t k = 0; k < count; ++k) {
                       C* const to = reinterpret_cast<C*>(places[k]);
                       *to = wrapping_add(*to, values[k]);
                     }
                     return;
                   }
                   for (int64_t k = 0; k < count; ++k) {
                     C* const to = reinterpret_cast<C*>(places[k]);
                     const bool replaces = counts && arrivals[static_cast<size_t>(to - first)]++ == 0 && !include_self;
                     *to = replaces ? values[k] : combined(*to, values[k], combination);
                   }
                 });
  if (combination == Combination::kMean) {
    for (size_t k = 0; k < arrivals.size(); ++k) {
      const int64_t terms = arrivals[k] == 0 ? 1 : arrivals[k] + (include_self ? 1 : 0);
      first[k] =
          std::is_integral_v<C> ? floor_quotient(first[k], static_cast<C>(terms)) : first[k] / static_cast<C>(terms);
    }
  }
  results.write_back();
}

/// Operands 0 and 1 are self and index; output 0 starts as self. Without `include_self`, the first value that comes to
/// a place replaces what is there. `source` may be a single value.
Status scatter_into(KernelCall& call, const TensorView& source, bool source_is_value, Combination combination,
                    bool include_self) {
  DRYDOCK_RETURN_IF_ERROR(start_from(call, 0, 0));
  const int64_t dim = call.integer(0);
  TensorView out = at_least_one_dimension(call.output(0));
  TensorView index = at_least_one_dimension(call.operand(1));
  TensorView from = at_least_one_dimension(source);
  DRYDOCK_RETURN_IF_ERROR(expect_index_fits(call, out, index, source_is_value ? nullptr : &from, dim));
  if (index.numel() == 0) return Status::ok();
  int axis = 0;
  DRYDOCK_RETURN_IF_ERROR(wrap_dim(call, dim, out.dims.size(), &axis));
  DRYDOCK_RETURN_IF_ERROR(expect_indices(call, index, out.dims[axis]));
  from.dims = index.dims;
  if (source_is_value) {
    from.strides.clear();
    while (from.strides.size() < index.dims.size()) from.strides.push_back(0);
  }
  if (combination == Combination::kReplace) {
    with_element_of(bytes_of(out.dtype, 1), [&]<class Element>() {
      for_each_found(index, out, from, axis,
                     [](const uintptr_t* places, const char* value, int64_t stride, int64_t count) {
                       for (int64_t k = 0; k < count; ++k)
                         std::memcpy(reinterpret_cast<char*>(places[k]), value + k * stride, sizeof(Element));
                     });
    });
    return Status::ok();
  }
  if (combination == Combination::kAdd && part_type(out.dtype) != out.dtype) {
    // The parts of complex numbers are added on their own, both found by the same index.
    out = parts_of(out);
    from = parts_of(from);
    index.dims.push_back(2);
    index.strides.push_back(0);
  }
  if (!is_real_element(out.dtype)) return not_computed(call, "a reduction of this element type is not computed");
  return with_compute_type(compute_type_of(out.dtype), [&]<class C>() {
    combine_found<C>(index, out, from, axis, combination, include_self);
    return Status::ok();
  });
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
  TensorView from;
  Dims wide = out.dims;
  wide[axis] = source.dims[axis];
  if (!broadcast_view(source, wide, &from)) return shapes_do_not_fit(call);
  if (from.numel() == 0) return Status::ok();
  return with_compute_type(compute_type_of(out.dtype), [&]<class C>() {
    const Accumulation<C> sums(out);
    const TensorView to = select(sums.view(), axis, 0);
    const TensorView first = select(from, axis, 0);
    SlicePair slices(to.dims, strides_bytes(to), strides_bytes(first));
    const int64_t to_step = strides_bytes(sums.view())[axis];
    const int64_t from_step = strides_bytes(from)[axis];
    for (size_t k = 0; k < indices.size(); ++k) {
      slices.at(to.data + indices[k] * to_step, first.data + static_cast<int64_t>(k) * from_step,
                [&](char* target, int64_t target_stride, char* value, int64_t value_stride, int64_t count) {
                  combine_elements(target, target_stride, to.dtype, value, value_stride, from.dtype, count,
                                   Combination::kAdd, alpha);
                });
    }
    sums.write_back();
    return Status::ok();
  });
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
