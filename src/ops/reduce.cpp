#include "ops/reduce.h"

#include <cmath>
#include <limits>

#include "base/vector_math.h"
#include "ops/complex/complex.h"
#include "ops/elementwise.h"
#include "ops/kernel_call.h"
#include "ops/reduce_across.h"

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

/// Runs with the compute type of the result, complex ones too.
template <class Body>
Status with_result_type(const KernelCall& call, Body&& body) {
  if (has_complex(call)) return body.template operator()<Complex>();
  return with_compute_type(compute_type_of(call.output(0).dtype), body);
}

Status prepare(const KernelCall& call, Dims* axes, bool complex_too = false) {
  DRYDOCK_RETURN_IF_ERROR(complex_too ? expect_complex(call, 1, 1) : expect(call, 1, 1));
  return axes_of(call, call.ints(0), call.operand(0).dims.size(), axes);
}

constexpr auto kAsItIs = [](auto folded, int64_t) { return folded; };

template <class A, class Term>
struct Sum {
  Term term;
  template <class C>
  A part(const C* values, int64_t count, int64_t) const {
    return sum_of_terms<A>(values, count, term);
  }
  A join(A a, A b) const { return wrapping_add<A>(a, b); }
};

template <class A, class Term>
Sum<A, Term> sum(Term term) {
  return {term};
}

/// finish(sum of the terms over the axes, elements of a row), for values read as a floating C.
template <class C, class Term, class Finish>
Status sum_of_floats(KernelCall& call, const Dims& axes, Term term, Finish finish) {
  std::vector<double> sums;
  if (!sum_across<C>(call.operand(0), axes, term, &sums)) {
    return reduce<C, double, double>(call, axes, 0, sum<double>(term), finish);
  }
  const int64_t length = Rows(call.operand(0), axes).length();
  for (double& each : sums) each = finish(each, length);
  return write_all(call, call.output(0), sums);
}

/// Elements are converted to the type of the result before they are summed, as PyTorch does with dtype=.
template <class Term>
Status sum_terms(KernelCall& call, Term term) {
  Dims axes;
  DRYDOCK_RETURN_IF_ERROR(prepare(call, &axes, true));
  return with_result_type(call, [&]<class C>() {
    using A = Accumulator<C>;
    if constexpr (std::is_floating_point_v<C>) {
      return sum_of_floats<C>(call, axes, term, kAsItIs);
    } else {
      return reduce<C, A, A>(call, axes, 0, sum<A>(term), kAsItIs);
    }
  });
}

struct Product {
  template <class C>
  Accumulator<C> part(const C* values, int64_t count, int64_t) const {
    using A = Accumulator<C>;
    A total = 1;
    for (int64_t k = 0; k < count; ++k) total = wrapping_multiply<A>(total, static_cast<A>(values[k]));
    return total;
  }
  template <class A>
  A join(A a, A b) const {
    return wrapping_multiply<A>(a, b);
  }
};

Status product_over(KernelCall& call, const Dims& axes) {
  return with_result_type(call, [&]<class C>() {
    using A = Accumulator<C>;
    return reduce<C, A, A>(call, axes, 0, Product(), kAsItIs);
  });
}

/// Runs with the floating type that holds the operand's values: fp32 for fp32 and less, else fp64.
template <class Body>
Status with_operand_type(const KernelCall& call, Body&& body) {
  const bool narrow = compute_type_of(call.operand(0).dtype) == ComputeType::kFloat;
  return narrow ? body.template operator()<float>() : body.template operator()<double>();
}

/// The largest or the smallest magnitude; NaN wins.
struct ExtremeMagnitude {
  bool largest;
  template <class C>
  double part(const C* values, int64_t count, int64_t) const {
    double best = count > 0 ? std::abs(static_cast<double>(values[0])) : 0.0;
    for (int64_t k = 1; k < count; ++k) best = join(best, std::abs(static_cast<double>(values[k])));
    return best;
  }
  double join(double a, double b) const { return largest ? larger(b, a) : smaller(b, a); }
};

