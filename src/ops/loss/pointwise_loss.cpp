#include <algorithm>
#include <cmath>

#include "base/vector_math.h"
#include "ops/kernel_call.h"
#include "ops/loss/reduction.h"

// Losses of two tensors of one shape. Operands of a loss: x and the target; of a gradient: that of the loss before
// them. Optional weights come behind.

namespace drydock::ops::kernels {

Status reduction_of(const KernelCall& call, int64_t value, Reduction* reduction) {
  if (value < 0 || value > 2) {
    return invalid(call, "reduction must be 0 (none), 1 (mean) or 2 (sum), not " + std::to_string(value));
  }
  *reduction = static_cast<Reduction>(value);
  return Status::ok();
}

Status reduction_of(const KernelCall& call, std::string_view name, Reduction* reduction) {
  if (name == "none") {
    *reduction = Reduction::kNone;
  } else if (name == "mean" || name.empty()) {
    *reduction = Reduction::kMean;
  } else if (name == "sum") {
    *reduction = Reduction::kSum;
  } else {
    return invalid(call, "reduction must be none, mean or sum, not " + std::string(name));
  }
  return Status::ok();
}

namespace {

/// Loss of x and target, with the reduction as the first integer argument.
template <class Op>
Status loss(KernelCall& call, Op op) {
  Reduction reduction{};
  DRYDOCK_RETURN_IF_ERROR(expect(call, 2, 1));
  DRYDOCK_RETURN_IF_ERROR(reduction_of(call, call.integer(0), &reduction));
  return reduced_loss<2>(call, reduction, {&call.operand(0), &call.operand(1)}, op);
}

template <class Op>
Status gradient(KernelCall& call, Op op) {
  Reduction reduction{};
  DRYDOCK_RETURN_IF_ERROR(expect(call, 3, 1));
  DRYDOCK_RETURN_IF_ERROR(reduction_of(call, call.integer(0), &reduction));
  return loss_gradient<3>(call, reduction, {&call.operand(0), &call.operand(1), &call.operand(2)}, op);
}

/// An optional operand: a view of 1 where it is absent.
class OrOne {
 public:
  OrOne(const KernelCall& call, int index) {
    one_ = contiguous_view(&value_, DataType::kFloat, Dims());
    view_ = index < call.operand_count() && call.operand(index).defined ? &call.operand(index) : &one_;
  }
  OrOne(const OrOne&) = delete;
  OrOne& operator=(const OrOne&) = delete;
  const TensorView* view() const { return view_; }
  bool is_real() const { return is_real_element(view_->dtype); }

