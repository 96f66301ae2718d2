#pragma once

#include <vector>

#include "ops/attention/call_arguments.h"
#include "ops/attention/layout.h"
#include "ops/attention/problem.h"

// What a call of the training attention operators (FlashAttentionScore, FlashAttentionVarLenScore and their gradients)
// means: all versions, all layouts.

namespace drydock::ops::kernels::attention {

/// A tensor of queries or keys, with its rotary part beside it where that comes as a tensor of its own.
struct TwoPartRows {
  HeadView main;
  HeadView rope;  ///< width 0: none
  int64_t width() const { return main.width + rope.width; }
};

class FlashAttentionCall {
 public:
  explicit FlashAttentionCall(const KernelCall& call) : call_(call), arguments_(call) {}

  /// Checks the call and fills the rest. `key_name`: what the signature calls its keys.
  Status parse(std::string_view key_name, std::string_view key_rope_name, std::string_view shift_name,
               std::string_view sink_name);

  const CallArguments& arguments() const { return arguments_; }
  const Problem& problem() const { return problem_; }
  const TwoPartRows& queries() const { return queries_; }
  const TwoPartRows& keys() const { return keys_; }
  const HeadView& values() const { return values_; }
  bool is_variable_length() const { return layout_ == "TND"; }
  std::string_view layout() const { return layout_; }
  /// True where queries and keys are so that no score is computed: the results are zeros.
  bool is_empty() const { return problem_.queries == 0 || problem_.heads == 0; }

  /// A tensor shaped as the results (or as the queries or keys) in the call's layout.
  Status view_like_results(const TensorView& view, std::string_view what, HeadView* result) const;
  Status view_like(const TensorView& view, const HeadView& model, std::string_view what, HeadView* result) const;

  ReadRows reader_of_queries(const TwoPartRows& rows) const;
  ReadRows reader_of_keys(const TwoPartRows& rows) const;

  /// Where a sequence's rows start in a view: batch and row.
  int64_t batch_of(int64_t sequence) const { return is_variable_length() ? 0 : sequence; }
  int64_t first_query(int64_t sequence) const { return query_starts_[static_cast<size_t>(sequence)]; }
  int64_t first_key(int64_t sequence) const { return key_starts_[static_cast<size_t>(sequence)]; }

  /// Checks softmaxMax or softmaxSum: 8 equal values for each query and head.
  Status check_statistics(const TensorView& view, std::string_view name) const;
  /// The first of the 8 values of a query.
  char* statistic(const TensorView& view, int64_t sequence, int64_t head, int64_t query) const;

 private:
  Status parse_rows(std::string_view key_name, std::string_view key_rope_name);
  Status parse_lengths();
  Status cumulated(std::string_view name, int64_t rows, std::vector<int64_t>* starts, std::vector<int64_t>* lengths);
  Status parse_band();
  Status parse_mask();
  Status parse_shift(std::string_view name);
  Status parse_slopes(const TensorView& slopes);
  Status parse_dropout();
  Status parse_sinks(std::string_view name);

  const KernelCall& call_;
  CallArguments arguments_;
  std::string_view layout_;
  bool statistics_by_token_ = false;
  TwoPartRows queries_, keys_;
  HeadView values_;
  std::vector<int64_t> query_starts_, key_starts_;
  std::vector<float> slopes_, sinks_;
  Problem problem_;
};

}  // namespace drydock::ops::kernels::attention
