#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "ops/kernel_access.h"
#include "ops/kernel_call.h"
#include "ops/random/philox.h"

// Random integers, permutations and draws. The same seed gives the same values in every run.
// Floating distributions (uniform, normal) are left to ghosts: they fill weights, which nothing decides by.

namespace drydock::ops::kernels {
namespace {

/// Seed and offset as the n-th and following integer arguments.
Philox generator_of_integers(const KernelCall& call, int first) {
  return Philox(static_cast<uint64_t>(call.integer(first)), static_cast<uint64_t>(call.integer(first + 1)));
}

/// Seed and offset as the last two operands, plus an integer argument: the form that captured graphs use.
Status generator_of_tensors(const KernelCall& call, int offset_argument, Philox* generator) {
  const int count = call.operand_count();
  if (count < 2 || call.operand(count - 1).numel() < 1 || call.operand(count - 2).numel() < 1) {
    return not_computed(call, "the seed and offset tensors are missing");
  }
  DRYDOCK_RETURN_IF_ERROR(expect(call, count, 1));
  *generator = Philox(
      static_cast<uint64_t>(as_int64(call.operand(count - 2))),
      static_cast<uint64_t>(as_int64(call.operand(count - 1))) + static_cast<uint64_t>(call.integer(offset_argument)));
  return Status::ok();
}

Status fill_range(KernelCall& call, const Philox& generator, int64_t from, uint64_t range) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 0, 1));
  const TensorView& out = call.output(0);
  std::vector<int64_t> values(static_cast<size_t>(out.numel()));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<int64_t>(static_cast<uint64_t>(from) + generator.below(range, i));
  }
  if (!values.empty()) copy_view(out, contiguous_view(values.data(), DataType::kInt64, out.dims));
  return Status::ok();
}

Status fill_between(KernelCall& call, const Philox& generator) {
  const int64_t from = call.integer(0);
  const int64_t to = call.integer(1);
  if (to <= from) {
    return invalid(call, "the range [" + std::to_string(from) + ", " + std::to_string(to) + ") is empty");
  }
  return fill_range(call, generator, from, static_cast<uint64_t>(to) - static_cast<uint64_t>(from));
}

/// As many values, from 0, as the element type holds without gaps.
uint64_t natural_range_of(DataType type) {
  switch (type) {
    case DataType::kBool: return 2;
    case DataType::kFloat16: return (1u << 11) + 1;
    case DataType::kBFloat16: return (1u << 8) + 1;
    case DataType::kFloat: return (1u << 24) + 1;
    case DataType::kDouble: return (uint64_t{1} << 53) + 1;
    case DataType::kUInt8: return 1u << 8;
    case DataType::kUInt16: return 1u << 16;
    case DataType::kUInt32: return uint64_t{1} << 32;
    default: return uint64_t{1} << (bits_of(type) - 1);
  }
}

Status fill_natural(KernelCall& call, const Philox& generator) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 0, 1));
  return fill_range(call, generator, 0, natural_range_of(call.output(0).dtype));
}

/// output = 1 with the probability that `probability` (broadcast) says, else 0.
Status draw_bernoulli(KernelCall& call, const TensorView& probability, const Philox& generator) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 0, 1));
  if (!probability.defined || !is_real_element(probability.dtype)) return not_computed(call, "no probability");
  const TensorView& out = call.output(0);
  uint64_t index = 0;
  const bool fits = map_elements<double, 1>(out, {&probability}, {DataType::kUndefined},
                                            [&](double p) { return generator.unit(index++) < p ? 1.0 : 0.0; });
  return fits ? Status::ok() : invalid(call, "the probabilities do not broadcast to the shape of the output");
}

Status draw_multinomial(KernelCall& call, const Philox& generator) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 1, 1));
  const TensorView& self = call.operand(0);
  const TensorView& out = call.output(0);
  const int64_t samples = call.integer(0);
  const bool replacement = call.boolean(0);
  const int rank = self.dims.size();
  if (rank < 1 || rank > 2 || out.dims.size() != rank || out.dims[rank - 1] != samples) {
    return invalid(call, "self must be a vector or matrix, the output the same with numsamples columns");
  }
  const Rows weights(self, rank - 1);
  const Rows drawn(out, rank - 1);
  const int64_t classes = weights.length();
  if (drawn.count() != weights.count()) return invalid(call, "self and output differ in rows");
  if (!replacement && samples > classes) return invalid(call, "more samples than classes without replacement");
  std::vector<double> buffer(static_cast<size_t>(classes));
  std::vector<int64_t> picks(static_cast<size_t>(samples));
  uint64_t index = 0;
  for (int64_t row = 0; row < weights.count(); ++row) {
    const double* read = weights.read<double>(row, buffer.data());
    if (read != buffer.data()) std::copy_n(read, classes, buffer.data());
    for (double weight : buffer) {
      if (!(weight >= 0) || std::isinf(weight)) return invalid(call, "a probability is negative, NaN or infinite");
    }
    for (int64_t& pick : picks) {
      const double total = std::accumulate(buffer.begin(), buffer.end(), 0.0);
      if (!(total > 0)) return invalid(call, "the probabilities of a row add up to nothing that is left to draw");
      double left = generator.unit(index++) * total;
      pick = 0;
      for (int64_t c = 0; c < classes; ++c) {
        const double weight = buffer[static_cast<size_t>(c)];
        if (weight <= 0) continue;
        pick = c;  // the last class with a weight, should rounding leave a rest
        if (left < weight) break;
        left -= weight;
      }
      if (!replacement) buffer[static_cast<size_t>(pick)] = 0;
    }
    drawn.write<int64_t>(row, picks.data());
  }
  return Status::ok();
}

}  // namespace

Status random_between(KernelCall& call) { return fill_between(call, generator_of_integers(call, 2)); }

Status random_between_seeded_by_tensors(KernelCall& call) {
  Philox generator(0, 0);
  DRYDOCK_RETURN_IF_ERROR(generator_of_tensors(call, 2, &generator));
  return fill_between(call, generator);
}

Status random_natural(KernelCall& call) { return fill_natural(call, generator_of_integers(call, 0)); }

Status random_natural_seeded_by_tensors(KernelCall& call) {
  Philox generator(0, 0);
  DRYDOCK_RETURN_IF_ERROR(generator_of_tensors(call, 0, &generator));
  return fill_natural(call, generator);
}

Status randperm(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 0, 1));
  const TensorView& out = call.output(0);
  const int64_t count = out.numel();
  if (count != call.integer(0)) return invalid(call, "the output must have n elements");
  const Philox generator = generator_of_integers(call, 1);
  std::vector<int64_t> order(static_cast<size_t>(count));
  std::iota(order.begin(), order.end(), int64_t{0});
  for (size_t last = order.size(); last > 1; --last) std::swap(order[last - 1], order[generator.below(last, last)]);
  if (count > 0) copy_view(out, contiguous_view(order.data(), DataType::kInt64, out.dims));
  return Status::ok();
}

Status bernoulli(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 1, 1));
  return draw_bernoulli(call, call.operand(call.operand_count() - 1), generator_of_integers(call, 0));
}

Status multinomial(KernelCall& call) { return draw_multinomial(call, generator_of_integers(call, 1)); }

Status multinomial_seeded_by_tensors(KernelCall& call) {
  Philox generator(0, 0);
  DRYDOCK_RETURN_IF_ERROR(generator_of_tensors(call, 1, &generator));
  return draw_multinomial(call, generator);
}

}  // namespace drydock::ops::kernels
