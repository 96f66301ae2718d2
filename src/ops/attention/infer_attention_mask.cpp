#include <algorithm>

#include "ops/attention/infer_attention.h"
#include "ops/attention/sparse_mode.h"

// Masks, shifts, sinks and scales of an inference attention.

namespace drydock::ops::kernels::attention {

namespace {

std::vector<float> floats_of(const TensorView& view) {
  std::vector<float> values;
  if (view.defined) for_each_value<float>(view, [&](float value) { values.push_back(value); });
  return values;
}

/// A tensor of rank 2 to 4 whose last dimensions are queries and keys, where it may have more of both than there are.
bool padded_score_view(const TensorView& view, int64_t batch, int64_t batches, int64_t heads, int64_t queries,
                       int64_t keys, bool rows_are_batches, ScoreView* result) {
  const int rank = view.dims.size();
  if (rank < 2 || rank > 4 || view.dims[rank - 1] < keys) return false;
  const Dims strides = strides_bytes(view);
  ScoreView found{view.data, 0, 0, strides[rank - 1]};
  const auto step = [&](int axis) { return view.dims[axis] == 1 ? 0 : strides[axis]; };
  if (rank == 2 && rows_are_batches) {
    if (view.dims[0] != 1 && view.dims[0] != batches) return false;
    found.data += batch * step(0);
    *result = found;
    return true;
  }
  if (view.dims[rank - 2] != 1 && view.dims[rank - 2] < queries) return false;
  found.query_stride = step(rank - 2);
  if (rank >= 3) {
    if (view.dims[0] != 1 && view.dims[0] != batches) return false;
    found.data += batch * step(0);
  }
  if (rank == 4) {
    if (view.dims[1] != 1 && view.dims[1] != heads) return false;
    found.head_stride = step(1);
  }
  *result = found;
  return true;
}

}  // namespace

Status InferAttentionCall::parse_full_mask(const TensorView& mask, bool with_band) {
  const int64_t batches = static_cast<int64_t>(problem_.sequences.size());
  for (int64_t k = 0; k < batches; ++k) {
    const size_t at = static_cast<size_t>(k);
    Sequence& s = problem_.sequences[at];
    const bool rows_are_batches = !is_packed() && queries_.rows == 1;
    const int64_t queries = mask_rows_[at] + s.queries;
    const int64_t keys = mask_columns_[at] + s.keys;
    if (!padded_score_view(mask, k, batches, problem_.heads, queries, keys, rows_are_batches, &s.mask)) {
      return invalid(call_, "attenMask " + sizes_of(mask) + " does not fit " + std::to_string(queries) +
                                " queries and " + std::to_string(keys) + " keys");
    }
    s.mask.data += mask_rows_[at] * s.mask.query_stride + mask_columns_[at] * s.mask.key_stride;
    if (!with_band) continue;
    s.before = bounded(arguments_.integer("preTokens"));
    s.after = bounded(arguments_.integer("nextTokens"));
  }
  return Status::ok();
}

/// The mask is for the last keys, as many as there are queries; all keys before are seen.
Status InferAttentionCall::parse_tree_mask(const TensorView& mask) {
  const Dims strides = strides_bytes(mask);
  const int rank = mask.dims.size();
  int64_t start = 0;
  for (size_t k = 0; k < problem_.sequences.size(); ++k) {
    Sequence& s = problem_.sequences[k];
    const int64_t size = s.queries;
    if (s.keys < size) return invalid(call_, "sparseMode 9 needs at least as many keys as queries");
    s.mask_first_key = s.keys - size;
    if (is_packed()) {
      if (rank != 1 || mask.dims[0] < start + size * size) return invalid(call_, "attenMask is too short");
      s.mask = {mask.data + start * strides[0], 0, size * strides[0], strides[0]};
      start += size * size;
    } else {
      if (rank != 3 || mask.dims[0] != queries_.batches || mask.dims[1] < size || mask.dims[2] < size) {
        return invalid(call_, "sparseMode 9 takes an attenMask [B, Q, Q], not " + sizes_of(mask));
      }
      s.mask = {mask.data + static_cast<int64_t>(k) * strides[0], 0, strides[1], strides[2]};
    }
  }
  return Status::ok();
}

Status InferAttentionCall::parse_mask() {
  const TensorView& mask = tensor("attenMask");
  const int64_t mode = arguments_.integer("sparseMode");
  if (mode != kTree && (mode < kDefaultMask || mode > kBand)) {
    return invalid(call_, "sparseMode " + std::to_string(mode) + " does not exist");
  }
  if (!mask.defined) {
    if (mode == kDefaultMask || is_single_query()) return Status::ok();
    return invalid(call_, "sparseMode " + std::to_string(mode) + " needs an attenMask");
  }
  if (bytes_of(mask.dtype, 1) != 1 || is_floating(mask.dtype)) {
    return not_computed(call_, "no kernel for masks of this type");
  }
  if (mode == kTree) return parse_tree_mask(mask);
  const bool left_padded = tensor("queryPaddingSize").defined || tensor("kvPaddingSize").defined;
  if (mode <= kAllMask || is_single_query()) {
    return parse_full_mask(mask, mode == kDefaultMask && !left_padded && !is_single_query());
  }
  if (mask.numel() != kCompressedMask * kCompressedMask || mask.dims[mask.dims.size() - 1] != kCompressedMask) {
    return invalid(call_,
                   "sparseMode " + std::to_string(mode) + " takes an attenMask of [2048, 2048], not " + sizes_of(mask));
  }
  for (Sequence& s : problem_.sequences) {
    const int64_t corner = s.keys - s.queries;
    s.after = mode == kLeftUpCausal ? 0 : corner;
    if (mode != kBand) continue;
    s.before = bounded(arguments_.integer("preTokens")) - corner;
    s.after = bounded(arguments_.integer("nextTokens")) + corner;
  }
  return Status::ok();
}

Status InferAttentionCall::parse_shift() {
  const TensorView& shift = tensor("pseShift");
  if (!shift.defined) return Status::ok();
  if (shift.dims.size() != 4 || !is_floating(shift.dtype)) {
    return invalid(call_, "pseShift must be [B, N, Q, K], not " + sizes_of(shift));
  }
  problem_.shift_type = shift.dtype;
  const int64_t batches = static_cast<int64_t>(problem_.sequences.size());
  for (int64_t k = 0; k < batches; ++k) {
    const size_t at = static_cast<size_t>(k);
    Sequence& s = problem_.sequences[at];
    const int64_t keys = mask_columns_[at] + s.keys;
    if (!padded_score_view(shift, k, batches, problem_.heads, mask_rows_[at] + s.queries, keys, false, &s.shift)) {
      return invalid(call_, "pseShift " + sizes_of(shift) + " does not fit " + std::to_string(s.queries) +
                                " queries and " + std::to_string(keys) + " keys");
    }
    s.shift.data += mask_rows_[at] * s.shift.query_stride + mask_columns_[at] * s.shift.key_stride;
  }
  return Status::ok();
}

Status InferAttentionCall::parse_sinks() {
  const TensorView& sinks = tensor("learnableSink");
  if (!sinks.defined) return Status::ok();
  if (sinks.numel() != problem_.heads || !is_floating(sinks.dtype)) {
    return invalid(call_, "learnableSink must hold one value for each head, not " + sizes_of(sinks));
  }
  sinks_ = floats_of(sinks);
  problem_.sinks = sinks_.data();
  return Status::ok();
}

/// `part`: which half of scales that keys and values share; -1: they are this cache's own.
Status InferAttentionCall::dequantization_of(const TensorView& scale, const TensorView& offset, int64_t mode, int part,
                                             KeyCache* cache) {
  using Kind = Dequantization::Kind;
  std::vector<float> scales = floats_of(scale);
  std::vector<float> offsets = floats_of(offset);
  if (!offsets.empty() && offsets.size() != scales.size()) {
    return invalid(call_, "scales and offsets of the keys differ in size");
  }
  if (part >= 0) {
    if (scale.dims[0] != 2) return invalid(call_, "antiquantScale must be [2, ...], not " + sizes_of(scale));
    const auto halve = [part](std::vector<float>& values) {
      const size_t half = values.size() / 2;
      values = std::vector<float>(values.begin() + part * static_cast<int64_t>(half),
                                  values.begin() + (part + 1) * static_cast<int64_t>(half));
    };
    halve(scales);
    halve(offsets);
  }
  Dequantization& result = cache->dequantization();
  const int64_t count = static_cast<int64_t>(scales.size());
  const int64_t heads = problem_.key_heads;
  if (mode == 0 && count == 1) {
    result.kind = Kind::kTensor;
  } else if (mode == 0 && count == heads * cache->width()) {
    result.kind = Kind::kChannel;
  } else if (mode == 1 && scale.dims.size() >= 2) {
    result.kind = Kind::kToken;
    result.tokens_per_batch = scale.dims[scale.dims.size() - 1];
  } else if (mode == 2 && count == heads) {
    result.kind = Kind::kHead;
  } else {
    return not_computed(call_, "no kernel for scales " + sizes_of(scale) + " with mode " + std::to_string(mode));
  }
  result.scales = std::move(scales);
  result.offsets = std::move(offsets);
  return Status::ok();
}

Status InferAttentionCall::parse_dequantization() {
  for (const char* name : {"deqScale1", "quantScale1", "deqScale2", "dequantScale1", "dequantScale2",
                           "dequantScaleQuery", "keyRopeAntiquantScale"}) {
    if (tensor(name).defined)
      return not_computed(call_, "no kernel for quantised products (" + std::string(name) + ")");
  }
  if (keys_.dtype() != DataType::kInt8) return Status::ok();
  if (has_rope_) return not_computed(call_, "no kernel for int8 keys with rotary parts");
  const TensorView& key_scale = tensor("keyAntiquantScale");
  const TensorView& value_scale = tensor("valueAntiquantScale");
  if (key_scale.defined && value_scale.defined) {
    DRYDOCK_RETURN_IF_ERROR(
        dequantization_of(key_scale, tensor("keyAntiquantOffset"), arguments_.integer("keyAntiquantMode"), -1, &keys_));
    return dequantization_of(value_scale, tensor("valueAntiquantOffset"), arguments_.integer("valueAntiquantMode"), -1,
                             &values_);
  }
  const TensorView& scale = tensor("antiquantScale");
  if (!scale.defined) return not_computed(call_, "no kernel for int8 keys without scales");
  const int64_t mode = arguments_.integer("antiquantMode");
  DRYDOCK_RETURN_IF_ERROR(dequantization_of(scale, tensor("antiquantOffset"), mode, 0, &keys_));
  return dequantization_of(scale, tensor("antiquantOffset"), mode, 1, &values_);
}

}  // namespace drydock::ops::kernels::attention
