#pragma once

#include <string>
#include <vector>

#include "ops/attention/call_arguments.h"
#include "ops/attention/key_cache.h"

// What a call of the inference attention operators means: FusedInferAttentionScore, IncreFlashAttention and
// PromptFlashAttention, which name the same things a little differently.

namespace drydock::ops::kernels::attention {

class InferAttentionCall {
 public:
  explicit InferAttentionCall(const KernelCall& call) : call_(call), arguments_(call) {}

  Status parse();
  /// Computes and writes all outputs.
  Status run() const;

 private:
  const TensorView& tensor(const std::string& name) const;
  std::span<const int64_t> ints(const std::string& name) const;
  std::span<const TensorView> tensors(const std::string& name) const;

  Status parse_layout();
  Status parse_rows();
  Status parse_rope();
  Status parse_prefix();
  Status parse_lengths();
  Status query_lengths(std::vector<int64_t>* starts, std::vector<int64_t>* lengths) const;
  Status key_lengths(size_t sequences, std::vector<int64_t>* starts, std::vector<int64_t>* lengths) const;
  Status cumulated(std::span<const int64_t> ends, int64_t rows, const char* what, std::vector<int64_t>* starts,
                   std::vector<int64_t>* lengths) const;
  Status parse_table();
  Status parse_mask();
  Status parse_tree_mask(const TensorView& mask);
  Status parse_full_mask(const TensorView& mask, bool with_band);
  Status parse_shift();
  Status parse_sinks();
  Status parse_dequantization();
  Status dequantization_of(const TensorView& scale, const TensorView& offset, int64_t mode, int part, KeyCache* cache);
  Status parse_outputs();

  bool is_packed() const { return query_layout_.find('T') != std::string::npos; }
  bool is_single_query() const;
  int64_t batch_of(int64_t sequence) const { return is_packed() ? 0 : sequence; }
  void write_results(int64_t sequence, int64_t head, int64_t first, int64_t count, ConstBlock rows, const float* maxima,
                     const float* sums) const;
  void write_quantized(int64_t sequence, int64_t head, int64_t first, int64_t count, ConstBlock rows) const;

  const KernelCall& call_;
  CallArguments arguments_;
  std::string query_layout_, result_layout_;
  HeadView queries_, query_rope_, results_;
  KeyCache keys_, values_, key_rope_;
  bool has_rope_ = false;
  bool paged_ = false;
  std::vector<int64_t> query_starts_, key_starts_;
  // What is to be added to a sequence's own numbers to get the mask's.
  std::vector<int64_t> mask_rows_, mask_columns_;
  std::vector<float> sinks_;
  std::vector<float> result_scales_,
      result_offsets_;  ///< for int8 results: one value, or one for each head and element
  Problem problem_;
};

}  // namespace drydock::ops::kernels::attention