Status vector_norm(KernelCall& call, const Dims& axes, double p) {
  const auto sum_up = [&](auto term, auto finish) {
    return reduce<double, double, double>(call, axes, 0, sum<double>(term), finish);
  };
  const auto magnitude = [](double value) { return value < 0 ? -value : value; };
  if (p == 0) return sum_up([](double value) { return value != 0 ? 1.0 : 0.0; }, kAsItIs);
  // torch_npu spells an infinite order as the largest int too.
  if (std::isinf(p) || std::abs(p) >= std::numeric_limits<int32_t>::max()) {
    return reduce<double, double, double>(call, axes, 0, ExtremeMagnitude{p > 0}, kAsItIs);
  }
  if (p == 1) return sum_up(magnitude, kAsItIs);
  if (p == 2) {
    return sum_up([](double value) { return value * value; }, [](double total, int64_t) { return std::sqrt(total); });
  }
  return sum_up([p, magnitude](double value) { return std::pow(magnitude(value), p); },
                [p](double total, int64_t) { return std::pow(total, 1 / p); });
}

/// Whether any value has the truth `decided`.
struct AnyOfTruth {
  bool decided;
  template <class C>
  int64_t part(const C* values, int64_t count, int64_t) const {
    int64_t found = 0;
    base::vectorized([&found, values, count, wanted = decided] {
      int64_t hits = 0;
      for (int64_t k = 0; k < count; ++k) hits += (values[k] != C(0)) == wanted ? 1 : 0;
      found = hits;
    });
    return found != 0 ? 1 : 0;
  }
  int64_t join(int64_t a, int64_t b) const { return a | b; }
};

/// `decided`: the truth of an element that settles the answer.
Status quantifier(KernelCall& call, bool decided) {
  Dims axes;
  DRYDOCK_RETURN_IF_ERROR(prepare(call, &axes));
  return with_compute_type(compute_type_of(call.operand(0).dtype), [&]<class C>() {
    return reduce<C, int64_t, int64_t>(call, axes, 0, AnyOfTruth{decided},
                                       [decided](int64_t found, int64_t) { return (found != 0) == decided ? 1 : 0; });
  });
}

/// Mean and sum of squared deviations, joined without a loss of digits.
struct Moments {
  double count = 0;
  double mean = 0;
  double squares = 0;
};

struct Deviation {
  template <class C>
  Moments part(const C* values, int64_t count, int64_t) const {
    if (count <= 0) return {};
    const double size = static_cast<double>(count);
    const double mean = sum_of_terms<double>(values, count, [](double value) { return value; }) / size;
    const double squares =
        sum_of_terms<double>(values, count, [mean](double value) { return (value - mean) * (value - mean); });
    return {size, mean, squares};
  }
  Moments join(const Moments& a, const Moments& b) const {
    const double count = a.count + b.count;
    const double apart = b.mean - a.mean;
    return {count, a.mean + apart * (b.count / count),
            a.squares + b.squares + apart * apart * (a.count * b.count / count)};
  }
};

/// Writes root or variance to output `spread_output`, the mean to `mean_output` unless that is -1. The correction is
/// the integer argument.
Status write_spread(KernelCall& call, bool root, int spread_output, int mean_output) {
  Dims axes;
  DRYDOCK_RETURN_IF_ERROR(prepare(call, &axes));
  const double correction = static_cast<double>(call.integer(0));
  const Rows rows(call.operand(0), axes);
  const Deviation deviation;
  const std::vector<Moments> moments = fold_rows_in_parts(rows, PlainFold<double, Moments>(deviation));
  std::vector<double> spreads, means;
  for (const Moments& each : moments) {
    const double variance = each.count == 0 ? std::numeric_limits<double>::quiet_NaN()
                                            : each.squares / std::max(0.0, each.count - correction);
    spreads.push_back(root ? std::sqrt(variance) : variance);
    means.push_back(each.count == 0 ? std::numeric_limits<double>::quiet_NaN() : each.mean);
  }
  DRYDOCK_RETURN_IF_ERROR(write_all(call, call.output(spread_output), spreads));
  return mean_output < 0 ? Status::ok() : write_all(call, call.output(mean_output), means);
}

