#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "ops/linalg/matrices.h"

// Singular values by one-sided Jacobi rotations: a few lines, and accurate for small values too.

namespace drydock::ops::kernels {
namespace {

template <class S>
struct Decomposition {
  Matrix<S> u;  ///< as many columns as `values`
  std::vector<double> values;
  Matrix<S> v;
};

/// Rotates two columns of `work`, and of `v` alike, so that they become orthogonal; false if they are already.
template <class S>
bool rotate(Matrix<S>& work, Matrix<S>& v, int64_t p, int64_t q) {
  const double alpha = std::real(dot(work.col(p), work.col(p), work.rows()));
  const double beta = std::real(dot(work.col(q), work.col(q), work.rows()));
  const S gamma = dot(work.col(p), work.col(q), work.rows());
  const double size = std::abs(gamma);
  if (size <= std::numeric_limits<double>::epsilon() * std::sqrt(alpha * beta) || size == 0) return false;
  const double zeta = (beta - alpha) / (2 * size);
  const double tangent = (zeta >= 0 ? 1 : -1) / (std::fabs(zeta) + std::hypot(1, zeta));
  const double cosine = 1 / std::hypot(1, tangent);
  const double sine = cosine * tangent;
  const S phase = conjugate(gamma / size);
  for (Matrix<S>* matrix : {&work, &v}) {
    S* left = matrix->col(p);
    S* right = matrix->col(q);
    for (int64_t row = 0; row < matrix->rows(); ++row) {
      const S turned = product(right[row], phase);
      right[row] = sine * left[row] + cosine * turned;
      left[row] = cosine * left[row] - sine * turned;
    }
  }
  return true;
}

/// The columns of an orthonormal matrix, and as many more as make it square.
template <class S>
Matrix<S> completed(const Matrix<S>& columns, int64_t known) {
  const int64_t size = columns.rows();
  if (known == size) return columns;
  Matrix<S> start(size, known);
  for (int64_t c = 0; c < known; ++c) std::copy_n(columns.col(c), size, start.col(c));
  Matrix<S> basis = Qr<S>(start).q_times(Matrix<S>::identity(size, size));
  for (int64_t c = 0; c < known; ++c) std::copy_n(columns.col(c), size, basis.col(c));
  return basis;
}

/// matrix = u diag(values) v^H, for a matrix that is at least as tall as wide.
template <class S>
Decomposition<S> decompose_tall(const Matrix<S>& matrix) {
  constexpr int kMostSweeps = 60;
  const int64_t count = matrix.cols();
  // Rotations of the square R are cheaper than those of the whole matrix.
  const Qr<S> qr(matrix);
  Matrix<S> work = qr.r(count);
  // With a largest element of 1, squares neither overflow nor vanish.
  double scale = 0;
  for (int64_t c = 0; c < count; ++c) {
    for (int64_t r = 0; r < count; ++r) scale = std::max(scale, std::abs(work(r, c)));
  }
  for (int64_t c = 0; scale > 0 && c < count; ++c) {
    for (int64_t r = 0; r < count; ++r) work(r, c) /= scale;
  }
  Matrix<S> v = Matrix<S>::identity(count, count);
  for (int sweep = 0; sweep < kMostSweeps; ++sweep) {
    bool rotated = false;
    for (int64_t p = 0; p + 1 < count; ++p) {
      for (int64_t q = p + 1; q < count; ++q) rotated = rotate(work, v, p, q) || rotated;
    }
    if (!rotated) break;
  }
  std::vector<double> norms;
  for (int64_t k = 0; k < count; ++k) norms.push_back(norm(work.col(k), count));
  std::vector<size_t> order(norms.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return norms[a] > norms[b]; });
  Decomposition<S> result{Matrix<S>(count, count), {}, Matrix<S>(count, count)};
  int64_t rank = 0;
  for (int64_t k = 0; k < count; ++k) {
    const auto from = static_cast<int64_t>(order[static_cast<size_t>(k)]);
    const double size = norms[order[static_cast<size_t>(k)]];
    result.values.push_back(size * scale);
    std::copy_n(v.col(from), count, result.v.col(k));
    if (size == 0) continue;
    for (int64_t r = 0; r < count; ++r) result.u(r, k) = work(r, from) / size;
    ++rank;
  }
  // Values of 0 say nothing about their vectors: any that are orthogonal to the others.
  const Matrix<S> square = completed(result.u, rank);
  Matrix<S> tall(matrix.rows(), count);
  for (int64_t c = 0; c < count; ++c) std::copy_n(square.col(c), count, tall.col(c));
  result.u = qr.q_times(std::move(tall));
  return result;
}

template <class S>
bool is_finite(const Matrix<S>& matrix) {
  for (int64_t c = 0; c < matrix.cols(); ++c) {
    for (int64_t r = 0; r < matrix.rows(); ++r) {
      if (!std::isfinite(std::abs(matrix(r, c)))) return false;
    }
  }
  return true;
}

}  // namespace

/// self = U diag(sigma) V^T: for complex elements V is the conjugate of what mathematicians call V.
Status singular_values(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect_numbers(call, 1, 1));
  const TensorView& self = call.operand(0);
  const bool full = call.boolean(0);
  const bool with_vectors = call.boolean(1);
  if (self.dims.size() < 2) {
    return invalid(call, "input needs two dimensions at least, its shape is " + text_of(self.dims));
  }
  if (with_vectors) DRYDOCK_RETURN_IF_ERROR(expect_numbers(call, 1, 3));
  const Matrices in(self);
  const int64_t rows = in.rows();
  const int64_t cols = in.cols();
  const int64_t inner = std::min(rows, cols);
  const auto of_batch = [&](const Dims& sizes) {
    Dims dims = in.outer();
    for (const int64_t size : sizes) dims.push_back(size);
    return dims;
  };
  const Dims u_dims = of_batch({rows, full ? rows : inner});
  const Dims v_dims = of_batch({cols, full ? cols : inner});
  if (call.output(0).dims != of_batch({inner}) ||
      (with_vectors && (call.output(1).dims != u_dims || call.output(2).dims != v_dims))) {
    return invalid(call, "for an input of shape " + text_of(self.dims) + " sigma must be " +
                             text_of(of_batch({inner})) + ", u " + text_of(u_dims) + " and v " + text_of(v_dims));
  }
  const Matrices sigma(call.output(0), 1);
  std::atomic<bool> failed = false;
  DRYDOCK_RETURN_IF_ERROR(with_scalar_of(self.dtype, [&]<class S>() {
    for_each_matrix(in.count(), 8 * std::max<int64_t>(1, rows * cols), [&](int64_t index) {
      Matrix<S> matrix = in.read<S>(index);
      if (!is_finite(matrix)) {
        failed = true;
        return;
      }
      const bool wide = rows < cols;
      if (wide) matrix = conjugated(transposed(matrix));
      Decomposition<S> parts = decompose_tall(matrix);
      if (wide) std::swap(parts.u, parts.v);
      Matrix<double> values(inner, 1);
      std::copy_n(parts.values.data(), inner, values.col(0));
      sigma.write<double>(index, values);
      if (!with_vectors) return;
      if (full) {
        parts.u = completed(parts.u, inner);
        parts.v = completed(parts.v, inner);
      }
      Matrices(call.output(1)).write<S>(index, parts.u);
      Matrices(call.output(2)).write<S>(index, conjugated(std::move(parts.v)));
    });
    return Status::ok();
  }));
  return failed ? device_fault(call, "a matrix holds a value that is infinite or no number") : Status::ok();
}

}  // namespace drydock::ops::kernels
