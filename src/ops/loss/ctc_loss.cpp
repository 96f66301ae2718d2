#include <limits>

#include "base/thread_pool.h"
#include "ops/kernel_call.h"
#include "ops/norm/row_access.h"

// Connectionist temporal classification (Graves et al., 2006): the labels of a sample, with blanks between and around
// them, are the states of a path through time; the loss is the likelihood of all paths that read as the labels.

namespace drydock::ops::kernels {
namespace {

constexpr double kNever = -std::numeric_limits<double>::infinity();

double log_sum(double a, double b) {
  const double top = std::max(a, b);
  return top == kNever ? kNever : top + std::log(std::exp(a - top) + std::exp(b - top));
}

struct Batch {
  int64_t steps = 0;
  int64_t samples = 0;
  int64_t classes = 0;
  int64_t blank = 0;
  std::vector<double> log_probabilities;     ///< (steps, samples, classes)
  std::vector<std::vector<int64_t>> labels;  ///< of each sample
  std::vector<int64_t> lengths;              ///< steps of each sample

  double at(int64_t step, int64_t sample, int64_t label) const {
    return log_probabilities[static_cast<size_t>((step * samples + sample) * classes + label)];
  }
  int64_t states(int64_t sample) const {
    return 2 * static_cast<int64_t>(labels[static_cast<size_t>(sample)].size()) + 1;
  }
  /// Even states are blanks.
  int64_t label_of(int64_t sample, int64_t state) const {
    return state % 2 == 0 ? blank : labels[static_cast<size_t>(sample)][static_cast<size_t>(state / 2)];
  }
  /// A path may skip the blank between two labels that differ.
  bool may_skip_to(int64_t sample, int64_t state) const {
    return state >= 2 && state % 2 == 1 && label_of(sample, state) != label_of(sample, state - 2);
  }
};

/// Operands `first` and the next: log-probabilities (steps, samples, classes) or (steps, classes), labels padded
/// (samples, most) or one behind the other.
Status read_batch(KernelCall& call, int first, Batch* batch) {
  const TensorView& values = call.operand(first);
  const TensorView& targets = call.operand(first + 1);
  const std::span<const int64_t> lengths = call.ints(0);
  const std::span<const int64_t> counts = call.ints(1);
  const int rank = values.dims.size();
  if (rank != 2 && rank != 3) return invalid(call, "logProbs must be (steps, samples, classes) or (steps, classes)");
  batch->steps = values.dims[0];
  batch->samples = rank == 3 ? values.dims[1] : 1;
  batch->classes = values.dims[rank - 1];
  batch->blank = call.integer(0);
  const auto samples = static_cast<size_t>(batch->samples);
  if (batch->blank < 0 || batch->blank >= batch->classes) return invalid(call, "blank is none of the classes");
  if (lengths.size() != samples || counts.size() != samples) {
    return invalid(call, "there must be one input length and one target length for each sample");
  }
  const bool padded = targets.dims.size() == 2;
  int64_t sum = 0;
  for (size_t sample = 0; sample < samples; ++sample) {
    if (lengths[sample] < 0 || lengths[sample] > batch->steps) {
      return invalid(call, "input length " + std::to_string(lengths[sample]) + " is not in [0, " +
                               std::to_string(batch->steps) + "]");
    }
    if (counts[sample] < 0 || counts[sample] > (padded ? targets.dims[1] : targets.numel() - sum)) {
      return invalid(call, "target length " + std::to_string(counts[sample]) + " exceeds the targets");
    }
    sum += counts[sample];
  }
  if (padded && targets.dims[0] != batch->samples) return invalid(call, "there must be one row of targets per sample");
  const std::vector<int64_t> labels = values_of<int64_t>(targets);
  size_t next = 0;
  for (size_t sample = 0; sample < samples; ++sample) {
    const size_t begin = padded ? sample * static_cast<size_t>(targets.dims[1]) : next;
    next = begin + static_cast<size_t>(counts[sample]);
    std::vector<int64_t>& own = batch->labels.emplace_back();
    for (size_t k = begin; k < next; ++k) {
      if (labels[k] < 0 || labels[k] >= batch->classes) {
        return device_fault(call, "label " + std::to_string(labels[k]) + " is none of the classes");
      }
      own.push_back(labels[k]);
    }
    batch->lengths.push_back(lengths[sample]);
  }
  batch->log_probabilities = values_of<double>(values);
  return Status::ok();
}

/// forward[t * states + s]: the logarithm of the likelihood of all beginnings that are in state s at step t.
std::vector<double> forward_paths(const Batch& batch, int64_t sample) {
  const int64_t states = batch.states(sample);
  const int64_t steps = batch.lengths[static_cast<size_t>(sample)];
  std::vector<double> paths(static_cast<size_t>(states * steps), kNever);
  const auto cell = [&](int64_t step, int64_t state) -> double& {
    return paths[static_cast<size_t>(step * states + state)];
  };
  for (int64_t state = 0; steps > 0 && state < std::min<int64_t>(states, 2); ++state) {
    cell(0, state) = batch.at(0, sample, batch.label_of(sample, state));
  }
  for (int64_t step = 1; step < steps; ++step) {
    for (int64_t state = 0; state < states; ++state) {
      double sum = cell(step - 1, state);
      if (state > 0) sum = log_sum(sum, cell(step - 1, state - 1));
      if (batch.may_skip_to(sample, state)) sum = log_sum(sum, cell(step - 1, state - 2));
      cell(step, state) = sum + batch.at(step, sample, batch.label_of(sample, state));
    }
  }
  return paths;
}

/// The same for all ends that start in state s at step t.
std::vector<double> backward_paths(const Batch& batch, int64_t sample) {
  const int64_t states = batch.states(sample);
  const int64_t steps = batch.lengths[static_cast<size_t>(sample)];
  std::vector<double> paths(static_cast<size_t>(states * steps), kNever);
  const auto cell = [&](int64_t step, int64_t state) -> double& {
    return paths[static_cast<size_t>(step * states + state)];
  };
  for (int64_t state = std::max<int64_t>(states - 2, 0); steps > 0 && state < states; ++state) {
    cell(steps - 1, state) = batch.at(steps - 1, sample, batch.label_of(sample, state));
  }
  for (int64_t step = steps - 2; step >= 0; --step) {
    for (int64_t state = 0; state < states; ++state) {
      double sum = cell(step + 1, state);
      if (state + 1 < states) sum = log_sum(sum, cell(step + 1, state + 1));
      if (state + 2 < states && batch.may_skip_to(sample, state + 2)) sum = log_sum(sum, cell(step + 1, state + 2));
      cell(step, state) = sum + batch.at(step, sample, batch.label_of(sample, state));
    }
  }
  return paths;
}

/// Minus the logarithm of the likelihood.
double loss_of(const std::vector<double>& forward, int64_t states) {
  if (forward.empty()) return states == 1 ? 0 : -kNever;
  const double last = forward[forward.size() - 1];
  return -(states > 1 ? log_sum(last, forward[forward.size() - 2]) : last);
}

}  // namespace

/// Outputs: the loss of each sample, and the likelihoods of beginnings (samples, steps, states).
Status ctc_loss(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 2, 2));
  Batch batch;
  DRYDOCK_RETURN_IF_ERROR(read_batch(call, 0, &batch));
  const TensorView& paths_out = call.output(1);
  int64_t most_states = 1;
  for (int64_t sample = 0; sample < batch.samples; ++sample) {
    most_states = std::max(most_states, batch.states(sample));
  }
  const int rank = paths_out.dims.size();
  const int64_t width = rank > 0 ? paths_out.dims[rank - 1] : 0;
  if (call.output(0).numel() != batch.samples || rank < 2 || paths_out.dims[rank - 2] != batch.steps ||
      paths_out.numel() != batch.samples * batch.steps * width || width < most_states) {
    return invalid(call, "the loss must have one element for each sample, logAlpha must be (samples, steps, states)");
  }
  std::vector<double> losses(static_cast<size_t>(batch.samples));
  std::vector<double> all(static_cast<size_t>(paths_out.numel()), kNever);
  base::parallel_for(batch.samples, 1, [&](int64_t begin, int64_t end) {
    for (int64_t sample = begin; sample < end; ++sample) {
      const int64_t states = batch.states(sample);
      const std::vector<double> paths = forward_paths(batch, sample);
      const double loss = loss_of(paths, states);
      losses[static_cast<size_t>(sample)] = call.boolean(0) && std::isinf(loss) ? 0 : loss;
      for (size_t k = 0; k < paths.size(); ++k) {
        const auto step = static_cast<int64_t>(k) / states;
        all[static_cast<size_t>((sample * batch.steps + step) * width + static_cast<int64_t>(k) % states)] = paths[k];
      }
    }
  });
  write_values(call.output(0), losses);
  write_values(paths_out, all);
  return Status::ok();
}

