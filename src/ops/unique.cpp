#include <algorithm>
#include <numeric>
#include <vector>

#include "ops/kernel_call.h"
#include "ops/reduce.h"
#include "ops/sort.h"

// Operators whose output shape depends on values: what differs, what is not zero, what a mask selects.

namespace drydock::ops::kernels {
namespace {

/// What unique operators answer, in terms of positions along the dimension that is made unique.
struct Groups {
  std::vector<int64_t> representatives;  ///< position of the first member of each group
  std::vector<int64_t> inverse;          ///< group of each position
  std::vector<int64_t> counts;           ///< members of each group
};

/// Groups equal neighbours in `order`; `equal(a, b)` compares two positions.
template <class Equal>
Groups group_neighbours(const std::vector<int64_t>& order, Equal&& equal) {
  Groups groups;
  groups.inverse.resize(order.size());
  for (size_t k = 0; k < order.size(); ++k) {
    if (k == 0 || !equal(order[k - 1], order[k])) {
      groups.representatives.push_back(order[k]);
      groups.counts.push_back(0);
    }
    ++groups.counts.back();
    groups.inverse[static_cast<size_t>(order[k])] = static_cast<int64_t>(groups.counts.size()) - 1;
  }
  return groups;
}

/// Writes integers to an output with room for them; one of another size was not asked for.
Status write_positions(KernelCall& call, int output, const std::vector<int64_t>& values, bool resize) {
  if (output >= call.output_count() || !call.output(output).defined) return Status::ok();
  if (!is_real_element(call.output(output).dtype)) return not_computed(call, "an output has no integer type");
  const int64_t count = static_cast<int64_t>(values.size());
  if (call.output(output).numel() < count) return Status::ok();
  if (resize) call.set_output_dims(output, Dims{count});
  if (call.output(output).numel() != count) return Status::ok();
  return write_all(call, call.output(output), values);
}

/// Outputs: unique slices, inverse, and counts if `with_counts`.
Status write_groups(KernelCall& call, const TensorView& slices, int axis, const Groups& groups, bool with_inverse,
                    bool with_counts) {
  Dims dims = slices.dims;
  dims[axis] = static_cast<int64_t>(groups.representatives.size());
  if (call.output(0).numel() < dims.product()) return invalid(call, "the output has no room for the unique values");
  call.set_output_dims(0, dims);
  for (int64_t group = 0; group < dims[axis]; ++group) {
    copy_view(narrow(call.output(0), axis, group, 1),
              narrow(slices, axis, groups.representatives[static_cast<size_t>(group)], 1));
  }
  if (with_inverse) DRYDOCK_RETURN_IF_ERROR(write_positions(call, 1, groups.inverse, false));
  if (with_counts) DRYDOCK_RETURN_IF_ERROR(write_positions(call, 2, groups.counts, true));
  return Status::ok();
}

/// All elements of self in one dense row.
template <class C>
std::vector<C> flatten(const TensorView& self) {
  std::vector<C> elements;
  elements.reserve(static_cast<size_t>(self.numel()));
  for_each_value<C>(self, [&](C value) { elements.push_back(value); });
  return elements;
}

std::vector<int64_t> positions(int64_t count) {
  std::vector<int64_t> order(static_cast<size_t>(count));
  std::iota(order.begin(), order.end(), int64_t{0});
  return order;
}

template <class C>
constexpr DataType type_of_compute() {
  if constexpr (std::is_same_v<C, int64_t>)
    return DataType::kInt64;
  else if constexpr (std::is_same_v<C, uint64_t>)
    return DataType::kUInt64;
  else if constexpr (std::is_same_v<C, float>)
    return DataType::kFloat;
  else
    return DataType::kDouble;
}

Status unique_elements(KernelCall& call, bool sort_first, bool with_inverse, bool with_counts) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 1, 1));
  const TensorView& self = call.operand(0);
  return with_compute_type(compute_type_of(self.dtype), [&]<class C>() {
    std::vector<C> elements = flatten<C>(self);
    const int64_t count = static_cast<int64_t>(elements.size());
    const std::vector<int64_t> order = sort_first ? sorted_places(elements.data(), count, false) : positions(count);
    const Groups groups = group_neighbours(order, [&](int64_t a, int64_t b) {
      return elements[static_cast<size_t>(a)] == elements[static_cast<size_t>(b)];
    });
    const TensorView flat = contiguous_view(elements.data(), type_of_compute<C>(), Dims{count});
    return write_groups(call, flat, 0, groups, with_inverse, with_counts);
  });
}

