#pragma once

#include <array>
#include <complex>
#include <cstddef>

#include "ops/elementwise.h"
#include "ops/kernel_access.h"

// Complex elements. Operators that take them compute in complex fp64 and round once, to the type of the output; a real
// output takes the real part.

namespace drydock::ops::kernels {

using Complex = std::complex<double>;

/// True for pairs of fp16, fp32 or fp64.
constexpr bool is_complex_type(DataType type) noexcept {
  return type == DataType::kComplex32 || type == DataType::kComplex64 || type == DataType::kComplex128;
}

inline bool is_complex_or_real(DataType type) noexcept { return is_complex_type(type) || is_real_element(type); }

// Conversions of complex values take and give complex elements and real ones.
template <>
Loader<Complex> loader_of<Complex>(DataType type) noexcept;
template <>
Storer<Complex> storer_of<Complex>(DataType type) noexcept;
template <>
void round_through<Complex>(DataType type, Complex* values, int64_t count) noexcept;

/// True if any operand or output is complex, so that the call is one for the kernels below.
bool has_complex(const KernelCall& call) noexcept;

/// As expect() (kernel_access.h), with complex types allowed.
Status expect_complex(const KernelCall& call, int operands, int outputs);

/// output(0) = op(operand(0), ... operand(N-1)) in complex numbers.
template <size_t N, class Op>
Status apply_complex(KernelCall& call, const Op& op) {
  DRYDOCK_RETURN_IF_ERROR(expect_complex(call, static_cast<int>(N), 1));
  std::array<const TensorView*, N> operands{};
  std::array<DataType, N> rounds{};
  for (size_t i = 0; i < N; ++i) {
    operands[i] = &call.operand(static_cast<int>(i));
    rounds[i] = DataType::kUndefined;
  }
  return map_elements<Complex, N>(call.output(0), operands, rounds, op) ? Status::ok() : shapes_do_not_fit(call);
}

/// A scalar operand; 1 if it is null.
Complex complex_factor(const KernelCall& call, int operand);

// The complex forms of kernels elsewhere, which call them where has_complex().

Status complex_add(KernelCall& call);
Status complex_subtract(KernelCall& call);
Status complex_reverse_subtract(KernelCall& call);
Status complex_multiply(KernelCall& call);
Status complex_divide(KernelCall& call);
Status complex_power(KernelCall& call);
Status complex_equal(KernelCall& call);
Status complex_not_equal(KernelCall& call);
Status complex_logical_and(KernelCall& call);
Status complex_logical_or(KernelCall& call);
Status complex_logical_xor(KernelCall& call);
Status complex_logical_not(KernelCall& call);
Status complex_where(KernelCall& call);
Status complex_negate(KernelCall& call);
Status complex_absolute(KernelCall& call);
Status complex_sign(KernelCall& call);
Status complex_reciprocal(KernelCall& call);
Status complex_sqrt(KernelCall& call);
Status complex_rsqrt(KernelCall& call);
Status complex_exp(KernelCall& call);
Status complex_log(KernelCall& call);
Status complex_log2(KernelCall& call);
Status complex_log10(KernelCall& call);
Status complex_sin(KernelCall& call);
Status complex_cos(KernelCall& call);
Status complex_tan(KernelCall& call);
Status complex_sinh(KernelCall& call);
Status complex_cosh(KernelCall& call);
Status complex_tanh(KernelCall& call);
Status complex_asinh(KernelCall& call);
Status complex_acosh(KernelCall& call);
Status complex_atanh(KernelCall& call);
Status complex_sigmoid(KernelCall& call);

}  // namespace drydock::ops::kernels
