#include "ops/complex/complex.h"

#include <cmath>

#include "ops/kernel_call.h"

namespace drydock::ops::kernels {
namespace {

template <class Op>
Status unary(KernelCall& call, const Op& op) {
  return apply_complex<1>(call, op);
}

template <class Op>
Status binary(KernelCall& call, const Op& op) {
  return apply_complex<2>(call, op);
}

Complex truth(bool value) { return value ? 1.0 : 0.0; }

}  // namespace

bool has_complex(const KernelCall& call) noexcept {
  for (int index = 0; index < call.operand_count(); ++index) {
    if (call.operand(index).defined && is_complex_type(call.operand(index).dtype)) return true;
  }
  for (int index = 0; index < call.output_count(); ++index) {
    if (call.output(index).defined && is_complex_type(call.output(index).dtype)) return true;
  }
  return false;
}

Status expect_complex(const KernelCall& call, int operands, int outputs) {
  DRYDOCK_RETURN_IF_ERROR(expect_defined(call, operands, outputs));
  for (int index = 0; index < operands + outputs; ++index) {
    const TensorView& view = index < operands ? call.operand(index) : call.output(index - operands);
    if (!is_complex_or_real(view.dtype)) {
      return not_computed(call, "elements of type " + std::string(name_of(view.dtype)) + " are not computed");
    }
  }
  return Status::ok();
}

Complex complex_factor(const KernelCall& call, int operand) {
  if (operand >= call.operand_count() || !call.operand(operand).defined) return 1.0;
  return is_complex_or_real(call.operand(operand).dtype) ? as_value<Complex>(call.operand(operand)) : Complex(1.0);
}

Status complex_add(KernelCall& call) {
  const Complex alpha = complex_factor(call, 2);
  return binary(call, [alpha](Complex a, Complex b) { return a + alpha * b; });
}

Status complex_subtract(KernelCall& call) {
  const Complex alpha = complex_factor(call, 2);
  return binary(call, [alpha](Complex a, Complex b) { return a - alpha * b; });
}

Status complex_reverse_subtract(KernelCall& call) {
  const Complex alpha = complex_factor(call, 2);
  return binary(call, [alpha](Complex a, Complex b) { return b - alpha * a; });
}

Status complex_multiply(KernelCall& call) {
  return binary(call, [](Complex a, Complex b) { return a * b; });
}

Status complex_divide(KernelCall& call) {
  return binary(call, [](Complex a, Complex b) { return a / b; });
}

Status complex_power(KernelCall& call) {
  return binary(call, [](Complex base, Complex exponent) -> Complex {
    if (exponent == 0.0) return 1.0;
    if (exponent == 1.0) return base;
    if (exponent == 2.0) return base * base;
    if (exponent == 3.0) return base * base * base;
    if (exponent == 0.5) return std::sqrt(base);
    if (exponent == -1.0) return 1.0 / base;
    return std::pow(base, exponent);
  });
}

Status complex_equal(KernelCall& call) {
  return binary(call, [](Complex a, Complex b) { return truth(a == b); });
}
Status complex_not_equal(KernelCall& call) {
  return binary(call, [](Complex a, Complex b) { return truth(a != b); });
}
Status complex_logical_and(KernelCall& call) {
  return binary(call, [](Complex a, Complex b) { return truth(a != 0.0 && b != 0.0); });
}
Status complex_logical_or(KernelCall& call) {
  return binary(call, [](Complex a, Complex b) { return truth(a != 0.0 || b != 0.0); });
}
Status complex_logical_xor(KernelCall& call) {
  return binary(call, [](Complex a, Complex b) { return truth((a != 0.0) != (b != 0.0)); });
}
Status complex_logical_not(KernelCall& call) {
  return unary(call, [](Complex z) { return truth(z == 0.0); });
}

Status complex_where(KernelCall& call) {
  return apply_complex<3>(call, [](Complex condition, Complex a, Complex b) { return condition != 0.0 ? a : b; });
}

Status complex_negate(KernelCall& call) {
  return unary(call, [](Complex z) { return -z; });
}
Status complex_absolute(KernelCall& call) {
  return unary(call, [](Complex z) { return Complex(std::abs(z)); });
}
Status complex_sign(KernelCall& call) {
  return unary(call, [](Complex z) { return z == 0.0 ? Complex(0.0) : z / std::abs(z); });
}
Status complex_reciprocal(KernelCall& call) {
  return unary(call, [](Complex z) { return 1.0 / z; });
}
Status complex_sqrt(KernelCall& call) {
  return unary(call, [](Complex z) { return std::sqrt(z); });
}
Status complex_rsqrt(KernelCall& call) {
  return unary(call, [](Complex z) { return 1.0 / std::sqrt(z); });
}
Status complex_exp(KernelCall& call) {
  return unary(call, [](Complex z) { return std::exp(z); });
}
Status complex_log(KernelCall& call) {
  return unary(call, [](Complex z) { return std::log(z); });
}
Status complex_log2(KernelCall& call) {
  return unary(call, [](Complex z) { return std::log(z) * 1.4426950408889634; });
}
Status complex_log10(KernelCall& call) {
  return unary(call, [](Complex z) { return std::log(z) * 0.43429448190325183; });
}
Status complex_sin(KernelCall& call) {
  return unary(call, [](Complex z) { return std::sin(z); });
}
Status complex_cos(KernelCall& call) {
  return unary(call, [](Complex z) { return std::cos(z); });
}
Status complex_tan(KernelCall& call) {
  return unary(call, [](Complex z) { return std::tan(z); });
}
Status complex_sinh(KernelCall& call) {
  return unary(call, [](Complex z) { return std::sinh(z); });
}
Status complex_cosh(KernelCall& call) {
  return unary(call, [](Complex z) { return std::cosh(z); });
}
Status complex_tanh(KernelCall& call) {
  return unary(call, [](Complex z) { return std::tanh(z); });
}
Status complex_asinh(KernelCall& call) {
  return unary(call, [](Complex z) { return std::asinh(z); });
}
Status complex_acosh(KernelCall& call) {
  return unary(call, [](Complex z) { return std::acosh(z); });
}
Status complex_atanh(KernelCall& call) {
  return unary(call, [](Complex z) { return std::atanh(z); });
}
Status complex_sigmoid(KernelCall& call) {
  return unary(call, [](Complex z) { return 1.0 / (1.0 + std::exp(-z)); });
}

/// Complex numbers of real and imaginary parts.
Status make_complex(KernelCall& call) {
  return binary(call, [](Complex real, Complex imaginary) { return Complex(real.real(), imaginary.real()); });
}

/// Complex numbers of magnitudes and angles.
Status polar(KernelCall& call) {
  return binary(call, [](Complex magnitude, Complex angle) {
    return Complex(magnitude.real() * std::cos(angle.real()), magnitude.real() * std::sin(angle.real()));
  });
}

/// The angle of a number; of a real one 0, pi or NaN.
Status angle(KernelCall& call) {
  if (has_complex(call)) {
    return unary(call, [](Complex z) { return Complex(std::arg(z)); });
  }
  return unary(call, [](Complex z) {
    const double x = z.real();
    return Complex(std::isnan(x) ? x : x < 0 ? 3.141592653589793 : 0.0);
  });
}

}  // namespace drydock::ops::kernels
