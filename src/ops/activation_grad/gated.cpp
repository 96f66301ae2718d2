#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/vector_math.h"
#include "ops/elementwise.h"
#include "ops/kernel_call.h"
#include "ops/norm/row_access.h"
#include "ops/shapes.h"

// Gated activations: one half of a dimension is activated, the other half multiplies it.

namespace drydock::ops::kernels {
namespace {

/// The two halves of a view.
struct Halves {
  TensorView activated;
  TensorView gate;
};

Halves halves_of(const TensorView& view, int axis, bool left_is_activated) {
  const int64_t half = view.dims[axis] / 2;
  const TensorView left = narrow(view, axis, 0, half);
  const TensorView right = narrow(view, axis, half, half);
  return left_is_activated ? Halves{left, right} : Halves{right, left};
}

/// Even elements are activated, odd ones multiply.
Halves interleaved_halves_of(const TensorView& view, int axis) {
  const int64_t half = view.dims[axis] / 2;
  return {narrow(view, axis, 0, half, 2), narrow(view, axis, 1, half, 2)};
}

Status axis_of_halves(const KernelCall& call, const TensorView& x, int64_t dim, int* axis) {
  if (x.dims.empty()) return invalid(call, "the input must have a dimension to halve");
  DRYDOCK_RETURN_IF_ERROR(wrap_dim(call, dim, x.dims.size(), axis));
  if (x.dims[*axis] % 2 == 0) return Status::ok();
  return invalid(call, "the size of the halved dimension, " + std::to_string(x.dims[*axis]) + ", is odd");
}

template <size_t N, class Op>
Status map_views(const KernelCall& call, const TensorView& out, const std::array<const TensorView*, N>& inputs, Op op) {
  std::array<DataType, N> rounds{};
  rounds.fill(DataType::kUndefined);
  return with_floating_type(floating_type_of({inputs[0], &out}), [&]<class C>() {
    return map_elements<C, N>(out, inputs, rounds, op) ? Status::ok() : shapes_do_not_fit(call);
  });
}

constexpr auto kSigmoid = []<class C>(C x) -> C { return vector_math::sigmoid(x); };
constexpr auto kSilu = []<class C>(C x) -> C { return x * vector_math::sigmoid(x); };
constexpr auto kSiluSlope = []<class C>(C x) -> C {
  const C sigmoid = vector_math::sigmoid(x);
  return sigmoid * (C(1) + x * (C(1) - sigmoid));
};
constexpr auto kGeluErf = []<class C>(C x) -> C {
  return C(0.5) * x * (C(1) + vector_math::erf(x * C(std::numbers::sqrt2 / 2)));
};
constexpr auto kGeluErfSlope = []<class C>(C x) -> C {
  constexpr C kDensity = C(std::numbers::inv_sqrtpi / std::numbers::sqrt2);
  return C(0.5) * (C(1) + vector_math::erf(x * C(std::numbers::sqrt2 / 2))) +
         x * kDensity * vector_math::exp(C(-0.5) * x * x);
};
template <class C>
C gelu_tangent(C x) {
  return vector_math::tanh(C(std::numbers::sqrt2 * std::numbers::inv_sqrtpi) * (x + C(0.044715) * x * x * x));
}
constexpr auto kGeluTanh = []<class C>(C x) -> C { return C(0.5) * x * (C(1) + gelu_tangent(x)); };
constexpr auto kGeluTanhSlope = []<class C>(C x) -> C {
  constexpr C kBeta = C(std::numbers::sqrt2 * std::numbers::inv_sqrtpi);
  const C tangent = gelu_tangent(x);
  const C slope = (C(1) - tangent * tangent) * kBeta * (C(1) + C(3 * 0.044715) * x * x);
  return C(0.5) * (C(1) + tangent) + C(0.5) * x * slope;
};

/// output(0) = activate(a) * gate.
template <class Activate>
Status gated(KernelCall& call, const Halves& x, Activate activate) {
  return map_views<2>(call, call.output(0), {&x.activated, &x.gate},
                      [activate]<class C>(C a, C gate) -> C { return activate(a) * gate; });
}

/// The gradients of both halves. `slope` is the derivative of `activate`.
template <class Activate, class Slope>
Status gated_backward(KernelCall& call, const TensorView& gradient, const Halves& x, const Halves& out,
                      Activate activate, Slope slope) {
  DRYDOCK_RETURN_IF_ERROR(map_views<3>(call, out.activated, {&gradient, &x.activated, &x.gate},
                                       [slope]<class C>(C g, C a, C gate) -> C { return g * gate * slope(a); }));
  return map_views<2>(call, out.gate, {&gradient, &x.activated},
                      [activate]<class C>(C g, C a) -> C { return g * activate(a); });
}

/// The halves of `x` and of the output, which has its shape; the gradient has the shape of a half.
Status backward_halves(const KernelCall& call, const TensorView& gradient, const TensorView& x, int64_t dim,
                       bool left_is_activated, Halves* halves, Halves* out) {
  int axis = 0;
  DRYDOCK_RETURN_IF_ERROR(axis_of_halves(call, x, dim, &axis));
  if (!(call.output(0).dims == x.dims)) return invalid(call, "the output must have the shape of the input");
  *halves = halves_of(x, axis, left_is_activated);
  *out = halves_of(call.output(0), axis, left_is_activated);
  if (!(gradient.dims == out->gate.dims)) return invalid(call, "the gradient must have the shape of half the input");
  return Status::ok();
}

Status forward_halves(const KernelCall& call, int64_t dim, bool left_is_activated, Halves* halves) {
  int axis = 0;
  DRYDOCK_RETURN_IF_ERROR(axis_of_halves(call, call.operand(0), dim, &axis));
  *halves = halves_of(call.operand(0), axis, left_is_activated);
  if (call.output(0).dims == halves->gate.dims) return Status::ok();
  return invalid(call, "the output must have the shape of half the input");
}

}  // namespace

/// Left half times the sigmoid of the right half.
Status glu(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 1, 1));
  Halves halves;
  DRYDOCK_RETURN_IF_ERROR(forward_halves(call, call.integer(0), false, &halves));
  return gated(call, halves, kSigmoid);
}
Status glu_backward(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 2, 1));
  Halves halves, out;
  DRYDOCK_RETURN_IF_ERROR(
      backward_halves(call, call.operand(0), call.operand(1), call.integer(0), false, &halves, &out));
  return gated_backward(call, call.operand(0), halves, out, kSigmoid, []<class C>(C x) -> C {
    const C sigmoid = kSigmoid(x);
    return sigmoid * (C(1) - sigmoid);
  });
}

