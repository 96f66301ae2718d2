#include <cmath>

#include "ops/elementwise.h"
#include "ops/kernel_call.h"

// Operators on lists of tensors: one element-wise operation for each, and the checks of mixed-precision training.

namespace drydock::ops::kernels {
namespace {

Status expect_lists(const KernelCall& call, const std::vector<TensorView>& out,
                    std::initializer_list<const std::vector<TensorView>*> inputs) {
  for (const std::vector<TensorView>* input : inputs) {
    if (input->size() != out.size()) return invalid(call, "the lists have different lengths");
    for (const TensorView& view : *input) {
      if (!view.defined || !is_real_element(view.dtype)) return not_computed(call, "a tensor of the list is not real");
    }
  }
  for (const TensorView& view : out) {
    if (!view.defined || !is_real_element(view.dtype)) return not_computed(call, "an output of the list is not real");
  }
  return Status::ok();
}

Status expect_scalar(const KernelCall& call) {
  if (call.operand_count() < 1 || !call.operand(0).defined || !is_real_element(call.operand(0).dtype)) {
    return not_computed(call, "the scalar is missing or not real");
  }
  return call.operand(0).numel() == 1 ? Status::ok() : invalid(call, "the scalar must have one element");
}

Operand tensor(const TensorView& view) { return {&view, false}; }

template <class Op>
Status each_unary(KernelCall& call, Domain domain, Op op) {
  const std::vector<TensorView>& x = call.operand_list(0);
  const std::vector<TensorView>& out = call.output_list(0);
  DRYDOCK_RETURN_IF_ERROR(expect_lists(call, out, {&x}));
  for (size_t i = 0; i < out.size(); ++i) {
    DRYDOCK_RETURN_IF_ERROR(apply<1>(call, out[i], {tensor(x[i])}, domain, op));
  }
  return Status::ok();
}

/// The scalar comes as aclScalar, or (the older form) as a tensor of one element; it weighs as a scalar in both.
template <class Op>
Status each_with_scalar(KernelCall& call, Domain domain, Op op) {
  const std::vector<TensorView>& x = call.operand_list(0);
  const std::vector<TensorView>& out = call.output_list(0);
  DRYDOCK_RETURN_IF_ERROR(expect_scalar(call));
  DRYDOCK_RETURN_IF_ERROR(expect_lists(call, out, {&x}));
  TensorView scalar = call.operand(0);
  scalar.dims.clear();
  scalar.strides.clear();
  for (size_t i = 0; i < out.size(); ++i) {
    DRYDOCK_RETURN_IF_ERROR(apply<2>(call, out[i], {tensor(x[i]), Operand{&scalar, true}}, domain, op));
  }
  return Status::ok();
}

template <class Op>
Status each_with_scalar_list(KernelCall& call, Domain domain, Op op) {
  const std::vector<TensorView>& x = call.operand_list(0);
  const std::vector<TensorView>& out = call.output_list(0);
  DRYDOCK_RETURN_IF_ERROR(expect_lists(call, out, {&x}));
  const ScalarList* scalars = call.scalar_list(0);
  if (scalars == nullptr || scalars->scalars.size() != x.size()) {
    return invalid(call, "there must be one scalar for each tensor");
  }
  for (size_t i = 0; i < out.size(); ++i) {
    const Scalar* value = scalars->scalars[i];
    if (value == nullptr || !is_real_element(value->dtype)) return not_computed(call, "a scalar is null or not real");
    TensorView scalar = contiguous_view(const_cast<unsigned char*>(value->bytes.data()), value->dtype, Dims());
    DRYDOCK_RETURN_IF_ERROR(apply<2>(call, out[i], {tensor(x[i]), Operand{&scalar, true}}, domain, op));
  }
  return Status::ok();
}

/// op(x1, x2, alpha), where alpha is 1 if there is none.
template <class Op>
Status each_pair(KernelCall& call, Domain domain, Op op) {
  const std::vector<TensorView>& a = call.operand_list(0);
  const std::vector<TensorView>& b = call.operand_list(1);
  const std::vector<TensorView>& out = call.output_list(0);
  DRYDOCK_RETURN_IF_ERROR(expect_lists(call, out, {&a, &b}));
  const double alpha = scalar_or(call, 0, 1.0);
  for (size_t i = 0; i < out.size(); ++i) {
    DRYDOCK_RETURN_IF_ERROR(apply<2>(call, out[i], {tensor(a[i]), tensor(b[i])}, domain,
                                     [&]<class C>(C x, C y) -> C { return op(x, y, static_cast<C>(alpha)); }));
  }
  return Status::ok();
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

}  // namespace

Status foreach_add_scalar(KernelCall& call) { return each_with_scalar(call, Domain::kAny, kAdd); }
Status foreach_sub_scalar(KernelCall& call) { return each_with_scalar(call, Domain::kAny, kSubtract); }
Status foreach_mul_scalar(KernelCall& call) { return each_with_scalar(call, Domain::kAny, kMultiply); }
Status foreach_div_scalar(KernelCall& call) { return each_with_scalar(call, Domain::kFloating, kDivide); }
Status foreach_maximum_scalar(KernelCall& call) { return each_with_scalar(call, Domain::kAny, kLarger); }
Status foreach_minimum_scalar(KernelCall& call) { return each_with_scalar(call, Domain::kAny, kSmaller); }
Status foreach_add_scalar_list(KernelCall& call) { return each_with_scalar_list(call, Domain::kAny, kAdd); }
Status foreach_sub_scalar_list(KernelCall& call) { return each_with_scalar_list(call, Domain::kAny, kSubtract); }
Status foreach_mul_scalar_list(KernelCall& call) { return each_with_scalar_list(call, Domain::kAny, kMultiply); }
Status foreach_div_scalar_list(KernelCall& call) { return each_with_scalar_list(call, Domain::kFloating, kDivide); }

Status foreach_add_list(KernelCall& call) {
  return each_pair(call, Domain::kAny,
                   []<class C>(C a, C b, C alpha) { return wrapping_add(a, wrapping_multiply(alpha, b)); });
}
Status foreach_sub_list(KernelCall& call) {
  return each_pair(call, Domain::kAny,
                   []<class C>(C a, C b, C alpha) { return wrapping_subtract(a, wrapping_multiply(alpha, b)); });
}
Status foreach_mul_list(KernelCall& call) {
  return each_pair(call, Domain::kAny, []<class C>(C a, C b, C) { return wrapping_multiply(a, b); });
}
Status foreach_div_list(KernelCall& call) {
  return each_pair(call, Domain::kFloating, []<class C>(C a, C b, C) { return kDivide(a, b); });
}

Status foreach_copy(KernelCall& call) {
  return each_unary(call, Domain::kAny, []<class C>(C value) { return value; });
}
Status foreach_neg(KernelCall& call) {
  return each_unary(call, Domain::kAny, []<class C>(C value) -> C {
    if constexpr (std::is_integral_v<C>)
      return wrapping_subtract<C>(0, value);
    else
      return -value;
  });
}
Status foreach_abs(KernelCall& call) {
  return each_unary(call, Domain::kAny, []<class C>(C value) -> C {
    if constexpr (std::is_integral_v<C>)
      return value < 0 ? wrapping_subtract<C>(0, value) : value;
    else
      return std::abs(value);
  });
}
Status foreach_sqrt(KernelCall& call) {
  return each_unary(call, Domain::kFloating, []<class C>(C value) { return static_cast<C>(std::sqrt(value)); });
}

/// The list is output and nothing else.
Status foreach_zero(KernelCall& call) {
  const std::vector<TensorView>& out = call.output_list(0);
  DRYDOCK_RETURN_IF_ERROR(expect_lists(call, out, {}));
  const int64_t zero = 0;
  for (const TensorView& view : out) {
    fill_view(view, contiguous_view(const_cast<int64_t*>(&zero), DataType::kInt64, Dims()));
  }
  return Status::ok();
}

/// found_inf becomes 1 if any gradient is infinite or NaN, else it stays; every gradient is multiplied by inv_scale.
Status foreach_non_finite_check_and_unscale(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, std::max(1, call.operand_count()), 1));
  const std::vector<TensorView>& gradients = call.output_list(0);
  DRYDOCK_RETURN_IF_ERROR(expect_lists(call, gradients, {}));
  const TensorView& found = call.output(0);
  if (found.numel() != 1 || call.operand(call.operand_count() - 1).numel() != 1) {
    return invalid(call, "foundInf and invScale must have one element");
  }
  const float inverse_scale = static_cast<float>(as_double(call.operand(call.operand_count() - 1)));
  bool all_finite = true;
  for (const TensorView& gradient : gradients) {
    const bool fits = map_elements<float, 1>(gradient, {&gradient}, {DataType::kUndefined}, [&](float value) {
      all_finite = all_finite && std::isfinite(value);
      return inverse_scale == 1.0f ? value : value * inverse_scale;
    });
    if (!fits) return shapes_do_not_fit(call);
  }
  if (!all_finite) set_value<float>(found, 1.0f);
  return Status::ok();
}

/// Operands: scale, growth tracker, found_inf. Outputs: scale, growth tracker.
Status amp_update_scale(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 3, 2));
  for (const TensorView* view :
       {&call.operand(0), &call.operand(1), &call.operand(2), &call.output(0), &call.output(1)}) {
    if (view->numel() != 1) return invalid(call, "scale, tracker and foundInf must have one element");
  }
  const float scale = as_value<float>(call.operand(0));
  const int64_t successes = as_int64(call.operand(1)) + 1;
  float new_scale = scale;
  int64_t new_tracker = successes;
  if (as_double(call.operand(2)) != 0) {
    new_scale = static_cast<float>(scale * call.number(1));
    new_tracker = 0;
  } else if (successes == call.integer(0)) {
    const float grown = static_cast<float>(scale * call.number(0));
    if (std::isfinite(grown)) new_scale = grown;
    new_tracker = 0;
  }
  set_value<float>(call.output(0), new_scale);
  set_value<int64_t>(call.output(1), new_tracker);
  return Status::ok();
}

}  // namespace drydock::ops::kernels
