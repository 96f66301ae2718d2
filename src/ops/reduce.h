#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "base/instruction_set.h"
#include "ops/elementwise.h"
#include "ops/kernel_access.h"
#include "ops/row_loops.h"

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

/// output(`output`) = finish(fold over `axes` of operand(0), elements of a row), with rows read as C and folded in
/// parts (row_loops.h).
template <class C, class A, class R, class Fold, class Finish>
Status reduce(const KernelCall& call, const Dims& axes, int output, const Fold& fold, Finish&& finish) {
  const Rows rows(call.operand(0), axes);
  const std::vector<A> folded = fold_rows_in_parts(rows, PlainFold<C, A>(fold));
  std::vector<R> results(folded.size());
  for (size_t row = 0; row < results.size(); ++row) {
    results[row] = static_cast<R>(finish(folded[row], rows.length()));
  }
  return write_all<R>(call, call.output(output), results);
}

/// Sum of `term(value)` in 32 lanes, which are added up in one order always.
template <class A, class C, class Term>
A sum_of_terms(const C* values, int64_t count, Term term) {
  A total = 0;
  base::vectorized([&total, values, count, term] {
    constexpr int64_t kLanes = 32;
    A lanes[kLanes] = {};
    int64_t k = 0;
    for (; k + kLanes <= count; k += kLanes) {
      for (int64_t lane = 0; lane < kLanes; ++lane) {
        lanes[lane] = wrapping_add<A>(lanes[lane], term(static_cast<A>(values[k + lane])));
      }
    }
    for (int64_t lane = 0; k < count; ++k, ++lane) {
      lanes[lane] = wrapping_add<A>(lanes[lane], term(static_cast<A>(values[k])));
    }
    for (int64_t width = kLanes / 2; width > 0; width /= 2) {
      for (int64_t lane = 0; lane < width; ++lane) lanes[lane] = wrapping_add<A>(lanes[lane], lanes[lane + width]);
    }
    total = lanes[0];
  });
  return total;
}

/// The largest of all values that are no NaN; minus infinity of none.
template <class C>
C largest_number(const C* values, int64_t count) {
  C top = -std::numeric_limits<C>::infinity();
  base::vectorized([&top, values, count] {
    constexpr int64_t kLanes = 32;
    C lanes[kLanes];
    for (C& lane : lanes) lane = -std::numeric_limits<C>::infinity();
    int64_t k = 0;
    for (; k + kLanes <= count; k += kLanes) {
      for (int64_t lane = 0; lane < kLanes; ++lane) {
        lanes[lane] = values[k + lane] > lanes[lane] ? values[k + lane] : lanes[lane];
      }
    }
    C best = -std::numeric_limits<C>::infinity();
    for (; k < count; ++k) best = values[k] > best ? values[k] : best;
    for (C lane : lanes) best = lane > best ? lane : best;
    top = best;
  });
  return top;
}

/// The axis of an operator with one dim, as a list; rank 0 has none.
Status single_axis(const KernelCall& call, int64_t dim, Dims* axes);

/// Fails if rows would be empty, where an operation needs at least one element.
Status expect_rows_not_empty(const KernelCall& call, const Rows& rows);

}  // namespace drydock::ops::kernels
