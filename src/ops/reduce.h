#pragma once

#include <cstdint>
#include <vector>

#include "ops/kernel_access.h"

// Reductions see their operand as rows (the elements that become one), each in contiguous compute values.

namespace drydock::ops::kernels {

/// Writes `values` to all elements of `out` in row-major order; fails if their number differs.
template <class C>
Status write_all(const KernelCall& call, const TensorView& out, const std::vector<C>& values) {
  if (out.numel() != static_cast<int64_t>(values.size())) {
    return invalid(call, "the output has " + std::to_string(out.numel()) + " elements, the result " +
                             std::to_string(values.size()));
  }
  if (!values.empty()) Rows(out, all_axes(out.dims.size())).write<C>(0, values.data());
  return Status::ok();
}

/// result[i] = fold(row i, its length), with rows read as C.
template <class C, class R, class Fold>
std::vector<R> fold_rows(const Rows& rows, Fold&& fold) {
  std::vector<C> buffer(static_cast<size_t>(rows.length()));
  std::vector<R> results(static_cast<size_t>(rows.count()));
  for (size_t row = 0; row < results.size(); ++row) {
    const C* values = rows.length() == 0 ? buffer.data() : rows.read<C>(static_cast<int64_t>(row), buffer.data());
    results[row] = static_cast<R>(fold(values, rows.length()));
  }
  return results;
}

/// output(`output`) = fold over `axes` of operand(0).
template <class C, class R, class Fold>
Status reduce(const KernelCall& call, const Dims& axes, int output, Fold&& fold) {
  return write_all<R>(call, call.output(output), fold_rows<C, R>(Rows(call.operand(0), axes), fold));
}

/// The axis of an operator with one dim, as a list; rank 0 has none.
Status single_axis(const KernelCall& call, int64_t dim, Dims* axes);

/// Fails if rows would be empty, where an operation needs at least one element.
Status expect_rows_not_empty(const KernelCall& call, const Rows& rows);

}  // namespace drydock::ops::kernels
