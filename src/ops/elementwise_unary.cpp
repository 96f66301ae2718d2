#include <cmath>
#include <limits>
#include <numbers>

#include "ops/elementwise.h"
#include "ops/kernels.h"

// Functions of one element. The floating ones compute integers in fp32.

namespace drydock::ops::kernels {
namespace {

template <class Op>
Status any(KernelCall& call, Op op) {
  return apply<1>(call, Domain::kAny, op);
}

/// Functions that leave integers as they are.
template <class Op>
Status rounding(KernelCall& call, Op op) {
  return any(call, [op]<class C>(C value) -> C {
    if constexpr (std::is_floating_point_v<C>)
      return op(value);
    else
      return value;
  });
}

}  // namespace

Status negate(KernelCall& call) {
  return any(call, []<class C>(C value) -> C {
    if constexpr (std::is_integral_v<C>)
      return wrapping_subtract<C>(0, value);
    else
      return -value;
  });
}

Status absolute(KernelCall& call) {
  return any(call, []<class C>(C value) -> C {
    if constexpr (std::is_integral_v<C>)
      return value < 0 ? wrapping_subtract<C>(0, value) : value;
    else
      return std::abs(value);
  });
}

Status sign(KernelCall& call) {
  return any(call, []<class C>(C value) -> C {
    return value > C(0) ? C(1) : value < C(0) ? static_cast<C>(-1) : C(0);  // NaN is 0
  });
}

Status relu(KernelCall& call) {
  return any(call, []<class C>(C value) -> C { return is_nan(value) || value > C(0) ? value : C(0); });
}

Status ceil(KernelCall& call) {
  return rounding(call, [](auto value) { return std::ceil(value); });
}
Status floor(KernelCall& call) {
  return rounding(call, [](auto value) { return std::floor(value); });
}
Status trunc(KernelCall& call) {
  return rounding(call, [](auto value) { return std::trunc(value); });
}
/// Halves go to the even neighbour (the default rounding mode).
Status round(KernelCall& call) {
  return rounding(call, [](auto value) { return std::nearbyint(value); });
}
Status frac(KernelCall& call) {
  return any(call, []<class C>(C value) -> C {
    if constexpr (std::is_floating_point_v<C>)
      return value - std::trunc(value);
    else
      return C(0);
  });
}

Status round_decimals(KernelCall& call) {
  const int64_t decimals = call.integer(0);
  return rounding(call, [decimals]<class C>(C value) -> C {
    if (decimals == 0) return std::nearbyint(value);
    const C ten = std::pow(C(10), static_cast<C>(std::abs(decimals)));
    return decimals > 0 ? std::nearbyint(value * ten) / ten : std::nearbyint(value / ten) * ten;
  });
}

Status nan_to_num(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 1, 1));
  const double nan = call.number(0);
  const double positive = call.number(1);
  const double negative = call.number(2);
  return rounding(call, [=]<class C>(C value) -> C {
    if (std::isnan(value)) return static_cast<C>(nan);
    if (std::isinf(value)) return static_cast<C>(value > 0 ? positive : negative);
    return value;
  });
}

#define DRYDOCK_FLOATING_KERNEL(name, expression)                                    \
  Status name(KernelCall& call) {                                                    \
    return apply_floating<1>(call, []<class C>(C x) -> C { return C(expression); }); \
  }