/// Operands: gradient of the losses, log-probabilities, labels, losses, likelihoods (both computed again here).
Status ctc_loss_backward(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 3, 1));
  const TensorView& out = call.output(0);
  Batch batch;
  DRYDOCK_RETURN_IF_ERROR(read_batch(call, 1, &batch));
  if (!(out.dims == call.operand(1).dims)) return invalid(call, "the output must have the shape of logProbs");
  if (call.operand(0).numel() != batch.samples) return invalid(call, "there must be one gradient for each sample");
  const std::vector<double> gradients = values_of<double>(call.operand(0));
  std::vector<double> results(static_cast<size_t>(out.numel()), 0.0);
  base::parallel_for(batch.samples, 1, [&](int64_t begin, int64_t end) {
    std::vector<double> occupied(static_cast<size_t>(batch.classes));
    for (int64_t sample = begin; sample < end; ++sample) {
      const int64_t states = batch.states(sample);
      const std::vector<double> before = forward_paths(batch, sample);
      const std::vector<double> after = backward_paths(batch, sample);
      const double loss = loss_of(before, states);
      if (call.boolean(0) && std::isinf(loss)) continue;
      for (int64_t step = 0; step < batch.lengths[static_cast<size_t>(sample)]; ++step) {
        std::fill(occupied.begin(), occupied.end(), kNever);
        for (int64_t state = 0; state < states; ++state) {
          const auto cell = static_cast<size_t>(step * states + state);
          double& sum = occupied[static_cast<size_t>(batch.label_of(sample, state))];
          sum = log_sum(sum, before[cell] + after[cell]);
        }
        for (int64_t label = 0; label < batch.classes; ++label) {
          const double value = batch.at(step, sample, label);
          const double share = std::exp(occupied[static_cast<size_t>(label)] + loss - value);
          results[static_cast<size_t>((step * batch.samples + sample) * batch.classes + label)] =
              (std::exp(value) - share) * gradients[static_cast<size_t>(sample)];
        }
      }
    }
  });
  write_values(out, results);
  return Status::ok();
}

}  // namespace drydock::ops::kernels
