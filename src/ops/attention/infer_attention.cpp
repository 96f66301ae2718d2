#include "ops/attention/infer_attention.h"

#include <algorithm>

namespace drydock::ops::kernels::attention {

namespace {

bool is_attention_type(DataType type) {
  return type == DataType::kFloat || type == DataType::kFloat16 || type == DataType::kBFloat16;
}

struct LayoutPair {
  std::string_view name;
  std::string_view query;
  std::string_view result;
};

constexpr LayoutPair kLayouts[] = {
    {"BSH", "BSH", "BSH"},         {"BSND", "BSND", "BSND"},    {"BNSD", "BNSD", "BNSD"},
    {"TND", "TND", "TND"},         {"NTD", "NTD", "NTD"},       {"NSD", "NSD", "NSD"},
    {"BNSD_BSND", "BNSD", "BSND"}, {"BSH_BNSD", "BSH", "BNSD"}, {"BSND_BNSD", "BSND", "BNSD"},
    {"NTD_TND", "NTD", "TND"},     {"BSH_NBSD", "BSH", "NBSD"}, {"BSND_NBSD", "BSND", "NBSD"},
    {"BNSD_NBSD", "BNSD", "NBSD"}, {"TND_NTD", "TND", "NTD"},
};

}  // namespace

const TensorView& InferAttentionCall::tensor(const std::string& name) const {
  const TensorView& optional = arguments_.tensor(name + "Optional");
  return optional.defined ? optional : arguments_.tensor(name);
}

std::span<const int64_t> InferAttentionCall::ints(const std::string& name) const {
  const std::span<const int64_t> optional = arguments_.ints(name + "Optional");
  return optional.empty() ? arguments_.ints(name) : optional;
}

std::span<const TensorView> InferAttentionCall::tensors(const std::string& name) const {
  const std::span<const TensorView> list = arguments_.list(name);
  if (!list.empty()) return list;
  const TensorView& single = arguments_.tensor_or_empty(name);
  return single.defined ? std::span<const TensorView>(&single, 1) : list;
}

Status InferAttentionCall::parse() {
  DRYDOCK_RETURN_IF_ERROR(parse_layout());
  DRYDOCK_RETURN_IF_ERROR(parse_rows());
  DRYDOCK_RETURN_IF_ERROR(parse_rope());
  DRYDOCK_RETURN_IF_ERROR(parse_prefix());
  DRYDOCK_RETURN_IF_ERROR(parse_dequantization());
  DRYDOCK_RETURN_IF_ERROR(parse_lengths());
  DRYDOCK_RETURN_IF_ERROR(parse_table());
  DRYDOCK_RETURN_IF_ERROR(parse_mask());
  DRYDOCK_RETURN_IF_ERROR(parse_shift());
  DRYDOCK_RETURN_IF_ERROR(parse_sinks());
  return parse_outputs();
}

Status InferAttentionCall::parse_layout() {
  const std::string_view text = arguments_.text("inputLayout");
  const auto found =
      std::find_if(std::begin(kLayouts), std::end(kLayouts), [&](const LayoutPair& pair) { return pair.name == text; });
  if (found == std::end(kLayouts)) return invalid(call_, "inputLayout " + std::string(text) + " does not exist");
  query_layout_ = found->query;
  result_layout_ = found->result;
  return Status::ok();
}

Status InferAttentionCall::parse_rows() {
  const TensorView& query = arguments_.tensor_or_empty("query");
  const std::span<const TensorView> key = tensors("key");
  const std::span<const TensorView> value = tensors("value");
  if (!query.defined || key.empty() || value.empty() || !key[0].defined || !value[0].defined) {
    return invalid(call_, "query, key and value must be given");
  }
  const int64_t heads = arguments_.integer("numHeads");
  const int64_t given_key_heads = arguments_.integer("numKeyValueHeads");
  const int64_t key_heads = given_key_heads == 0 ? heads : given_key_heads;
  const std::string sizes = ": query " + sizes_of(query) + ", key " + sizes_of(key[0]) + ", value " +
                            sizes_of(value[0]) + ", numHeads " + std::to_string(heads) + ", numKeyValueHeads " +
                            std::to_string(given_key_heads);
  if (heads <= 0 || key_heads <= 0 || heads % key_heads != 0) {
    return invalid(call_, "numHeads must be a multiple of numKeyValueHeads" + sizes);
  }
  if (!head_view(query, query_layout_, heads, &queries_) || queries_.heads != heads) {
    return invalid(call_, "query must have the layout " + query_layout_ + sizes);
  }
  if (!is_attention_type(query.dtype)) return not_computed(call_, "no kernel for queries of this type");
  paged_ = tensor("blockTable").defined || tensor("blocktable").defined;
  if (paged_) {
    const int64_t block_size = arguments_.integer("blockSize");
    if (key.size() != 1 || value.size() != 1 || !keys_.set_blocks(key[0], block_size, key_heads) ||
        !values_.set_blocks(value[0], block_size, key_heads)) {
      return invalid(call_, "key and value must be blocks of " + std::to_string(block_size) + " rows" + sizes);
    }
  } else if (!keys_.set_tensors(key, query_layout_, key_heads) ||
             !values_.set_tensors(value, query_layout_, key_heads) || keys_.heads() != key_heads ||
             keys_.batches() != queries_.batches) {
    return invalid(call_, "key and value must have the layout " + query_layout_ + " and the query's batch" + sizes);
  }
  if (!keys_.has_shape_of(values_) || keys_.width() != queries_.width) {
    return invalid(call_, "query, key and value do not fit together" + sizes);
  }
  if (keys_.dtype() != values_.dtype()) return invalid(call_, "key and value must have one type");
  if (keys_.dtype() != query.dtype && keys_.dtype() != DataType::kInt8) {
    return not_computed(call_, "no kernel for keys of this type");
  }
  problem_.heads = heads;
  problem_.key_heads = key_heads;
  problem_.key_width = queries_.width;
  problem_.value_width = values_.width();
  problem_.scale = static_cast<float>(arguments_.number("scaleValue", 1));
  problem_.scales_shift = false;
  return Status::ok();
}

Status InferAttentionCall::parse_rope() {
  const TensorView& query_rope = tensor("queryRope");
  const TensorView& key_rope = tensor("keyRope");
  if (query_rope.defined != key_rope.defined) return invalid(call_, "queryRope and keyRope belong together");
  if (!query_rope.defined) return Status::ok();
  has_rope_ = true;
  const bool keys_fit = paged_ ? key_rope_.set_blocks(key_rope, arguments_.integer("blockSize"), problem_.key_heads)
                               : key_rope_.set_tensors({&key_rope, 1}, query_layout_, problem_.key_heads);
  if (!head_view(query_rope, query_layout_, problem_.heads, &query_rope_) || query_rope_.heads != queries_.heads ||
      query_rope_.rows != queries_.rows || query_rope_.batches != queries_.batches || !keys_fit ||
      !key_rope_.has_shape_of(keys_) || key_rope_.width() != query_rope_.width) {
    return invalid(call_, "queryRope " + sizes_of(query_rope) + " and keyRope " + sizes_of(key_rope) +
                              " do not fit query and key");
  }
  if (!is_attention_type(query_rope.dtype) || !is_attention_type(key_rope.dtype)) {
    return not_computed(call_, "no kernel for rotary parts of this type");
  }
  problem_.key_width += query_rope_.width;
  return Status::ok();
}

Status InferAttentionCall::parse_prefix() {
  const TensorView& key = tensor("keySharedPrefix");
  const TensorView& value = tensor("valueSharedPrefix");
  if (key.defined != value.defined) return invalid(call_, "keySharedPrefix and valueSharedPrefix belong together");
  if (!key.defined) return Status::ok();
  if (paged_ || has_rope_ || keys_.is_list()) {
    return invalid(call_, "a shared prefix does not go with blocks, rotary parts or lists of keys");
  }
  const std::span<const int64_t> lengths = ints("actualSharedPrefixLen");
  const int64_t length = lengths.empty() ? -1 : std::max<int64_t>(0, lengths[0]);
  if (!keys_.set_prefix(key, query_layout_, problem_.key_heads, length) ||
      !values_.set_prefix(value, query_layout_, problem_.key_heads, length) || !keys_.has_shape_of(values_)) {
    return invalid(call_, "keySharedPrefix " + sizes_of(key) + " and valueSharedPrefix " + sizes_of(value) +
                              " do not fit key and value");
  }
  return Status::ok();
}

bool InferAttentionCall::is_single_query() const {
  return !is_packed() && queries_.rows == 1 && queries_.width == values_.width() && !has_rope_;
}

Status InferAttentionCall::cumulated(std::span<const int64_t> ends, int64_t rows, const char* what,
                                     std::vector<int64_t>* starts, std::vector<int64_t>* lengths) const {
  int64_t end = 0;
  for (int64_t next : ends) {
    if (next < end || next > rows) {
      return invalid(call_, std::string(what) + " must not fall and not exceed the " + std::to_string(rows) +
                                " rows, but holds " + std::to_string(next) + " after " + std::to_string(end));
    }
    starts->push_back(end);
    lengths->push_back(next - end);
    end = next;
  }
  return Status::ok();
}

namespace {

/// The length of each sequence: all the same, or one each; none given: `otherwise`.
bool lengths_of(std::span<const int64_t> given, size_t sequences, const std::vector<int64_t>& most,
                std::vector<int64_t>* lengths) {
  if (given.size() > 1 && given.size() < sequences) return false;
  for (size_t k = 0; k < sequences; ++k) {
    const int64_t length = given.empty() ? most[k] : given.size() == 1 ? given[0] : given[k];
    if (length < 0 || length > most[k]) return false;
    lengths->push_back(length);
  }
  return true;
}

int64_t padding_of(const TensorView& view) { return view.defined ? std::max<int64_t>(0, as_int64(view)) : 0; }

}  // namespace

Status InferAttentionCall::query_lengths(std::vector<int64_t>* starts, std::vector<int64_t>* lengths) const {
  // The decoding operator's only lengths are those of keys.
  const bool has_key_lengths = call_.row().name != "aclnnIncreFlashAttentionV4";
  const std::span<const int64_t> given = has_key_lengths ? ints("actualSeqLengths") : std::span<const int64_t>();
  if (is_packed()) {
    if (given.empty()) return invalid(call_, "packed sequences need actualSeqLengths");
    return cumulated(given, queries_.rows, "actualSeqLengths", starts, lengths);
  }
  const size_t batches = static_cast<size_t>(queries_.batches);
  starts->assign(batches, 0);
  const std::vector<int64_t> most(batches, queries_.rows);
  if (queries_.rows == 1) {
    *lengths = most;
    return Status::ok();
  }
  if (!lengths_of(given, batches, most, lengths)) {
    return invalid(call_, "actualSeqLengths must hold a length of at most " + std::to_string(queries_.rows) +
                              " for each of " + std::to_string(batches) + " sequences");
  }
  const TensorView& padding = tensor("queryPaddingSize");
  if (!padding.defined || given.empty()) return Status::ok();
  for (size_t k = 0; k < batches; ++k) {
    (*starts)[k] = queries_.rows - padding_of(padding) - (*lengths)[k];
    if ((*starts)[k] < 0) return invalid(call_, "queryPaddingSize and actualSeqLengths exceed the query's rows");
  }
  return Status::ok();
}

Status InferAttentionCall::key_lengths(size_t sequences, std::vector<int64_t>* starts,
                                       std::vector<int64_t>* lengths) const {
  const bool decoding = call_.row().name == "aclnnIncreFlashAttentionV4";
  const std::span<const int64_t> given = ints(decoding ? "actualSeqLengths" : "actualSeqLengthsKv");
  if (is_packed() && !paged_) {
    DRYDOCK_RETURN_IF_ERROR(cumulated(given, keys_.rows(0), "actualSeqLengthsKv", starts, lengths));
    if (lengths->size() == sequences) return Status::ok();
    return invalid(call_, "actualSeqLengthsKv must hold " + std::to_string(sequences) + " lengths");
  }
  if (paged_ && given.empty()) return invalid(call_, "blocks of keys need actualSeqLengthsKv");
  starts->assign(sequences, 0);
  std::vector<int64_t> most;
  for (size_t k = 0; k < sequences; ++k) {
    most.push_back(paged_ ? kUnbounded : keys_.rows(static_cast<int64_t>(k)));
  }
  if (!lengths_of(given, sequences, most, lengths)) {
    return invalid(call_, "actualSeqLengthsKv must hold a length for each of " + std::to_string(sequences) +
                              " sequences, none longer than the keys");
  }
  const TensorView& padding = tensor("kvPaddingSize");
  if (!padding.defined || given.empty() || paged_ || keys_.is_list()) return Status::ok();
  for (size_t k = 0; k < sequences; ++k) {
    (*starts)[k] = most[k] - padding_of(padding) - (*lengths)[k];
    if ((*starts)[k] < 0) return invalid(call_, "kvPaddingSize and actualSeqLengthsKv exceed the key's rows");
  }
  return Status::ok();
}

Status InferAttentionCall::parse_lengths() {
  std::vector<int64_t> queries, keys;
  DRYDOCK_RETURN_IF_ERROR(query_lengths(&query_starts_, &queries));
  DRYDOCK_RETURN_IF_ERROR(key_lengths(queries.size(), &key_starts_, &keys));
  for (size_t k = 0; k < queries.size(); ++k) {
    Sequence sequence;
    sequence.queries = queries[k];
    sequence.keys = keys[k] + keys_.prefix_length();
    problem_.add(sequence);
  }
  mask_rows_ = is_packed() ? std::vector<int64_t>(queries.size(), 0) : query_starts_;
  mask_columns_ = is_packed() ? std::vector<int64_t>(queries.size(), 0) : key_starts_;
  return Status::ok();
}

Status InferAttentionCall::parse_table() {
  if (!paged_) return Status::ok();
  const TensorView& table = tensor("blockTable").defined ? tensor("blockTable") : tensor("blocktable");
  const int64_t sequences = static_cast<int64_t>(problem_.sequences.size());
  if (table.dims.size() != 2 || table.dims[0] < sequences || is_floating(table.dtype)) {
    return invalid(call_, "blockTable must have a row of block numbers for each sequence, not " + sizes_of(table));
  }
  std::vector<std::vector<int64_t>> numbers(static_cast<size_t>(sequences));
  const Rows rows(table, 1);
  std::vector<int64_t> buffer(static_cast<size_t>(rows.length()));
  for (int64_t k = 0; k < sequences; ++k) {
    const Sequence& s = problem_.sequences[static_cast<size_t>(k)];
    const int64_t count = (s.keys + keys_.block_size() - 1) / keys_.block_size();
    if (count > table.dims[1]) {
      return invalid(call_, "blockTable has " + std::to_string(table.dims[1]) + " blocks for a sequence of " +
                                std::to_string(s.keys) + " keys");
    }
    const int64_t* row = rows.read<int64_t>(k, buffer.data());
    for (int64_t block = 0; block < count; ++block) {
      if (row[block] < 0 || row[block] >= keys_.blocks()) {
        return device_fault(call_, "block " + std::to_string(row[block]) + " of blockTable does not exist, there are " +
                                       std::to_string(keys_.blocks()));
      }
    }
    numbers[static_cast<size_t>(k)].assign(row, row + count);
  }
  keys_.set_table(numbers);
  if (has_rope_) key_rope_.set_table(numbers);
  values_.set_table(std::move(numbers));
  return Status::ok();
}

}  // namespace drydock::ops::kernels::attention
