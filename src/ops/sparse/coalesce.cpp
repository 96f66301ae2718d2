#include <algorithm>
#include <vector>

#include "ops/kernel_access.h"

namespace drydock::ops::kernels {

/// Sums the values of equal places: entry n belongs to place uniqueIndices[n]. newIndices (places, dims) are the
/// indices of each place, newValues the sums.
Status coalesce_sparse(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 4, 2));
  const TensorView& place_of = call.operand(1);
  const TensorView& indices = call.operand(2);
  const TensorView& values = call.operand(3);
  const TensorView& new_indices = call.output(0);
  const TensorView& new_values = call.output(1);
  const int64_t entries = place_of.numel();
  const int rank = values.dims.size();
  if (indices.dims.size() != 2 || indices.dims[0] != entries || rank < 1 || values.dims[0] != entries) {
    return invalid(call, std::to_string(entries) + " entries need as many rows of indices, which are " +
                             text_of(indices.dims) + ", and of values, which are " + text_of(values.dims));
  }
  if (new_values.dims.size() != rank || new_indices.dims.size() != 2 || new_indices.dims[1] != indices.dims[1] ||
      new_indices.dims[0] != new_values.dims[0] ||
      !std::equal(values.dims.begin() + 1, values.dims.end(), new_values.dims.begin() + 1)) {
    return invalid(call, "the outputs " + text_of(new_indices.dims) + " and " + text_of(new_values.dims) +
                             " do not fit the inputs " + text_of(indices.dims) + " and " + text_of(values.dims));
  }
  const int64_t places = new_values.dims[0];
  std::vector<int64_t> place;
  for_each_value<int64_t>(place_of, [&](int64_t at) { place.push_back(at); });
  for (const int64_t at : place) {
    if (at < 0 || at >= places) {
      return device_fault(call, "place " + std::to_string(at) + " of " + std::to_string(places) + " does not exist");
    }
  }
  Dims inner;
  for (int axis = 1; axis < rank; ++axis) inner.push_back(axis);
  const Rows rows(values, inner);
  const Rows sums(new_values, inner);
  const Rows from(indices, 1);
  const Rows to(new_indices, 1);
  std::vector<int64_t> index(static_cast<size_t>(from.length()));
  for (int64_t n = 0; n < entries; ++n) {
    to.write<int64_t>(place[static_cast<size_t>(n)], from.read<int64_t>(n, index.data()));
  }
  const auto add_up = [&]<class C>(C) {
    const int64_t width = rows.length();
    std::vector<C> totals(static_cast<size_t>(places * width));
    std::vector<C> row(static_cast<size_t>(width));
    for (int64_t n = 0; n < entries; ++n) {
      const C* read = rows.read<C>(n, row.data());
      C* total = totals.data() + place[static_cast<size_t>(n)] * width;
      for (int64_t k = 0; k < width; ++k) total[k] += read[k];
    }
    for (int64_t at = 0; at < places; ++at) sums.write<C>(at, totals.data() + at * width);
  };
  // Integers wrap: uint64 does, and gives the same bits.
  is_floating(values.dtype) ? add_up(double{}) : add_up(uint64_t{});
  return Status::ok();
}

}  // namespace drydock::ops::kernels
