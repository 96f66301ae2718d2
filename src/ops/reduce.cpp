#include "ops/reduce.h"

#include <cmath>
#include <limits>

#include "ops/elementwise.h"
#include "ops/kernel_call.h"

// Sums, means, products, norms, and the truth of all or any.

namespace drydock::ops::kernels {

Status single_axis(const KernelCall& call, int64_t dim, Dims* axes) {
  const int rank = call.operand(0).dims.size();
  int axis = 0;
  DRYDOCK_RETURN_IF_ERROR(wrap_dim(call, dim, rank, &axis));
  axes->clear();
  if (rank > 0) axes->push_back(axis);
  return Status::ok();
}

Status expect_rows_not_empty(const KernelCall& call, const Rows& rows) {
  if (rows.count() == 0 || rows.length() > 0) return Status::ok();
  return invalid(call, "a reduction over no elements has no result");
}

namespace {

/// Floating values add up in fp64, integers wrap.
template <class C>
using Accumulator = std::conditional_t<std::is_floating_point_v<C>, double, C>;

Status prepare(const KernelCall& call, Dims* axes) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 1, 1));
  return axes_of(call, call.ints(0), call.operand(0).dims.size(), axes);
}

/// Elements are converted to the type of the result before they are summed, as PyTorch does with dtype=.
template <class Term>
Status sum_terms(KernelCall& call, Term term) {
  Dims axes;
  DRYDOCK_RETURN_IF_ERROR(prepare(call, &axes));
  return with_compute_type(compute_type_of(call.output(0).dtype), [&]<class C>() {
    using A = Accumulator<C>;
    return reduce<C, A>(call, axes, 0, [&](const C* values, int64_t count) {
      A total = 0;
      for (int64_t k = 0; k < count; ++k) total = wrapping_add<A>(total, term(static_cast<A>(values[k])));
      return total;
    });
  });
}

Status product_over(KernelCall& call, const Dims& axes) {
  return with_compute_type(compute_type_of(call.output(0).dtype), [&]<class C>() {
    using A = Accumulator<C>;
    return reduce<C, A>(call, axes, 0, [](const C* values, int64_t count) {
      A total = 1;
      for (int64_t k = 0; k < count; ++k) total = wrapping_multiply<A>(total, static_cast<A>(values[k]));
      return total;
    });
  });
}

double vector_norm(const double* values, int64_t count, double p) {
  double total = 0;
  if (p == 0) {
    for (int64_t k = 0; k < count; ++k) total += values[k] != 0 ? 1 : 0;
    return total;
  }
  // torch_npu spells an infinite order as the largest int too.
  if (std::isinf(p) || std::abs(p) >= std::numeric_limits<int32_t>::max()) {
    if (count > 0) total = std::abs(values[0]);
    for (int64_t k = 1; k < count; ++k) {
      total = p > 0 ? larger(std::abs(values[k]), total) : smaller(std::abs(values[k]), total);
    }
    return total;
  }
  if (p == 1) {
    for (int64_t k = 0; k < count; ++k) total += std::abs(values[k]);
    return total;
  }
  if (p == 2) {
    for (int64_t k = 0; k < count; ++k) total += values[k] * values[k];
    return std::sqrt(total);
  }
  for (int64_t k = 0; k < count; ++k) total += std::pow(std::abs(values[k]), p);
  return std::pow(total, 1 / p);
}

/// `decided`: the truth of an element that settles the answer.
Status quantifier(KernelCall& call, bool decided) {
  Dims axes;
  DRYDOCK_RETURN_IF_ERROR(prepare(call, &axes));
  return with_compute_type(compute_type_of(call.operand(0).dtype), [&]<class C>() {
    return reduce<C, int64_t>(call, axes, 0, [decided](const C* values, int64_t count) {
      for (int64_t k = 0; k < count; ++k) {
        if ((values[k] != C(0)) == decided) return decided ? 1 : 0;
      }
      return decided ? 0 : 1;
    });
  });
}

struct Moments {
  double mean;
  double variance;
};