 private:
  float value_ = 1;
  TensorView one_;
  const TensorView* view_;
};

template <class C>
C bounded_log(C value) {
  return std::max(value, C(-100));
}

}  // namespace

Status mse_loss(KernelCall& call) {
  return loss(call, []<class C>(C x, C t) -> C { return (x - t) * (x - t); });
}
Status mse_loss_backward(KernelCall& call) {
  return gradient(call, []<class C>(C g, C x, C t) -> C { return C(2) * (x - t) * g; });
}

Status l1_loss(KernelCall& call) {
  return loss(call, []<class C>(C x, C t) -> C { return std::abs(x - t); });
}
Status l1_loss_backward(KernelCall& call) {
  return gradient(call, []<class C>(C g, C x, C t) -> C { return x > t ? g : x < t ? -g : (x - t) * g; });
}

Status smooth_l1_loss(KernelCall& call) {
  const double beta = call.number(0);
  return loss(call, [beta]<class C>(C x, C t) -> C {
    const C distance = std::abs(x - t);
    return distance < C(beta) ? C(0.5) * distance * distance / C(beta) : distance - C(0.5) * C(beta);
  });
}
Status smooth_l1_loss_backward(KernelCall& call) {
  const double beta = call.number(0);
  return gradient(call, [beta]<class C>(C g, C x, C t) -> C {
    const C distance = x - t;
    if (distance <= C(-beta)) return -g;
    return distance >= C(beta) ? g : g * distance / C(beta);
  });
}

Status soft_margin_loss(KernelCall& call) {
  return loss(call, []<class C>(C x, C t) -> C { return vector_math::log1p(vector_math::exp(-t * x)); });
}
Status soft_margin_loss_backward(KernelCall& call) {
  return gradient(call, []<class C>(C g, C x, C t) -> C {
    const C exponential = vector_math::exp(-t * x);
    return -t * g * exponential / (C(1) + exponential);
  });
}

Status kl_div(KernelCall& call) {
  if (call.boolean(0)) {
    return loss(call, []<class C>(C x, C t) -> C { return vector_math::exp(t) * (t - x); });
  }
  return loss(call, []<class C>(C x, C t) -> C { return (t == C(0) ? C(0) : t * vector_math::log(t)) - t * x; });
}
Status kl_div_backward(KernelCall& call) {
  const bool log_target = call.boolean(0);
  return gradient(call, [log_target]<class C>(C g, C, C t) -> C {
    if (log_target) return -vector_math::exp(t) * g;
    return t > C(0) ? -t * g : C(0);
  });
}
Status kl_div_target_backward(KernelCall& call) {
  const bool log_target = call.boolean(0);
  return gradient(call, [log_target]<class C>(C g, C x, C t) -> C {
    if (log_target) return g * vector_math::exp(t) * (t + C(1) - x);
    return t == C(0) ? C(0) : g * (vector_math::log(t) + C(1) - x);
  });
}

/// Operands: x, target, weight.
Status binary_cross_entropy(KernelCall& call) {
  Reduction reduction{};
  DRYDOCK_RETURN_IF_ERROR(expect(call, 2, 1));
  DRYDOCK_RETURN_IF_ERROR(reduction_of(call, call.integer(0), &reduction));
  const OrOne weight(call, 2);
  if (!weight.is_real()) return not_computed(call, "the weight is not real");
  return reduced_loss<3>(
      call, reduction, {&call.operand(0), &call.operand(1), weight.view()}, []<class C>(C x, C t, C w) -> C {
        return ((t - C(1)) * bounded_log(vector_math::log1p(-x)) - t * bounded_log(vector_math::log(x))) * w;
      });
}
Status binary_cross_entropy_backward(KernelCall& call) {
  Reduction reduction{};
  DRYDOCK_RETURN_IF_ERROR(expect(call, 3, 1));
  DRYDOCK_RETURN_IF_ERROR(reduction_of(call, call.integer(0), &reduction));
  const OrOne weight(call, 3);
  if (!weight.is_real()) return not_computed(call, "the weight is not real");
  return loss_gradient<4>(
      call, reduction, {&call.operand(0), &call.operand(1), &call.operand(2), weight.view()},
      []<class C>(C g, C x, C t, C w) -> C { return g * (x - t) / std::max((C(1) - x) * x, C(1e-12)) * w; });
}

/// Operands: x, target, weight, weight of positives.
Status binary_cross_entropy_with_logits(KernelCall& call) {
  Reduction reduction{};
  DRYDOCK_RETURN_IF_ERROR(expect(call, 2, 1));
  DRYDOCK_RETURN_IF_ERROR(reduction_of(call, call.integer(0), &reduction));
  const OrOne weight(call, 2);
  const OrOne positives(call, 3);
  if (!weight.is_real() || !positives.is_real()) return not_computed(call, "a weight is not real");
  return reduced_loss<4>(call, reduction, {&call.operand(0), &call.operand(1), weight.view(), positives.view()},
                         []<class C>(C x, C t, C w, C p) -> C {
                           const C log_weight = (p - C(1)) * t + C(1);
                           const C tail = vector_math::log1p(vector_math::exp(-std::abs(x))) + std::max(-x, C(0));
                           return ((C(1) - t) * x + log_weight * tail) * w;
                         });
}
Status binary_cross_entropy_with_logits_backward(KernelCall& call) {
  Reduction reduction{};
  DRYDOCK_RETURN_IF_ERROR(expect(call, 3, 1));
  DRYDOCK_RETURN_IF_ERROR(reduction_of(call, call.integer(0), &reduction));
  const OrOne weight(call, 3);
  const OrOne positives(call, 4);
  if (!weight.is_real() || !positives.is_real()) return not_computed(call, "a weight is not real");
  return loss_gradient<5>(call, reduction,
                          {&call.operand(0), &call.operand(1), &call.operand(2), weight.view(), positives.view()},
                          []<class C>(C g, C x, C t, C w, C p) -> C {
                            const C sigmoid = vector_math::sigmoid(x);
                            return ((p * t + C(1) - t) * sigmoid - p * t) * g * w;
                          });
}

}  // namespace drydock::ops::kernels
