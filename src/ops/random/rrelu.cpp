#include "ops/random/draw.h"

// The randomised leaky ReLU, which draws its slopes.

namespace drydock::ops::kernels {
namespace {

/// Training: noise = a slope from [lower, upper) where self <= 0, else 1; out = self * noise. Otherwise the slope is
/// the middle of the range, and noise stays as it is.
Status randomized_leaky_relu(KernelCall& call, const TensorView& out, const TensorView& noise) {
  const TensorView& self = call.operand(0);
  const double lower = as_double(call.operand(2));
  const double upper = as_double(call.operand(3));
  if (!(lower <= upper)) {
    return invalid(call, "lower is " + std::to_string(lower) + ", upper " + std::to_string(upper));
  }
  if (self.dims != out.dims) return invalid(call, "self and the output differ in shape");
  const bool training = call.boolean(0);
  if (training && noise.dims != self.dims) return invalid(call, "self and noise differ in shape");
  return with_floating_type(compute_type_of(self.dtype), [&]<class C>() {
    if (!training) {
      const C slope = static_cast<C>((lower + upper) / 2);
      map_elements<C, 1>(out, {&self}, {DataType::kUndefined}, [&](C x) { return x <= 0 ? x * slope : x; });
      return Status::ok();
    }
    const Philox generator = generator_of_integers(call, 0);
    const auto draw = [&](uint64_t first, int64_t count, C* values) {
      generator.units(first, count, values);
      for (int64_t k = 0; k < count; ++k) {
        values[k] = values[k] * static_cast<C>(upper - lower) + static_cast<C>(lower);
      }
      round_through<C>(noise.dtype, values, count);
    };
    map_drawn<C, C, 1>(noise, {&self}, draw, [](C drawn, C x) { return x <= 0 ? drawn : C{1}; });
    map_elements<C, 2>(out, {&self, &noise}, {DataType::kUndefined, DataType::kUndefined},
                       [](C x, C slope) { return x <= 0 ? x * slope : x; });
    return Status::ok();
  });
}

}  // namespace

Status rrelu_with_noise(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 4, 2));
  return randomized_leaky_relu(call, call.output(1), call.output(0));
}

Status rrelu_with_noise_in_place(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 4, 2));
  return randomized_leaky_relu(call, call.output(0), call.output(1));
}

}  // namespace drydock::ops::kernels