Moments moments_of(const double* values, int64_t count, int64_t correction) {
  double mean = 0;
  for (int64_t k = 0; k < count; ++k) mean += values[k];
  mean /= static_cast<double>(count);
  double squares = 0;
  for (int64_t k = 0; k < count; ++k) squares += (values[k] - mean) * (values[k] - mean);
  const double degrees = std::max(0.0, static_cast<double>(count) - static_cast<double>(correction));
  return {mean, squares / degrees};
}

/// Writes root or variance to output 0, the mean to output 1 if there is one. The correction is the integer argument.
Status spread(KernelCall& call, bool root) {
  Dims axes;
  DRYDOCK_RETURN_IF_ERROR(prepare(call, &axes));
  const Rows rows(call.operand(0), axes);
  const int64_t correction = call.integer(0);
  const auto spreads = fold_rows<double, double>(rows, [&](const double* values, int64_t count) {
    const double variance = moments_of(values, count, correction).variance;
    return root ? std::sqrt(variance) : variance;
  });
  DRYDOCK_RETURN_IF_ERROR(write_all(call, call.output(0), spreads));
  if (call.output_count() < 2) return Status::ok();
  DRYDOCK_RETURN_IF_ERROR(expect(call, 1, 2));
  return reduce<double, double>(
      call, axes, 1, [&](const double* values, int64_t count) { return moments_of(values, count, correction).mean; });
}

}  // namespace

Status reduce_sum(KernelCall& call) {
  return sum_terms(call, [](auto value) { return value; });
}

Status reduce_nansum(KernelCall& call) {
  return sum_terms(call, [](auto value) { return is_nan(value) ? 0 : value; });
}

Status mean(KernelCall& call) {
  Dims axes;
  DRYDOCK_RETURN_IF_ERROR(prepare(call, &axes));
  return reduce<double, double>(call, axes, 0, [](const double* values, int64_t count) {
    double total = 0;
    for (int64_t k = 0; k < count; ++k) total += values[k];
    return total / static_cast<double>(count);
  });
}

Status product(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 1, 1));
  return product_over(call, all_axes(call.operand(0).dims.size()));
}

Status product_dim(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 1, 1));
  Dims axes;
  DRYDOCK_RETURN_IF_ERROR(single_axis(call, call.integer(0), &axes));
  return product_over(call, axes);
}

Status reduce_all(KernelCall& call) { return quantifier(call, false); }
Status reduce_any(KernelCall& call) { return quantifier(call, true); }

Status norm(KernelCall& call) {
  Dims axes;
  DRYDOCK_RETURN_IF_ERROR(prepare(call, &axes));
  const double p = scalar_or(call, 1, 2.0);
  return reduce<double, double>(call, axes, 0,
                                [p](const double* values, int64_t count) { return vector_norm(values, count, p); });
}

Status logsumexp(KernelCall& call) {
  Dims axes;
  DRYDOCK_RETURN_IF_ERROR(prepare(call, &axes));
  return reduce<double, double>(call, axes, 0, [](const double* values, int64_t count) {
    double top = -std::numeric_limits<double>::infinity();
    for (int64_t k = 0; k < count; ++k) top = larger(values[k], top);
    if (std::isinf(top)) return top;
    double total = 0;
    for (int64_t k = 0; k < count; ++k) total += std::exp(values[k] - top);
    return top + std::log(total);
  });
}

Status standard_deviation(KernelCall& call) { return spread(call, true); }
Status variance(KernelCall& call) { return spread(call, false); }

Status trace(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 1, 1));
  TensorView diagonal = call.operand(0);
  if (diagonal.dims.size() != 2) return invalid(call, "self must be a matrix");
  diagonal.dims = Dims{std::min(diagonal.dims[0], diagonal.dims[1])};
  diagonal.strides = Dims{diagonal.strides[0] + diagonal.strides[1]};
  return with_compute_type(compute_type_of(call.output(0).dtype), [&]<class C>() {
    Accumulator<C> total = 0;
    for_each_value<C>(diagonal, [&](C value) { total = wrapping_add<Accumulator<C>>(total, value); });
    return write_all<Accumulator<C>>(call, call.output(0), {total});
  });
}

}  // namespace drydock::ops::kernels
