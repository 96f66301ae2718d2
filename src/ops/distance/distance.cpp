#include <array>
#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include "base/thread_pool.h"
#include "ops/clear_view.h"
#include "ops/spatial/planes.h"

// Distances between the rows of matrices by a p-norm, and their gradient.

namespace drydock::ops::kernels {
namespace {

enum class NormKind : uint8_t { kCount, kSum, kEuclidean, kLargest, kPower };

NormKind kind_of(double p) {
  if (std::isinf(p)) return NormKind::kLargest;
  if (p == 0) return NormKind::kCount;
  if (p == 1) return NormKind::kSum;
  return p == 2 ? NormKind::kEuclidean : NormKind::kPower;
}

/// Sums in eight lanes, which loses less than one.
template <class C, class Term>
C sum_of(int64_t count, Term&& term) {
  std::array<C, 8> lanes{};
  int64_t k = 0;
  for (; k + 8 <= count; k += 8) {
    for (int64_t lane = 0; lane < 8; ++lane) lanes[static_cast<size_t>(lane)] += term(k + lane);
  }
  for (; k < count; ++k) lanes[0] += term(k);
  return ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) + ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]));
}

template <class C>
C distance(const C* a, const C* b, int64_t count, NormKind kind, C p) {
  const auto difference = [&](int64_t k) { return std::abs(a[k] - b[k]); };
  switch (kind) {
    case NormKind::kCount: return sum_of<C>(count, [&](int64_t k) { return a[k] != b[k] ? C{1} : C{0}; });
    case NormKind::kSum: return sum_of<C>(count, difference);
    case NormKind::kEuclidean:
      return std::sqrt(sum_of<C>(count, [&](int64_t k) { return (a[k] - b[k]) * (a[k] - b[k]); }));
    case NormKind::kPower:
      return std::pow(sum_of<C>(count, [&](int64_t k) { return std::pow(difference(k), p); }), C{1} / p);
    case NormKind::kLargest: break;
  }
  C largest{};
  for (int64_t k = 0; k < count; ++k) {
    const C value = difference(k);
    if (value > largest || std::isnan(value)) largest = value;
  }
  return largest;
}

/// The derivative of the distance by the first row's element, whose difference is `difference`.
template <class C>
C slope(C difference, C distance, NormKind kind, C p) {
  if (kind == NormKind::kCount || distance == C{0} || difference == C{0}) return C{0};
  const C sign = difference > C{0} ? C{1} : C{-1};
  switch (kind) {
    case NormKind::kSum: return sign;
    case NormKind::kEuclidean: return difference / distance;
    // A distance that was rounded down to 16 bits is still that of its largest difference.
    case NormKind::kLargest: return std::abs(difference) >= distance ? sign : C{0};
    default: return sign * std::pow(std::abs(difference) / distance, p - C{1});
  }
}

/// Two stacks of matrices [..., P, M] and [..., R, M] as broadcast to one batch.
struct Pair {
  TensorView first, second;
  Dims batch;
  int64_t first_rows = 0, second_rows = 0, width = 0;
};

Status pair_of(const KernelCall& call, const TensorView& x1, const TensorView& x2, Pair* pair) {
  const int rank1 = x1.dims.size();
  const int rank2 = x2.dims.size();
  if (rank1 < 2 || rank2 < 2 || x1.dims[rank1 - 1] != x2.dims[rank2 - 1]) {
    return invalid(call, "x1 and x2 must be matrices of rows of the same length");
  }
  if (!is_floating(x1.dtype) || !is_floating(x2.dtype)) return not_computed(call, "integers have no distance here");
  pair->first_rows = x1.dims[rank1 - 2];
  pair->second_rows = x2.dims[rank2 - 2];
  pair->width = x1.dims[rank1 - 1];
  const Dims batch1(x1.dims.span().first(static_cast<size_t>(rank1 - 2)));
  const Dims batch2(x2.dims.span().first(static_cast<size_t>(rank2 - 2)));
  if (!broadcast_dims(batch1, batch2, &pair->batch)) return invalid(call, "the batches of x1 and x2 do not broadcast");
  const auto widened = [&](const TensorView& view, int64_t rows, TensorView* result) {
    Dims dims = pair->batch;
    dims.push_back(rows);
    dims.push_back(pair->width);
    return broadcast_view(view, dims, result);
  };
  if (!widened(x1, pair->first_rows, &pair->first) || !widened(x2, pair->second_rows, &pair->second)) {
    return invalid(call, "the batches of x1 and x2 do not broadcast");
  }
  return Status::ok();
}