/// Silu of the left half times the right half.
Status swiglu(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 1, 1));
  Halves halves;
  DRYDOCK_RETURN_IF_ERROR(forward_halves(call, call.integer(0), true, &halves));
  return gated(call, halves, kSilu);
}
Status swiglu_grad(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 2, 1));
  Halves halves, out;
  DRYDOCK_RETURN_IF_ERROR(
      backward_halves(call, call.operand(0), call.operand(1), call.integer(0), true, &halves, &out));
  return gated_backward(call, call.operand(0), halves, out, kSilu, kSiluSlope);
}

/// Integers: dim, 1 for the tanh formula. Boolean: the left half is activated. Outputs: the product, gelu.
Status geglu(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 1, 2));
  Halves halves;
  DRYDOCK_RETURN_IF_ERROR(forward_halves(call, call.integer(0), call.boolean(0), &halves));
  if (!(call.output(1).dims == halves.gate.dims)) return invalid(call, "outGelu must have the shape of the output");
  const bool by_tanh = call.integer(1) != 0;
  DRYDOCK_RETURN_IF_ERROR(by_tanh ? map_views<1>(call, call.output(1), {&halves.activated}, kGeluTanh)
                                  : map_views<1>(call, call.output(1), {&halves.activated}, kGeluErf));
  return by_tanh ? gated(call, halves, kGeluTanh) : gated(call, halves, kGeluErf);
}
/// Operands: gradient, input, gelu (computed again here).
Status geglu_backward(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 2, 1));
  Halves halves, out;
  DRYDOCK_RETURN_IF_ERROR(
      backward_halves(call, call.operand(0), call.operand(1), call.integer(0), call.boolean(0), &halves, &out));
  if (call.integer(1) != 0) return gated_backward(call, call.operand(0), halves, out, kGeluTanh, kGeluTanhSlope);
  return gated_backward(call, call.operand(0), halves, out, kGeluErf, kGeluErfSlope);
}

