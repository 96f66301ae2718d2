#include "base/instruction_set.h"
#include "base/vector_math.h"
#include "ops/clear_view.h"
#include "ops/kernel_call.h"
#include "ops/loss/reduction.h"
#include "ops/norm/log_softmax_row.h"

// Cross entropy of logits and targets in one operator, with label smoothing.

namespace drydock::ops::kernels {
namespace {

struct Problem {
  int64_t rows = 0;
  int64_t classes = 0;
  Reduction reduction{};
  double smoothing = 0;
  std::vector<int64_t> targets;  ///< of each row, checked; -1 where ignored
  std::vector<double> weights;   ///< of each class
  double weight_sum = 0;         ///< of all classes
  double target_weight = 0;      ///< of the targets of all rows
};

/// Operands `first` and the next are target and weight; integer 0 is the ignored target, numbers 0 and 1 are the
/// smoothing and the scale of the z-loss.
Status read_problem(KernelCall& call, const TensorView& logits, int first, Problem* problem) {
  const TensorView& target = call.operand(first);
  const TensorView& weight = call.operand(first + 1);
  if (logits.dims.size() != 2) return invalid(call, "the input must be a matrix (samples, classes)");
  problem->rows = logits.dims[0];
  problem->classes = logits.dims[1];
  problem->smoothing = call.number(0);
  DRYDOCK_RETURN_IF_ERROR(reduction_of(call, call.text(0), &problem->reduction));
  if (!(problem->smoothing >= 0 && problem->smoothing <= 1)) return invalid(call, "labelSmoothing is not in [0, 1]");
  if (call.number(1) != 0) return invalid(call, "the z-loss is not supported: lseSquareScaleForZloss must be 0");
  if (target.numel() != problem->rows) return invalid(call, "there must be one target for each row");
  problem->weights.assign(static_cast<size_t>(problem->classes), 1.0);
  if (weight.defined) {
    if (!is_real_element(weight.dtype)) return not_computed(call, "the weight is not real");
    if (weight.numel() != problem->classes) return invalid(call, "there must be one weight for each class");
    problem->weights = values_of<double>(weight);
  }
  for (double value : problem->weights) problem->weight_sum += value;
  problem->targets = values_of<int64_t>(target);
  for (int64_t& chosen : problem->targets) {
    if (chosen == call.integer(0)) {
      chosen = -1;
    } else if (chosen < 0 || chosen >= problem->classes) {
      return device_fault(call, "target " + std::to_string(chosen) + " is outside the " +
                                    std::to_string(problem->classes) + " classes");
    } else {
      problem->target_weight += problem->weights[static_cast<size_t>(chosen)];
    }
  }
  return Status::ok();
}

}  // namespace

/// Operands: input, target, weight (may be null). Outputs: loss, log-probabilities, z-loss, log of the sum of
/// exponentials. The latter two are only for the z-loss, which the device does not support.
Status cross_entropy_loss(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 2, 2));
  const TensorView& logits = call.operand(0);
  const TensorView& loss = call.output(0);
  const TensorView& log_probabilities = call.output(1);
  Problem problem;
  if (logits.dims.size() == 2 && !(log_probabilities.dims == logits.dims)) {
    return invalid(call, "logProbOut must have the shape of the input");
  }
  DRYDOCK_RETURN_IF_ERROR(read_problem(call, logits, 1, &problem));
  const bool reduced = problem.reduction != Reduction::kNone;
  if (loss.numel() != (reduced ? 1 : problem.rows)) {
    return invalid(call, "lossOut must have one element, or one for each row if it is not reduced");
  }
  const auto rows = static_cast<size_t>(problem.rows);
  std::vector<double> losses(rows), normalisers(rows);
  const double* const weights = problem.weights.data();
  const RowSource<float> from(logits, 1);
  const RowTarget<float> to(log_probabilities, 1);
  const int64_t classes = problem.classes;
  if (logits.numel() > 0) {
    for_each_row<float>(problem.rows, classes, 2, [&](int64_t row, float* scratch) {
      const float* const values = from.read(row, scratch);
      float* const results = to.start(row, scratch + classes);
      const int64_t target = problem.targets[static_cast<size_t>(row)];
      normalisers[static_cast<size_t>(row)] = log_softmax_row(values, results, classes);
      if (target >= 0) {
        double result = -weights[target] * results[target];
        if (problem.smoothing != 0) {
          const double smooth = -sum_of<double>(classes, [=](int64_t k) { return weights[k] * results[k]; });
          result = (1 - problem.smoothing) * result + problem.smoothing / static_cast<double>(classes) * smooth;
        }
        losses[static_cast<size_t>(row)] = result;
      }
      to.finish(row, results);
    });
  }
  if (reduced) {
    double total = 0;
    for (double value : losses) total += value;
    set_value<double>(loss, problem.reduction == Reduction::kMean ? total / problem.target_weight : total);
  } else {
    write_values(loss, losses);
  }
  const TensorView& z_loss = call.output(2);
  if (z_loss.defined && is_real_element(z_loss.dtype)) clear_view(z_loss);
  const TensorView& normaliser = call.output(3);
  if (normaliser.defined && is_real_element(normaliser.dtype) && normaliser.numel() == problem.rows) {
    write_values(normaliser, normalisers);
  }
  return Status::ok();
}

/// Operands: gradient of the loss, log-probabilities, target, weight, and what belongs to the z-loss.
Status cross_entropy_loss_grad(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 3, 1));
  const TensorView& gradient = call.operand(0);
  const TensorView& log_probabilities = call.operand(1);
  const TensorView& out = call.output(0);
  Problem problem;
  if (!(out.dims == log_probabilities.dims)) return invalid(call, "the output must have the shape of logProb");
  DRYDOCK_RETURN_IF_ERROR(read_problem(call, log_probabilities, 2, &problem));
  const bool reduced = problem.reduction != Reduction::kNone;
  if (gradient.numel() != (reduced ? 1 : problem.rows)) {
    return invalid(call, "gradLoss must have one element, or one for each row if the loss is not reduced");
  }
  if (out.numel() == 0) return Status::ok();
  const std::vector<double> gradients = values_of<double>(gradient);
  const double factor = problem.reduction == Reduction::kMean ? 1 / problem.target_weight : 1;
  const std::vector<float> weights(problem.weights.begin(), problem.weights.end());
  const RowSource<float> from(log_probabilities, 1);
  const RowTarget<float> to(out, 1);
  const int64_t classes = problem.classes;
  for_each_row<float>(problem.rows, classes, 2, [&](int64_t row, float* scratch) {
    float* const results = to.start(row, scratch + classes);
    const int64_t target = problem.targets[static_cast<size_t>(row)];
    if (target < 0) {
      std::fill_n(results, classes, 0.0f);
      return to.finish(row, results);
    }
    const float* const values = from.read(row, scratch);
    const double scaled = gradients[reduced ? 0 : static_cast<size_t>(row)] * factor;
    const double hard = scaled * (1 - problem.smoothing) * problem.weights[static_cast<size_t>(target)];
    const double soft = scaled * problem.smoothing / static_cast<double>(classes);
    const float spread = static_cast<float>(hard + soft * problem.weight_sum);
    const float each = static_cast<float>(soft);
    const float* const weight = weights.data();
    base::vectorized([=] {
#pragma GCC ivdep
      for (int64_t k = 0; k < classes; ++k) results[k] = vector_math::exp(values[k]) * spread - each * weight[k];
    });
    results[target] -= static_cast<float>(hard);
    to.finish(row, results);
  });
  return Status::ok();
}

}  // namespace drydock::ops::kernels
