#include <algorithm>

#include "ops/attention/flash_attention.h"
#include "ops/attention/sparse_mode.h"

// Which keys a query sees, and what is added to its scores.

namespace drydock::ops::kernels::attention {

namespace {

constexpr int64_t kPrefixRows = 1024;
/// Rows of a shift that stand for all rows.
constexpr int64_t kCompressedShift = 1024;

/// The elements of a tensor [queries, keys] or [batch, heads, queries, keys] that belong to one entry of the batch,
/// where sizes of 1 are broadcast.
bool score_view(const TensorView& view, int64_t batch, int64_t batches, int64_t heads, int64_t queries, int64_t keys,
                ScoreView* result) {
  const int rank = view.dims.size();
  if (rank != 2 && rank != 4) return false;
  const Dims strides = strides_bytes(view);
  ScoreView found{view.data, 0, 0, 0};
  const auto along = [&](int axis, int64_t size, int64_t* stride) {
    if (view.dims[axis] != 1 && view.dims[axis] != size) return false;
    *stride = view.dims[axis] == 1 ? 0 : strides[axis];
    return true;
  };
  if (!along(rank - 2, queries, &found.query_stride) || !along(rank - 1, keys, &found.key_stride)) return false;
  if (rank == 4) {
    int64_t batch_stride = 0;
    if (!along(0, batches, &batch_stride) || !along(1, heads, &found.head_stride)) return false;
    found.data += batch * batch_stride;
  }
  *result = found;
  return true;
}

}  // namespace

Status FlashAttentionCall::parse_band() {
  if (!arguments_.tensor("attenMaskOptional").defined) return Status::ok();  // all keys are seen, whatever the mode
  const int64_t mode = arguments_.integer("sparseMode");
  const int64_t before = bounded(arguments_.integer("preTokens"));
  const int64_t after = bounded(arguments_.integer("nextTokens"));
  const std::span<const int64_t> prefixes = arguments_.ints("prefixOptional");
  std::vector<Sequence>& sequences = problem_.sequences;
  if (mode < kDefaultMask || mode > kBandLeftUpCausal || (mode == kPrefix && is_variable_length()) ||
      (mode > kPrefixCompressed && !is_variable_length())) {
    return invalid(call_, "sparseMode " + std::to_string(mode) + " does not exist for this layout");
  }
  if ((mode == kPrefix || mode == kPrefixCompressed) && prefixes.size() != sequences.size()) {
    return invalid(call_, "prefix must hold one length for each of the " + std::to_string(sequences.size()) +
                              " sequences, but holds " + std::to_string(prefixes.size()));
  }
  const auto has_rows = [](const Sequence& s) { return s.queries > 0 && s.keys > 0; };
  const auto first = std::find_if(sequences.begin(), sequences.end(), has_rows);
  const auto last = std::find_if(sequences.rbegin(), sequences.rend(), has_rows);
  for (size_t k = 0; k < sequences.size(); ++k) {
    Sequence& s = sequences[k];
    int64_t own = mode;
    if (mode == kRightDownCausalBand) own = last != sequences.rend() && &s == &*last ? kBand : kRightDownCausal;
    if (mode == kBandLeftUpCausal) own = first != sequences.end() && &s == &*first ? kBand : kLeftUpCausal;
    const int64_t corner = s.keys - s.queries;
    switch (own) {
      case kDefaultMask:
        s.before = before;
        s.after = after;
        break;
      case kLeftUpCausal: s.after = 0; break;
      case kBand:
        s.before = before - corner;
        s.after = after + corner;
        break;
      case kPrefix:
      case kPrefixCompressed: s.prefix = std::max<int64_t>(0, prefixes[k]); [[fallthrough]];
      case kRightDownCausal: s.after = corner; break;
      default: break;
    }
  }
  return Status::ok();
}

Status FlashAttentionCall::parse_mask() {
  const TensorView& mask = arguments_.tensor("attenMaskOptional");
  if (!mask.defined) return Status::ok();
  if (mask.dtype != DataType::kBool && mask.dtype != DataType::kUInt8) {
    return invalid(call_, "attenMask must be of bool or uint8");
  }
  const int64_t mode = arguments_.integer("sparseMode");
  if (mode != kDefaultMask && mode != kAllMask && mode != kPrefix) {
    const int64_t rows = mode == kPrefixCompressed ? kCompressedMask + kPrefixRows : kCompressedMask;
    if (mask.numel() != rows * kCompressedMask || mask.dims[mask.dims.size() - 1] != kCompressedMask) {
      return invalid(call_, "sparseMode " + std::to_string(mode) + " takes an attenMask of [" + std::to_string(rows) +
                                ", 2048], not " + sizes_of(mask));
    }
    return Status::ok();  // the triangle itself; the band says the same
  }
  int64_t most_queries = 0;
  int64_t most_keys = 0;
  for (const Sequence& s : problem_.sequences) {
    most_queries = std::max(most_queries, s.queries);
    most_keys = std::max(most_keys, s.keys);
  }
  const int64_t batches = static_cast<int64_t>(problem_.sequences.size());
  for (int64_t k = 0; k < batches; ++k) {
    if (!score_view(mask, k, batches, problem_.heads, most_queries, most_keys,
                    &problem_.sequences[static_cast<size_t>(k)].mask)) {
      return invalid(call_, "attenMask " + sizes_of(mask) + " does not fit " + std::to_string(most_queries) +
                                " queries and " + std::to_string(most_keys) + " keys");
    }
  }
  return Status::ok();
}

Status FlashAttentionCall::parse_slopes(const TensorView& slopes) {
  const int64_t batches = static_cast<int64_t>(problem_.sequences.size());
  const bool per_batch = slopes.dims.size() == 2;
  if (slopes.dtype != DataType::kFloat || slopes.dims.size() < 1 || slopes.dims.size() > 2 ||
      slopes.dims[slopes.dims.size() - 1] != problem_.heads || (per_batch && slopes.dims[0] != batches)) {
    return invalid(call_, "pseType 2 and 3 take fp32 slopes [B, N] or [N], not " + sizes_of(slopes));
  }
  for_each_value<float>(slopes, [&](float slope) { slopes_.push_back(slope); });
  const auto start_of = [&](std::string_view name) {
    const std::span<const int64_t> starts = arguments_.ints(name);
    return starts.empty() ? 0 : starts[0];
  };
  const int64_t offset = bounded(start_of("qStartIdxOptional")) - bounded(start_of("kvStartIdxOptional"));
  const bool only_first = is_variable_length() && arguments_.integer("sparseMode") == kBandLeftUpCausal;
  for (int64_t k = 0; k < batches; ++k) {
    Sequence& sequence = problem_.sequences[static_cast<size_t>(k)];
    sequence.slopes = slopes_.data() + (per_batch ? k * problem_.heads : 0);
    sequence.distance_offset = only_first && k != 0 ? 0 : offset;
  }
  return Status::ok();
}

Status FlashAttentionCall::parse_shift(std::string_view name) {
  const TensorView& shift = arguments_.tensor(name);
  const int64_t type = arguments_.integer("pseType", 1);
  if (type < 0 || type > 3) return invalid(call_, "pseType must be 0, 1, 2 or 3, not " + std::to_string(type));
  problem_.scales_shift = type == 1;
  problem_.root_of_distance = type == 3;
  if (!shift.defined) return Status::ok();
  if (type >= 2) return parse_slopes(shift);
  if (shift.dtype != queries_.main.dtype && shift.dtype != DataType::kFloat) {
    return invalid(call_, "pse must have the type of query");
  }
  problem_.shift_type = shift.dtype;
  const int64_t batches = static_cast<int64_t>(problem_.sequences.size());
  const int64_t size = bytes_of(shift.dtype, 1);
  if (is_variable_length() && shift.dims.size() == 1) {
    // The sequences' own [heads, queries, keys] one behind the other.
    int64_t start = 0;
    for (Sequence& s : problem_.sequences) {
      const int64_t stride = shift.strides[0] * size;
      s.shift = {shift.data + start * stride, s.queries * s.keys * stride, s.keys * stride, stride};
      start += problem_.heads * s.queries * s.keys;
    }
    if (start > shift.dims[0]) {
      return invalid(call_, "pse must hold " + std::to_string(start) + " values, not " + sizes_of(shift));
    }
    return Status::ok();
  }
  for (int64_t k = 0; k < batches; ++k) {
    Sequence& s = problem_.sequences[static_cast<size_t>(k)];
    const bool compressed = shift.dims.size() == 4 && shift.dims[2] == kCompressedShift && s.queries > kCompressedShift;
    s.shift_first_query = compressed ? s.queries - kCompressedShift : 0;
    if (is_variable_length() && shift.dims.size() == 4 && (shift.dims[2] < s.queries || shift.dims[3] < s.keys) &&
        !compressed) {
      return invalid(call_, "pse " + sizes_of(shift) + " does not fit");
    }
    const bool larger = is_variable_length() && shift.dims.size() == 4;
    const int64_t rows = compressed ? kCompressedShift : larger ? shift.dims[2] : s.queries;
    if (shift.dims.size() != 4 ||
        !score_view(shift, k, batches, problem_.heads, rows, larger ? shift.dims[3] : s.keys, &s.shift)) {
      return invalid(call_, "pse " + sizes_of(shift) + " does not fit " + std::to_string(s.queries) + " queries and " +
                                std::to_string(s.keys) + " keys");
    }
  }
  return Status::ok();
}

}  // namespace drydock::ops::kernels::attention
