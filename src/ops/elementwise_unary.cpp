#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "base/vector_math.h"
#include "ops/complex/complex.h"
#include "ops/elementwise.h"
#include "ops/kernel_call.h"

// Functions of one element. The floating ones compute integers in fp32.

namespace drydock::ops::kernels {
namespace {

template <class Op>
Status any(KernelCall& call, Op op) {
  return apply<1>(call, Domain::kAny, op);
}

/// The fp32 form is right in a range alone.
struct Sine {
  static bool in_range(float x) { return std::abs(x) <= vector_math::kMostAngle; }
  static float exact(float x) { return std::sin(x); }
  float operator()(float x) const { return vector_math::sin_in_range(x); }
  double operator()(double x) const { return std::sin(x); }
};
struct Cosine {
  static bool in_range(float x) { return std::abs(x) <= vector_math::kMostAngle; }
  static float exact(float x) { return std::cos(x); }
  float operator()(float x) const { return vector_math::cos_in_range(x); }
  double operator()(double x) const { return std::cos(x); }
};

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
  if (has_complex(call)) return complex_negate(call);
  return any(call, []<class C>(C value) -> C {
    if constexpr (std::is_integral_v<C>)
      return wrapping_subtract<C>(0, value);
    else
      return -value;
  });
}

Status absolute(KernelCall& call) {
  if (has_complex(call)) return complex_absolute(call);
  return any(call, []<class C>(C value) -> C {
    if constexpr (std::is_integral_v<C>)
      return value < 0 ? wrapping_subtract<C>(0, value) : value;
    else
      return std::abs(value);
  });
}

Status sign(KernelCall& call) {
  if (has_complex(call)) return complex_sign(call);
  return any(call, []<class C>(C value) -> C {
    return value > C(0) ? C(1) : value < C(0) ? static_cast<C>(-1) : C(0);  // NaN is 0
  });
}

Status relu(KernelCall& call) {
  return any(call, []<class C>(C value) { return larger(value, C(0)); });
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
  const int64_t decimals = std::clamp<int64_t>(call.integer(0), -400, 400);  // beyond, all is 0 or infinite
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
// The same for functions of complex numbers too.
#define DRYDOCK_COMPLEX_KERNEL(name, expression)                                     \
  Status name(KernelCall& call) {                                                    \
    if (has_complex(call)) return complex_##name(call);                              \
    return apply_floating<1>(call, []<class C>(C x) -> C { return C(expression); }); \
  }

DRYDOCK_COMPLEX_KERNEL(sqrt, std::sqrt(x))
DRYDOCK_COMPLEX_KERNEL(rsqrt, C(1) / std::sqrt(x))
DRYDOCK_COMPLEX_KERNEL(reciprocal, C(1) / x)
DRYDOCK_COMPLEX_KERNEL(exp, vector_math::exp(x))
DRYDOCK_FLOATING_KERNEL(exp2, vector_math::exp2(x))
DRYDOCK_FLOATING_KERNEL(expm1, vector_math::expm1(x))
DRYDOCK_COMPLEX_KERNEL(log, vector_math::log(x))
DRYDOCK_COMPLEX_KERNEL(log2, vector_math::log2(x))
DRYDOCK_COMPLEX_KERNEL(log10, vector_math::log10(x))
DRYDOCK_FLOATING_KERNEL(log1p, vector_math::log1p(x))
DRYDOCK_COMPLEX_KERNEL(tan, std::tan(x))
DRYDOCK_FLOATING_KERNEL(asin, std::asin(x))
DRYDOCK_FLOATING_KERNEL(acos, std::acos(x))
DRYDOCK_FLOATING_KERNEL(atan, std::atan(x))
DRYDOCK_COMPLEX_KERNEL(sinh, std::sinh(x))
DRYDOCK_COMPLEX_KERNEL(cosh, std::cosh(x))
DRYDOCK_COMPLEX_KERNEL(tanh, vector_math::tanh(x))
DRYDOCK_COMPLEX_KERNEL(asinh, std::asinh(x))
DRYDOCK_COMPLEX_KERNEL(acosh, std::acosh(x))
DRYDOCK_COMPLEX_KERNEL(atanh, std::atanh(x))
DRYDOCK_FLOATING_KERNEL(erf, vector_math::erf(x))
DRYDOCK_FLOATING_KERNEL(erfc, std::erfc(x))
DRYDOCK_FLOATING_KERNEL(sinc, x == C(0) ? C(1) : std::sin(std::numbers::pi_v<C> * x) / (std::numbers::pi_v<C> * x))
#undef DRYDOCK_FLOATING_KERNEL
#undef DRYDOCK_COMPLEX_KERNEL

Status sin(KernelCall& call) {
  if (has_complex(call)) return complex_sin(call);
  return apply_floating<1>(call, Sine());
}
Status cos(KernelCall& call) {
  if (has_complex(call)) return complex_cos(call);
  return apply_floating<1>(call, Cosine());
}

namespace {

/// Inverse of the error function: an estimate (Winitzki's formula, within 0.2 %), then Newton steps with the function
/// itself, which double the right digits each time.
double inverse_erf(double y) {
  if (std::isnan(y) || y < -1 || y > 1) return std::numeric_limits<double>::quiet_NaN();
  if (std::abs(y) == 1) return std::copysign(std::numeric_limits<double>::infinity(), y);
  constexpr double kShape = 0.147;
  const double log_term = std::log1p(-y * y);
  const double half = 2 / (std::numbers::pi * kShape) + log_term / 2;
  double x = std::copysign(std::sqrt(std::max(0.0, std::sqrt(half * half - log_term / kShape) - half)), y);
  for (int step = 0; step < 3; ++step) {
    // Near the ends the complement keeps the digits that 1 - erf would lose.
    const double error = std::abs(y) > 0.5
                             ? std::copysign(1 - std::abs(y), y) - std::copysign(std::erfc(std::abs(x)), y)
                             : y - std::erf(x);
    const double sign = std::abs(y) > 0.5 ? -1 : 1;
    x += sign * error * (std::sqrt(std::numbers::pi) / 2) * std::exp(x * x);
  }
  return x;
}

}  // namespace

Status erfinv(KernelCall& call) {
  return apply_floating<1>(call, []<class C>(C y) -> C { return static_cast<C>(inverse_erf(static_cast<double>(y))); });
}

}  // namespace drydock::ops::kernels
