#include "base/instruction_set.h"
#include "base/vector_math.h"
#include "ops/kernel_call.h"
#include "ops/matmul/gemm.h"
#include "ops/norm/row_access.h"

// Cross entropy of a vocabulary that is split over devices, fused with the matrix product that gives the logits:
// statistics of the own part, the loss from the statistics of all, and the gradients.

namespace drydock::ops::kernels {
namespace {

/// A product kept as rows of fp32.
class RowsOfProduct : public Product<float> {
 public:
  RowsOfProduct(float* data, int64_t stride) : data_(data), stride_(stride) {}
  void store(int64_t row, int64_t rows, int64_t column, int64_t columns, const float* values,
             int64_t stride) const override {
    for (int64_t r = 0; r < rows; ++r) {
      float* const to = data_ + (row + r) * stride_ + column;
      if (to != values + r * stride) std::copy_n(values + r * stride, columns, to);
    }
  }

 private:
  float* data_;
  int64_t stride_;
};

/// A matrix of rows `line` of the view, running along its columns; or the other way round.
MatrixFactor<float> lines_of(const TensorView& view, bool transposed = false) {
  const int line = transposed ? 1 : 0;
  return MatrixFactor<float>(view.data, view.dtype, view.strides[line], view.strides[1 - line]);
}

std::unique_ptr<float[]> logits_of(const TensorView& input, const TensorView& weight) {
  const int64_t rows = input.dims[0];
  const int64_t vocabulary = weight.dims[0];
  std::unique_ptr<float[]> logits(new float[static_cast<size_t>(rows * vocabulary)]);
  multiply<float>(rows, vocabulary, input.dims[1], lines_of(input), lines_of(weight),
                  RowsOfProduct(logits.get(), vocabulary));
  return logits;
}

Status expect_matrices(const KernelCall& call, const TensorView& input, const TensorView& weight) {
  if (input.dims.size() == 2 && weight.dims.size() == 2 && input.dims[1] == weight.dims[1]) return Status::ok();
  return invalid(call, "input and weight must be matrices with rows of one length");
}

Status expect_rows(const KernelCall& call, const TensorView& view, int64_t rows, const char* what) {
  if (!view.defined || !is_real_element(view.dtype)) return not_computed(call, std::string(what) + " is missing");
  if (view.numel() == rows) return Status::ok();
  return invalid(call, std::string(what) + " must have " + std::to_string(rows) + " elements, not " +
                           std::to_string(view.numel()));
}

/// rows of exp(logits - maximum) / sum, in place.
void to_probabilities(float* logits, int64_t rows, int64_t columns, const std::vector<float>& maxima,
                      const std::vector<float>& sums) {
  for_each_row<float>(rows, columns, 0, [&](int64_t row, float*) {
    float* const values = logits + row * columns;
    const float top = maxima[static_cast<size_t>(row)];
    const float sum = sums[static_cast<size_t>(row)];
    base::vectorized([=] {
      for (int64_t k = 0; k < columns; ++k) values[k] = vector_math::exp(values[k] - top) / sum;
    });
  });
}

}  // namespace

/// Operands: input (rows, hidden), weight (vocabulary, hidden), target. Integers: first and last index of this part of
/// the vocabulary. Outputs: maximum and sum of exponentials of each row, logit of the target less the maximum, a bit
/// for each row whose target is elsewhere, targets counted from the first index, the logits (may be null).
Status fused_linear_online_max_sum(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 3, 5));
  const TensorView& input = call.operand(0);
  const TensorView& weight = call.operand(1);
  const TensorView& mask_out = call.output(3);
  const TensorView& logits_out = call.output(5);
  DRYDOCK_RETURN_IF_ERROR(expect_matrices(call, input, weight));
  const int64_t rows = input.dims[0];
  const int64_t vocabulary = weight.dims[0];
  if (vocabulary == 0) return invalid(call, "the weight has no rows");
  DRYDOCK_RETURN_IF_ERROR(expect_rows(call, call.operand(2), rows, "target"));
  for (int index : {0, 1, 2, 4}) DRYDOCK_RETURN_IF_ERROR(expect_rows(call, call.output(index), rows, "an output"));
  if (mask_out.dtype != DataType::kUInt8) return not_computed(call, "a mask that is not of bytes");
  DRYDOCK_RETURN_IF_ERROR(expect_rows(call, mask_out, (rows + 7) / 8, "targetMaskOut"));
  const bool wants_logits = logits_out.defined;
  if (wants_logits && (logits_out.dims.size() != 2 || logits_out.dims[0] != rows || logits_out.dims[1] != vocabulary ||
                       !is_real_element(logits_out.dtype))) {
    return invalid(call, "vocabParallelLogitsOutOptional must be (rows, vocabulary)");
  }
  const int64_t first = call.integer(0);
  const int64_t last = call.integer(1);
  const std::vector<int64_t> targets = values_of<int64_t>(call.operand(2));
  std::vector<int64_t> local(targets.size());
  std::vector<uint8_t> mask(static_cast<size_t>((rows + 7) / 8));
  for (size_t row = 0; row < mask.size() * 8; ++row) {
    const bool elsewhere = row >= targets.size() || targets[row] < first || targets[row] > last;
    mask[row / 8] |= static_cast<uint8_t>(elsewhere << (row % 8));
    if (elsewhere) continue;
    // Unsigned: the difference of any two integers.
    const uint64_t place = static_cast<uint64_t>(targets[row]) - static_cast<uint64_t>(first);
    if (place >= static_cast<uint64_t>(vocabulary)) {
      return device_fault(call, "target " + std::to_string(targets[row]) + " is behind the rows of the weight");
    }
    local[row] = static_cast<int64_t>(place);
  }
  const std::unique_ptr<float[]> logits = logits_of(input, weight);
  std::vector<double> maxima(targets.size()), sums(targets.size()), chosen(targets.size());
  for_each_row<float>(rows, vocabulary, 0, [&](int64_t row, float*) {
    const float* const values = logits.get() + row * vocabulary;
    const auto at = static_cast<size_t>(row);
    float top = 0;
    double sum = 0;
    base::vectorized([=, &top, &sum] {
      const float most = largest_of(values, vocabulary);
      sum = sum_of<float>(vocabulary, [=](int64_t k) { return vector_math::exp(values[k] - most); });
      top = most;
    });
    maxima[at] = top;
    sums[at] = sum;
    const bool elsewhere = (mask[at / 8] >> (at % 8) & 1) != 0;
    chosen[at] = elsewhere ? 0 : values[local[at]] - top;
  });
  write_values(call.output(0), maxima);
  write_values(call.output(1), sums);
  write_values(call.output(2), chosen);
  if (rows > 0) {
    copy_view(mask_out, contiguous_view(mask.data(), DataType::kUInt8, mask_out.dims));
    copy_view(call.output(4), contiguous_view(local.data(), DataType::kInt64, call.output(4).dims));
    if (wants_logits) {
      copy_view(logits_out, contiguous_view(logits.get(), DataType::kFloat, logits_out.dims));
    }
  }
  return Status::ok();
}

