#include <algorithm>

#include "ops/kernel_call.h"
#include "ops/rotary/cache_writer.h"
#include "ops/rotary/rotary.h"

// aclnnDequantRopeQuantKvcache: queries, keys and values in one tensor, scaled, rotated, and put into int8 caches.

namespace drydock::ops::kernels {

Status dequant_rope_quant_kv_cache(KernelCall& call) {
  using namespace rotary;
  DRYDOCK_RETURN_IF_ERROR(expect(call, 8, 2));
  const TensorView& x = call.operand(0);
  const TensorView& cos = call.operand(1);
  const TensorView& q_out = call.output(2);
  const std::span<const int64_t> splits = call.ints(0);
  const std::string sizes = ": x " + sizes_of(x) + ", cos " + sizes_of(cos) + ", qOut " + sizes_of(q_out) +
                            ", caches " + sizes_of(call.output(0)) + " and " + sizes_of(call.output(1));
  const bool paged = call.text(2) == "page";
  if (!paged && !call.text(2).empty() && call.text(2) != "contiguous") {
    return invalid(call, "cacheMode must be page or contiguous, not " + std::string(call.text(2)));
  }
  if (x.dims.size() < 2 || x.dims.size() > 3 || splits.size() != 3 || splits[1] != splits[2] || !q_out.defined) {
    return invalid(call, "x must have two or three dimensions and sizeSplits three numbers" + sizes);
  }
  const int last = x.dims.size() - 1;
  for (int64_t split : splits) {
    if (split < 0 || split > x.dims[last])
      return invalid(call, "sizeSplits must divide the last dimension of x" + sizes);
  }
  const int64_t batches = x.dims[0];
  const int64_t length = last == 2 ? x.dims[1] : 1;
  const int64_t width = cos.dims.empty() ? 0 : cos.dims[cos.dims.size() - 1];
  const int64_t hidden = splits[0] + splits[1] + splits[2];
  if (width <= 0 || width % 2 != 0 || splits[0] <= 0 || splits[1] <= 0 || splits[0] % width != 0 ||
      splits[1] % width != 0 || hidden != x.dims[last] || cos.numel() != batches * length * width ||
      !(cos.dims == call.operand(2).dims) || q_out.numel() != batches * length * splits[0]) {
    return invalid(call, "the sizes do not fit together" + sizes);
  }
  const std::vector<float> weights = floats_of(call.operand(10));
  const std::vector<float> activations = floats_of(call.operand(11));
  const std::vector<float> bias = floats_of(call.operand(12));
  const bool bias_first = call.operand(12).defined && call.operand(12).dtype == DataType::kInt32;
  if ((!weights.empty() && static_cast<int64_t>(weights.size()) != hidden) ||
      (!bias.empty() && static_cast<int64_t>(bias.size()) != hidden) ||
      (!activations.empty() && static_cast<int64_t>(activations.size()) != batches * length)) {
    return invalid(call, "weightScale and bias must have the width of x, activationScale its rows" + sizes);
  }
  CacheWriter caches[2];
  for (int which = 0; which < 2; ++which) {
    // Rows lie behind a batch's first, or behind each other in all blocks.
    if (!caches[which].set(call.output(which), CacheWriter::Arrangement::kBlocks) ||
        caches[which].heads() != splits[1] / width || caches[which].width() != width ||
        call.output(which).dtype != DataType::kInt8 ||
        !caches[which].set_rounding(CacheWriter::Rounding::kDivide, call.operand(6 + which), call.operand(8 + which))) {
      return invalid(call, "the caches must be int8 [n, m, heads, width] with scales for heads and elements" + sizes);
    }
    if (!paged && call.output(which).dims[0] < batches) return invalid(call, "the caches have too few batches" + sizes);
  }
  if (paged && last == 2 && call.operand(5).numel() != batches * length) {
    return invalid(call, "indices must hold one number for each row" + sizes);
  }
  const bool by_row = paged && last == 2;
  const int64_t limit = paged ? caches[0].slots() : caches[0].block_size() - length + 1;
  Slots slots;
  DRYDOCK_RETURN_IF_ERROR(slots.set(call, call.operand(5), by_row ? batches * length : batches, 1, 1, false, limit));
  const int64_t heads[2] = {splits[0] / width, splits[1] / width};
  const Rotation rotation(Mode::kHalf, width);
  const Rows rows(x, last), cos_rows(cos, cos.dims.size() - 1), sin_rows(call.operand(2), cos.dims.size() - 1),
      q_rows(q_out, q_out.dims.size() - 1);
  const bool gives_rows = call.boolean(0) && call.output(3).defined && call.output(4).defined;
  if (gives_rows &&
      (call.output(3).numel() != batches * length * splits[1] || call.output(4).numel() != call.output(3).numel())) {
    return invalid(call, "kOut and vOut do not fit" + sizes);
  }
  std::vector<float> buffer(static_cast<size_t>(hidden)), cos_buffer(static_cast<size_t>(width)),
      sin_buffer(cos_buffer.size()), row(buffer.size()), result(cos_buffer.size());
  for (int64_t number = 0; number < batches * length; ++number) {
    const float* from = rows.read<float>(number, buffer.data());
    const float activation = activations.empty() ? 1.0f : activations[static_cast<size_t>(number)];
    for (size_t k = 0; k < row.size(); ++k) {
      const float added = bias.empty() ? 0.0f : bias[k];
      const float weight = weights.empty() ? 1.0f : weights[k] * activation;
      row[k] = bias_first ? (from[k] + added) * weight : from[k] * weight + added;
    }
    const int64_t start = by_row ? slots.of(number, 0) : slots.of(number / length, 0);
    const int64_t in_cache = by_row || start < 0 ? start : start + number % length;
    // Without blocks, a batch's rows are those of its own part of the cache.
    const int64_t slot = paged || in_cache < 0 ? in_cache : number / length * caches[0].block_size() + in_cache;
    const float* cos_row = cos_rows.read<float>(number, cos_buffer.data());
    const float* sin_row = sin_rows.read<float>(number, sin_buffer.data());
    for (int64_t head = 0; head < heads[0]; ++head) {
      rotation.apply(row.data() + head * width, cos_row, sin_row, result.data());
      q_rows.write<float>(number * heads[0] + head, result.data());
    }
    for (int64_t head = 0; head < heads[1]; ++head) {
      const float* value = row.data() + splits[0] + splits[1] + head * width;
      rotation.apply(row.data() + splits[0] + head * width, cos_row, sin_row, result.data());
      if (slot >= 0) {
        caches[0].write(0, slot, head, result.data());
        caches[1].write(0, slot, head, value);
      }
      if (!gives_rows) continue;
      Rows(call.output(3), call.output(3).dims.size() - 1).write<float>(number * heads[1] + head, result.data());
      Rows(call.output(4), call.output(4).dims.size() - 1).write<float>(number * heads[1] + head, value);
    }
  }
  return Status::ok();
}

}  // namespace drydock::ops::kernels
