#include <atomic>
#include <cmath>
#include <limits>
#include <string>

#include "ops/linalg/matrices.h"

// What LU, Cholesky and QR decompositions give.

namespace drydock::ops::kernels {
namespace {

Status expect_square(const KernelCall& call, const TensorView& view) {
  const int rank = view.dims.size();
  if (rank >= 2 && view.dims[rank - 1] == view.dims[rank - 2]) return Status::ok();
  return invalid(call, "the matrices must be square, the shape is " + text_of(view.dims));
}

/// The number of the first matrix that an operator cannot do, whichever thread meets it.
class FirstFault {
 public:
  void note(int64_t index) {
    int64_t known = index_.load();
    while (index < known && !index_.compare_exchange_weak(known, index)) {}
  }
  bool any() const { return index_.load() != std::numeric_limits<int64_t>::max(); }
  std::string text() const { return "matrix " + std::to_string(index_.load()) + " of the batch"; }

 private:
  std::atomic<int64_t> index_ = std::numeric_limits<int64_t>::max();
};

/// self (..., m, n) with sizes for the last two dimensions.
Dims with_last(const Dims& dims, int64_t rows, int64_t cols) {
  Dims result = dims;
  result[dims.size() - 2] = rows;
  result[dims.size() - 1] = cols;
  return result;
}

Status expect_shape(const KernelCall& call, const TensorView& view, const Dims& dims, const char* what) {
  if (view.dims == dims) return Status::ok();
  return invalid(call,
                 std::string("the shape of ") + what + " must be " + text_of(dims) + ", it is " + text_of(view.dims));
}

}  // namespace

Status inverse(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect_numbers(call, 1, 1));
  const TensorView& self = call.operand(0);
  DRYDOCK_RETURN_IF_ERROR(expect_square(call, self));
  DRYDOCK_RETURN_IF_ERROR(expect_shape(call, call.output(0), self.dims, "the output"));
  const Matrices in(self);
  const Matrices out(call.output(0));
  if (self.numel() == 0) return Status::ok();
  FirstFault fault;
  DRYDOCK_RETURN_IF_ERROR(with_scalar_of(self.dtype, [&]<class S>() {
    for_each_matrix(in.count(), in.rows() * in.cols(), [&](int64_t index) {
      const Lu<S> lu(in.read<S>(index));
      if (lu.singular) return fault.note(index);
      out.write<S>(index, lu.inverse());
    });
    return Status::ok();
  }));
  return fault.any() ? device_fault(call, fault.text() + " is singular: it has no inverse") : Status::ok();
}

Status slogdet(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect_numbers(call, 1, 2));
  const TensorView& self = call.operand(0);
  DRYDOCK_RETURN_IF_ERROR(expect_square(call, self));
  const Matrices in(self);
  DRYDOCK_RETURN_IF_ERROR(expect_shape(call, call.output(0), in.outer(), "signOut"));
  DRYDOCK_RETURN_IF_ERROR(expect_shape(call, call.output(1), in.outer(), "logOut"));
  const Matrices signs(call.output(0), 0);
  const Matrices logs(call.output(1), 0);
  return with_scalar_of(self.dtype, [&]<class S>() {
    for_each_matrix(in.count(), in.rows() * in.cols(), [&](int64_t index) {
      const Lu<S> lu(in.read<S>(index));
      Matrix<S> sign(1, 1);
      Matrix<double> log(1, 1);
      sign(0, 0) = lu.sign;
      for (int64_t k = 0; k < in.rows(); ++k) {
        const S pivot = lu.values(k, k);
        const double size = std::abs(pivot);
        log(0, 0) += std::log(size);
        sign(0, 0) = size == 0 ? S{} : product(sign(0, 0), pivot / size);
      }
      signs.write<S>(index, sign);
      logs.write<double>(index, log);
    });
    return Status::ok();
  });
}

Status cholesky(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect_numbers(call, 1, 1));
  const TensorView& self = call.operand(0);
  DRYDOCK_RETURN_IF_ERROR(expect_square(call, self));
  DRYDOCK_RETURN_IF_ERROR(expect_shape(call, call.output(0), self.dims, "the output"));
  if (self.numel() == 0) return Status::ok();
  const bool upper = call.boolean(0);
  const Matrices in(self);
  const Matrices out(call.output(0));
  FirstFault fault;
  DRYDOCK_RETURN_IF_ERROR(with_scalar_of(self.dtype, [&]<class S>() {
    for_each_matrix(in.count(), in.rows() * in.cols(), [&](int64_t index) {
      // The other triangle is never read.
      Matrix<S> matrix = in.read<S>(index);
      if (upper) matrix = conjugated(transposed(matrix));
      if (!factor_cholesky(matrix)) return fault.note(index);
      out.write<S>(index, upper ? conjugated(transposed(matrix)) : matrix);
    });
    return Status::ok();
  }));
  return fault.any() ? device_fault(call, fault.text() + " is not positive definite") : Status::ok();
}