/// Fails unless `view` is [batch..., P, columns].
Status expect_matrices(const KernelCall& call, const Pair& pair, const TensorView& view, int64_t columns,
                       const char* what) {
  Dims dims = pair.batch;
  dims.push_back(pair.first_rows);
  dims.push_back(columns);
  if (view.dims == dims) return Status::ok();
  return invalid(call, std::string(what) + " has not the shape that x1 and x2 give");
}

Dims last_two(const TensorView& view) { return Dims{view.dims.size() - 2, view.dims.size() - 1}; }

double power_of(double p) { return p == -1 ? std::numeric_limits<double>::infinity() : p; }

}  // namespace

/// Operands: x1, x2. out[..., i, j] is the distance of row i of x1 and row j of x2.
Status cdist(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 2, 1));
  const TensorView& out = call.output(0);
  Pair pair;
  DRYDOCK_RETURN_IF_ERROR(pair_of(call, call.operand(0), call.operand(1), &pair));
  DRYDOCK_RETURN_IF_ERROR(expect_matrices(call, pair, out, pair.second_rows, "the output"));
  const double p = power_of(call.number(0));
  if (!(p >= 0)) return invalid(call, "p must not be negative");
  if (out.numel() == 0) return Status::ok();
  const Rows first(pair.first, pair.first.dims.size() - 1);
  const Rows second(pair.second, last_two(pair.second));
  const Rows to(out, out.dims.size() - 1);
  const int64_t width = pair.width;
  return with_floating_type(compute_type_of(pair.first.dtype), [&]<class C>() {
    base::parallel_for(to.count(), plane_grain(pair.second_rows * width), [&](int64_t begin, int64_t end) {
      const auto row_buffer = scratch<C>(width);
      const auto matrix_buffer = scratch<C>(pair.second_rows * width);
      const auto distances = scratch<C>(pair.second_rows);
      const C* matrix = matrix_buffer.get();
      int64_t loaded = -1;
      for (int64_t i = begin; i < end; ++i) {
        const int64_t batch = i / pair.first_rows;
        if (batch != loaded && width > 0) matrix = second.read<C>(batch, matrix_buffer.get());
        loaded = batch;
        const C* row = width > 0 ? first.read<C>(i, row_buffer.get()) : row_buffer.get();
        for (int64_t j = 0; j < pair.second_rows; ++j) {
          distances[static_cast<size_t>(j)] = distance(row, matrix + j * width, width, kind_of(p), static_cast<C>(p));
        }
        to.write<C>(i, distances.get());
      }
    });
    return Status::ok();
  });
}

/// Operands: grad, x1, x2, and the distances. The output is the gradient of x1.
Status cdist_backward(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 4, 1));
  const TensorView& grad = call.operand(0);
  const TensorView& distances = call.operand(3);
  const TensorView& out = call.output(0);
  Pair pair;
  DRYDOCK_RETURN_IF_ERROR(pair_of(call, call.operand(1), call.operand(2), &pair));
  DRYDOCK_RETURN_IF_ERROR(expect_matrices(call, pair, grad, pair.second_rows, "grad"));
  DRYDOCK_RETURN_IF_ERROR(expect_matrices(call, pair, distances, pair.second_rows, "cdist"));
  DRYDOCK_RETURN_IF_ERROR(expect_matrices(call, pair, out, pair.width, "the output"));
  const double p = power_of(call.number(0));
  if (!(p >= 0)) return invalid(call, "p must not be negative");
  if (out.numel() == 0) return Status::ok();
  const Rows first(pair.first, pair.first.dims.size() - 1);
  const Rows second(pair.second, last_two(pair.second));
  const Rows grads(grad, grad.dims.size() - 1);
  const Rows norms(distances, distances.dims.size() - 1);
  const Rows to(out, out.dims.size() - 1);
  const int64_t width = pair.width;
  return with_floating_type(compute_type_of(pair.first.dtype), [&]<class C>() {
    base::parallel_for(to.count(), plane_grain(pair.second_rows * width), [&](int64_t begin, int64_t end) {
      const auto row_buffer = scratch<C>(width);
      const auto matrix_buffer = scratch<C>(pair.second_rows * width);
      const auto grad_buffer = scratch<C>(pair.second_rows);
      const auto norm_buffer = scratch<C>(pair.second_rows);
      const auto sums = scratch<C>(width);
      for (int64_t i = begin; i < end; ++i) {
        std::fill_n(sums.get(), width, C{0});
        const C* row = first.read<C>(i, row_buffer.get());
        const bool any = pair.second_rows > 0;
        const C* matrix = any ? second.read<C>(i / pair.first_rows, matrix_buffer.get()) : nullptr;
        const C* grad_row = any ? grads.read<C>(i, grad_buffer.get()) : nullptr;
        const C* norm_row = any ? norms.read<C>(i, norm_buffer.get()) : nullptr;
        for (int64_t j = 0; j < pair.second_rows; ++j) {
          for (int64_t k = 0; k < width; ++k) {
            sums[static_cast<size_t>(k)] +=
                grad_row[j] * slope(row[k] - matrix[j * width + k], norm_row[j], kind_of(p), static_cast<C>(p));
          }
        }
        to.write<C>(i, sums.get());
      }
    });
    return Status::ok();
  });
}