/// Operands: maximum, sum of exponentials and target logit of each row over all devices, two that are not used, the
/// logits (may be null). Outputs: loss, softmax (may be null).
Status fused_cross_entropy_loss_with_max_sum(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 3, 1));
  const TensorView& logits = call.operand(5);
  const TensorView& softmax_out = call.output(1);
  const int64_t rows = call.operand(0).numel();
  if (call.number(0) != 0) return not_computed(call, "label smoothing");
  for (int index = 1; index < 3; ++index) {
    DRYDOCK_RETURN_IF_ERROR(expect_rows(call, call.operand(index), rows, "an operand"));
  }
  DRYDOCK_RETURN_IF_ERROR(expect_rows(call, call.output(0), rows, "lossOut"));
  const std::vector<double> sums = values_of<double>(call.operand(1));
  const std::vector<double> chosen = values_of<double>(call.operand(2));
  std::vector<double> losses(sums.size());
  for (size_t row = 0; row < losses.size(); ++row) losses[row] = std::log(sums[row]) - chosen[row];
  if (logits.defined && softmax_out.defined) {
    if (logits.dims.size() != 2 || logits.dims[0] != rows || !(logits.dims == softmax_out.dims) ||
        !is_real_element(logits.dtype) || !is_real_element(softmax_out.dtype)) {
      return invalid(call, "vocabParallelLogitsOptional and softMaxOutOptional must be (rows, vocabulary)");
    }
    const std::vector<float> maxima = values_of<float>(call.operand(0));
    const RowSource<float> from(logits, 1);
    const RowTarget<float> to(softmax_out, 1);
    const int64_t columns = logits.dims[1];
    if (columns > 0) {
      for_each_row<float>(rows, columns, 2, [&](int64_t row, float* scratch) {
        const float* const values = from.read(row, scratch);
        float* const results = to.start(row, scratch + columns);
        const float top = maxima[static_cast<size_t>(row)];
        const float sum = static_cast<float>(sums[static_cast<size_t>(row)]);
        base::vectorized([=] {
#pragma GCC ivdep
          for (int64_t k = 0; k < columns; ++k) results[k] = vector_math::exp(values[k] - top) / sum;
        });
        to.finish(row, results);
      });
    }
  }
  write_values(call.output(0), losses);
  return Status::ok();
}

