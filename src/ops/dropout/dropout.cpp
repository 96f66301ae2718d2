#include <algorithm>
#include <cmath>
#include <vector>

#include "base/thread_pool.h"
#include "ops/kernel_access.h"
#include "ops/kernel_call.h"
#include "ops/norm/row_access.h"
#include "ops/random/philox.h"
#include "ops/shapes.h"

// Dropout by masks of bits: bit e % 8 of byte e / 8 is 1 where element e is kept. A mask has as many bytes as the
// elements rounded up to a multiple of 128 need; the bits behind the last element are drawn too.

namespace drydock::ops::kernels {
namespace {

int64_t mask_bytes(int64_t elements) { return (elements + 127) / 128 * 16; }

/// The product of the sizes in the shape argument, of at most 2^56: no tensor has as many elements.
int64_t elements_of(std::span<const int64_t> shape) {
  constexpr int64_t kMost = int64_t{1} << 56;
  int64_t elements = 1;
  for (int64_t size : shape) {
    if (size <= 0) return 0;
    elements = elements > kMost / size ? kMost : elements * size;
  }
  return elements;
}

/// Bits that are 1 with the probability 1 - `zeros`, for the same draws as Bernoulli's: torch_npu takes the one or the
/// other for a dropout, and both are to keep the same elements. Dense: a byte at a time.
void draw_bits(const Philox& generator, double zeros, int64_t first_byte, int64_t count, uint8_t* out) {
  constexpr int64_t kBytes = 32;  // drawn at once
  uint32_t words[kBytes * 8];
  const auto limit = static_cast<uint64_t>(std::ceil((1 - zeros) * 0x1p32));
  for (int64_t at = 0; at < count; at += kBytes) {
    const int64_t length = std::min(kBytes, count - at);
    generator.words(static_cast<uint64_t>(first_byte + at) * 8, length * 8, words);
    for (int64_t byte = 0; byte < length; ++byte) {
      uint8_t bits = 0;
      for (int bit = 0; bit < 8; ++bit) bits |= static_cast<uint8_t>((words[byte * 8 + bit] < limit) << bit);
      out[at + byte] = bits;
    }
  }
}

std::vector<uint8_t> draw_mask(const Philox& generator, double zeros, int64_t bytes) {
  std::vector<uint8_t> mask(static_cast<size_t>(bytes));
  base::parallel_for(bytes, 4096, [&](int64_t begin, int64_t end) {
    draw_bits(generator, zeros, begin, end - begin, mask.data() + begin);
  });
  return mask;
}

Status check_probability(const KernelCall& call, double zeros) {
  if (zeros >= 0 && zeros <= 1) return Status::ok();
  return invalid(call, "the probability " + std::to_string(zeros) + " is not in [0, 1]");
}

Status write_mask(const KernelCall& call, const Philox& generator, const TensorView& out, int64_t elements) {
  const double zeros = call.number(0);
  DRYDOCK_RETURN_IF_ERROR(check_probability(call, zeros));
  if (out.dtype != DataType::kUInt8) return not_computed(call, "a mask that is not of bytes");
  const int64_t bytes = mask_bytes(elements);
  if (out.numel() < bytes) {
    return invalid(call, "a mask for " + std::to_string(elements) + " elements has " + std::to_string(bytes) +
                             " bytes, not " + std::to_string(out.numel()));
  }
  const std::vector<uint8_t> mask = draw_mask(generator, zeros, out.numel());
  if (!mask.empty()) copy_view(out, contiguous_view(const_cast<uint8_t*>(mask.data()), DataType::kUInt8, out.dims));
  return Status::ok();
}

/// out = kept elements / (1 - zeros), others 0.
void drop(const TensorView& self, const TensorView& out, const uint8_t* mask, double zeros) {
  const float scale = zeros < 1 ? static_cast<float>(1 / (1 - zeros)) : 0.0f;
  const auto keep = [&](const float* from, float* to, int64_t first, int64_t count) {
    for (int64_t k = 0; k < count; ++k) {
      const int64_t element = first + k;
      to[k] = (mask[element / 8] >> (element % 8) & 1) != 0 ? from[k] * scale : 0.0f;
    }
  };
  const Loader<float> load = loader_of<float>(self.dtype);
  const Storer<float> store = storer_of<float>(out.dtype);
  if (is_contiguous(self) && is_contiguous(out)) {
    const int64_t in_size = bytes_of(self.dtype, 1);
    const int64_t out_size = bytes_of(out.dtype, 1);
    base::parallel_for(self.numel(), 16384, [&](int64_t begin, int64_t end) {
      float buffer[kChunk], results[kChunk];
      for (int64_t at = begin; at < end; at += kChunk) {
        const int64_t length = std::min(kChunk, end - at);
        keep(load(self.data + at * in_size, in_size, length, buffer), results, at, length);
        store(out.data + at * out_size, out_size, length, results);
      }
    });
    return;
  }
  std::vector<float> values = values_of<float>(self);
  keep(values.data(), values.data(), 0, static_cast<int64_t>(values.size()));
  write_values(out, values);
}

/// Seed and offset in tensors, plus an offset within a captured graph.
Status generator_of_tensors(const KernelCall& call, int first_operand, int64_t offset, Philox* generator) {
  for (int k = 0; k < 2; ++k) {
    const TensorView& view = call.operand(first_operand + k);
    if (!view.defined || !is_real_element(view.dtype) || view.numel() < 1) {
      return not_computed(call, "the seed and offset tensors are missing");
    }
  }
  *generator = Philox(static_cast<uint64_t>(as_int64(call.operand(first_operand))),
                      static_cast<uint64_t>(as_int64(call.operand(first_operand + 1))) + static_cast<uint64_t>(offset));
  return Status::ok();
}

}  // namespace

/// Integers: seed, offset.
Status dropout_gen_mask(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 0, 1));
  const Philox generator(static_cast<uint64_t>(call.integer(0)), static_cast<uint64_t>(call.integer(1)));
  return write_mask(call, generator, call.output(0), elements_of(call.ints(0)));
}

