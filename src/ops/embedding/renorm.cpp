#include <cmath>
#include <vector>

#include "base/thread_pool.h"
#include "ops/index.h"
#include "ops/spatial/planes.h"

// Slices scaled down to a largest norm.

namespace drydock::ops::kernels {
namespace {

// Keeps the quotient below the largest norm, as PyTorch does.
constexpr double kNormEpsilon = 1e-7;

/// The norm of a row; 0 counts the elements that are not zero, infinity gives the largest one.
template <class C>
double norm_of(const C* values, int64_t count, double p) {
  double total = 0;
  if (std::isinf(p)) {
    for (int64_t k = 0; k < count; ++k) total = std::max(total, std::abs(static_cast<double>(values[k])));
    return total;
  }
  if (p == 2.0) {
    for (int64_t k = 0; k < count; ++k) total += static_cast<double>(values[k]) * static_cast<double>(values[k]);
    return std::sqrt(total);
  }
  if (p == 0.0) {
    for (int64_t k = 0; k < count; ++k) total += values[k] != C{0} ? 1 : 0;
    return total;
  }
  for (int64_t k = 0; k < count; ++k) total += std::pow(std::abs(static_cast<double>(values[k])), p);
  return std::pow(total, 1 / p);
}

/// Row `number` of `to` = row `number` of `from`, scaled if its norm exceeds `max_norm`.
template <class C>
void renormalize_row(const Rows& from, const Rows& to, int64_t number, double p, double max_norm, C* buffer) {
  const int64_t length = from.length();
  const C* values = from.read<C>(number, buffer);
  const double norm = norm_of(values, length, p);
  if (values != buffer) std::copy_n(values, length, buffer);
  if (norm > max_norm) {
    const C factor = static_cast<C>(max_norm / (norm + kNormEpsilon));
    for (int64_t k = 0; k < length; ++k) buffer[k] *= factor;
  }
  to.write<C>(number, buffer);
}

Status expect_norm(const KernelCall& call, double p, double max_norm) {
  if (p >= 0 && max_norm >= 0) return Status::ok();
  return invalid(call, "the norm's power and the largest norm must not be negative");
}

}  // namespace

/// Operands: self, p, maxNorm. The slices of one index along the dimension are scaled.
Status renorm(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 3, 1));
  const TensorView& self = call.operand(0);
  const TensorView& out = call.output(0);
  const double p = as_double(call.operand(1));
  const double max_norm = as_double(call.operand(2));
  DRYDOCK_RETURN_IF_ERROR(expect_norm(call, p, max_norm));
  int axis = 0;
  DRYDOCK_RETURN_IF_ERROR(wrap_dim(call, call.integer(0), self.dims.size(), &axis));
  if (self.dims.empty() || !(self.dims == out.dims)) return invalid(call, "self and output must have the same shape");
  if (!is_floating(self.dtype)) return not_computed(call, "integers are not computed");
  if (self.numel() == 0) return Status::ok();
  Dims inside;
  for (int other = 0; other < self.dims.size(); ++other) {
    if (other != axis) inside.push_back(other);
  }
  const Rows from(self, inside);
  const Rows to(out, inside);
  return with_floating_type(compute_type_of(self.dtype), [&]<class C>() {
    base::parallel_for(from.count(), plane_grain(from.length()), [&](int64_t begin, int64_t end) {
      const auto buffer = scratch<C>(from.length());
      for (int64_t row = begin; row < end; ++row) renormalize_row<C>(from, to, row, p, max_norm, buffer.get());
    });
    return Status::ok();
  });
}

/// Operands: the weight (in place) and indices; each row that is named is scaled once.
Status embedding_renorm(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 2, 1));
  const TensorView& weight = call.output(0);
  const double max_norm = call.number(0);
  const double p = call.number(1);
  DRYDOCK_RETURN_IF_ERROR(expect_norm(call, p, max_norm));
  if (weight.dims.size() != 2) return invalid(call, "self must be a matrix");
  if (!is_floating(weight.dtype)) return not_computed(call, "integers are not computed");
  std::vector<int64_t> indices;
  DRYDOCK_RETURN_IF_ERROR(checked_indices(call, call.operand(1), weight.dims[0], &indices));
  std::sort(indices.begin(), indices.end());
  indices.erase(std::unique(indices.begin(), indices.end()), indices.end());
  const Rows rows(weight, 1);
  return with_floating_type(compute_type_of(weight.dtype), [&]<class C>() {
    const auto buffer = scratch<C>(rows.length());
    for (int64_t row : indices) renormalize_row<C>(rows, rows, row, p, max_norm, buffer.get());
    return Status::ok();
  });
}

}  // namespace drydock::ops::kernels
