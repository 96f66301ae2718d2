#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/attention/infer_attention.h"
#include "ops/kernel_call.h"
#include "ops/shapes.h"

// aclnnFusedInferAttentionScore, aclnnIncreFlashAttention, aclnnPromptFlashAttention: the results.

namespace drydock::ops::kernels {

namespace attention {

Status InferAttentionCall::parse_outputs() {
  const TensorView& out = arguments_.output("attentionOut");
  const std::string sizes = " does not fit query " + sizes_of(arguments_.tensor_or_empty("query"));
  if (!head_view(out, result_layout_, problem_.heads, &results_) || results_.heads != queries_.heads ||
      results_.rows != queries_.rows || results_.batches != queries_.batches || results_.width != values_.width()) {
    return invalid(call_, "attentionOut " + sizes_of(out) + sizes);
  }
  if (out.dtype == DataType::kInt8) {
    const TensorView& scale = tensor("quantScale2");
    const TensorView& offset = tensor("quantOffset2");
    const int64_t values = problem_.heads * results_.width;
    if (!scale.defined || (scale.numel() != 1 && scale.numel() != values) ||
        (offset.defined && offset.numel() != scale.numel())) {
      return invalid(call_, "int8 results need a quantScale2 of 1 or " + std::to_string(values) + " values, not " +
                                sizes_of(scale));
    }
    for_each_value<float>(scale, [&](float value) { result_scales_.push_back(value); });
    if (offset.defined) for_each_value<float>(offset, [&](float value) { result_offsets_.push_back(value); });
  } else if (!is_floating(out.dtype)) {
    return not_computed(call_, "no kernel for results of this type");
  }
  const TensorView& lse = arguments_.output("softmaxLse");
  if (!arguments_.boolean("softmaxLseFlag") || !lse.defined) return Status::ok();
  const int64_t expected = queries_.batches * queries_.heads * queries_.rows;
  if (lse.numel() != expected || lse.dtype != DataType::kFloat || !is_contiguous(lse)) {
    return invalid(call_, "softmaxLse must hold " + std::to_string(expected) + " fp32 values, not " + sizes_of(lse));
  }
  return Status::ok();
}

void InferAttentionCall::write_quantized(int64_t sequence, int64_t head, int64_t first, int64_t count,
                                         ConstBlock rows) const {
  const int64_t width = results_.width;
  const bool by_channel = result_scales_.size() > 1;
  for (int64_t row = 0; row < count; ++row) {
    char* to = results_.at(batch_of(sequence), head, query_starts_[static_cast<size_t>(sequence)] + first + row);
    for (int64_t k = 0; k < width; ++k) {
      const size_t at = by_channel ? static_cast<size_t>(head * width + k) : 0;
      const float scaled = rows.data[row * rows.stride + k] * result_scales_[at] +
                           (result_offsets_.empty() ? 0.0f : result_offsets_[at]);
      to[k * results_.element_stride] =
          static_cast<char>(static_cast<int8_t>(std::clamp(std::nearbyint(scaled), -128.0f, 127.0f)));
    }
  }
}

void InferAttentionCall::write_results(int64_t sequence, int64_t head, int64_t first, int64_t count, ConstBlock rows,
                                       const float* maxima, const float* sums) const {
  const int64_t start = query_starts_[static_cast<size_t>(sequence)] + first;
  if (result_scales_.empty()) {
    write_rows(results_, batch_of(sequence), head, start, count, rows);
  } else {
    write_quantized(sequence, head, first, count, rows);
  }
  const TensorView& lse = arguments_.output("softmaxLse");
  if (!arguments_.boolean("softmaxLseFlag") || !lse.defined) return;
  float* values = reinterpret_cast<float*>(lse.data);
  for (int64_t q = 0; q < count; ++q) {
    const int64_t row = is_packed() ? (start + q) * problem_.heads + head
                                    : (sequence * problem_.heads + head) * queries_.rows + start + q;
    values[row] = maxima[q] == kMaskedMaximum ? std::numeric_limits<float>::infinity() : maxima[q] + std::log(sums[q]);
  }
}

Status InferAttentionCall::run() const {
  const TensorView& lse = arguments_.output("softmaxLse");
  if (lse.defined && lse.numel() > 0) {
    clear_view(lse);
    if (arguments_.boolean("softmaxLseFlag")) {
      // What marks a value of no query.
      float* values = reinterpret_cast<float*>(lse.data);
      std::fill(values, values + lse.numel(), std::numeric_limits<float>::infinity());
    }
  }
  // Rows beyond a sequence's length are zeros.
  if (problem_.queries != queries_.rows * queries_.batches) clear_view(arguments_.output("attentionOut"));
  if (problem_.queries == 0) return Status::ok();
  const PackedRows queries = pack_queries(
      problem_, problem_.key_width, [&](int64_t sequence, int64_t head, int64_t first, int64_t count, Block rows) {
        const int64_t start = query_starts_[static_cast<size_t>(sequence)] + first;
        read_rows(queries_, batch_of(sequence), head, start, count, rows);
        if (has_rope_) {
          read_rows(query_rope_, batch_of(sequence), head, start, count, {rows.data + queries_.width, rows.stride});
        }
      });
  const auto reader = [&](const KeyCache& cache, const KeyCache* more) -> ReadRows {
    return [this, &cache, more](int64_t sequence, int64_t head, int64_t first, int64_t count, Block rows) {
      const int64_t start = key_starts_[static_cast<size_t>(sequence)];
      for (int64_t row = 0; row < count; ++row) {
        float* to = rows.data + row * rows.stride;
        cache.read(sequence, batch_of(sequence), start, head, first + row, to);
        if (more) more->read(sequence, batch_of(sequence), start, head, first + row, to + cache.width());
      }
    };
  };
  const ReadRows read_keys = reader(keys_, has_rope_ ? &key_rope_ : nullptr);
  const ReadRows read_values = reader(values_, nullptr);
  const WriteResults write = [&](int64_t sequence, int64_t head, int64_t first, int64_t count, ConstBlock rows,
                                 const float* maxima, const float* sums) {
    write_results(sequence, head, first, count, rows, maxima, sums);
  };
  if (has_few_queries(problem_)) {
    attend_few(problem_, queries, read_keys, read_values, write);
    return Status::ok();
  }
  const PackedRows keys = pack_keys(problem_, problem_.key_width, read_keys);
  const PackedRows values = pack_keys(problem_, problem_.value_width, read_values);
  attend(problem_, queries, PackedColumns(problem_, problem_.key_width, keys), values, write);
  return Status::ok();
}

}  // namespace attention

Status infer_attention(KernelCall& call) {
  attention::InferAttentionCall infer(call);
  DRYDOCK_RETURN_IF_ERROR(infer.parse());
  return infer.run();
}

}  // namespace drydock::ops::kernels
