#include "ops/kernel_call.h"
#include "ops/loss/reduction.h"

// Multi-label margin loss: each label of a sample should score at least 1 more than each class that is none.

namespace drydock::ops::kernels {

/// Operands: scores (samples, classes) or (classes), labels of the same shape, which end at the first -1. Outputs: the
/// loss, and 1 for each class that is a label.
Status multilabel_margin_loss(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 2, 2));
  const TensorView& scores = call.operand(0);
  const TensorView& labels = call.operand(1);
  const TensorView& loss = call.output(0);
  const TensorView& is_label = call.output(1);
  const int rank = scores.dims.size();
  Reduction reduction{};
  DRYDOCK_RETURN_IF_ERROR(reduction_of(call, call.integer(0), &reduction));
  if (rank > 2 || !(labels.dims == scores.dims)) {
    return invalid(call, "self must be (samples, classes) or (classes), target of the same shape");
  }
  const int64_t classes = rank == 0 ? 1 : scores.dims[rank - 1];
  const int64_t samples = rank == 2 ? scores.dims[0] : 1;
  if (loss.numel() != (reduction == Reduction::kNone ? samples : 1)) {
    return invalid(call, "the loss must have one element, or one for each sample if it is not reduced");
  }
  if (is_label.numel() != labels.numel()) return invalid(call, "isTarget must have the shape of target");
  const std::vector<double> score = values_of<double>(scores);
  const std::vector<int64_t> label = values_of<int64_t>(labels);
  std::vector<double> losses(static_cast<size_t>(samples));
  std::vector<double> marks(label.size());
  for (int64_t sample = 0; sample < samples && classes > 0; ++sample) {
    const auto first = static_cast<size_t>(sample * classes);
    const auto count = static_cast<size_t>(classes);
    size_t chosen = 0;
    for (; chosen < count && label[first + chosen] >= 0; ++chosen) {
      if (label[first + chosen] >= classes) {
        return device_fault(call, "label " + std::to_string(label[first + chosen]) + " is outside the " +
                                      std::to_string(classes) + " classes");
      }
      marks[first + static_cast<size_t>(label[first + chosen])] = 1;
    }
    double total = 0;
    for (size_t k = 0; k < chosen; ++k) {
      const double own = score[first + static_cast<size_t>(label[first + k])];
      for (size_t other = 0; other < count; ++other) {
        if (marks[first + other] == 0) total += std::max(0.0, 1 - own + score[first + other]);
      }
    }
    losses[static_cast<size_t>(sample)] = total / static_cast<double>(classes);
  }
  if (reduction == Reduction::kNone) {
    write_values(loss, losses);
  } else {
    double total = 0;
    for (double value : losses) total += value;
    set_value<double>(loss, reduction == Reduction::kMean ? total / static_cast<double>(samples) : total);
  }
  write_values(is_label, marks);
  return Status::ok();
}

}  // namespace drydock::ops::kernels
