#include <cmath>

#include "ops/kernel_access.h"

namespace drydock::ops::kernels {

/// out = log(z / (1 - z)) with z the input held in [eps, 1 - eps]; as it is for a negative eps.
Status logit(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 1, 1));
  const TensorView& input = call.operand(0);
  const TensorView& out = call.output(0);
  const double eps = call.number(0);
  return with_floating_type(compute_type_of(input.dtype), [&]<class C>() {
    const C low = static_cast<C>(eps);
    const C high = static_cast<C>(1) - low;
    const bool fits = map_elements<C, 1>(out, {&input}, {DataType::kUndefined}, [&](C x) {
      const C z = low < 0 ? x : x < low ? low : x > high ? high : x;
      return std::log(z / (1 - z));
    });
    return fits ? Status::ok() : invalid(call, "input and out differ in shape");
  });
}

}  // namespace drydock::ops::kernels
