#include <cmath>

#include "ops/random/draw.h"

// Uniform, normal, exponential and Bernoulli values.

namespace drydock::ops::kernels {
namespace {

/// Steps in [0, 1) that the 16-bit types tell apart: finer values would round up to 1. 0: all that are drawn.
int steps_of(DataType type) {
  switch (type) {
    case DataType::kFloat16: return 1 << 11;
    case DataType::kBFloat16: return 1 << 8;
    default: return 0;
  }
}

/// Uniform in [from, to).
Status draw_uniform(KernelCall& call, const Philox& generator) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 0, 1));
  const TensorView& out = call.output(0);
  const double from = call.number(0);
  const double to = call.number(1);
  if (!(from <= to)) {
    return invalid(call, "the range from " + std::to_string(from) + " to " + std::to_string(to) + " is empty");
  }
  return with_floating_type(compute_type_of(out.dtype), [&]<class C>() {
    const int steps = steps_of(out.dtype);
    const C first_value = static_cast<C>(from);
    const C width = static_cast<C>(to - from);
    const auto draw = [&](uint64_t first, int64_t count, C* values) {
      generator.units(first, count, values);
      if (steps > 0) {
        const C step = C{1} / static_cast<C>(steps);
        for (int64_t k = 0; k < count; ++k) {
          values[k] = static_cast<C>(static_cast<int32_t>(values[k] * static_cast<C>(steps))) * step;
        }
      }
      for (int64_t k = 0; k < count; ++k) values[k] = values[k] * width + first_value;
      // The sum may round to the end, which does not belong to the range.
      round_through<C>(out.dtype, values, count);
      for (int64_t k = 0; k < count; ++k) values[k] = values[k] >= static_cast<C>(to) ? first_value : values[k];
    };
    map_drawn<C, C, 0>(out, {}, draw, [](C drawn) { return drawn; });
    return Status::ok();
  });
}

/// out = mean + std * a standard normal value; both are broadcast to the output.
Status draw_normal(KernelCall& call, const TensorView& mean, const TensorView& std, const Philox& generator) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 0, 1));
  const TensorView& out = call.output(0);
  if (!mean.defined || !std.defined || !is_real_element(mean.dtype) || !is_real_element(std.dtype)) {
    return not_computed(call, "mean and std must be real");
  }
  return with_floating_type(compute_type_of(out.dtype), [&]<class C>() {
    const auto draw = [&](uint64_t first, int64_t count, C* values) { generator.normals(first, count, values); };
    const bool fits =
        map_drawn<C, C, 2>(out, {&mean, &std}, draw, [](C drawn, C center, C width) { return center + width * drawn; });
    return fits ? Status::ok() : invalid(call, "mean and std do not broadcast to the shape of the output");
  });
}

/// A number argument as a view of rank 0.
TensorView view_of(double* number) { return contiguous_view(number, DataType::kDouble, {}); }

Status draw_normal_of_numbers(KernelCall& call, const Philox& generator) {
  double mean = call.number(0);
  double std = call.number(1);
  if (!(std >= 0)) return invalid(call, "std is " + std::to_string(std) + ", it must not be negative");
  return draw_normal(call, view_of(&mean), view_of(&std), generator);
}

}  // namespace

Status uniform(KernelCall& call) { return draw_uniform(call, generator_of_integers(call, 0)); }

Status uniform_seeded_by_tensors(KernelCall& call) {
  Philox generator(0, 0);
  DRYDOCK_RETURN_IF_ERROR(generator_of_tensors(call, 0, &generator));
  return draw_uniform(call, generator);
}

Status normal(KernelCall& call) { return draw_normal_of_numbers(call, generator_of_integers(call, 0)); }

Status normal_seeded_by_tensors(KernelCall& call) {
  Philox generator(0, 0);
  DRYDOCK_RETURN_IF_ERROR(generator_of_tensors(call, 0, &generator));
  return draw_normal_of_numbers(call, generator);
}

Status normal_of_number_and_tensor(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 1, 1));
  double mean = call.number(0);
  return draw_normal(call, view_of(&mean), call.operand(0), generator_of_integers(call, 0));
}

Status normal_of_tensor_and_number(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 1, 1));
  double std = call.number(0);
  if (!(std >= 0)) return invalid(call, "std is " + std::to_string(std) + ", it must not be negative");
  return draw_normal(call, call.operand(0), view_of(&std), generator_of_integers(call, 0));
}

Status normal_of_tensors(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 2, 1));
  return draw_normal(call, call.operand(0), call.operand(1), generator_of_integers(call, 0));
}

/// The first `count` elements = -log(u) / lambda with u in (0, 1), so that no value is 0 or infinite.
Status exponential(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 0, 1));
  const TensorView& out = call.output(0);
  const double lambda = call.number(0);
  if (!(lambda > 0)) return invalid(call, "lambda is " + std::to_string(lambda) + ", it must be positive");
  if (call.integer(0) != out.numel()) {
    return not_computed(call, "count is " + std::to_string(call.integer(0)) + ", the tensor has " +
                                  std::to_string(out.numel()) + " elements");
  }
  const Philox generator = generator_of_integers(call, 1);
  const auto draw = [&](uint64_t first, int64_t count, double* values) {
    uint32_t words[kChunk];
    generator.words(first, count, words);
    for (int64_t k = 0; k < count; ++k) values[k] = (static_cast<double>(words[k]) + 0.5) * 0x1p-32;
  };
  map_drawn<double, double, 0>(out, {}, draw, [&](double drawn) { return -std::log(drawn) / lambda; });
  return Status::ok();
}

/// out = 1 with the probability that the last operand (broadcast) says, else 0.
Status bernoulli(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 1, 1));
  const TensorView& probability = call.operand(call.operand_count() - 1);
  if (!probability.defined || !is_real_element(probability.dtype)) return not_computed(call, "no probability");
  const Philox generator = generator_of_integers(call, 0);
  const auto draw = [&](uint64_t first, int64_t count, double* values) {
    uint32_t words[kChunk];
    generator.words(first, count, words);
    for (int64_t k = 0; k < count; ++k) values[k] = static_cast<double>(words[k]) * 0x1p-32;
  };
  const bool fits = map_drawn<double, double, 1>(call.output(0), {&probability}, draw,
                                                 [](double drawn, double p) { return drawn < p ? 1.0 : 0.0; });
  return fits ? Status::ok() : invalid(call, "the probabilities do not broadcast to the shape of the output");
}

}  // namespace drydock::ops::kernels
