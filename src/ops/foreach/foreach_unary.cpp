#include <cmath>
#include <limits>

#include "base/vector_math.h"
#include "ops/clear_view.h"
#include "ops/foreach/tensor_lists.h"

// One operation on each tensor of a list.

namespace drydock::ops::kernels {
namespace {

template <class Op>
Status each(KernelCall& call, Op op) {
  const std::vector<TensorView>& x = call.operand_list(0);
  const std::vector<TensorView>& out = call.output_list(0);
  DRYDOCK_RETURN_IF_ERROR(expect_lists(call, out, {&x}));
  return for_each_tensor(out, [&](size_t i) { return apply<1>(call, out[i], {as_tensor(x[i])}, Domain::kAny, op); });
}

template <class Op>
Status each_floating(KernelCall& call, Op op) {
  const std::vector<TensorView>& x = call.operand_list(0);
  const std::vector<TensorView>& out = call.output_list(0);
  DRYDOCK_RETURN_IF_ERROR(expect_lists(call, out, {&x}));
  return for_each_tensor(out, [&](size_t i) { return apply_floating<1>(call, out[i], {as_tensor(x[i])}, op); });
}

/// How foreach_round names its ways of rounding.
enum class RoundMode : int64_t {
  kNearest = 1,
  kFloor = 2,
  kCeil = 3,
  kAway = 4,
  kTruncate = 5,
  kOdd = 6,
  kFraction = 7
};

template <class C>
C rounded(C x, RoundMode mode) {
  switch (mode) {
    case RoundMode::kNearest: return std::nearbyint(x);
    case RoundMode::kFloor: return std::floor(x);
    case RoundMode::kCeil: return std::ceil(x);
    case RoundMode::kAway: return std::round(x);
    case RoundMode::kTruncate: return std::trunc(x);
    case RoundMode::kOdd: {
      const C below = std::floor(x);
      if (x - below != C(0.5)) return std::nearbyint(x);
      return std::fmod(below, C(2)) != C(0) ? below : below + C(1);
    }
    case RoundMode::kFraction: return x - std::trunc(x);
  }
  return x;
}

/// The norm of order p of all elements of a tensor, in fp64.
double norm_of(const TensorView& view, double p) {
  double total = 0;
  if (p == std::numeric_limits<double>::infinity()) {
    for_each_value<double>(view, [&](double x) { total = larger(std::abs(x), total); });
    return total;
  }
  if (p == -std::numeric_limits<double>::infinity()) {
    total = -p;
    for_each_value<double>(view, [&](double x) { total = smaller(std::abs(x), total); });
    return total;
  }
  if (p == 0) {
    for_each_value<double>(view, [&](double x) { total += x != 0 ? 1 : 0; });
    return total;
  }
  if (p == 1) {
    for_each_value<double>(view, [&](double x) { total += std::abs(x); });
    return total;
  }
  if (p == 2) {
    for_each_value<double>(view, [&](double x) { total += x * x; });
    return std::sqrt(total);
  }
  for_each_value<double>(view, [&](double x) { total += std::pow(std::abs(x), p); });
  return std::pow(total, 1 / p);
}

}  // namespace

#define DRYDOCK_FOREACH_FLOATING(name, expression)                                            \
  Status foreach_##name(KernelCall& call) {                                                   \
    return each_floating(call, []<class C>(C x) -> C { return static_cast<C>(expression); }); \
  }

DRYDOCK_FOREACH_FLOATING(acos, std::acos(x))
DRYDOCK_FOREACH_FLOATING(asin, std::asin(x))
DRYDOCK_FOREACH_FLOATING(atan, std::atan(x))
DRYDOCK_FOREACH_FLOATING(cos, std::cos(x))
DRYDOCK_FOREACH_FLOATING(cosh, std::cosh(x))
DRYDOCK_FOREACH_FLOATING(erf, vector_math::erf(x))
DRYDOCK_FOREACH_FLOATING(erfc, std::erfc(x))
DRYDOCK_FOREACH_FLOATING(exp, vector_math::exp(x))
DRYDOCK_FOREACH_FLOATING(expm1, vector_math::expm1(x))
DRYDOCK_FOREACH_FLOATING(log, vector_math::log(x))
DRYDOCK_FOREACH_FLOATING(log10, vector_math::log10(x))
DRYDOCK_FOREACH_FLOATING(log1p, vector_math::log1p(x))
DRYDOCK_FOREACH_FLOATING(log2, vector_math::log2(x))
DRYDOCK_FOREACH_FLOATING(reciprocal, C(1) / x)
DRYDOCK_FOREACH_FLOATING(sigmoid, vector_math::sigmoid(x))
DRYDOCK_FOREACH_FLOATING(sin, std::sin(x))
DRYDOCK_FOREACH_FLOATING(sinh, std::sinh(x))
DRYDOCK_FOREACH_FLOATING(sqrt, std::sqrt(x))
DRYDOCK_FOREACH_FLOATING(tan, std::tan(x))
DRYDOCK_FOREACH_FLOATING(tanh, vector_math::tanh(x))
#undef DRYDOCK_FOREACH_FLOATING

Status foreach_copy(KernelCall& call) {
  return each(call, []<class C>(C x) { return x; });
}
Status foreach_neg(KernelCall& call) {
  return each(call, []<class C>(C x) -> C {
    if constexpr (std::is_integral_v<C>)
      return wrapping_subtract<C>(0, x);
    else
      return -x;
  });
}
Status foreach_abs(KernelCall& call) {
  return each(call, []<class C>(C x) -> C {
    if constexpr (std::is_integral_v<C>)
      return x < 0 ? wrapping_subtract<C>(0, x) : x;
    else
      return std::abs(x);
  });
}
Status foreach_sign(KernelCall& call) {
  return each(call, []<class C>(C x) -> C { return static_cast<C>((x > C(0)) - (x < C(0))); });
}

/// Operand 0 names the mode; with any other number nothing is rounded.
Status foreach_round_off_number(KernelCall& call) {
  ListScalars mode;
  DRYDOCK_RETURN_IF_ERROR(mode.read_operand(call));
  const auto way = static_cast<RoundMode>(as_int64(mode.at(0)));
  return each(call, [way]<class C>(C x) -> C {
    if constexpr (std::is_integral_v<C>)
      return way == RoundMode::kFraction ? C(0) : x;
    else
      return rounded(x, way);
  });
}

/// The list is output and nothing else.
Status foreach_zero(KernelCall& call) {
  const std::vector<TensorView>& out = call.output_list(0);
  DRYDOCK_RETURN_IF_ERROR(expect_lists(call, out, {}));
  for (const TensorView& view : out) clear_view(view);
  return Status::ok();
}

/// Operand 0: the order, 2 if it is null.
Status foreach_norm(KernelCall& call) {
  const std::vector<TensorView>& x = call.operand_list(0);
  const std::vector<TensorView>& out = call.output_list(0);
  DRYDOCK_RETURN_IF_ERROR(expect_lists(call, out, {&x}));
  const double order = scalar_or(call, 0, 2.0);
  for (const TensorView& view : out) {
    if (view.numel() != 1) return invalid(call, "each norm must have one element");
  }
  return for_each_tensor(x, [&](size_t i) {
    set_value<double>(out[i], norm_of(x[i], order));
    return Status::ok();
  });
}

}  // namespace drydock::ops::kernels