Status unique_slices(KernelCall& call, int64_t dim, bool sort_first, bool with_inverse, bool with_counts) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 1, 1));
  TensorView self = call.operand(0);
  if (self.dims.empty()) self = unsqueeze(self, 0);
  int axis = 0;
  DRYDOCK_RETURN_IF_ERROR(wrap_dim(call, dim, self.dims.size(), &axis));
  Dims others;
  for (int other = 0; other < self.dims.size(); ++other) {
    if (other != axis) others.push_back(other);
  }
  const Rows slices(self, others);
  const int64_t width = slices.length();
  return with_compute_type(compute_type_of(self.dtype), [&]<class C>() {
    std::vector<C> elements(static_cast<size_t>(slices.count() * width));
    for (int64_t slice = 0; slice < slices.count() && width > 0; ++slice) {
      C* to = elements.data() + slice * width;
      const C* read = slices.read<C>(slice, to);
      if (read != to) std::copy_n(read, width, to);
    }
    const auto start = [&](int64_t slice) { return elements.data() + slice * width; };
    std::vector<int64_t> order = positions(slices.count());
    if (sort_first) {
      std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
        return std::lexicographical_compare(start(a), start(a) + width, start(b), start(b) + width, sorts_before<C>);
      });
    }
    const Groups groups =
        group_neighbours(order, [&](int64_t a, int64_t b) { return std::equal(start(a), start(a) + width, start(b)); });
    return write_groups(call, self, axis, groups, with_inverse, with_counts);
  });
}

/// Positions (in every dimension) of the elements that are not zero, as rows of `rank` numbers.
std::vector<int64_t> nonzero_positions(const TensorView& self) {
  std::vector<int64_t> found;
  std::array<int64_t, kMaxRank> position{};
  for_each_value<double>(self, [&](double value) {
    const int rank = self.dims.size();
    if (value != 0) found.insert(found.end(), position.begin(), position.begin() + rank);
    for (int axis = rank - 1; axis >= 0; --axis) {
      if (++position[static_cast<size_t>(axis)] < self.dims[axis]) break;
      position[static_cast<size_t>(axis)] = 0;
    }
  });
  return found;
}

Status write_nonzero(KernelCall& call, bool by_dimension) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 1, 1));
  const TensorView& self = call.operand(0);
  const int64_t rank = self.dims.size();
  std::vector<int64_t> found = nonzero_positions(self);
  int64_t count = rank > 0 ? static_cast<int64_t>(found.size()) / rank : 0;
  if (rank == 0) count = as_double(self) != 0 ? 1 : 0;
  if (call.output(0).numel() < count * rank) return invalid(call, "the output has no room for the positions");
  call.set_output_dims(0, by_dimension ? Dims{rank, count} : Dims{count, rank});
  TensorView rows = contiguous_view(found.data(), DataType::kInt64, Dims{count, rank});
  if (by_dimension) {
    rows.dims = Dims{rank, count};
    rows.strides = Dims{1, rank};
  }
  copy_view(call.output(0), rows);
  return Status::ok();
}

}  // namespace

Status unique(KernelCall& call) { return unique_elements(call, true, call.boolean(1), false); }

/// The inverse is written where its output has room: the client makes one for counts too.
Status unique2(KernelCall& call) { return unique_elements(call, true, true, call.boolean(2)); }

Status unique_consecutive(KernelCall& call) {
  constexpr int64_t kNoDimension = 1000;  // how torch_npu spells "over all elements"
  const int64_t dim = call.integer(0);
  if (dim == kNoDimension) return unique_elements(call, false, call.boolean(0), call.boolean(1));
  return unique_slices(call, dim, false, call.boolean(0), call.boolean(1));
}

Status unique_dim(KernelCall& call) { return unique_slices(call, call.integer(0), true, true, true); }

Status nonzero_rows(KernelCall& call) { return write_nonzero(call, false); }
Status nonzero_columns(KernelCall& call) { return write_nonzero(call, true); }

Status masked_select(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect_defined(call, 2, 1));
  const TensorView& self = call.operand(0);
  const TensorView& mask = call.operand(1);
  if (!is_real_element(mask.dtype) || self.dtype != call.output(0).dtype) {
    return not_computed(call, "the mask's type or a conversion is not computed");
  }
  Dims dims;
  if (!broadcast_dims(self.dims, mask.dims, &dims)) return shapes_do_not_fit(call);
  const int64_t size = bytes_of(self.dtype, 1);
  std::vector<char> selected;
  StridedWalk walk(dims);
  walk.add(self);
  walk.add(mask);
  const Loader<double> load_mask = loader_of<double>(mask.dtype);
  walk.for_each_run([&](char* const* pointers, const int64_t* strides, int64_t count) {
    double buffer[kChunk];
    for (int64_t done = 0; done < count; done += kChunk) {
      const int64_t length = std::min(kChunk, count - done);
      const double* chosen = load_mask(pointers[1] + done * strides[1], strides[1], length, buffer);
      const char* element = pointers[0] + done * strides[0];
      for (int64_t k = 0; k < length; ++k, element += strides[0]) {
        if (chosen[k] != 0) selected.insert(selected.end(), element, element + size);
      }
    }
  });
  const int64_t count = static_cast<int64_t>(selected.size()) / size;
  if (call.output(0).numel() < count) return invalid(call, "the output has no room for the selected elements");
  call.set_output_dims(0, Dims{count});
  copy_view(call.output(0), contiguous_view(selected.data(), self.dtype, Dims{count}));
  return Status::ok();
}

}  // namespace drydock::ops::kernels