/// mode 0: Q (m, k) and R (k, n) with k = min(m, n); 1: Q (m, m) and R (m, n); 2: R alone, as in 0.
Status qr(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect_numbers(call, 1, 2));
  const TensorView& self = call.operand(0);
  const int64_t mode = call.integer(0);
  const int rank = self.dims.size();
  if (rank < 2) return invalid(call, "self needs two dimensions at least, its shape is " + text_of(self.dims));
  if (mode < 0 || mode > 2) return invalid(call, "mode must be 0, 1 or 2, it is " + std::to_string(mode));
  const Matrices in(self);
  const int64_t rows = in.rows();
  const int64_t inner = mode == 1 ? rows : std::min(rows, in.cols());
  const bool with_q = mode != 2;
  if (with_q) DRYDOCK_RETURN_IF_ERROR(expect_shape(call, call.output(0), with_last(self.dims, rows, inner), "Q"));
  DRYDOCK_RETURN_IF_ERROR(expect_shape(call, call.output(1), with_last(self.dims, inner, in.cols()), "R"));
  const Matrices r_out(call.output(1));
  return with_scalar_of(self.dtype, [&]<class S>() {
    for_each_matrix(in.count(), std::max<int64_t>(1, rows * in.cols()), [&](int64_t index) {
      const Qr<S> decomposition(in.read<S>(index));
      r_out.write<S>(index, decomposition.r(inner));
      if (!with_q) return;
      Matrices(call.output(0)).write<S>(index, decomposition.q_times(Matrix<S>::identity(rows, inner)));
    });
    return Status::ok();
  });
}

/// X of A X = self (or A^T X = self) with a triangular A; M, if asked for, is A broadcast.
Status triangular_solve(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect_numbers(call, 2, 1));
  const TensorView& right = call.operand(0);
  const TensorView& left = call.operand(1);
  DRYDOCK_RETURN_IF_ERROR(expect_square(call, left));
  const int rank = right.dims.size();
  if (rank < 2 || right.dims[rank - 2] != left.dims[left.dims.size() - 1]) {
    return invalid(call, "self " + text_of(right.dims) + " and A " + text_of(left.dims) + " do not fit together");
  }
  const Matrices b_of(right);
  const Matrices a_of(left);
  Dims batch;
  if (!broadcast_dims(b_of.outer(), a_of.outer(), &batch)) {
    return invalid(call,
                   "the batches of self " + text_of(right.dims) + " and A " + text_of(left.dims) + " do not broadcast");
  }
  const auto of_batch = [&](int64_t rows, int64_t cols) {
    Dims dims = batch;
    dims.push_back(rows);
    dims.push_back(cols);
    return dims;
  };
  TensorView right_view;
  TensorView left_view;
  broadcast_view(right, of_batch(b_of.rows(), b_of.cols()), &right_view);
  broadcast_view(left, of_batch(a_of.rows(), a_of.cols()), &left_view);
  DRYDOCK_RETURN_IF_ERROR(expect_shape(call, call.output(0), right_view.dims, "xOut"));
  const bool with_m = call.output_count() > 1 && call.output(1).defined;
  if (with_m) DRYDOCK_RETURN_IF_ERROR(expect_shape(call, call.output(1), left_view.dims, "mOut"));
  const bool transpose = call.boolean(1);
  const bool upper = call.boolean(0) != transpose;
  const bool unit = call.boolean(2);
  const Matrices b(right_view);
  const Matrices a(left_view);
  const Matrices x(call.output(0));
  if (with_m && !copy_view(call.output(1), left_view)) return not_computed(call, "mOut is of another type than A");
  if (right_view.numel() == 0) return Status::ok();
  return with_scalar_of(left.dtype, [&]<class S>() {
    for_each_matrix(b.count(), a.rows() * (a.cols() + b.cols()), [&](int64_t index) {
      Matrix<S> triangle = a.read<S>(index);
      if (transpose) triangle = transposed(triangle);
      Matrix<S> solution = b.read<S>(index);
      solve_triangle(triangle, upper ? Triangle::kUpper : Triangle::kLower, unit, solution);
      x.write<S>(index, solution);
    });
    return Status::ok();
  });
}

}  // namespace drydock::ops::kernels
