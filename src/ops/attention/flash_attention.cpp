#include "ops/attention/flash_attention.h"

#include <algorithm>

#include "ops/shapes.h"

namespace drydock::ops::kernels::attention {

namespace {

bool is_attention_type(DataType type) {
  return type == DataType::kFloat || type == DataType::kFloat16 || type == DataType::kBFloat16;
}

bool is_byte(DataType type) { return type == DataType::kBool || type == DataType::kUInt8 || type == DataType::kInt8; }

/// A layout's name in upper case, as a view into fixed text; empty if it is none.
std::string_view known_layout(std::string_view text) {
  constexpr std::string_view kLayouts[] = {"BNSD", "BSND", "BSH", "SBH", "TND"};
  for (std::string_view layout : kLayouts) {
    if (layout.size() == text.size() && std::equal(layout.begin(), layout.end(), text.begin(),
                                                   [](char a, char b) { return a == b || a == b - ('a' - 'A'); })) {
      return layout;
    }
  }
  return {};
}

}  // namespace

Status FlashAttentionCall::parse(std::string_view key_name, std::string_view key_rope_name, std::string_view shift_name,
                                 std::string_view sink_name) {
  DRYDOCK_RETURN_IF_ERROR(parse_rows(key_name, key_rope_name));
  DRYDOCK_RETURN_IF_ERROR(parse_lengths());
  DRYDOCK_RETURN_IF_ERROR(parse_band());
  DRYDOCK_RETURN_IF_ERROR(parse_mask());
  DRYDOCK_RETURN_IF_ERROR(parse_shift(shift_name));
  DRYDOCK_RETURN_IF_ERROR(parse_dropout());
  return parse_sinks(sink_name);
}

Status FlashAttentionCall::parse_rows(std::string_view key_name, std::string_view key_rope_name) {
  layout_ = known_layout(arguments_.text("inputLayout"));
  if (layout_.empty()) {
    return invalid(
        call_, "inputLayout must be BSH, SBH, BSND, BNSD or TND, not " + std::string(arguments_.text("inputLayout")));
  }
  const TensorView& query = arguments_.tensor_or_empty("query");
  const TensorView& key = arguments_.tensor_or_empty(key_name);
  const TensorView& value = arguments_.tensor_or_empty("value");
  if (!query.defined || !key.defined || !value.defined) return invalid(call_, "query, key and value must be given");
  if (!is_attention_type(query.dtype)) return not_computed(call_, "no kernel for this type of query");
  if (key.dtype != query.dtype || value.dtype != query.dtype) {
    return invalid(call_, "query, key and value must have one type");
  }
  const int64_t heads = arguments_.integer("headNum");
  const std::string sizes = ": query " + sizes_of(query) + ", key " + sizes_of(key) + ", value " + sizes_of(value);
  if (heads <= 0 || !head_view(query, layout_, heads, &queries_.main) || queries_.main.heads != heads) {
    return invalid(
        call_, "query must have the layout " + std::string(layout_) + " with headNum " + std::to_string(heads) + sizes);
  }
  int64_t key_heads = heads;
  if (layout_.back() == 'H') {
    const int64_t width = queries_.main.width;
    if (key.dims.size() != 3 || width == 0 || key.dims[2] % width != 0) {
      return invalid(call_, "the key's last dimension must be a multiple of the head's width" + sizes);
    }
    key_heads = key.dims[2] / width;
  }
  if (!head_view(key, layout_, key_heads, &keys_.main) || !head_view(value, layout_, keys_.main.heads, &values_)) {
    return invalid(call_, "key and value must have the layout " + std::string(layout_) + sizes);
  }
  const HeadView& k = keys_.main;
  if (k.heads != values_.heads || k.rows != values_.rows || k.batches != values_.batches ||
      k.batches != queries_.main.batches || k.width != queries_.main.width) {
    return invalid(call_, "query, key and value do not fit together" + sizes);
  }
  if (k.heads != 0 && heads % k.heads != 0) {
    return invalid(call_, "the query's heads must be a multiple of the key's" + sizes);
  }
  const TensorView& query_rope = arguments_.tensor("queryRope");
  const TensorView& key_rope = arguments_.tensor(key_rope_name);
  if (query_rope.defined != key_rope.defined) return invalid(call_, "queryRope and keyRope belong together");
  if (query_rope.defined) {
    const bool fits = head_view(query_rope, layout_, heads, &queries_.rope) &&
                      head_view(key_rope, layout_, k.heads, &keys_.rope) && queries_.rope.heads == heads &&
                      queries_.rope.rows == queries_.main.rows && queries_.rope.batches == queries_.main.batches &&
                      keys_.rope.heads == k.heads && keys_.rope.rows == k.rows && keys_.rope.batches == k.batches &&
                      keys_.rope.width == queries_.rope.width;
    if (!fits || query_rope.dtype != query.dtype || key_rope.dtype != query.dtype) {
      return invalid(
          call_, "queryRope " + sizes_of(query_rope) + " and keyRope " + sizes_of(key_rope) + " do not fit" + sizes);
    }
  }
  const TensorView& gradients = arguments_.tensor("dy");  // of the backward pass alone
  problem_.is_bf16 =
      query.dtype == DataType::kBFloat16 && (!gradients.defined || gradients.dtype == DataType::kBFloat16);
  problem_.heads = heads;
  problem_.key_heads = std::max<int64_t>(1, k.heads);
  problem_.key_width = queries_.width();
  problem_.value_width = values_.width;
  problem_.scale = static_cast<float>(arguments_.number("scaleValue", 1));
  return Status::ok();
}

Status FlashAttentionCall::cumulated(std::string_view name, int64_t rows, std::vector<int64_t>* starts,
                                     std::vector<int64_t>* lengths) {
  int64_t end = 0;
  for (int64_t next : arguments_.ints(name)) {
    // Zeros at the end stand for sequences that take no part.
    const int64_t length = next == 0 ? 0 : next - end;
    if (length < 0 || next > rows) {
      return invalid(call_, std::string(name) + " must not fall and not exceed the " + std::to_string(rows) +
                                " rows, but holds " + std::to_string(next) + " after " + std::to_string(end));
    }
    starts->push_back(end);
    lengths->push_back(length);
    end += length;
  }
  return Status::ok();
}

Status FlashAttentionCall::parse_lengths() {
  std::vector<int64_t> queries, keys;
  if (is_variable_length()) {
    DRYDOCK_RETURN_IF_ERROR(cumulated("actualSeqQLenOptional", queries_.main.rows, &query_starts_, &queries));
    DRYDOCK_RETURN_IF_ERROR(cumulated("actualSeqKvLenOptional", keys_.main.rows, &key_starts_, &keys));
    if (queries.size() != keys.size() || queries.empty()) {
      return invalid(call_, "actualSeqQLen and actualSeqKvLen must hold one length for each sequence, but hold " +
                                std::to_string(queries.size()) + " and " + std::to_string(keys.size()));
    }
  } else {
    const size_t batches = static_cast<size_t>(queries_.main.batches);
    queries.assign(batches, queries_.main.rows);
    keys.assign(batches, keys_.main.rows);
    query_starts_.assign(batches, 0);
    key_starts_.assign(batches, 0);
  }
  const bool has_keys = keys_.main.heads > 0;
  for (size_t k = 0; k < queries.size(); ++k) {
    Sequence sequence;
    sequence.queries = queries[k];
    sequence.keys = has_keys ? keys[k] : 0;
    problem_.add(sequence);
  }
  return Status::ok();
}

Status FlashAttentionCall::view_like(const TensorView& view, const HeadView& model, std::string_view what,
                                     HeadView* result) const {
  if (!head_view(view, layout_, model.heads, result) || result->batches != model.batches ||
      result->heads != model.heads || result->rows != model.rows || result->width != model.width) {
    return invalid(call_, std::string(what) + " has the wrong sizes " + sizes_of(view));
  }
  if (!is_attention_type(view.dtype)) return not_computed(call_, "no kernel for the type of " + std::string(what));
  return Status::ok();
}

Status FlashAttentionCall::view_like_results(const TensorView& view, std::string_view what, HeadView* result) const {
  HeadView model = queries_.main;
  model.width = values_.width;
  return view_like(view, model, what, result);
}

namespace {

void read_two_parts(const TwoPartRows& view, int64_t batch, int64_t head, int64_t first, int64_t count, Block rows) {
  read_rows(view.main, batch, head, first, count, rows);
  if (view.rope.width > 0) {
    read_rows(view.rope, batch, head, first, count, {rows.data + view.main.width, rows.stride});
  }
}

}  // namespace

ReadRows FlashAttentionCall::reader_of_queries(const TwoPartRows& view) const {
  return [this, view](int64_t sequence, int64_t head, int64_t first, int64_t count, Block rows) {
    read_two_parts(view, batch_of(sequence), head, first_query(sequence) + first, count, rows);
  };
}

ReadRows FlashAttentionCall::reader_of_keys(const TwoPartRows& view) const {
  return [this, view](int64_t sequence, int64_t head, int64_t first, int64_t count, Block rows) {
    read_two_parts(view, batch_of(sequence), head, first_key(sequence) + first, count, rows);
  };
}

Status FlashAttentionCall::check_statistics(const TensorView& view, std::string_view name) const {
  const HeadView& q = queries_.main;
  const Dims expected = is_variable_length() ? Dims{q.rows, q.heads, 8} : Dims{q.batches, q.heads, q.rows, 8};
  if (!view.defined || view.dtype != DataType::kFloat || view.numel() != expected.product() || !is_contiguous(view)) {
    return invalid(call_, std::string(name) +
                              " must be a dense fp32 tensor with 8 values for each query and head, not " +
                              sizes_of(view));
  }
  return Status::ok();
}

char* FlashAttentionCall::statistic(const TensorView& view, int64_t sequence, int64_t head, int64_t query) const {
  const Sequence& s = problem_.sequences[static_cast<size_t>(sequence)];
  // Of sequences one behind the other, each has its heads in turn, unless the call asks for the order of the query.
  const int64_t row = statistics_by_token_ ? (first_query(sequence) + query) * problem_.heads + head
                                           : problem_.query_row(s, head, query);
  return view.data + row * 8 * static_cast<int64_t>(sizeof(float));
}

Status FlashAttentionCall::parse_dropout() {
  const std::string_view layout = arguments_.text("softmaxOutLayout");
  const std::string_view layout_in = arguments_.text("softmaxInLayout");
  statistics_by_token_ = is_variable_length() && (layout == "same_as_input" || layout_in == "same_as_input");

  const double keep = arguments_.number("keepProb", 1);
  if (!(keep > 0 && keep <= 1)) return invalid(call_, "keepProb must be in (0, 1], not " + std::to_string(keep));
  problem_.keep_probability = static_cast<float>(keep);
  const TensorView& mask = arguments_.tensor("dropMaskOptional");
  int64_t bits = 0;
  for (Sequence& sequence : problem_.sequences) {
    sequence.keep_bit = bits;
    bits += problem_.heads * sequence.queries * sequence.keys;
  }
  if (!mask.defined || keep == 1) return Status::ok();
  if (!is_byte(mask.dtype) || mask.dims.size() != 1 || mask.dims[0] * 8 < bits) {
    return invalid(call_, "dropMask must hold " + std::to_string(bits) + " bits in bytes, not " + sizes_of(mask));
  }
  problem_.keep_bits = mask.data;
  problem_.keep_byte_stride = mask.strides[0];
  return Status::ok();
}

Status FlashAttentionCall::parse_sinks(std::string_view name) {
  const TensorView& sinks = arguments_.tensor(name);
  if (!sinks.defined) return Status::ok();
  if (sinks.dims.size() != 1 || sinks.dims[0] != problem_.heads || !is_attention_type(sinks.dtype)) {
    return invalid(call_, "sink must hold one value for each head, not " + sizes_of(sinks));
  }
  for_each_value<float>(sinks, [&](float value) { sinks_.push_back(value); });
  problem_.sinks = sinks_.data();
  return Status::ok();
}

}  // namespace drydock::ops::kernels::attention
