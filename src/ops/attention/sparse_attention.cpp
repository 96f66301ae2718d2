#include "ops/attention/sparse_attention.h"

#include <algorithm>

namespace drydock::ops::kernels::attention {

namespace {

std::vector<int64_t> integers_of(const TensorView& view) {
  std::vector<int64_t> values;
  if (view.defined) for_each_value<int64_t>(view, [&](int64_t value) { values.push_back(value); });
  return values;
}

}  // namespace

Status SparseAttentionCall::lengths_of(const TensorView& given, bool packed, int64_t rows, size_t sequences,
                                       const char* what, std::vector<int64_t>* starts,
                                       std::vector<int64_t>* lengths) const {
  const std::vector<int64_t> values = integers_of(given);
  if (values.empty() && !packed) {
    starts->assign(sequences, 0);
    lengths->assign(sequences, rows);
    return Status::ok();
  }
  if (values.empty() || (sequences != 0 && values.size() != sequences)) {
    return invalid(call_, std::string(what) + " must hold a number for each sequence, not " + sizes_of(given));
  }
  int64_t end = 0;
  for (int64_t value : values) {
    const int64_t length = packed ? value - end : value;
    if (length < 0 || (packed ? value : length) > rows) {
      return invalid(
          call_, std::string(what) + " " + std::to_string(value) + " does not fit " + std::to_string(rows) + " rows");
    }
    starts->push_back(packed ? end : 0);
    lengths->push_back(length);
    end = packed ? value : 0;
  }
  return Status::ok();
}

Status SparseAttentionCall::parse(const std::string& key_length_name, const std::string& query_layout_name,
                                  const std::string& key_layout_name) {
  const auto layout_of = [&](const std::string& name) {
    const std::string_view text = arguments_.text(name);
    return std::string(text.empty() ? std::string_view("BSND") : text);
  };
  query_layout_ = layout_of(query_layout_name);
  key_layout_ = layout_of(key_layout_name);
  paged_ = key_layout_ == "PA_BSND";
  const TensorView& query = arguments_.tensor_or_empty("query");
  const TensorView& key = arguments_.tensor_or_empty("key");
  const std::string sizes = ": query " + sizes_of(query) + ", key " + sizes_of(key);
  if ((query_layout_ != "BSND" && query_layout_ != "TND") || !head_view(query, query_layout_, 0, &queries_)) {
    return invalid(call_, "query must have the layout BSND or TND" + sizes);
  }
  if (!is_floating(query.dtype) || query.dtype == DataType::kDouble || key.dtype != query.dtype) {
    return not_computed(call_, "no kernel for queries and keys of these types");
  }
  bool fits = false;
  if (paged_) {
    fits = key.dims.size() == 4 && keys_.set_blocks(key, key.dims[1], key.dims[2]);
  } else if (key_layout_ == "BSND" || key_layout_ == "TND") {
    fits = keys_.set_tensors({&key, 1}, key_layout_, 0);
  }
  if (!fits || keys_.width() != queries_.width || keys_.heads() == 0 || queries_.heads % keys_.heads() != 0 ||
      (key_layout_ == "BSND" && !is_packed() && keys_.batches() != queries_.batches)) {
    return invalid(call_, "key must have the layout " + key_layout_ + " and fit the query" + sizes);
  }
  const int64_t mode = arguments_.integer("sparseMode");
  if (mode != 0 && mode != 3) return invalid(call_, "sparseMode must be 0 or 3, not " + std::to_string(mode));
  causal_ = mode == 3;
  std::vector<int64_t> queries, keys;
  DRYDOCK_RETURN_IF_ERROR(lengths_of(arguments_.tensor("actualSeqLengthsQueryOptional"), is_packed(), queries_.rows,
                                     is_packed() ? 0 : static_cast<size_t>(queries_.batches), "actualSeqLengthsQuery",
                                     &query_starts_, &queries));
  const TensorView& key_lengths = arguments_.tensor(key_length_name);
  if (paged_ && !key_lengths.defined) return invalid(call_, "blocks of keys need the lengths of the sequences");
  DRYDOCK_RETURN_IF_ERROR(lengths_of(key_lengths, keys_are_packed(), paged_ ? kUnbounded : keys_.rows(0),
                                     queries.size(), key_length_name.c_str(), &key_starts_, &keys));
  problem_.heads = queries_.heads;
  problem_.key_heads = keys_.heads();
  problem_.key_width = queries_.width;
  problem_.scale = static_cast<float>(arguments_.number("scaleValue", 1));
  for (size_t k = 0; k < queries.size(); ++k) {
    Sequence sequence;
    sequence.queries = queries[k];
    sequence.keys = keys[k];
    problem_.add(sequence);
  }
  return parse_table();
}

Status SparseAttentionCall::parse_table() {
  if (!paged_) return Status::ok();
  const TensorView& table = arguments_.tensor("blockTableOptional");
  const int64_t sequences = static_cast<int64_t>(problem_.sequences.size());
  if (!table.defined || table.dims.size() != 2 || table.dims[0] < sequences) {
    return invalid(call_, "blockTable must have a row for each sequence, not " + sizes_of(table));
  }
  const std::vector<int64_t> numbers = integers_of(table);
  std::vector<std::vector<int64_t>> rows;
  for (int64_t k = 0; k < sequences; ++k) {
    const int64_t keys = problem_.sequences[static_cast<size_t>(k)].keys;
    const int64_t count = (keys + keys_.block_size() - 1) / keys_.block_size();
    if (count > table.dims[1])
      return invalid(call_, "blockTable has too few blocks for " + std::to_string(keys) + " keys");
    const auto first = numbers.begin() + k * table.dims[1];
    rows.emplace_back(first, first + count);
    for (int64_t block : rows.back()) {
      if (block < 0 || block >= keys_.blocks()) {
        return device_fault(call_, "block " + std::to_string(block) + " of blockTable does not exist");
      }
    }
  }
  keys_.set_table(rows);
  values_.set_table(rows);
  key_rope_.set_table(std::move(rows));
  return Status::ok();
}

Status SparseAttentionCall::parse_values(const TensorView& value) {
  const bool fits = paged_ ? value.dims.size() == 4 && values_.set_blocks(value, value.dims[1], value.dims[2])
                           : values_.set_tensors({&value, 1}, key_layout_, 0);
  if (!fits || !values_.has_shape_of(keys_) || values_.dtype() != keys_.dtype()) {
    return invalid(call_, "value " + sizes_of(value) + " does not fit key");
  }
  problem_.value_width = values_.width();
  return Status::ok();
}

Status SparseAttentionCall::parse_rope() {
  const TensorView& query = arguments_.tensor("queryRopeOptional");
  const TensorView& key = arguments_.tensor("keyRopeOptional");
  if (query.defined != key.defined) return invalid(call_, "queryRope and keyRope belong together");
  if (!query.defined) return Status::ok();
  has_rope_ = true;
  const bool fits = paged_ ? key.dims.size() == 4 && key_rope_.set_blocks(key, key.dims[1], key.dims[2])
                           : key_rope_.set_tensors({&key, 1}, key_layout_, 0);
  if (!fits || !key_rope_.has_shape_of(keys_)) {
    return invalid(call_, "keyRope " + sizes_of(key) + " does not fit key");
  }
  DRYDOCK_RETURN_IF_ERROR(query_like(query, queries_.heads, key_rope_.width(), "queryRope", &query_rope_));
  problem_.key_width += query_rope_.width;
  return Status::ok();
}

Status SparseAttentionCall::query_like(const TensorView& view, int64_t heads, int64_t width, const char* what,
                                       HeadView* result) const {
  if (!head_view(view, query_layout_, 0, result) || result->batches != queries_.batches ||
      result->rows != queries_.rows || result->heads != heads || result->width != width) {
    return invalid(call_, std::string(what) + " " + sizes_of(view) + " does not fit query");
  }
  return Status::ok();
}

int64_t SparseAttentionCall::visible(int64_t sequence, int64_t query) const {
  const Sequence& s = problem_.sequences[static_cast<size_t>(sequence)];
  return causal_ ? std::clamp<int64_t>(query + s.keys - s.queries + 1, 0, s.keys) : s.keys;
}

ReadRows SparseAttentionCall::reader_like_queries(const HeadView& view) const {
  return [this, view](int64_t sequence, int64_t head, int64_t first, int64_t count, Block rows) {
    read_rows(view, batch_of(sequence), head, first_query(sequence) + first, count, rows);
  };
}

PackedRows SparseAttentionCall::pack_query_rows() const {
  return pack_queries(
      problem_, problem_.key_width, [this](int64_t sequence, int64_t head, int64_t first, int64_t count, Block rows) {
        reader_like_queries(queries_)(sequence, head, first, count, rows);
        if (!has_rope_) return;
        reader_like_queries(query_rope_)(sequence, head, first, count, {rows.data + queries_.width, rows.stride});
      });
}

PackedRows SparseAttentionCall::pack_key_rows() const {
  return pack_keys(
      problem_, problem_.key_width, [this](int64_t sequence, int64_t head, int64_t first, int64_t count, Block rows) {
        for (int64_t row = 0; row < count; ++row) {
          float* to = rows.data + row * rows.stride;
          keys_.read(sequence, key_batch_of(sequence), first_key(sequence), head, first + row, to);
          if (!has_rope_) continue;
          key_rope_.read(sequence, key_batch_of(sequence), first_key(sequence), head, first + row, to + keys_.width());
        }
      });
}

PackedRows SparseAttentionCall::pack_value_rows() const {
  return pack_keys(problem_, problem_.value_width,
                   [this](int64_t sequence, int64_t head, int64_t first, int64_t count, Block rows) {
                     for (int64_t row = 0; row < count; ++row) {
                       values_.read(sequence, key_batch_of(sequence), first_key(sequence), head, first + row,
                                    rows.data + row * rows.stride);
                     }
                   });
}

}  // namespace drydock::ops::kernels::attention