Status spread(KernelCall& call, bool root) {
  const bool with_mean = call.output_count() > 1;
  if (with_mean) DRYDOCK_RETURN_IF_ERROR(expect(call, 1, 2));
  return write_spread(call, root, 0, with_mean ? 1 : -1);
}

/// Sum of exponentials relative to the largest value.
struct ExponentialSum {
  struct Total {
    double top = -std::numeric_limits<double>::infinity();
    double sum = 0;
  };
  template <class C>
  Total part(const C* values, int64_t count, int64_t) const {
    const C top = largest_number(values, count);
    if (std::isinf(top)) {  // nothing, or infinite: the sum is only needed for NaN
      return {static_cast<double>(top),
              sum_of_terms<double>(values, count, [](double v) { return is_nan(v) ? v : 0; })};
    }
    return {static_cast<double>(top), sum_of_terms<double>(values, count, [top](double value) {
              return static_cast<double>(vector_math::exp(static_cast<C>(value) - top));
            })};
  }
  Total join(const Total& a, const Total& b) const {
    const double top = std::max(a.top, b.top);
    if (std::isinf(top)) return {top, a.sum + b.sum};
    return {top, a.sum * std::exp(a.top - top) + b.sum * std::exp(b.top - top)};
  }
};

}  // namespace

Status reduce_sum(KernelCall& call) {
  return sum_terms(call, [](auto value) { return value; });
}

Status reduce_nansum(KernelCall& call) {
  if (has_complex(call)) return not_computed(call, "complex numbers are not computed");
  return sum_terms(call, [](auto value) { return is_nan(value) ? decltype(value)(0) : value; });
}

Status mean(KernelCall& call) {
  Dims axes;
  DRYDOCK_RETURN_IF_ERROR(prepare(call, &axes, true));
  if (has_complex(call)) {
    return reduce<Complex, Complex, Complex>(
        call, axes, 0, sum<Complex>([](Complex value) { return value; }),
        [](Complex total, int64_t count) { return total / static_cast<double>(count); });
  }
  return with_operand_type(call, [&]<class C>() {
    return sum_of_floats<C>(
        call, axes, [](double value) { return value; },
        [](double total, int64_t count) { return total / static_cast<double>(count); });
  });
}

Status product(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect_complex(call, 1, 1));
  return product_over(call, all_axes(call.operand(0).dims.size()));
}

Status product_dim(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect_complex(call, 1, 1));
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
  return vector_norm(call, axes, p);
}

Status logsumexp(KernelCall& call) {
  Dims axes;
  DRYDOCK_RETURN_IF_ERROR(prepare(call, &axes));
  return with_operand_type(call, [&]<class C>() {
    return reduce<C, ExponentialSum::Total, double>(
        call, axes, 0, ExponentialSum(), [](const ExponentialSum::Total& total, int64_t) {
          return std::isinf(total.top) ? total.top + total.sum : total.top + std::log(total.sum);
        });
  });
}

Status standard_deviation(KernelCall& call) { return spread(call, true); }
Status variance(KernelCall& call) { return spread(call, false); }

Status trace(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect_complex(call, 1, 1));
  TensorView diagonal = call.operand(0);
  if (diagonal.dims.size() != 2) return invalid(call, "self must be a matrix");
  diagonal.dims = Dims{std::min(diagonal.dims[0], diagonal.dims[1])};
  diagonal.strides = Dims{diagonal.strides[0] + diagonal.strides[1]};
  return with_result_type(call, [&]<class C>() {
    Accumulator<C> total = 0;
    for_each_value<C>(diagonal, [&](C value) { total = wrapping_add<Accumulator<C>>(total, value); });
    return write_all<Accumulator<C>>(call, call.output(0), {total});
  });
}

}  // namespace drydock::ops::kernels