/// Gelu of the left half of the last dimension times the right half.
Status gelu_mul(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 1, 1));
  Halves halves;
  DRYDOCK_RETURN_IF_ERROR(forward_halves(call, -1, true, &halves));
  return call.text(0) == "tanh" ? gated(call, halves, kGeluTanh) : gated(call, halves, kGeluErf);
}

/// min(a, limit) * sigmoid(alpha * min(a, limit)) * (clamp(b, -limit, limit) + bias). Operands: x, sizes of groups (may
/// be null), whose sum is the number of rows that are computed; rows are all dimensions before the halved one.
Status clipped_swiglu(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 1, 1));
  int axis = 0;
  TensorView x = call.operand(0);
  TensorView out = call.output(0);
  DRYDOCK_RETURN_IF_ERROR(axis_of_halves(call, x, call.integer(0), &axis));
  Dims half = x.dims;
  half[axis] /= 2;
  if (!(out.dims == half)) return invalid(call, "the output must have the shape of half the input");
  // What follows the halved dimension counts as part of it.
  if (axis + 1 < x.dims.size()) {
    if (!is_contiguous(x) || !is_contiguous(out)) return not_computed(call, "a strided tensor halved in the middle");
    x = contiguous_view(
        x.data, x.dtype,
        {leading_dims(x.dims, x.dims.size() - axis).product(), trailing_dims(x.dims, x.dims.size() - axis).product()});
    out = contiguous_view(out.data, out.dtype, {x.dims[0], x.dims[1] / 2});
    axis = 1;
  }
  const auto alpha = call.number(0);
  const auto limit = call.number(1);
  const auto bias = call.number(2);
  const auto work = [&](const TensorView& from, const TensorView& to, int along) {
    const Halves halves = call.boolean(0) ? interleaved_halves_of(from, along) : halves_of(from, along, true);
    return map_views<2>(call, to, {&halves.activated, &halves.gate}, [=]<class C>(C a, C b) -> C {
      const C clipped = std::min(a, C(limit));
      const C gate = std::min(std::max(b, C(-limit)), C(limit)) + C(bias);
      return clipped / (C(1) + vector_math::exp(C(-alpha) * clipped)) * gate;
    });
  };
  const bool grouped = call.operand_count() > 1 && call.operand(1).defined;
  if (!grouped) return work(x, out, axis);
  DRYDOCK_RETURN_IF_ERROR(expect(call, 2, 1));
  if (!is_contiguous(x) || !is_contiguous(out)) return not_computed(call, "groups in a strided tensor");
  const int64_t rows = leading_dims(x.dims, x.dims.size() - axis).product();
  int64_t used = 0;
  for_each_value<int64_t>(call.operand(1), [&](int64_t size) { used += std::clamp<int64_t>(size, 0, rows - used); });
  const int64_t width = x.dims[axis];
  return work(contiguous_view(x.data, x.dtype, {used, width}), contiguous_view(out.data, out.dtype, {used, width / 2}),
              1);
}

}  // namespace drydock::ops::kernels
