#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/attention/layout.h"
#include "ops/kernel_call.h"
#include "ops/shapes.h"

// Results of attention over parts of the keys, put together: aclnnRingAttentionUpdate, aclnnAttentionUpdate; and
// aclnnMaskedSoftmaxWithRelPosBias.

namespace drydock::ops::kernels {

namespace attention {

namespace {

/// One query's result and statistics of two passes.
struct Merged {
  float maximum, sum, first_weight, second_weight;
};

Merged merge(float first_maximum, float first_sum, float second_maximum, float second_sum) {
  const float maximum = std::max(first_maximum, second_maximum);
  const float first = first_sum * std::exp(first_maximum - maximum);
  const float second = second_sum * std::exp(second_maximum - maximum);
  return {maximum, first + second, first / (first + second), second / (first + second)};
}

float* statistic(const TensorView& view, int64_t row) { return reinterpret_cast<float*>(view.data) + row * 8; }

/// Where sequences of packed tokens start, by token: the first token of its sequence, and the sequence's length.
Status sequences_of(const KernelCall& call, const TensorView& ends, int64_t tokens, std::vector<int64_t>* first,
                    std::vector<int64_t>* length) {
  int64_t start = 0;
  Status status = Status::ok();
  for_each_value<int64_t>(ends, [&](int64_t end) {
    if (status.is_ok() && (end < start || end > tokens)) {
      status = invalid(call, "actualSeqQlen must not fall and not exceed the " + std::to_string(tokens) + " tokens");
    }
    if (!status.is_ok()) return;
    first->insert(first->end(), static_cast<size_t>(end - start), start);
    length->insert(length->end(), static_cast<size_t>(end - start), end - start);
    start = end;
  });
  if (status.is_ok() && start != tokens) status = invalid(call, "actualSeqQlen must end with the number of tokens");
  return status;
}

}  // namespace

}  // namespace attention

Status ring_attention_update(KernelCall& call) {
  using namespace attention;
  DRYDOCK_RETURN_IF_ERROR(expect(call, 6, 3));
  const std::string_view layout = call.text(0).empty() ? std::string_view("SBH") : call.text(0);
  const bool packed = layout == "TND";
  if (!packed && layout != "SBH") return invalid(call, "inputLayout must be SBH or TND, not " + std::string(layout));
  const TensorView& maxima = call.operand(1);
  const int64_t heads = maxima.dims.size() == (packed ? 3 : 4) ? maxima.dims[1] : 0;
  HeadView previous, current, results;
  const std::string sizes =
      ": results " + sizes_of(call.operand(0)) + " and " + sizes_of(call.operand(3)) + ", maxima " + sizes_of(maxima);
  if (heads == 0 || !head_view(call.operand(0), layout, heads, &previous) ||
      !head_view(call.operand(3), layout, heads, &current) || !head_view(call.output(0), layout, heads, &results) ||
      !(call.operand(0).dims == call.operand(3).dims) || !(call.operand(0).dims == call.output(0).dims) ||
      previous.heads != heads) {
    return invalid(call, "the results do not fit together" + sizes);
  }
  for (const TensorView* view :
       {&maxima, &call.operand(2), &call.operand(4), &call.operand(5), &call.output(1), &call.output(2)}) {
    if (view->dtype != DataType::kFloat || view->numel() != previous.batches * heads * previous.rows * 8 ||
        !is_contiguous(*view)) {
      return invalid(call, "maxima and sums must be dense fp32 with 8 values for each query" + sizes);
    }
  }
  std::vector<int64_t> first, length;
  const bool by_token = packed && call.text(1) == "TND";
  if (packed && !by_token) {
    if (!call.operand(6).defined) return invalid(call, "packed sequences need actualSeqQlen");
    DRYDOCK_RETURN_IF_ERROR(sequences_of(call, call.operand(6), previous.rows, &first, &length));
  }
  std::vector<float> a(static_cast<size_t>(previous.width)), b(a.size());
  for (int64_t batch = 0; batch < previous.batches; ++batch) {
    for (int64_t head = 0; head < heads; ++head) {
      for (int64_t row = 0; row < previous.rows; ++row) {
        int64_t at = (batch * heads + head) * previous.rows + row;
        if (by_token) at = row * heads + head;
        if (packed && !by_token) {
          const int64_t start = first[static_cast<size_t>(row)];
          at = start * heads + head * length[static_cast<size_t>(row)] + row - start;
        }
        const Merged merged = merge(*statistic(maxima, at), *statistic(call.operand(2), at),
                                    *statistic(call.operand(4), at), *statistic(call.operand(5), at));
        read_rows(previous, batch, head, row, 1, {a.data(), previous.width});
        read_rows(current, batch, head, row, 1, {b.data(), previous.width});
        for (size_t k = 0; k < a.size(); ++k) a[k] = a[k] * merged.first_weight + b[k] * merged.second_weight;
        write_rows(results, batch, head, row, 1, {a.data(), previous.width});
        std::fill_n(statistic(call.output(1), at), 8, merged.maximum);
        std::fill_n(statistic(call.output(2), at), 8, merged.sum);
      }
    }
  }
  return Status::ok();
}

Status attention_update(KernelCall& call) {
  using namespace attention;
  DRYDOCK_RETURN_IF_ERROR(expect(call, 0, 1));
  const std::vector<TensorView>& lse = call.operand_list(0);
  const std::vector<TensorView>& parts = call.operand_list(1);
  const TensorView& out = call.output(0);
  if (lse.empty() || lse.size() != parts.size() || out.dims.size() != 2) {
    return invalid(call, "lse and localOut must hold one tensor for each part");
  }
  for (size_t k = 0; k < lse.size(); ++k) {
    if (!lse[k].defined || !parts[k].defined || lse[k].dims.size() != 1 || lse[k].dims[0] != out.dims[0] ||
        !(parts[k].dims == out.dims) || !is_floating(lse[k].dtype) || !is_floating(parts[k].dtype)) {
      return invalid(call, "part " + std::to_string(k) + " does not fit: lse " + sizes_of(lse[k]) + ", localOut " +
                               sizes_of(parts[k]) + ", out " + sizes_of(out));
    }
  }
  const bool gives_lse = call.integer(0) == 1;
  if (gives_lse && (call.output_count() < 2 || !call.output(1).defined || call.output(1).dims.size() != 1 ||
                    call.output(1).dims[0] != out.dims[0])) {
    return invalid(call, "updateType 1 needs a lseOut for each row");
  }
  const int64_t width = out.dims[1];
  std::vector<float> sums(static_cast<size_t>(width)), buffer(sums.size()), values(lse.size());
  const Rows out_rows(out, 1);
  for (int64_t row = 0; row < out.dims[0]; ++row) {
    float top = -std::numeric_limits<float>::infinity();
    for (size_t k = 0; k < lse.size(); ++k) {
      values[k] = as_value<float>(select(lse[k], 0, row));
      // A part in which the query sees nothing says so with plus infinity.
      if (values[k] == std::numeric_limits<float>::infinity()) values[k] = -values[k];
      top = std::max(top, values[k]);
    }
    double total = 0;
    for (float value : values) total += std::isinf(top) ? 0.0 : std::exp(static_cast<double>(value) - top);
    const double merged = top + std::log(total);
    std::fill(sums.begin(), sums.end(), 0.0f);
    for (size_t k = 0; k < lse.size() && !std::isinf(top); ++k) {
      const float weight = static_cast<float>(std::exp(values[k] - merged));
      const float* part = Rows(parts[k], 1).read<float>(row, buffer.data());
      for (size_t i = 0; i < sums.size(); ++i) sums[i] += part[i] * weight;
    }
    out_rows.write<float>(row, sums.data());
    if (gives_lse) {
      set_value<float>(select(call.output(1), 0, row),
                       std::isinf(top) ? std::numeric_limits<float>::infinity() : static_cast<float>(merged));
    }
  }
  return Status::ok();
}

/// softmax(scale * x + mask of the window + bias of the head).
Status masked_softmax_with_position_bias(KernelCall& call) {
  using namespace attention;
  DRYDOCK_RETURN_IF_ERROR(expect(call, 1, 1));
  const TensorView& x = call.operand(0);
  const TensorView& mask = call.operand(1);
  const TensorView& bias = call.operand(2);
  const int rank = x.dims.size();
  const std::string sizes = ": x " + sizes_of(x) + ", mask " + sizes_of(mask) + ", bias " + sizes_of(bias);
  if ((rank != 4 && rank != 5) || !(call.output(0).dims == x.dims) || !bias.defined) {
    return invalid(call, "x must be [B * W, N, S, S] or [B, W, N, S, S]" + sizes);
  }
  const int64_t heads = x.dims[rank - 3];
  const int64_t queries = x.dims[rank - 2];
  const int64_t keys = x.dims[rank - 1];
  const int64_t windows = mask.defined ? mask.numel() / std::max<int64_t>(1, queries * keys) : 1;
  if (bias.numel() != heads * queries * keys || windows == 0 ||
      (mask.defined &&
       (mask.numel() != windows * queries * keys || (rank == 5 ? x.dims[1] != windows : x.dims[0] % windows != 0)))) {
    return invalid(call, "the mask must have a matrix for each window, the bias one for each head" + sizes);
  }
  const float scale = static_cast<float>(call.number(0));
  const Rows rows(x, rank - 1), out_rows(call.output(0), rank - 1), bias_rows(bias, bias.dims.size() - 1);
  std::vector<float> buffer(static_cast<size_t>(keys)), other(buffer.size()), scores(buffer.size());
  for (int64_t row = 0; row < rows.count(); ++row) {
    const int64_t window = row / (heads * queries) % windows;
    const float* values = rows.read<float>(row, buffer.data());
    const float* added = bias_rows.read<float>(row % (heads * queries), other.data());
    for (size_t k = 0; k < scores.size(); ++k) scores[k] = values[k] * scale + added[k];
    if (mask.defined) {
      const Rows mask_rows(mask, mask.dims.size() - 1);
      const float* masked = mask_rows.read<float>(window * queries + row % queries, other.data());
      for (size_t k = 0; k < scores.size(); ++k) scores[k] += masked[k];
    }
    const float top = keys > 0 ? *std::max_element(scores.begin(), scores.end()) : 0.0f;
    double total = 0;
    for (float& score : scores) {
      score = std::exp(score - top);
      total += score;
    }
    for (float& score : scores) score = static_cast<float>(score / total);
    out_rows.write<float>(row, scores.data());
  }
  return Status::ok();
}

}  // namespace drydock::ops::kernels
