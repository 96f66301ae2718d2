#pragma once

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

// Decompositions of one matrix of double or std::complex<double>. Columns are contiguous, and every inner loop runs
// down a column.

namespace drydock::ops::kernels {

template <class S>
class Matrix {
 public:
  Matrix() = default;
  Matrix(int64_t rows, int64_t cols) : rows_(rows), cols_(cols), values_(static_cast<size_t>(rows * cols)) {}
  static Matrix identity(int64_t rows, int64_t cols) {
    Matrix result(rows, cols);
    for (int64_t k = 0; k < std::min(rows, cols); ++k) result(k, k) = S{1};
    return result;
  }

  int64_t rows() const { return rows_; }
  int64_t cols() const { return cols_; }
  S* col(int64_t c) { return values_.data() + c * rows_; }
  const S* col(int64_t c) const { return values_.data() + c * rows_; }
  S& operator()(int64_t r, int64_t c) { return values_[static_cast<size_t>(c * rows_ + r)]; }
  const S& operator()(int64_t r, int64_t c) const { return values_[static_cast<size_t>(c * rows_ + r)]; }

 private:
  int64_t rows_ = 0;
  int64_t cols_ = 0;
  std::vector<S> values_;
};

inline double conjugate(double value) { return value; }
inline std::complex<double> conjugate(const std::complex<double>& value) { return std::conj(value); }

template <class S>
Matrix<S> conjugated(Matrix<S> matrix) {
  for (int64_t c = 0; c < matrix.cols(); ++c) {
    for (int64_t r = 0; r < matrix.rows(); ++r) matrix(r, c) = conjugate(matrix(r, c));
  }
  return matrix;
}

template <class S>
Matrix<S> transposed(const Matrix<S>& matrix) {
  Matrix<S> result(matrix.cols(), matrix.rows());
  for (int64_t c = 0; c < matrix.cols(); ++c) {
    for (int64_t r = 0; r < matrix.rows(); ++r) result(c, r) = matrix(r, c);
  }
  return result;
}

/// A product without the repair of infinite results that the language asks of complex numbers.
inline double product(double a, double b) { return a * b; }
inline std::complex<double> product(const std::complex<double>& a, const std::complex<double>& b) {
  return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
}

/// y -= factor * x.
template <class S>
void subtract_scaled(S factor, const S* x, S* y, int64_t count) {
  for (int64_t k = 0; k < count; ++k) y[k] -= product(factor, x[k]);
}

/// Sum of conj(x) * y.
template <class S>
S dot(const S* x, const S* y, int64_t count) {
  S sum{};
  for (int64_t k = 0; k < count; ++k) sum += product(conjugate(x[k]), y[k]);
  return sum;
}

/// Euclidean norm, scaled so that squares neither overflow nor vanish.
template <class S>
double norm(const S* x, int64_t count) {
  double largest = 0;
  for (int64_t k = 0; k < count; ++k) largest = std::max(largest, std::abs(x[k]));
  if (largest == 0) return 0;
  double sum = 0;
  for (int64_t k = 0; k < count; ++k) sum += std::norm(x[k] / largest);
  return largest * std::sqrt(sum);
}

enum class Triangle : uint8_t { kLower, kUpper };

/// x = the solution of A x = b, in place, for each column of b; `unit`: the diagonal counts as ones.
template <class S>
void solve_triangle(const Matrix<S>& a, Triangle triangle, bool unit, Matrix<S>& b) {
  const int64_t size = a.rows();
  for (int64_t c = 0; c < b.cols(); ++c) {
    S* x = b.col(c);
    for (int64_t step = 0; step < size; ++step) {
      const bool lower = triangle == Triangle::kLower;
      const int64_t k = lower ? step : size - 1 - step;
      if (!unit) x[k] /= a(k, k);
      if (lower) {
        subtract_scaled(x[k], a.col(k) + k + 1, x + k + 1, size - k - 1);
      } else {
        subtract_scaled(x[k], a.col(k), x, k);
      }
    }
  }
}

/// P A = L U with partial pivoting: L (unit diagonal) and U in the place of A.
template <class S>
struct Lu {
  explicit Lu(Matrix<S> matrix) : values(std::move(matrix)) {
    const int64_t size = values.rows();
    for (int64_t k = 0; k < size; ++k) {
      int64_t pivot = k;
      for (int64_t r = k + 1; r < size; ++r) {
        if (std::abs(values(r, k)) > std::abs(values(pivot, k))) pivot = r;
      }
      swaps.push_back(pivot);
      if (pivot != k) {
        sign = -sign;
        for (int64_t c = 0; c < size; ++c) std::swap(values(k, c), values(pivot, c));
      }
      if (values(k, k) == S{}) {
        singular = true;
        continue;
      }
      for (int64_t r = k + 1; r < size; ++r) values(r, k) /= values(k, k);
      for (int64_t c = k + 1; c < size; ++c) {
        subtract_scaled(values(k, c), values.col(k) + k + 1, values.col(c) + k + 1, size - k - 1);
      }
    }
  }
  Matrix<S> inverse() const {
    const int64_t size = values.rows();
    Matrix<S> result = Matrix<S>::identity(size, size);
    for (int64_t k = 0; k < size; ++k) {
      const int64_t pivot = swaps[static_cast<size_t>(k)];
      if (pivot == k) continue;
      for (int64_t c = 0; c < size; ++c) std::swap(result(k, c), result(pivot, c));
    }
    solve_triangle(values, Triangle::kLower, true, result);
    solve_triangle(values, Triangle::kUpper, false, result);
    return result;
  }