/// Operands: gradient of each row's loss, input, weight, mask, local targets, maximum, sum, softmax (either the latter,
/// or the two before it). Outputs: gradients of input and weight.
Status fused_linear_cross_entropy_loss_grad(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 5, 2));
  const TensorView& input = call.operand(1);
  const TensorView& weight = call.operand(2);
  const TensorView& mask = call.operand(3);
  const TensorView& softmax = call.operand(7);
  DRYDOCK_RETURN_IF_ERROR(expect_matrices(call, input, weight));
  if (call.number(0) != 0) return not_computed(call, "label smoothing");
  const int64_t rows = input.dims[0];
  const int64_t vocabulary = weight.dims[0];
  const int64_t hidden = input.dims[1];
  DRYDOCK_RETURN_IF_ERROR(expect_rows(call, call.operand(0), rows, "grad"));
  DRYDOCK_RETURN_IF_ERROR(expect_rows(call, call.operand(4), rows, "maskedTarget"));
  if (!(call.output(0).dims == input.dims) || !(call.output(1).dims == weight.dims)) {
    return invalid(call, "the gradients must have the shapes of input and weight");
  }
  const bool bits = mask.dtype == DataType::kUInt8;
  if (mask.numel() < (bits ? (rows + 7) / 8 : rows)) return invalid(call, "targetMask is too short");
  const std::vector<int64_t> mask_values = values_of<int64_t>(mask);
  const std::vector<int64_t> targets = values_of<int64_t>(call.operand(4));
  std::unique_ptr<float[]> gradient;  // of the logits
  if (softmax.defined) {
    if (softmax.dims.size() != 2 || softmax.dims[0] != rows || softmax.dims[1] != vocabulary ||
        !is_real_element(softmax.dtype)) {
      return invalid(call, "softmaxOptional must be (rows, vocabulary)");
    }
    gradient.reset(new float[static_cast<size_t>(rows * vocabulary)]);
    copy_view(contiguous_view(gradient.get(), DataType::kFloat, softmax.dims), softmax);
  } else {
    DRYDOCK_RETURN_IF_ERROR(expect_rows(call, call.operand(5), rows, "logitsMaxOptional"));
    DRYDOCK_RETURN_IF_ERROR(expect_rows(call, call.operand(6), rows, "sumExpLogitsOptional"));
    gradient = logits_of(input, weight);
    to_probabilities(gradient.get(), rows, vocabulary, values_of<float>(call.operand(5)),
                     values_of<float>(call.operand(6)));
  }
  for (size_t row = 0; row < targets.size(); ++row) {
    const bool elsewhere = bits ? (mask_values[row / 8] >> (row % 8) & 1) != 0 : mask_values[row] != 0;
    if (elsewhere) continue;
    if (targets[row] < 0 || targets[row] >= vocabulary) {
      return device_fault(call, "target " + std::to_string(targets[row]) + " is outside the vocabulary");
    }
    gradient[row * static_cast<size_t>(vocabulary) + static_cast<size_t>(targets[row])] -= 1;
  }
  const std::vector<float> scales = values_of<float>(call.operand(0));
  for_each_row<float>(rows, vocabulary, 0, [&](int64_t row, float*) {
    float* const values = gradient.get() + row * vocabulary;
    for (int64_t k = 0; k < vocabulary; ++k) values[k] *= scales[static_cast<size_t>(row)];
  });
  const TensorView of_logits = contiguous_view(gradient.get(), DataType::kFloat, {rows, vocabulary});
  std::unique_ptr<float[]> result(new float[static_cast<size_t>(std::max(rows, vocabulary) * hidden)]);
  multiply<float>(rows, hidden, vocabulary, lines_of(of_logits), lines_of(weight, true),
                  RowsOfProduct(result.get(), hidden));
  if (input.numel() > 0) {
    copy_view(call.output(0), contiguous_view(result.get(), DataType::kFloat, input.dims));
  }
  multiply<float>(vocabulary, hidden, rows, lines_of(of_logits, true), lines_of(input, true),
                  RowsOfProduct(result.get(), hidden));
  if (weight.numel() > 0) {
    copy_view(call.output(1), contiguous_view(result.get(), DataType::kFloat, weight.dims));
  }
  return Status::ok();
}

}  // namespace drydock::ops::kernels
