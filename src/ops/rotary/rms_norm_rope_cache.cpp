#include <algorithm>
#include <cmath>

#include "ops/kernel_call.h"
#include "ops/rotary/cache_writer.h"
#include "ops/rotary/rotary.h"

// aclnnKvRmsNormRopeCache (both versions) and aclnnQkvRmsNormRopeCache: normalise, rotate, and put into a cache.

namespace drydock::ops::kernels {

namespace rotary {

namespace {

/// y = x / root(mean square + epsilon) * gamma.
void rms_norm(const float* x, const std::vector<float>& gamma, double epsilon, float* y) {
  double squares = 0;
  for (size_t k = 0; k < gamma.size(); ++k) squares += static_cast<double>(x[k]) * x[k];
  const float root = static_cast<float>(std::sqrt(squares / static_cast<double>(gamma.size()) + epsilon));
  for (size_t k = 0; k < gamma.size(); ++k) y[k] = x[k] / root * gamma[k];
}

struct CacheMode {
  CacheWriter::Arrangement arrangement;
  bool by_block;
};

bool cache_mode_of(std::string_view name, CacheMode* mode) {
  using Arrangement = CacheWriter::Arrangement;
  if (name.empty() || name == "Norm") {
    *mode = {Arrangement::kBatch, false};
  } else if (name == "PA" || name == "PA_BNSD") {
    *mode = {Arrangement::kBlocks, false};
  } else if (name == "PA_NZ") {
    *mode = {Arrangement::kChunks, false};
  } else if (name == "PA_BLK_BNSD") {
    *mode = {Arrangement::kBlocks, true};
  } else if (name == "PA_BLK_NZ") {
    *mode = {Arrangement::kChunks, true};
  } else {
    return false;
  }
  return true;
}

/// One side of aclnnKvRmsNormRopeCache: a cache and the output with the values before rounding.
Status set_cache(const KernelCall& call, const TensorView& view, DataType input, const CacheMode& mode,
                 const TensorView& scales, const TensorView& offsets, CacheWriter* cache) {
  if (mode.arrangement == CacheWriter::Arrangement::kChunks && view.defined && view.dims.size() == 4 &&
      view.dims[2] != 1) {
    return not_computed(call, "no kernel for chunks of several heads");
  }
  if (!cache->set(view, mode.arrangement)) return invalid(call, "a cache must have four dimensions: " + sizes_of(view));
  if (view.dtype == input) return Status::ok();
  if (view.dtype != DataType::kInt8) return not_computed(call, "no kernel for caches of this type");
  if (!cache->set_rounding(CacheWriter::Rounding::kMultiply, scales, offsets)) {
    return invalid(call, "an int8 cache needs scales for its elements, not " + sizes_of(scales));
  }
  return Status::ok();
}

}  // namespace

}  // namespace rotary

/// Without values of their own, kv holds the part that is normalised before the part that is rotated; with them, all of
/// it is normalised and its first elements are rotated.
Status kv_rms_norm_rope_cache(KernelCall& call) {
  using namespace rotary;
  DRYDOCK_RETURN_IF_ERROR(expect(call, 7, 2));
  const TensorView& kv = call.operand(0);
  const TensorView& cos = call.operand(2);
  const std::vector<float> gamma = floats_of(call.operand(1));
  const TensorView v = call.operand_count() > 11 ? call.operand(11) : TensorView{};
  const std::string sizes = ": kv " + sizes_of(kv) + ", gamma " + sizes_of(call.operand(1)) + ", cos " + sizes_of(cos);
  if (kv.dims.size() != 4 || cos.dims.size() != 4 || !(cos.dims == call.operand(3).dims)) {
    return invalid(call, "kv, cos and sin must have four dimensions" + sizes);
  }
  const int64_t normed = static_cast<int64_t>(gamma.size());
  const int64_t rotated = cos.dims[3];
  const int64_t width = kv.dims[3];
  const bool fits = v.defined ? normed == width && rotated <= width : normed + rotated == width;
  if (!fits || rotated % 2 != 0 || normed == 0) return invalid(call, "the widths do not fit together" + sizes);
  Dims angle_dims = kv.dims;
  angle_dims[3] = rotated;
  TensorView cos_view, sin_view;
  if (!broadcast_view(cos, angle_dims, &cos_view) || !broadcast_view(call.operand(3), angle_dims, &sin_view)) {
    return invalid(call, "cos and sin must broadcast to kv" + sizes);
  }
  CacheMode mode{};
  if (!cache_mode_of(call.text(0), &mode)) return invalid(call, "cacheMode " + std::string(call.text(0)));
  // The device passes over offsets where keys and values come in one tensor.
  const TensorView none{};
  CacheWriter keys, values;
  DRYDOCK_RETURN_IF_ERROR(
      set_cache(call, call.output(0), kv.dtype, mode, call.operand(7), v.defined ? call.operand(9) : none, &keys));
  DRYDOCK_RETURN_IF_ERROR(
      set_cache(call, call.output(1), kv.dtype, mode, call.operand(8), v.defined ? call.operand(10) : none, &values));
  const int64_t heads = kv.dims[1];
  const int64_t key_width = v.defined ? width : rotated;
  const int64_t value_width = v.defined && v.dims.size() == 4 ? v.dims[3] : normed;
  if (keys.heads() != heads || values.heads() != heads || keys.width() != key_width || values.width() != value_width ||
      keys.slots() != values.slots() || keys.block_size() != values.block_size()) {
    return invalid(
        call, "the caches " + sizes_of(call.output(0)) + " and " + sizes_of(call.output(1)) + " do not fit" + sizes);
  }
  if (v.defined && (v.dims.size() != 4 || v.dims[0] != kv.dims[0] || v.dims[1] != heads || v.dims[2] != kv.dims[2])) {
    return invalid(call, "v " + sizes_of(v) + " does not fit" + sizes);
  }
  if (mode.arrangement == CacheWriter::Arrangement::kBatch &&
      (call.output(0).dims[0] < kv.dims[0] || call.output(1).dims[0] < kv.dims[0])) {
    return invalid(call, "the caches have fewer batches than kv" + sizes);
  }
  Slots slots;
  DRYDOCK_RETURN_IF_ERROR(
      slots.set(call, call.operand(4), kv.dims[0], kv.dims[2], keys.block_size(), mode.by_block, keys.slots()));
  const bool gives_rows =
      call.boolean(0) && call.output_count() > 3 && call.output(2).defined && call.output(3).defined;
  if (gives_rows && (call.output(2).numel() != kv.numel() / width * key_width ||
                     call.output(3).numel() != kv.numel() / width * value_width)) {
    return invalid(call, "kRope and cKv do not fit" + sizes);
  }
  const Rotation rotation(Mode::kInterleaveHalf, rotated);
  const Rows rows(kv, 3), cos_rows(cos_view, 3), sin_rows(sin_view, 3);
  std::vector<float> buffer(static_cast<size_t>(width)), cos_buffer(static_cast<size_t>(rotated)),
      sin_buffer(cos_buffer.size()), norm(static_cast<size_t>(normed)), key(static_cast<size_t>(key_width)),
      value(static_cast<size_t>(value_width));
  int64_t row = 0;
  for (int64_t batch = 0; batch < kv.dims[0]; ++batch) {
    for (int64_t head = 0; head < heads; ++head) {
      for (int64_t at = 0; at < kv.dims[2]; ++at, ++row) {
        const float* x = rows.read<float>(row, buffer.data());
        rms_norm(x, gamma, call.number(0), norm.data());
        if (v.defined) std::copy(norm.begin(), norm.end(), key.begin());
        rotation.apply(v.defined ? norm.data() : x + normed, cos_rows.read<float>(row, cos_buffer.data()),
                       sin_rows.read<float>(row, sin_buffer.data()), key.data());
        const float* value_row = v.defined ? Rows(v, 3).read<float>(row, value.data()) : norm.data();
        const int64_t slot = slots.of(batch, at);
        if (slot >= 0) {
          keys.write(batch, slot, head, key.data());
          values.write(batch, slot, head, value_row);
        }
        if (gives_rows) {
          Rows(call.output(2), call.output(2).dims.size() - 1).write<float>(row, key.data());
          Rows(call.output(3), call.output(3).dims.size() - 1).write<float>(row, value_row);
        }
      }
    }
  }
  return Status::ok();
}

Status qkv_rms_norm_rope_cache(KernelCall& call) {
  using namespace rotary;
  DRYDOCK_RETURN_IF_ERROR(expect(call, 9, 3));
  const TensorView& qkv = call.operand(0);
  const std::vector<float> gammas[2] = {floats_of(call.operand(1)), floats_of(call.operand(2))};
  const std::span<const int64_t> sizes = call.ints(0);
  const std::span<const int64_t> heads = call.ints(1);
  if (sizes.size() != 4 || heads.size() != 3 || heads[0] <= 0 || heads[1] <= 0 || heads[1] != heads[2] ||
      sizes[2] != heads[0] + heads[1] + heads[2]) {
    return invalid(call, "qkvSize must be [B, S, N, D] and headNums [Nq, Nk, Nv] with Nk = Nv and N their sum");
  }
  const int64_t tokens = sizes[0] * sizes[1];
  const int64_t width = sizes[3];
  const TensorView& cos = call.operand(3);
  const TensorView& q_out = call.output(0);
  if (qkv.dims.size() != 2 || qkv.dims[0] != tokens || qkv.dims[1] != sizes[2] * width || cos.dims.size() != 2 ||
      cos.dims[0] != tokens || cos.dims[1] != width || !(cos.dims == call.operand(4).dims) || width % 2 != 0 ||
      static_cast<int64_t>(gammas[0].size()) != width || gammas[1].size() != gammas[0].size() ||
      q_out.dims.size() != 2 || q_out.dims[0] != tokens || q_out.dims[1] != heads[0] * width) {
    return invalid(
        call, "the sizes do not fit: qkv " + sizes_of(qkv) + ", cos " + sizes_of(cos) + ", qOut " + sizes_of(q_out));
  }
  if (call.text(0) != "PA_NZ") return not_computed(call, "no kernel for cacheMode " + std::string(call.text(0)));
  CacheWriter caches[2];
  for (int which = 0; which < 2; ++which) {
    const TensorView& view = call.output(1 + which);
    if (!caches[which].set_merged_chunks(view, heads[1], width)) {
      return invalid(call, "a cache must be [blocks, heads * width / n, block size, n], not " + sizes_of(view));
    }
    const TensorView& scales = call.operand(9 + which);
    if (view.dtype == qkv.dtype) continue;
    if (view.dtype != DataType::kInt8) return not_computed(call, "no kernel for caches of this type");
    if (!caches[which].set_rounding(CacheWriter::Rounding::kDivide, scales, call.operand(11 + which))) {
      return invalid(call, "an int8 cache needs scales for its elements, not " + sizes_of(scales));
    }
  }
  Slots slots;
  DRYDOCK_RETURN_IF_ERROR(slots.set(call, call.operand(5), 1, tokens, caches[0].block_size(), false,
                                    std::min(caches[0].slots(), caches[1].slots())));
  const Rotation rotation(Mode::kHalf, width);
  const Rows rows(qkv, 1), cos_rows(cos, 1), sin_rows(call.operand(4), 1), q_rows(q_out, 1);
  std::vector<float> buffer(static_cast<size_t>(rows.length())), cos_buffer(static_cast<size_t>(width)),
      sin_buffer(cos_buffer.size()), norm(cos_buffer.size()), results(buffer.size());
  for (int64_t token = 0; token < tokens; ++token) {
    const float* x = rows.read<float>(token, buffer.data());
    const float* cos_row = cos_rows.read<float>(token, cos_buffer.data());
    const float* sin_row = sin_rows.read<float>(token, sin_buffer.data());
    for (int64_t head = 0; head < heads[0] + heads[1]; ++head) {
      rms_norm(x + head * width, gammas[head < heads[0] ? 0 : 1], call.number(0), norm.data());
      rotation.apply(norm.data(), cos_row, sin_row, results.data() + head * width);
    }
    const float* values = x + (heads[0] + heads[1]) * width;
    std::copy_n(values, heads[2] * width, results.data() + (heads[0] + heads[1]) * width);
    q_rows.write<float>(token, results.data());
    const int64_t slot = slots.of(0, token);
    for (int64_t head = 0; head < heads[1] && slot >= 0; ++head) {
      caches[0].write(0, slot, head, results.data() + (heads[0] + head) * width);
      caches[1].write(0, slot, head, values + head * width);
    }
    int64_t start = 0;
    for (int which = 0; which < 3; ++which) {
      const int64_t count = heads[static_cast<size_t>(which)] * width;
      const TensorView& before = call.output(3 + which);
      if (before.defined && before.dims.size() == 2 && before.dims[0] == tokens && before.dims[1] == count) {
        Rows(before, 1).write<float>(token, results.data() + start);
      }
      start += count;
    }
  }
  return Status::ok();
}

}  // namespace drydock::ops::kernels
