#include "ops/complex/complex.h"
#include "ops/elementwise.h"
#include "ops/kernel_call.h"

// Choices between elements: where, masked fill, clamp. Their results are elements of the inputs, not sums of them.

namespace drydock::ops::kernels {
namespace {

/// Limits that may be null: an absent one leaves the values alone.
Status clamp_between(KernelCall& call, int lower, int upper) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 1, 1));
  const auto present = [&](int index) {
    return index > 0 && index < call.operand_count() && call.operand(index).defined &&
           is_real_element(call.operand(index).dtype);
  };
  const TensorView& out = call.output(0);
  const Operand self = operand_of(call, 0);
  const auto at_least = []<class C>(C value, C limit) { return larger(value, limit); };
  const auto at_most = []<class C>(C value, C limit) { return smaller(value, limit); };
  if (present(lower) && present(upper)) {
    return apply<3>(call, out, {self, operand_of(call, lower), operand_of(call, upper)}, Domain::kCompared,
                    []<class C>(C value, C low, C high) -> C {
                      // smaller(larger(value, low), high), in a form that the compiler vectorises.
                      value = value < low ? low : value;
                      value = value > high ? high : value;
                      value = is_nan(low) ? low : value;
                      return is_nan(high) ? high : value;
                    });
  }
  if (present(lower)) return apply<2>(call, out, {self, operand_of(call, lower)}, Domain::kCompared, at_least);
  if (present(upper)) return apply<2>(call, out, {self, operand_of(call, upper)}, Domain::kCompared, at_most);
  return copy_view(out, call.operand(0)) ? Status::ok() : shapes_do_not_fit(call);
}

}  // namespace

Status clamp(KernelCall& call) { return clamp_between(call, 1, 2); }
Status clamp_min(KernelCall& call) { return clamp_between(call, 1, -1); }
Status clamp_max(KernelCall& call) { return clamp_between(call, -1, 1); }

Status where(KernelCall& call) {
  if (has_complex(call)) return complex_where(call);
  DRYDOCK_RETURN_IF_ERROR(expect(call, 3, 1));
  // The condition takes no part in type promotion.
  const TensorView& out = call.output(0);
  const std::array<Operand, 2> choices = {operand_of(call, 1), operand_of(call, 2)};
  const Evaluation<2> evaluation = evaluation_of<2>(choices, out.dtype, Domain::kAny);
  return with_compute_type(evaluation.compute, [&]<class C>() {
    const bool fits =
        map_elements<C, 3>(out, {&call.operand(0), evaluation.views[0], evaluation.views[1]},
                           {DataType::kUndefined, evaluation.rounds[0], evaluation.rounds[1]},
                           [](C condition, C chosen, C otherwise) { return condition != C(0) ? chosen : otherwise; });
    return fits ? Status::ok() : shapes_do_not_fit(call);
  });
}

Status masked_fill(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 3, 1));
  const TensorView& self = call.operand(0);
  const TensorView& mask = call.operand(1);
  TensorView value = call.operand(2);
  if (value.numel() != 1) return invalid(call, "value must have one element");
  value.dims.clear();  // one element of any rank
  value.strides.clear();
  return with_compute_type(compute_type_of(self.dtype), [&]<class C>() {
    const bool fits = map_elements<C, 3>(call.output(0), {&self, &mask, &value},
                                         {DataType::kUndefined, DataType::kUndefined, DataType::kUndefined},
                                         [](C kept, C masked, C filled) { return masked != C(0) ? filled : kept; });
    return fits ? Status::ok() : shapes_do_not_fit(call);
  });
}

Status masked_scale(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 2, 1));
  const double scale = call.number(0);
  return apply_floating<2>(call, [scale]<class C>(C value, C mask) { return value * mask * static_cast<C>(scale); });
}

}  // namespace drydock::ops::kernels
