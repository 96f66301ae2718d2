#pragma once

#include <vector>

#include "ops/norm/row_access.h"

// Sums over rows that depend on the sizes alone, not on the number of threads: rows are cut into blocks, each block is
// summed by one thread, and the blocks are added up in order.

namespace drydock::ops::kernels {

/// `body(row, scratch, sums)` adds what row `row` contributes to `width` sums (Cs that start at 0). Returns the totals.
template <class C, class Body>
std::vector<double> sum_over_rows(int64_t rows, int64_t width, int64_t scratch_size, Body&& body) {
  constexpr int64_t kMostBlocks = 32;
  constexpr int64_t kMostSums = 1 << 21;  // of all blocks together
  constexpr int64_t kLeastElements = 16384;
  constexpr int64_t kRowsInFloat = 64;  // then the sums are carried to fp64
  const int64_t most = std::clamp<int64_t>(kMostSums / std::max<int64_t>(width, 1), 1, kMostBlocks);
  const int64_t least_rows = std::max<int64_t>(1, kLeastElements / std::max<int64_t>(width, 1));
  const int64_t block_rows = std::max<int64_t>(least_rows, (rows + most - 1) / most);
  const int64_t blocks = (rows + block_rows - 1) / block_rows;
  const auto columns = static_cast<size_t>(width);
  std::vector<double> totals(columns * static_cast<size_t>(std::max<int64_t>(blocks, 1)));
  base::parallel_for(blocks, 1, [&](int64_t begin, int64_t end) {
    const std::unique_ptr<C[]> scratch(new C[static_cast<size_t>(scratch_size)]);
    const std::unique_ptr<C[]> sums(new C[columns]);
    for (int64_t block = begin; block < end; ++block) {
      double* const block_totals = totals.data() + static_cast<size_t>(block) * columns;
      const int64_t last = std::min(rows, (block + 1) * block_rows);
      for (int64_t row = block * block_rows; row < last;) {
        std::fill_n(sums.get(), columns, C(0));
        const int64_t stop = std::min(last, row + kRowsInFloat);
        for (; row < stop; ++row) body(row, scratch.get(), sums.get());
        for (size_t k = 0; k < columns; ++k) block_totals[k] += sums[k];
      }
    }
  });
  for (size_t block = 1; block < static_cast<size_t>(blocks); ++block) {
    for (size_t k = 0; k < columns; ++k) totals[k] += totals[block * columns + k];
  }
  totals.resize(columns);
  return totals;
}

}  // namespace drydock::ops::kernels
