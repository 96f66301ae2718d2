#pragma once

#include <string>
#include <vector>

#include "ops/attention/call_arguments.h"
#include "ops/attention/key_cache.h"
#include "ops/attention/selected_attention.h"

namespace drydock::ops::kernels::attention {

/// What the operators of sparse attention share: queries [batch, sequence, heads, width] or packed, keys the same or in
/// blocks, lengths as tensors.
class SparseAttentionCall {
 public:
  explicit SparseAttentionCall(const KernelCall& call) : call_(call), arguments_(call) {}

  /// `key_length_name` and `key_layout_name` differ from operator to operator.
  Status parse(const std::string& key_length_name, const std::string& query_layout_name,
               const std::string& key_layout_name);
  Status parse_values(const TensorView& value);
  Status parse_rope();

  const CallArguments& arguments() const { return arguments_; }
  Problem& problem() { return problem_; }
  const Problem& problem() const { return problem_; }
  const HeadView& queries() const { return queries_; }
  const HeadView& query_rope() const { return query_rope_; }
  const KeyCache& keys() const { return keys_; }
  const std::string& layout() const { return query_layout_; }
  bool is_packed() const { return query_layout_ == "TND"; }
  bool keys_are_packed() const { return key_layout_ == "TND"; }
  bool is_causal() const { return causal_; }

  /// A tensor [batch, sequence, heads, width] or packed, with the batch and rows of the queries.
  Status query_like(const TensorView& view, int64_t heads, int64_t width, const char* what, HeadView* result) const;

  int64_t batch_of(int64_t sequence) const { return is_packed() ? 0 : sequence; }
  int64_t first_query(int64_t sequence) const { return query_starts_[static_cast<size_t>(sequence)]; }
  int64_t first_key(int64_t sequence) const { return key_starts_[static_cast<size_t>(sequence)]; }
  int64_t key_batch_of(int64_t sequence) const { return keys_are_packed() ? 0 : sequence; }
  /// Number of keys that a query sees, from the first on.
  int64_t visible(int64_t sequence, int64_t query) const;

  PackedRows pack_query_rows() const;
  PackedRows pack_key_rows() const;
  PackedRows pack_value_rows() const;
  ReadRows reader_like_queries(const HeadView& view) const;

 private:
  Status lengths_of(const TensorView& given, bool packed, int64_t rows, size_t sequences, const char* what,
                    std::vector<int64_t>* starts, std::vector<int64_t>* lengths) const;
  Status parse_table();

  const KernelCall& call_;
  CallArguments arguments_;
  std::string query_layout_, key_layout_;
  bool paged_ = false;
  bool causal_ = false;
  bool has_rope_ = false;
  HeadView queries_, query_rope_;
  KeyCache keys_, values_, key_rope_;
  std::vector<int64_t> query_starts_, key_starts_;
  Problem problem_;
};

}  // namespace drydock::ops::kernels::attention
