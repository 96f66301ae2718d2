#include "ops/foreach/tensor_lists.h"

// Two lists, or a list and scalars, worked on element by element.

namespace drydock::ops::kernels {
namespace {

/// `op` computes integers as integers, or (kFloating) as fp32.
template <class Op>
Status each_with(KernelCall& call, const ListScalars& scalars, Domain domain, Op op) {
  const std::vector<TensorView>& x = call.operand_list(0);
  const std::vector<TensorView>& out = call.output_list(0);
  return for_each_tensor(out, [&](size_t i) {
    return apply<2>(call, out[i], {as_tensor(x[i]), as_scalar(scalars.at(i))}, domain, op);
  });
}

/// The scalar comes as aclScalar, or (the older form) as a tensor of one element.
template <class Op>
Status each_with_scalar(KernelCall& call, Domain domain, Op op) {
  ListScalars scalars;
  DRYDOCK_RETURN_IF_ERROR(scalars.read_operand(call));
  DRYDOCK_RETURN_IF_ERROR(expect_lists(call, call.output_list(0), {&call.operand_list(0)}));
  return each_with(call, scalars, domain, op);
}

template <class Op>
Status each_with_scalar_list(KernelCall& call, Domain domain, Op op) {
  ListScalars scalars;
  DRYDOCK_RETURN_IF_ERROR(expect_lists(call, call.output_list(0), {&call.operand_list(0)}));
  DRYDOCK_RETURN_IF_ERROR(scalars.read_list(call, call.output_list(0).size()));
  return each_with(call, scalars, domain, op);
}

template <class Op>
Status each_pair(KernelCall& call, Domain domain, Op op) {
  const std::vector<TensorView>& a = call.operand_list(0);
  const std::vector<TensorView>& b = call.operand_list(1);
  const std::vector<TensorView>& out = call.output_list(0);
  DRYDOCK_RETURN_IF_ERROR(expect_lists(call, out, {&a, &b}));
  return for_each_tensor(out, [&](size_t i) {
    return apply<2>(call, out[i], {as_tensor(a[i]), as_tensor(b[i])}, domain, op);
  });
}

/// a + sign * alpha * b, where alpha is 1 if there is none. Integers stay integers.
Status each_sum(KernelCall& call, bool subtract) {
  ListScalars alpha;
  if (call.operand_count() > 0 && call.operand(0).defined) DRYDOCK_RETURN_IF_ERROR(alpha.read_operand(call));
  const double floating = scalar_or(call, 0, 1.0) * (subtract ? -1 : 1);
  const int64_t whole = call.operand_count() > 0 && call.operand(0).defined ? as_int64(alpha.at(0)) : 1;
  const int64_t integral = subtract ? wrapping_subtract<int64_t>(0, whole) : whole;
  return each_pair(call, Domain::kAny, [=]<class C>(C a, C b) -> C {
    if constexpr (std::is_integral_v<C>)
      return wrapping_add(a, wrapping_multiply(static_cast<C>(integral), b));
    else
      return a + static_cast<C>(floating) * b;
  });
}

constexpr auto kAdd = []<class C>(C a, C b) { return wrapping_add(a, b); };
constexpr auto kSubtract = []<class C>(C a, C b) { return wrapping_subtract(a, b); };
constexpr auto kMultiply = []<class C>(C a, C b) { return wrapping_multiply(a, b); };
constexpr auto kDivide = []<class C>(C a, C b) -> C {
  if constexpr (std::is_integral_v<C>)
    return floor_quotient(a, b);
  else
    return a / b;
};
constexpr auto kLarger = []<class C>(C a, C b) { return larger(a, b); };
constexpr auto kSmaller = []<class C>(C a, C b) { return smaller(a, b); };
constexpr auto kPower = []<class C>(C a, C b) { return power(a, b); };

}  // namespace

Status foreach_add_list(KernelCall& call) { return each_sum(call, false); }
Status foreach_sub_list(KernelCall& call) { return each_sum(call, true); }
Status foreach_mul_list(KernelCall& call) { return each_pair(call, Domain::kAny, kMultiply); }
Status foreach_div_list(KernelCall& call) { return each_pair(call, Domain::kFloating, kDivide); }
Status foreach_maximum_list(KernelCall& call) { return each_pair(call, Domain::kAny, kLarger); }
Status foreach_minimum_list(KernelCall& call) { return each_pair(call, Domain::kAny, kSmaller); }
Status foreach_pow_list(KernelCall& call) { return each_pair(call, Domain::kAny, kPower); }

Status foreach_add_scalar(KernelCall& call) { return each_with_scalar(call, Domain::kAny, kAdd); }
Status foreach_sub_scalar(KernelCall& call) { return each_with_scalar(call, Domain::kAny, kSubtract); }
Status foreach_mul_scalar(KernelCall& call) { return each_with_scalar(call, Domain::kAny, kMultiply); }
Status foreach_div_scalar(KernelCall& call) { return each_with_scalar(call, Domain::kFloating, kDivide); }
Status foreach_maximum_scalar(KernelCall& call) { return each_with_scalar(call, Domain::kAny, kLarger); }
Status foreach_minimum_scalar(KernelCall& call) { return each_with_scalar(call, Domain::kAny, kSmaller); }
Status foreach_pow_scalar(KernelCall& call) { return each_with_scalar(call, Domain::kAny, kPower); }
/// The scalar is the base.
Status foreach_pow_scalar_and_tensor(KernelCall& call) {
  return each_with_scalar(call, Domain::kAny, []<class C>(C exponent, C base) { return power(base, exponent); });
}

Status foreach_add_scalar_list(KernelCall& call) { return each_with_scalar_list(call, Domain::kAny, kAdd); }
Status foreach_sub_scalar_list(KernelCall& call) { return each_with_scalar_list(call, Domain::kAny, kSubtract); }
Status foreach_mul_scalar_list(KernelCall& call) { return each_with_scalar_list(call, Domain::kAny, kMultiply); }
Status foreach_div_scalar_list(KernelCall& call) { return each_with_scalar_list(call, Domain::kFloating, kDivide); }
Status foreach_maximum_scalar_list(KernelCall& call) { return each_with_scalar_list(call, Domain::kAny, kLarger); }
Status foreach_minimum_scalar_list(KernelCall& call) { return each_with_scalar_list(call, Domain::kAny, kSmaller); }
Status foreach_pow_scalar_list(KernelCall& call) { return each_with_scalar_list(call, Domain::kAny, kPower); }

}  // namespace drydock::ops::kernels
