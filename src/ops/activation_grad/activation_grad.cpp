#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "base/vector_math.h"
#include "ops/elementwise.h"
#include "ops/kernel_call.h"

// Gradients of activation functions: operands in the order of the signature, the gradient of the result first if not
// said otherwise. `g` is that gradient, `x` the input, `y` the result of the forward operator.

namespace drydock::ops::kernels {

Status sigmoid_backward(KernelCall& call) {
  return apply_floating<2>(call, []<class C>(C g, C y) -> C { return g * (C(1) - y) * y; });
}

Status tanh_backward(KernelCall& call) {
  return apply_floating<2>(call, []<class C>(C g, C y) -> C { return g * (C(1) - y * y); });
}

namespace {

Status gelu_backward_tanh(KernelCall& call) {
  return apply_floating<2>(call, []<class C>(C g, C x) -> C {
    constexpr C kBeta = C(std::numbers::sqrt2 * std::numbers::inv_sqrtpi);
    constexpr C kKappa = C(0.044715);
    const C tangent = vector_math::tanh(kBeta * (x + kKappa * x * x * x));
    const C slope = (C(1) - tangent * tangent) * kBeta * (C(1) + C(3) * kKappa * x * x);
    return g * (C(0.5) * (C(1) + tangent) + C(0.5) * x * slope);
  });
}

Status gelu_backward_erf(KernelCall& call) {
  return apply_floating<2>(call, []<class C>(C g, C x) -> C {
    constexpr C kDensity = C(std::numbers::inv_sqrtpi / std::numbers::sqrt2);
    const C distribution = C(0.5) * (C(1) + vector_math::erf(x * C(std::numbers::sqrt2 / 2)));
    return g * (distribution + x * kDensity * vector_math::exp(C(-0.5) * x * x));
  });
}

}  // namespace

/// The vendor's manual defines the plain operator by the tanh formula.
Status gelu_backward(KernelCall& call) { return gelu_backward_tanh(call); }

Status gelu_backward_with_approximation(KernelCall& call) {
  const std::string_view approximation = call.text(0);
  if (approximation == "tanh") return gelu_backward_tanh(call);
  if (approximation == "none" || approximation.empty()) return gelu_backward_erf(call);
  return invalid(call, "approximate must be none or tanh, not " + std::string(approximation));
}

/// x * sigmoid(1.702 x).
Status fast_gelu(KernelCall& call) {
  return apply_floating<1>(call, []<class C>(C x) -> C { return x * vector_math::sigmoid(C(1.702) * x); });
}

Status fast_gelu_backward(KernelCall& call) {
  return apply_floating<2>(call, []<class C>(C g, C x) -> C {
    const C sigmoid = vector_math::sigmoid(C(1.702) * x);
    return g * sigmoid * (C(1) + C(1.702) * x * (C(1) - sigmoid));
  });
}

Status silu_backward(KernelCall& call) {
  return apply_floating<2>(call, []<class C>(C g, C x) -> C {
    const C sigmoid = vector_math::sigmoid(x);
    return g * sigmoid * (C(1) + x * (C(1) - sigmoid));
  });
}

/// Operands: g, alpha, scale, input scale, x or y.
Status elu_backward(KernelCall& call) {
  const bool is_result = call.boolean(0);
  return apply_floating<5>(call, [is_result]<class C>(C g, C alpha, C scale, C input_scale, C value) -> C {
    if (value > C(0)) return g * scale;
    if (is_result) return g * input_scale * (value + alpha * scale);
    return g * input_scale * alpha * scale * vector_math::exp(value * input_scale);
  });
}

Status leaky_relu_backward(KernelCall& call) {
  return apply_floating<3>(call, []<class C>(C g, C x, C slope) -> C { return x > C(0) ? g : g * slope; });
}

Status hardsigmoid_backward(KernelCall& call) {
  return apply_floating<2>(call, []<class C>(C g, C x) -> C { return x > C(-3) && x < C(3) ? g / C(6) : C(0); });
}

Status hardswish_backward(KernelCall& call) {
  return apply_floating<2>(call, []<class C>(C g, C x) -> C {
    if (x < C(-3)) return C(0);
    return x <= C(3) ? g * (x / C(3) + C(0.5)) : g;
  });
}

/// The same but for x = -3 and x = 3, where the slope is that of the outer pieces.
Status hardswish_backward_open(KernelCall& call) {
  return apply_floating<2>(call, []<class C>(C g, C x) -> C {
    if (x <= C(-3)) return C(0);
    return x < C(3) ? g * (x / C(3) + C(0.5)) : g;
  });
}

Status hardtanh_backward(KernelCall& call) {
  return apply_floating<4>(call,
                           []<class C>(C g, C x, C low, C high) -> C { return x <= low || x >= high ? C(0) : g; });
}

/// Of hardshrink and softshrink.
Status shrink_backward(KernelCall& call) {
  return apply_floating<3>(call,
                           []<class C>(C g, C x, C lambda) -> C { return x >= -lambda && x <= lambda ? C(0) : g; });
}

Status softplus_backward(KernelCall& call) {
  return apply_floating<4>(call, []<class C>(C g, C x, C beta, C threshold) -> C {
    if (x * beta > threshold) return g;
    const C exponential = vector_math::exp(x * beta);
    return g * exponential / (exponential + C(1));
  });
}

/// Also the gradient of relu.
Status threshold_backward(KernelCall& call) {
  return apply<3>(call, Domain::kAny, []<class C>(C g, C x, C limit) -> C { return x <= limit ? C(0) : g; });
}

/// The third operand, what the forward operator kept, is not needed.
Status log_sigmoid_backward(KernelCall& call) {
  return apply_floating<2>(call, []<class C>(C g, C x) -> C {
    const C decay = vector_math::exp(-std::abs(x));
    const C tail = decay / (C(1) + decay);
    return x < C(0) ? g * (C(1) - tail) : g * tail;
  });
}

Status mish_backward(KernelCall& call) {
  return apply_floating<2>(call, []<class C>(C g, C x) -> C {
    const C sigmoid = vector_math::sigmoid(x);
    const C softplus = x > C(20) ? x : vector_math::log1p(vector_math::exp(x));
    const C tangent = vector_math::tanh(softplus);
    return g * (tangent + x * sigmoid * (C(1) - tangent * tangent));
  });
}

/// Operands: x, g. An epsilon below 0 means that x is not clamped.
Status logit_grad(KernelCall& call) {
  const double epsilon = call.number(0);
  return apply_floating<2>(call, [epsilon]<class C>(C x, C g) -> C {
    if (epsilon < 0) {
      if (x < C(0) || x > C(1)) return std::numeric_limits<C>::quiet_NaN();
      if (x == C(0) || x == C(1)) return g * std::numeric_limits<C>::infinity();
    } else if (x < static_cast<C>(epsilon) || x > static_cast<C>(1 - epsilon)) {
      return C(0);
    }
    return g / (x * (C(1) - x));
  });
}

}  // namespace drydock::ops::kernels
