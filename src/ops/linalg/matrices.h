#pragma once

#include <algorithm>
#include <complex>
#include <string>

#include "base/thread_pool.h"
#include "ops/kernel_access.h"
#include "ops/linalg/dense.h"

// Batches of matrices. All decompositions compute in double, whatever the element type.

namespace drydock::ops::kernels {

bool is_complex_element(DataType type) noexcept;

/// Fails unless all of these operands and outputs exist and have real or complex elements.
Status expect_numbers(const KernelCall& call, int operands, int outputs);

/// The matrices in the last two dimensions of a view (the scalars, for a view of a batch's shape alone).
class Matrices {
 public:
  explicit Matrices(const TensorView& view, int inner_rank = 2);

  int64_t count() const { return outer_.product(); }
  const Dims& outer() const { return outer_; }
  int64_t rows() const { return rows_; }
  int64_t cols() const { return cols_; }

  /// Complex elements need a complex S; S of an output may be either.
  template <class S>
  Matrix<S> read(int64_t index) const;
  template <class S>
  void write(int64_t index, const Matrix<S>& values) const;

 private:
  char* start_of(int64_t index) const;

  TensorView view_;
  Dims outer_;
  int64_t rows_ = 1;
  int64_t cols_ = 1;
  int64_t row_stride_ = 0;  // in bytes
  int64_t col_stride_ = 0;
};

/// Calls `body.operator()<S>()` with double or std::complex<double>.
template <class Body>
Status with_scalar_of(DataType type, Body&& body) {
  return is_complex_element(type) ? body.template operator()<std::complex<double>>()
                                  : body.template operator()<double>();
}

/// Calls `each(index)` for matrices 0 to count - 1 on the pool. `elements`: of one matrix.
template <class Each>
void for_each_matrix(int64_t count, int64_t elements, Each&& each) {
  const int64_t grain = std::max<int64_t>(1, (int64_t{1} << 10) / std::max<int64_t>(1, elements));
  base::parallel_for(count, grain, [&](int64_t begin, int64_t end) {
    for (int64_t index = begin; index < end; ++index) each(index);
  });
}

}  // namespace drydock::ops::kernels