/// The same by the legacy operator, whose operands grad, x1, x2 and distances are all [..., P, R, M].
Status broadcast_cdist_backward(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 4, 1));
  const TensorView& x1 = call.operand(1);
  const TensorView& out = call.output(0);
  const int rank = x1.dims.size();
  for (int index = 0; index < 4; ++index) {
    if (!(call.operand(index).dims == x1.dims)) return invalid(call, "all inputs must be of one shape");
  }
  if (rank < 3) return invalid(call, "the inputs must have rows, other rows and their elements");
  if (!is_floating(x1.dtype)) return not_computed(call, "integers have no distance here");
  Dims expected(x1.dims.span().first(static_cast<size_t>(rank - 2)));
  expected.push_back(x1.dims[rank - 1]);
  // An x1 that was broadcast gathers the gradients of all its copies, one after the other.
  const bool gathers = !(out.dims == expected);
  TensorView copies;
  if (!broadcast_view(out, expected, &copies)) {
    return invalid(call, "the output " + text_of(out.dims) + " does not broadcast to " + text_of(expected));
  }
  const double p = power_of(call.number(0));
  if (!(p >= 0)) return invalid(call, "p must not be negative");
  clear_view(out);
  if (x1.numel() == 0) return Status::ok();
  const int64_t width = x1.dims[rank - 1];
  const int64_t count = x1.dims[rank - 2] * width;
  const Rows to(copies, copies.dims.size() - 1);
  return with_floating_type(compute_type_of(x1.dtype), [&]<class C>() {
    std::array<std::unique_ptr<Rows>, 4> from;
    for (int index = 0; index < 4; ++index) {
      from[static_cast<size_t>(index)] = std::make_unique<Rows>(call.operand(index), last_two(call.operand(index)));
    }
    const int64_t grain = gathers ? to.count() : plane_grain(count);
    base::parallel_for(to.count(), grain, [&](int64_t begin, int64_t end) {
      std::array<std::vector<C>, 4> buffers;
      for (std::vector<C>& buffer : buffers) buffer.resize(static_cast<size_t>(count));
      std::vector<C> sums(static_cast<size_t>(width));
      for (int64_t i = begin; i < end; ++i) {
        std::copy_n(to.read<C>(i, sums.data()), width, sums.begin());
        std::array<const C*, 4> values{};
        for (size_t index = 0; index < 4; ++index) {
          values[index] = from[index]->template read<C>(i, buffers[index].data());
        }
        for (int64_t k = 0; k < count; ++k) {
          sums[static_cast<size_t>(k % width)] +=
              values[0][k] * slope(values[1][k] - values[2][k], values[3][k], kind_of(p), static_cast<C>(p));
        }
        to.write<C>(i, sums.data());
      }
    });
    return Status::ok();
  });
}

/// The distances of all pairs of rows of a matrix, the first with those behind it first.
Status pdist(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 1, 1));
  const TensorView& self = call.operand(0);
  const TensorView& out = call.output(0);
  const double p = power_of(call.number(0));
  if (self.dims.size() != 2 || out.dims.size() != 1 || !(p >= 0)) {
    return invalid(call, "self must be a matrix, the output a vector, p not negative");
  }
  if (!is_floating(self.dtype)) return not_computed(call, "integers have no distance here");
  const int64_t rows = self.dims[0];
  const int64_t width = self.dims[1];
  const int64_t pairs = rows < 2 ? 0 : rows * (rows - 1) / 2;
  if (out.dims[0] != pairs) return invalid(call, "the output must have " + std::to_string(pairs) + " elements");
  if (pairs == 0) return Status::ok();
  return with_floating_type(compute_type_of(self.dtype), [&]<class C>() {
    const auto buffer = scratch<C>(rows * width);
    const C* matrix = width > 0 ? Rows(self, Dims{0, 1}).read<C>(0, buffer.get()) : buffer.get();
    const auto distances = scratch<C>(pairs);
    base::parallel_for(rows, plane_grain(rows * width / 2), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        C* next = distances.get() + i * (2 * rows - i - 1) / 2;
        for (int64_t j = i + 1; j < rows; ++j) {
          *next++ = distance(matrix + i * width, matrix + j * width, width, kind_of(p), static_cast<C>(p));
        }
      }
    });
    Rows(out, 0).write<C>(0, distances.get());
    return Status::ok();
  });
}

}  // namespace drydock::ops::kernels