DRYDOCK_FLOATING_KERNEL(sqrt, std::sqrt(x))
DRYDOCK_FLOATING_KERNEL(rsqrt, C(1) / std::sqrt(x))
DRYDOCK_FLOATING_KERNEL(reciprocal, C(1) / x)
DRYDOCK_FLOATING_KERNEL(exp, std::exp(x))
DRYDOCK_FLOATING_KERNEL(exp2, std::exp2(x))
DRYDOCK_FLOATING_KERNEL(expm1, std::expm1(x))
DRYDOCK_FLOATING_KERNEL(log, std::log(x))
DRYDOCK_FLOATING_KERNEL(log2, std::log2(x))
DRYDOCK_FLOATING_KERNEL(log10, std::log10(x))
DRYDOCK_FLOATING_KERNEL(log1p, std::log1p(x))
DRYDOCK_FLOATING_KERNEL(sin, std::sin(x))
DRYDOCK_FLOATING_KERNEL(cos, std::cos(x))
DRYDOCK_FLOATING_KERNEL(tan, std::tan(x))
DRYDOCK_FLOATING_KERNEL(asin, std::asin(x))
DRYDOCK_FLOATING_KERNEL(acos, std::acos(x))
DRYDOCK_FLOATING_KERNEL(atan, std::atan(x))
DRYDOCK_FLOATING_KERNEL(sinh, std::sinh(x))
DRYDOCK_FLOATING_KERNEL(cosh, std::cosh(x))
DRYDOCK_FLOATING_KERNEL(tanh, std::tanh(x))
DRYDOCK_FLOATING_KERNEL(asinh, std::asinh(x))
DRYDOCK_FLOATING_KERNEL(acosh, std::acosh(x))
DRYDOCK_FLOATING_KERNEL(atanh, std::atanh(x))
DRYDOCK_FLOATING_KERNEL(erf, std::erf(x))
DRYDOCK_FLOATING_KERNEL(erfc, std::erfc(x))
DRYDOCK_FLOATING_KERNEL(sinc, x == C(0) ? C(1) : std::sin(std::numbers::pi_v<C> * x) / (std::numbers::pi_v<C> * x))
DRYDOCK_FLOATING_KERNEL(sigmoid, C(1) / (C(1) + std::exp(-x)))
DRYDOCK_FLOATING_KERNEL(silu, x / (C(1) + std::exp(-x)))
DRYDOCK_FLOATING_KERNEL(mish, x* std::tanh(std::log1p(std::exp(x))))
DRYDOCK_FLOATING_KERNEL(log_sigmoid, std::min(x, C(0)) - std::log1p(std::exp(-std::abs(x))))
DRYDOCK_FLOATING_KERNEL(hardsigmoid, std::min(std::max(x + C(3), C(0)), C(6)) / C(6))
DRYDOCK_FLOATING_KERNEL(hardswish, x* std::min(std::max(x + C(3), C(0)), C(6)) / C(6))
#undef DRYDOCK_FLOATING_KERNEL

/// The second output is what the backward operator wants; where it is as large as the first, it takes exp(-|x|).
Status log_sigmoid_forward(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(log_sigmoid(call));
  if (call.output_count() < 2 || !call.output(1).defined || !is_real_element(call.output(1).dtype) ||
      !(call.output(1).dims == call.output(0).dims)) {
    return Status::ok();
  }
  return apply_floating<1>(call, call.output(1), {operand_of(call, 0)},
                           []<class C>(C x) -> C { return std::exp(-std::abs(x)); });
}

/// The vendor's manual defines the plain operator by the tanh formula too.
Status gelu(KernelCall& call) {
  return apply_floating<1>(call, []<class C>(C x) -> C {
    const C inner = C(std::numbers::sqrt2 * std::numbers::inv_sqrtpi) * (x + C(0.044715) * x * x * x);
    return C(0.5) * x * (C(1) + std::tanh(inner));
  });
}

Status gelu_with_approximation(KernelCall& call) {
  if (call.integer(0) != 0) return gelu(call);
  return apply_floating<1>(
      call, []<class C>(C x) -> C { return x * C(0.5) * (C(1) + std::erf(x * C(std::numbers::sqrt2 / 2))); });
}

Status leaky_relu(KernelCall& call) {
  return apply_floating<2>(call, []<class C>(C x, C slope) -> C { return x > 0 ? x : x * slope; });
}

Status elu(KernelCall& call) {
  return apply_floating<4>(call, []<class C>(C x, C alpha, C scale, C input_scale) -> C {
    return x > 0 ? x * scale : std::expm1(x * input_scale) * alpha * scale;
  });
}

Status celu(KernelCall& call) {
  return apply_floating<2>(call, []<class C>(C x, C alpha) -> C { return x > 0 ? x : alpha * std::expm1(x / alpha); });
}

Status softplus(KernelCall& call) {
  return apply_floating<3>(call, []<class C>(C x, C beta, C threshold) -> C {
    return x * beta > threshold ? x : std::log1p(std::exp(x * beta)) / beta;
  });
}

Status softshrink(KernelCall& call) {
  return apply_floating<2>(call, []<class C>(C x, C lambda) -> C {
    if (std::isnan(x)) return x;
    return x > lambda ? x - lambda : x < -lambda ? x + lambda : C(0);
  });
}

Status hardshrink(KernelCall& call) {
  return apply_floating<2>(call, []<class C>(C x, C lambda) -> C { return x >= -lambda && x <= lambda ? C(0) : x; });
}

Status threshold(KernelCall& call) {
  return apply<3>(call, Domain::kAny, []<class C>(C x, C limit, C value) -> C { return x <= limit ? value : x; });
}

}  // namespace drydock::ops::kernels
