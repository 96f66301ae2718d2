#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "base/instruction_set.h"
#include "base/thread_pool.h"
#include "ops/kernel_access.h"

// Sums where the elements of a row lie far apart and those of neighbouring rows are dense, as in the columns of a
// matrix: lines of memory are added to the sums of many rows at once, instead of being turned round into rows.

namespace drydock::ops::kernels {

namespace detail {

/// totals[k] += term of element k of each line. Four lines are added among themselves first, always: the sums are a
/// function of the shape alone.
template <size_t kLines, class C, class Term>
void add_lines(const std::array<const C*, kLines>& lines, double* totals, int64_t count, Term term) {
  base::vectorized([=] {
    const std::array<const C*, kLines> from = lines;
#pragma GCC ivdep
    for (int64_t k = 0; k < count; ++k) {
      if constexpr (kLines == 4) {
        totals[k] += (term(static_cast<double>(from[0][k])) + term(static_cast<double>(from[1][k]))) +
                     (term(static_cast<double>(from[2][k])) + term(static_cast<double>(from[3][k])));
      } else {
        totals[k] += term(static_cast<double>(from[0][k]));
      }
    }
  });
}

}  // namespace detail

/// Sums of `term(element)` over `axes` of `view`, in row-major order of the other dimensions; false (and no sums) if
/// the elements do not lie as said above.
template <class C, class Term>
bool sum_across(const TensorView& view, const Dims& axes, Term term, std::vector<double>* sums) {
  constexpr int64_t kLine = kChunk;  // elements of a line that one thread adds up
  const Dims strides = strides_bytes(view);
  Dims outer, outer_strides, inner, inner_strides;
  for (int axis = 0; axis < view.dims.size(); ++axis) {
    const bool reduced = std::find(axes.begin(), axes.end(), axis) != axes.end();
    (reduced ? inner : outer).push_back(view.dims[axis]);
    (reduced ? inner_strides : outer_strides).push_back(strides[axis]);
  }
  const int64_t size = bytes_of(view.dtype, 1);
  const int last = outer.size() - 1;
  if (last < 0 || outer[last] < 16 || outer_strides[last] != size || inner.product() < 2) return false;
  for (int64_t stride : inner_strides) {
    if (stride == size) return false;  // rows are dense too
  }
  const int64_t width = outer[last];
  const int64_t pieces = (width + kLine - 1) / kLine;
  const int64_t groups = outer.product() / width;
  sums->assign(static_cast<size_t>(groups * width), 0.0);
  const Loader<C> load = loader_of<C>(view.dtype);
  const int64_t grain = std::max<int64_t>(1, 16384 / (inner.product() * std::min(width, kLine)));
  base::parallel_for(groups * pieces, grain, [&](int64_t begin, int64_t end) {
    C buffers[4][kLine];
    for (int64_t piece = begin; piece < end; ++piece) {
      const int64_t column = piece % pieces * kLine;
      const int64_t count = std::min(kLine, width - column);
      char* start = view.data + column * size;
      int64_t rest = piece / pieces;
      for (int axis = last - 1; axis >= 0; --axis) {
        start += rest % outer[axis] * outer_strides[axis];
        rest /= outer[axis];
      }
      double* const totals = sums->data() + piece / pieces * width + column;
      StridedWalk walk(inner);
      walk.add(start, inner_strides);
      walk.for_each_run([&](char* const* pointers, const int64_t* steps, int64_t lines) {
        int64_t line = 0;
        for (; line + 4 <= lines; line += 4) {
          std::array<const C*, 4> four;
          for (size_t i = 0; i < 4; ++i) {
            four[i] = load(pointers[0] + (line + static_cast<int64_t>(i)) * steps[0], size, count, buffers[i]);
          }
          detail::add_lines<4, C>(four, totals, count, term);
        }
        for (; line < lines; ++line) {
          const std::array<const C*, 1> one{load(pointers[0] + line * steps[0], size, count, buffers[0])};
          detail::add_lines<1, C>(one, totals, count, term);
        }
      });
    }
  });
  return true;
}

}  // namespace drydock::ops::kernels
