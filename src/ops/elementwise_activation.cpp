#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/vector_math.h"
#include "ops/complex/complex.h"
#include "ops/elementwise.h"
#include "ops/kernel_call.h"

// Activation functions; scalar parameters are further operands. Integers compute in fp32.

namespace drydock::ops::kernels {

#define DRYDOCK_FLOATING_KERNEL(name, expression)                                    \
  Status name(KernelCall& call) {                                                    \
    return apply_floating<1>(call, []<class C>(C x) -> C { return C(expression); }); \
  }

DRYDOCK_FLOATING_KERNEL(silu, x / (C(1) + vector_math::exp(-x)))
DRYDOCK_FLOATING_KERNEL(mish, x* vector_math::tanh(vector_math::log1p(vector_math::exp(x))))
DRYDOCK_FLOATING_KERNEL(log_sigmoid, std::min(x, C(0)) - vector_math::log1p(vector_math::exp(-std::abs(x))))
DRYDOCK_FLOATING_KERNEL(hardsigmoid, std::min(std::max(x + C(3), C(0)), C(6)) / C(6))
DRYDOCK_FLOATING_KERNEL(hardswish, x* std::min(std::max(x + C(3), C(0)), C(6)) / C(6))
#undef DRYDOCK_FLOATING_KERNEL

Status sigmoid(KernelCall& call) {
  if (has_complex(call)) return complex_sigmoid(call);
  return apply_floating<1>(call, []<class C>(C x) -> C { return vector_math::sigmoid(x); });
}

/// The second output is what the backward operator wants; where it is as large as the first, it takes exp(-|x|).
Status log_sigmoid_forward(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(log_sigmoid(call));
  if (call.output_count() < 2 || !call.output(1).defined || !is_real_element(call.output(1).dtype) ||
      !(call.output(1).dims == call.output(0).dims)) {
    return Status::ok();
  }
  return apply_floating<1>(call, call.output(1), {operand_of(call, 0)},
                           []<class C>(C x) -> C { return vector_math::exp(-std::abs(x)); });
}

/// The vendor's manual defines the plain operator by the tanh formula, and torch_npu calls it for both of its forms.
Status gelu(KernelCall& call) {
  return apply_floating<1>(call, []<class C>(C x) -> C {
    const C inner = C(std::numbers::sqrt2 * std::numbers::inv_sqrtpi) * (x + C(0.044715) * x * x * x);
    return C(0.5) * x * (C(1) + vector_math::tanh(inner));
  });
}

Status gelu_with_approximation(KernelCall& call) {
  if (call.integer(0) != 0) return gelu(call);
  return apply_floating<1>(
      call, []<class C>(C x) -> C { return x * C(0.5) * (C(1) + vector_math::erf(x * C(std::numbers::sqrt2 / 2))); });
}

Status leaky_relu(KernelCall& call) {
  return apply_floating<2>(call, []<class C>(C x, C slope) -> C { return x > 0 ? x : x * slope; });
}

Status elu(KernelCall& call) {
  return apply_floating<4>(call, []<class C>(C x, C alpha, C scale, C input_scale) -> C {
    return x > 0 ? x * scale : vector_math::expm1(x * input_scale) * alpha * scale;
  });
}

Status celu(KernelCall& call) {
  return apply_floating<2>(
      call, []<class C>(C x, C alpha) -> C { return x > 0 ? x : alpha * vector_math::expm1(x / alpha); });
}

Status softplus(KernelCall& call) {
  return apply_floating<3>(call, []<class C>(C x, C beta, C threshold) -> C {
    return x * beta > threshold ? x : vector_math::log1p(vector_math::exp(x * beta)) / beta;
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
