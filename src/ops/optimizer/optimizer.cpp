#include <cmath>

#include "base/instruction_set.h"
#include "ops/kernel_call.h"
#include "ops/optimizer/state_walk.h"

// Fused optimizer steps. They compute in fp32 and round once, whatever the types of parameter and state.

namespace drydock::ops::kernels {
namespace {

Status expect_real(const KernelCall& call, const TensorView& view) {
  if (!view.defined || is_real_element(view.dtype)) return Status::ok();
  return not_computed(call, "a tensor is not real");
}

struct SgdStep {
  float inverse_scale = 1;
  float weight_decay = 0;
  float momentum = 0;
  float rate = 0;
  float kept = 1;  ///< 1 - dampening
  bool nesterov = false;
  bool maximize = false;
  bool first = false;
  bool has_buffer = false;
};

/// Parameter, gradient and momentum buffer of a run of elements; the gradient is left unscaled. Without a buffer the
/// third is scratch.
void sgd(const SgdStep& step, float* parameter, float* gradient, float* buffer, int64_t count) {
  base::vectorized([=] {
#pragma GCC ivdep
    for (int64_t k = 0; k < count; ++k) {
      gradient[k] *= step.inverse_scale;
      float direction = (step.maximize ? -gradient[k] : gradient[k]) + step.weight_decay * parameter[k];
      const float moved = step.first ? direction : step.momentum * buffer[k] + step.kept * direction;
      buffer[k] = moved;
      const float ahead = step.nesterov ? direction + step.momentum * moved : moved;
      direction = step.has_buffer ? ahead : direction;
      parameter[k] -= step.rate * direction;
    }
  });
}

}  // namespace

/// Operands: parameter, first moment, second moment, largest second moment (may be null), gradient, step. The step is
/// the number of steps before this one.
Status apply_adam_w(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 3, 3));
  const TensorView& largest = call.output(3);
  const TensorView& gradient = call.operand(4);
  const TensorView& steps = call.operand(5);
  const bool amsgrad = call.boolean(0);
  const bool maximize = call.boolean(1);
  for (const TensorView* view : {&largest, &gradient, &steps}) DRYDOCK_RETURN_IF_ERROR(expect_real(call, *view));
  if (!gradient.defined || !steps.defined || steps.numel() != 1) return invalid(call, "step must have one element");
  if (amsgrad && !largest.defined) return invalid(call, "amsgrad needs maxGradNorm");
  const double rate = call.number(0);
  const double beta1 = call.number(1);
  const double beta2 = call.number(2);
  const double step = as_double(steps) + 1;
  const float decay = static_cast<float>(1 - rate * call.number(3));
  const float epsilon = static_cast<float>(call.number(4));
  const float keep = static_cast<float>(beta2);
  const float take1 = static_cast<float>(1 - beta1);
  const float take2 = static_cast<float>(1 - beta2);
  const float step_size = static_cast<float>(rate / (1 - std::pow(beta1, step)));
  const float correction = static_cast<float>(std::sqrt(1 - std::pow(beta2, step)));
  const std::array<const TensorView*, 5> views = {&call.output(0), &call.output(1), &call.output(2), &largest,
                                                  &gradient};
  const bool fits = update_together<5>(
      views, {true, true, true, amsgrad, false}, [&](const std::array<float*, 5>& values, int64_t count) {
        float* const p = values[0];
        float* const m = values[1];
        float* const v = values[2];
        float* const top = values[3];
        const float* const g = values[4];
        base::vectorized([=] {
#pragma GCC ivdep
          for (int64_t k = 0; k < count; ++k) {
            const float slope = maximize ? -g[k] : g[k];
            m[k] += (slope - m[k]) * take1;
            v[k] = v[k] * keep + slope * slope * take2;
            top[k] = amsgrad && !(v[k] > top[k]) ? top[k] : v[k];
            p[k] = p[k] * decay - step_size * (m[k] / (std::sqrt(top[k]) / correction + epsilon));
          }
        });
      });
  return fits ? Status::ok() : invalid(call, "parameter, moments and gradient must have one shape");
}

/// Lists: parameters, gradients, momentum buffers (may be empty). Operand: the scale of the gradients (may be null).
Status fused_sgd(KernelCall& call) {
  const std::vector<TensorView>& parameters = call.output_list(0);
  const std::vector<TensorView>& gradients = call.output_list(1);
  const std::vector<TensorView>& buffers = call.output_list(2);
  if (gradients.size() != parameters.size() || (!buffers.empty() && buffers.size() != parameters.size())) {
    return invalid(call, "the lists have different lengths");
  }
  SgdStep step{.weight_decay = static_cast<float>(call.number(0)),
               .momentum = static_cast<float>(call.number(1)),
               .rate = static_cast<float>(call.number(2)),
               .kept = static_cast<float>(1 - call.number(3)),
               .nesterov = call.boolean(0),
               .maximize = call.boolean(1),
               .first = call.boolean(2),
               .has_buffer = !buffers.empty()};
  if (call.operand_count() > 0 && call.operand(0).defined) {
    DRYDOCK_RETURN_IF_ERROR(expect_real(call, call.operand(0)));
    if (call.operand(0).numel() != 1) return invalid(call, "gradScale must have one element");
    step.inverse_scale = static_cast<float>(1 / as_double(call.operand(0)));
  }
  const TensorView none{};
  for (size_t i = 0; i < parameters.size(); ++i) {
    const TensorView& buffer = buffers.empty() ? none : buffers[i];
    if (!parameters[i].defined || !gradients[i].defined || (!buffers.empty() && !buffer.defined)) {
      return not_computed(call, "a tensor of a list is null");
    }
    for (const TensorView* view : {&parameters[i], &gradients[i], &buffer}) {
      DRYDOCK_RETURN_IF_ERROR(expect_real(call, *view));
      if (view->defined && !(view->dims == parameters[i].dims)) {
        return invalid(call, "a parameter, its gradient and its buffer must have one shape");
      }
    }
  }
  for (size_t i = 0; i < parameters.size(); ++i) {
    update_together<3>(
        {&parameters[i], &gradients[i], buffers.empty() ? &none : &buffers[i]}, {true, true, true},
        [&](const std::array<float*, 3>& values, int64_t count) { sgd(step, values[0], values[1], values[2], count); });
  }
  return Status::ok();
}

}  // namespace drydock::ops::kernels
