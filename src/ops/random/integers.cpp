#include <numeric>
#include <utility>
#include <vector>

#include "ops/random/draw.h"

// Random integers and permutations.

namespace drydock::ops::kernels {
namespace {

/// out = from + a draw below `range`.
Status fill_range(KernelCall& call, const Philox& generator, int64_t from, uint64_t range) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 0, 1));
  const auto draw = [&](uint64_t first, int64_t count, int64_t* values) {
    uint32_t words[2 * kChunk];
    generator.words(2 * first, 2 * count, words);
    for (int64_t k = 0; k < count; ++k) {
      const uint64_t bits = static_cast<uint64_t>(words[2 * k + 1]) << 32 | words[2 * k];
      values[k] = static_cast<int64_t>(static_cast<uint64_t>(from) + Philox::scale(bits, range));
    }
  };
  map_drawn<int64_t, int64_t, 0>(call.output(0), {}, draw, [](int64_t drawn) { return drawn; });
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

/// The Fisher-Yates shuffle of 0, 1, ..., n - 1; the swap that settles place k takes element k of the stream.
Status randperm(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 0, 1));
  const TensorView& out = call.output(0);
  const int64_t count = out.numel();
  if (count != call.integer(0)) {
    return invalid(
        call, "n is " + std::to_string(call.integer(0)) + ", the output has " + std::to_string(count) + " elements");
  }
  const Philox generator = generator_of_integers(call, 1);
  std::vector<int64_t> order(static_cast<size_t>(count));
  std::iota(order.begin(), order.end(), int64_t{0});
  uint32_t words[2 * kChunk];
  for (int64_t end = count; end > 0;) {
    const int64_t begin = (end - 1) / kChunk * kChunk;
    generator.words(static_cast<uint64_t>(2 * begin), 2 * (end - begin), words);
    for (int64_t place = end - 1; place >= begin; --place) {
      const uint32_t* pair = words + 2 * (place - begin);
      const uint64_t bits = static_cast<uint64_t>(pair[1]) << 32 | pair[0];
      const uint64_t other = Philox::scale(bits, static_cast<uint64_t>(place) + 1);
      std::swap(order[static_cast<size_t>(place)], order[other]);
    }
    end = begin;
  }
  if (count > 0) copy_view(out, contiguous_view(order.data(), DataType::kInt64, out.dims));
  return Status::ok();
}

}  // namespace drydock::ops::kernels