/// Operands: seed, offset. Integer: what is added to the offset.
Status dropout_gen_mask_seeded_by_tensors(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 2, 1));
  Philox generator(0, 0);
  DRYDOCK_RETURN_IF_ERROR(generator_of_tensors(call, 0, call.integer(0), &generator));
  return write_mask(call, generator, call.output(0), elements_of(call.ints(0)));
}

/// Operands: self, mask.
Status dropout_do_mask(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 2, 1));
  const TensorView& self = call.operand(0);
  const TensorView& mask = call.operand(1);
  DRYDOCK_RETURN_IF_ERROR(check_probability(call, call.number(0)));
  if (!(self.dims == call.output(0).dims)) return invalid(call, "the output must have the shape of self");
  if (mask.dtype != DataType::kUInt8) return not_computed(call, "a mask that is not of bytes");
  if (mask.numel() * 8 < self.numel()) {
    return invalid(call, "the mask has " + std::to_string(mask.numel() * 8) + " bits for " +
                             std::to_string(self.numel()) + " elements");
  }
  if (is_contiguous(mask)) {
    drop(self, call.output(0), reinterpret_cast<const uint8_t*>(mask.data), call.number(0));
    return Status::ok();
  }
  std::vector<uint8_t> bytes(static_cast<size_t>(mask.numel()));
  copy_view(contiguous_view(bytes.data(), DataType::kUInt8, mask.dims), mask);
  drop(self, call.output(0), bytes.data(), call.number(0));
  return Status::ok();
}

/// Mask and result in one. Operands: input, (reserved), seed, offset. Outputs: result, mask.
Status dropout_seeded_by_tensors(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 1, 1));
  const TensorView& self = call.operand(0);
  const TensorView& mask_out = call.output(1);
  Philox generator(0, 0);
  DRYDOCK_RETURN_IF_ERROR(generator_of_tensors(call, 2, call.integer(0), &generator));
  DRYDOCK_RETURN_IF_ERROR(check_probability(call, call.number(0)));
  if (!(self.dims == call.output(0).dims)) return invalid(call, "the output must have the shape of the input");
  const std::vector<uint8_t> mask = draw_mask(generator, call.number(0), mask_bytes(self.numel()));
  // At the ends of the range nothing is drawn on the device, and the mask stays as it is.
  const bool keeps_mask = call.number(0) == 0 || call.number(0) == 1;
  if (mask_out.defined && !keeps_mask) {
    if (mask_out.dtype != DataType::kUInt8 || mask_out.numel() != static_cast<int64_t>(mask.size())) {
      return invalid(call, "the mask must have " + std::to_string(mask.size()) + " bytes");
    }
    if (!mask.empty()) {
      copy_view(mask_out, contiguous_view(const_cast<uint8_t*>(mask.data()), DataType::kUInt8, mask_out.dims));
    }
  }
  drop(self, call.output(0), mask.data(), call.number(0));
  return Status::ok();
}

}  // namespace drydock::ops::kernels