  Matrix<S> values;
  std::vector<int64_t> swaps;
  double sign = 1;
  bool singular = false;
};

/// L of A = L L^H in the lower triangle, zeros above; reads the lower triangle alone. False if A is not positive
/// definite.
template <class S>
bool factor_cholesky(Matrix<S>& a) {
  const int64_t size = a.rows();
  for (int64_t k = 0; k < size; ++k) {
    for (int64_t c = 0; c < k; ++c) subtract_scaled(conjugate(a(k, c)), a.col(c) + k, a.col(k) + k, size - k);
    const double pivot = std::real(a(k, k));
    if (!(pivot > 0) || !std::isfinite(pivot)) return false;
    const double root = std::sqrt(pivot);
    a(k, k) = root;
    for (int64_t r = k + 1; r < size; ++r) a(r, k) /= root;
    for (int64_t r = 0; r < k; ++r) a(r, k) = S{};
  }
  return true;
}

/// A = Q R by Householder reflections, with the signs that LAPACK chooses: the diagonal of R opposes that of A.
template <class S>
class Qr {
 public:
  explicit Qr(Matrix<S> matrix) : values_(std::move(matrix)) {
    const int64_t rows = values_.rows();
    const int64_t count = std::min(rows, values_.cols());
    for (int64_t k = 0; k < count; ++k) {
      S* column = values_.col(k) + k;
      const int64_t tail = rows - k - 1;
      const S alpha = column[0];
      const double size = norm(column + 1, tail);
      if (size == 0 && std::imag(alpha) == 0) {
        factors_.push_back(S{});
        continue;
      }
      const double beta = -std::copysign(std::hypot(std::abs(alpha), size), std::real(alpha));
      for (int64_t r = 1; r <= tail; ++r) column[r] /= alpha - beta;
      factors_.push_back((beta - alpha) / beta);
      for (int64_t c = k + 1; c < values_.cols(); ++c) reflect(k, conjugate(factors_.back()), values_.col(c) + k);
      column[0] = beta;
    }
  }
  /// The first `rows` rows of R.
  Matrix<S> r(int64_t rows) const {
    Matrix<S> result(rows, values_.cols());
    for (int64_t c = 0; c < result.cols(); ++c) {
      for (int64_t r = 0; r < std::min(rows, c + 1); ++r) result(r, c) = values_(r, c);
    }
    return result;
  }
  /// Q times a matrix.
  Matrix<S> q_times(Matrix<S> matrix) const {
    for (int64_t k = static_cast<int64_t>(factors_.size()) - 1; k >= 0; --k) {
      for (int64_t c = 0; c < matrix.cols(); ++c) reflect(k, factors_[static_cast<size_t>(k)], matrix.col(c) + k);
    }
    return matrix;
  }

 private:
  /// y = (1 - factor v v^H) y, where v is 1 and then what stands below the diagonal of column k.
  void reflect(int64_t k, S factor, S* y) const {
    if (factor == S{}) return;
    const S* v = values_.col(k) + k;
    const int64_t tail = values_.rows() - k - 1;
    const S sum = product(factor, y[0] + dot(v + 1, y + 1, tail));
    y[0] -= sum;
    subtract_scaled(sum, v + 1, y + 1, tail);
  }

  Matrix<S> values_;
  std::vector<S> factors_;
};

}  // namespace drydock::ops::kernels
