#include "ops/clear_view.h"
#include "ops/kernel_call.h"
#include "ops/loss/reduction.h"

// Negative log likelihood: the target picks one class of each sample.

namespace drydock::ops::kernels {
namespace {

/// Samples with scores for classes: (classes), (samples, classes) or (samples, classes, ...).
struct Samples {
  int class_axis = 0;
  int64_t classes = 0;
  int64_t ignored = 0;
  Reduction reduction{};
  std::vector<int64_t> targets;  ///< of each sample, checked; -1 where ignored
  std::vector<double> weights;   ///< of each class
};

/// Reads and checks target and weight (operands `first` and `first` + 1); `loss` is the loss or its gradient.
Status samples_of(KernelCall& call, const TensorView& scores, int first, const TensorView& loss, Samples* samples) {
  const TensorView& target = call.operand(first);
  const TensorView& weight = call.operand(first + 1);
  const int rank = scores.dims.size();
  if (rank == 0) return invalid(call, "self must have a dimension of classes");
  samples->class_axis = rank == 1 ? 0 : 1;
  samples->classes = scores.dims[samples->class_axis];
  samples->ignored = call.integer(1);
  DRYDOCK_RETURN_IF_ERROR(reduction_of(call, call.integer(0), &samples->reduction));
  const int64_t count = select(scores, samples->class_axis, 0).numel();
  if (target.numel() != count) {
    return invalid(
        call, "there are " + std::to_string(count) + " samples but " + std::to_string(target.numel()) + " targets");
  }
  if (loss.numel() != (samples->reduction == Reduction::kNone ? count : 1)) {
    return invalid(call, "the loss must have one element, or one for each target if it is not reduced");
  }
  samples->weights.assign(static_cast<size_t>(samples->classes), 1.0);
  if (weight.defined) {
    if (!is_real_element(weight.dtype)) return not_computed(call, "the weight is not real");
    if (weight.numel() != samples->classes) return invalid(call, "there must be one weight for each class");
    samples->weights = values_of<double>(weight);
  }
  samples->targets = values_of<int64_t>(target);
  for (int64_t& chosen : samples->targets) {
    if (chosen == samples->ignored) {
      chosen = -1;
    } else if (chosen < 0 || chosen >= samples->classes) {
      return device_fault(call, "target " + std::to_string(chosen) + " is outside the " +
                                    std::to_string(samples->classes) + " classes");
    }
  }
  return Status::ok();
}

/// Address of the score of class 0 of each sample, in row-major order of the samples.
template <class Each>
void for_each_sample(const TensorView& scores, int class_axis, Each&& each) {
  const TensorView first = select(scores, class_axis, 0);
  StridedWalk walk(first.dims);
  walk.add(first);
  size_t sample = 0;
  walk.for_each_run([&](char* const* pointers, const int64_t* strides, int64_t count) {
    for (int64_t k = 0; k < count; ++k) each(sample++, pointers[0] + k * strides[0]);
  });
}

}  // namespace

/// Operands: log-probabilities, target, weight (may be null). Outputs: loss, total weight.
Status nll_loss(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 2, 2));
  const TensorView& self = call.operand(0);
  const TensorView& out = call.output(0);
  Samples samples;
  DRYDOCK_RETURN_IF_ERROR(samples_of(call, self, 1, out, &samples));
  const bool reduced = samples.reduction != Reduction::kNone;
  if (call.output(1).numel() != 1) return invalid(call, "totalWeightOut must have one element");
  std::vector<double> losses(samples.targets.size());
  double total_weight = 0;
  double total = 0;
  const Loader<double> load = loader_of<double>(self.dtype);
  const int64_t class_stride = self.strides[samples.class_axis] * bytes_of(self.dtype, 1);
  for_each_sample(self, samples.class_axis, [&](size_t sample, const char* scores) {
    const int64_t target = samples.targets[sample];
    if (target < 0) return;
    double buffer = 0;
    const double weight = samples.weights[static_cast<size_t>(target)];
    losses[sample] = -weight * *load(scores + target * class_stride, 0, 1, &buffer);
    total_weight += weight;
    total += losses[sample];
  });
  if (reduced) {
    set_value<double>(out, samples.reduction == Reduction::kMean ? total / total_weight : total);
  } else {
    write_values(out, losses);
  }
  set_value<double>(call.output(1), reduced ? total_weight : 0.0);
  return Status::ok();
}

/// Operands: gradient, log-probabilities, target, weight (may be null), total weight.
Status nll_loss_backward(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 3, 1));
  const TensorView& gradient = call.operand(0);
  const TensorView& total_weight = call.operand(4);
  const TensorView& out = call.output(0);
  Samples samples;
  DRYDOCK_RETURN_IF_ERROR(samples_of(call, call.operand(1), 2, gradient, &samples));
  if (!(out.dims == call.operand(1).dims)) return invalid(call, "the output must have the shape of self");
  const bool reduced = samples.reduction != Reduction::kNone;
  double factor = 1;
  if (samples.reduction == Reduction::kMean) {
    if (!total_weight.defined || !is_real_element(total_weight.dtype) || total_weight.numel() != 1) {
      return invalid(call, "totalWeight must have one element");
    }
    factor = 1 / as_double(total_weight);
  }
  clear_view(out);
  const std::vector<double> gradients = values_of<double>(gradient);
  const Storer<double> store = storer_of<double>(out.dtype);
  const int64_t class_stride = out.strides[samples.class_axis] * bytes_of(out.dtype, 1);
  for_each_sample(out, samples.class_axis, [&](size_t sample, char* scores) {
    const int64_t target = samples.targets[sample];
    if (target < 0) return;
    const double value = -samples.weights[static_cast<size_t>(target)] * gradients[reduced ? 0 : sample] * factor;
    store(scores + target * class_stride, 0, 1, &value);
  });
  return Status::ok();
}

}  // namespace drydock::ops::kernels
