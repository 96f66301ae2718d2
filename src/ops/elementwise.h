#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "ops/kernel_access.h"

// Kernels that work element by element: what is common to all of them. An operation is a functor with a template over
// the compute type; here are the choice of the compute type and the walk.

namespace drydock::ops::kernels {

/// How an operation treats the types of its operands.
enum class Domain : uint8_t {
  kAny,       ///< computes in the promoted type; scalars keep their precision next to low-precision tensors
  kFloating,  ///< the same, but integers compute (and mean) fp32
  kCompared,  ///< as kAny, but every operand is first rounded to the promoted type, as comparisons do
};

template <size_t N>
struct Evaluation {
  ComputeType compute;
  std::array<const TensorView*, N> views;
  std::array<DataType, N> rounds;
};

/// Chooses compute type and roundings for an operation on `operands` that writes elements of type `out`.
template <size_t N>
Evaluation<N> evaluation_of(const std::array<Operand, N>& operands, DataType out, Domain domain) {
  DataType promoted = result_type(operands);
  Evaluation<N> evaluation{};
  if (domain == Domain::kFloating && !is_floating(promoted)) {
    promoted = out == DataType::kDouble ? DataType::kDouble : DataType::kFloat;
  }
  evaluation.compute = compute_type_of(promoted);
  const bool low_precision = promoted == DataType::kFloat16 || promoted == DataType::kBFloat16;
  const bool compared = domain == Domain::kCompared;
  for (size_t i = 0; i < N; ++i) {
    evaluation.views[i] = operands[i].view;
    evaluation.rounds[i] = DataType::kUndefined;
    if (operands[i].view->dtype == promoted) continue;
    const bool keeps_precision = operands[i].is_scalar && is_floating(promoted) && !compared;
    const bool rounds = is_floating(promoted) ? low_precision : bits_of(promoted) < 64;
    if (rounds && !keeps_precision) evaluation.rounds[i] = promoted;
  }
  return evaluation;
}

Status shapes_do_not_fit(const KernelCall& call);

/// out = op(operands...). `op` is called with N values of one compute type.
template <size_t N, class Op>
Status apply(const KernelCall& call, const TensorView& out, const std::array<Operand, N>& operands, Domain domain,
             Op op) {
  const Evaluation<N> evaluation = evaluation_of<N>(operands, out.dtype, domain);
  const auto run = [&]<class C>() {
    return map_elements<C, N>(out, evaluation.views, evaluation.rounds, op) ? Status::ok() : shapes_do_not_fit(call);
  };
  return domain == Domain::kFloating ? with_floating_type(evaluation.compute, run)
                                     : with_compute_type(evaluation.compute, run);
}

/// output(0) = op(operand(0), ... operand(N-1)).
template <size_t N, class Op>
Status apply(KernelCall& call, Domain domain, Op op) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, static_cast<int>(N), 1));
  std::array<Operand, N> operands;
  for (size_t i = 0; i < N; ++i) operands[i] = operand_of(call, static_cast<int>(i));
  return apply<N>(call, call.output(0), operands, domain, op);
}

/// Like apply with a known floating domain: `op` is compiled for fp32 and fp64 alone.
template <size_t N, class Op>
Status apply_floating(const KernelCall& call, const TensorView& out, const std::array<Operand, N>& operands, Op op) {
  const Evaluation<N> evaluation = evaluation_of<N>(operands, out.dtype, Domain::kFloating);
  return with_floating_type(evaluation.compute, [&]<class C>() {
    return map_elements<C, N>(out, evaluation.views, evaluation.rounds, op) ? Status::ok() : shapes_do_not_fit(call);
  });
}

template <size_t N, class Op>
Status apply_floating(KernelCall& call, Op op) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, static_cast<int>(N), 1));
  std::array<Operand, N> operands;
  for (size_t i = 0; i < N; ++i) operands[i] = operand_of(call, static_cast<int>(i));
  return apply_floating<N>(call, call.output(0), operands, op);
}

/// A scalar operand that may be null: its value, or `otherwise`.
double scalar_or(const KernelCall& call, int operand, double otherwise);

// Arithmetic that wraps for integers instead of being undefined.

template <class C>
C wrapping_add(C a, C b) {
  if constexpr (std::is_integral_v<C>)
    return static_cast<C>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  else
    return a + b;
}
template <class C>
C wrapping_subtract(C a, C b) {
  if constexpr (std::is_integral_v<C>)
    return static_cast<C>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
  else
    return a - b;
}
template <class C>
C wrapping_multiply(C a, C b) {
  if constexpr (std::is_integral_v<C>)
    return static_cast<C>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
  else
    return a * b;
}

/// True for NaN; integers have none.
template <class C>
bool is_nan(C value) {
  if constexpr (std::is_floating_point_v<C>)
    return std::isnan(value);
  else
    return false;
}

/// The larger value; NaN wins. (One condition without a branch: loops over it vectorise.)
template <class C>
C larger(C a, C b) {
  return static_cast<int>(is_nan(a)) | static_cast<int>(a > b) ? a : b;
}
/// The smaller value; NaN wins.
template <class C>
C smaller(C a, C b) {
  return static_cast<int>(is_nan(a)) | static_cast<int>(a < b) ? a : b;
}

/// Quotient rounded toward minus infinity. Division of an integer by 0 is 0 here; PyTorch raises on a CPU, a device
/// gives what it gives.
template <class C>
C floor_quotient(C a, C b);
/// Remainder with the sign of the divisor, and with the sign of the dividend.
template <class C>
C floor_remainder(C a, C b);
template <class C>
C truncated_remainder(C a, C b);
template <class C>
C power(C base, C exponent);

}  // namespace drydock::ops::kernels
