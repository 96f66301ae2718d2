#include <atomic>
#include <cmath>

#include "ops/foreach/tensor_lists.h"

// Three lists or more arguments: x1 + scalar * x2 * x3, interpolation, and the checks of mixed-precision training.

namespace drydock::ops::kernels {
namespace {

/// `one_for_each`: operand 0 has a scalar for each tensor, else one for all.
template <class Op>
Status each_triple(KernelCall& call, bool one_for_each, Op op) {
  const std::vector<TensorView>& a = call.operand_list(0);
  const std::vector<TensorView>& b = call.operand_list(1);
  const std::vector<TensorView>& c = call.operand_list(2);
  const std::vector<TensorView>& out = call.output_list(0);
  ListScalars scalars;
  DRYDOCK_RETURN_IF_ERROR(expect_lists(call, out, {&a, &b, &c}));
  DRYDOCK_RETURN_IF_ERROR(one_for_each ? scalars.read_elements(call, out.size()) : scalars.read_operand(call));
  return for_each_tensor(out, [&](size_t i) {
    return apply_floating<4>(call, out[i],
                             {as_tensor(a[i]), as_tensor(b[i]), as_tensor(c[i]), as_scalar(scalars.at(i))}, op);
  });
}

constexpr auto kAddProduct = []<class C>(C a, C b, C c, C scalar) -> C { return a + scalar * (b * c); };
constexpr auto kAddQuotient = []<class C>(C a, C b, C c, C scalar) -> C { return a + scalar * (b / c); };
/// From the nearer end, as PyTorch does, so that a weight of 1 gives exactly the second value.
constexpr auto kInterpolate = []<class C>(C a, C b, C weight) -> C {
  return std::abs(weight) < C(0.5) ? a + weight * (b - a) : b - (b - a) * (C(1) - weight);
};

}  // namespace

Status foreach_addcmul_scalar(KernelCall& call) { return each_triple(call, false, kAddProduct); }
Status foreach_addcmul_scalar_list(KernelCall& call) { return each_triple(call, true, kAddProduct); }
Status foreach_addcdiv_scalar(KernelCall& call) { return each_triple(call, false, kAddQuotient); }
Status foreach_addcdiv_scalar_list(KernelCall& call) { return each_triple(call, true, kAddQuotient); }

Status foreach_lerp_list(KernelCall& call) {
  const std::vector<TensorView>& a = call.operand_list(0);
  const std::vector<TensorView>& b = call.operand_list(1);
  const std::vector<TensorView>& weights = call.operand_list(2);
  const std::vector<TensorView>& out = call.output_list(0);
  DRYDOCK_RETURN_IF_ERROR(expect_lists(call, out, {&a, &b, &weights}));
  return for_each_tensor(out, [&](size_t i) {
    return apply_floating<3>(call, out[i], {as_tensor(a[i]), as_tensor(b[i]), as_tensor(weights[i])}, kInterpolate);
  });
}

Status foreach_lerp_scalar(KernelCall& call) {
  const std::vector<TensorView>& a = call.operand_list(0);
  const std::vector<TensorView>& b = call.operand_list(1);
  const std::vector<TensorView>& out = call.output_list(0);
  ListScalars weight;
  DRYDOCK_RETURN_IF_ERROR(expect_lists(call, out, {&a, &b}));
  DRYDOCK_RETURN_IF_ERROR(weight.read_operand(call));
  return for_each_tensor(out, [&](size_t i) {
    return apply_floating<3>(call, out[i], {as_tensor(a[i]), as_tensor(b[i]), as_scalar(weight.at(0))}, kInterpolate);
  });
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
  std::atomic<bool> all_finite = true;
  DRYDOCK_RETURN_IF_ERROR(for_each_tensor(gradients, [&](size_t i) {
    const TensorView& gradient = gradients[i];
    const bool fits = map_elements<float, 1>(gradient, {&gradient}, {DataType::kUndefined}, [&](float value) {
      if (!std::isfinite(value)) all_finite.store(false, std::memory_order_relaxed);
      return inverse_scale == 1.0f ? value : value * inverse_scale;
    });
    return fits ? Status::ok() : shapes_do_not_fit(call);
  }));
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
