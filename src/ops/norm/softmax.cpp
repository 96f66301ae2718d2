#include <limits>

#include "base/instruction_set.h"
#include "base/vector_math.h"
#include "ops/kernel_call.h"
#include "ops/norm/log_softmax_row.h"
#include "ops/norm/row_access.h"

// Softmax and log-softmax along one dimension, their gradients, and softmax under a mask.

namespace drydock::ops::kernels {
namespace {

Status same_shapes(const KernelCall& call, const TensorView& a, const TensorView& b) {
  return a.dims == b.dims ? Status::ok() : invalid(call, "inputs and output must have one shape");
}

// In all rows `to` may be an input.

template <class C>
void softmax_row(const C* from, C* to, int64_t count) {
  base::vectorized([=] {
    const C top = largest_of(from, count);
#pragma GCC ivdep
    for (int64_t k = 0; k < count; ++k) to[k] = vector_math::exp(from[k] - top);
    const C scale = static_cast<C>(1 / sum_of<C>(count, [to](int64_t k) { return to[k]; }));
    for (int64_t k = 0; k < count; ++k) to[k] *= scale;
  });
}

template <class C>
void softmax_gradient_row(const C* gradient, const C* output, C* to, int64_t count) {
  base::vectorized([=] {
    const C total = static_cast<C>(sum_of<C>(count, [=](int64_t k) { return gradient[k] * output[k]; }));
#pragma GCC ivdep
    for (int64_t k = 0; k < count; ++k) to[k] = (gradient[k] - total) * output[k];
  });
}

template <class C>
void log_softmax_gradient_row(const C* gradient, const C* output, C* to, int64_t count) {
  base::vectorized([=] {
    const C total = static_cast<C>(sum_of<C>(count, [gradient](int64_t k) { return gradient[k]; }));
#pragma GCC ivdep
    for (int64_t k = 0; k < count; ++k) to[k] = gradient[k] - vector_math::exp(output[k]) * total;
  });
}

/// Rows of operand 0 (and 1, in a gradient) and of the output along the axis of integer argument 0, or of int array 0:
/// the legacy operators give a list.
template <class Body>
Status along_axis(KernelCall& call, int operands, Body&& body) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, operands, 1));
  const TensorView& first = call.operand(0);
  const TensorView& out = call.output(0);
  int axis = 0;
  const std::span<const int64_t> axes = call.ints(0);
  if (axes.size() > 1) return not_computed(call, "a softmax over several axes");
  const int64_t dim = axes.empty() ? call.integer(0) : axes[0];
  DRYDOCK_RETURN_IF_ERROR(wrap_dim(call, dim, first.dims.size(), &axis));
  DRYDOCK_RETURN_IF_ERROR(same_shapes(call, first, out));
  DRYDOCK_RETURN_IF_ERROR(same_shapes(call, call.operand(operands - 1), out));
  if (out.numel() == 0) return Status::ok();
  return with_floating_type(floating_type_of({&first, &out}), [&]<class C>() {
    body.template operator()<C>(axis);
    return Status::ok();
  });
}

Status normalize_exponentials(KernelCall& call, bool logarithm) {
  return along_axis(call, 1, [&]<class C>(int axis) {
    const RowSource<C> from(call.operand(0), axis);
    const RowTarget<C> to(call.output(0), axis);
    const int64_t length = from.length();
    for_each_row<C>(from.count(), length, 2, [&](int64_t row, C* scratch) {
      const C* values = from.read(row, scratch);
      C* results = to.start(row, scratch + length);
      if (logarithm) {
        log_softmax_row(values, results, length);
      } else {
        softmax_row(values, results, length);
      }
      to.finish(row, results);
    });
  });
}

/// `of_logarithm`: the forward result is the logarithm.
Status normalize_exponentials_backward(KernelCall& call, bool of_logarithm) {
  return along_axis(call, 2, [&]<class C>(int axis) {
    const RowSource<C> gradients(call.operand(0), axis);
    const RowSource<C> outputs(call.operand(1), axis);
    const RowTarget<C> to(call.output(0), axis);
    const int64_t length = gradients.length();
    for_each_row<C>(gradients.count(), length, 3, [&](int64_t row, C* scratch) {
      const C* gradient = gradients.read(row, scratch);
      const C* output = outputs.read(row, scratch + length);
      C* results = to.start(row, scratch + 2 * length);
      if (of_logarithm) {
        log_softmax_gradient_row(gradient, output, results, length);
      } else {
        softmax_gradient_row(gradient, output, results, length);
      }
      to.finish(row, results);
    });
  });
}

/// What a masked element is before the softmax: it stays a number, so that a row of masked elements has a softmax.
constexpr float kMasked = -10000.0f;

/// The mask broadcast to `dims`, or one with the elements above the diagonal set.
class Mask {
 public:
  Mask(const TensorView& wide) : rows_(wide.defined ? new RowSource<float>(wide, wide.dims.size() - 1) : nullptr) {}

  /// masked[k] of row `row`; `queries` is the number of rows of one matrix.
  const float* read(int64_t row, int64_t queries, int64_t length, float* buffer) const {
    if (rows_ != nullptr) return rows_->read(row, buffer);
    for (int64_t k = 0; k < length; ++k) buffer[k] = k > row % queries ? 1.0f : 0.0f;
    return buffer;
  }

 private:
  std::unique_ptr<RowSource<float>> rows_;
};

/// Checks the operands of a softmax under a mask (operand `mask_operand`) and broadcasts the mask.
Status masked_operands(KernelCall& call, int mask_operand, TensorView* mask) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, mask_operand, 1));
  const TensorView& x = call.operand(0);
  DRYDOCK_RETURN_IF_ERROR(same_shapes(call, x, call.output(0)));
  DRYDOCK_RETURN_IF_ERROR(same_shapes(call, call.operand(mask_operand - 1), x));
  if (x.dims.size() < 2) return invalid(call, "x must have at least two dimensions");
  if (call.boolean(0)) return Status::ok();
  if (call.operand_count() <= mask_operand || !call.operand(mask_operand).defined) {
    return invalid(call, "there must be a mask where none is fixed");
  }
  const TensorView& given = call.operand(mask_operand);
  if (!is_real_element(given.dtype)) return not_computed(call, "the mask is not real");
  if (!broadcast_view(given, x.dims, mask)) return invalid(call, "the mask does not broadcast to the shape of x");
  return Status::ok();
}

}  // namespace

Status softmax(KernelCall& call) { return normalize_exponentials(call, false); }
Status log_softmax(KernelCall& call) { return normalize_exponentials(call, true); }
Status softmax_backward(KernelCall& call) { return normalize_exponentials_backward(call, false); }
Status log_softmax_backward(KernelCall& call) { return normalize_exponentials_backward(call, true); }

/// y = softmax(masked ? -10000 : x * scale) along the last dimension.
Status scaled_masked_softmax(KernelCall& call) {
  TensorView mask_view;
  DRYDOCK_RETURN_IF_ERROR(masked_operands(call, 1, &mask_view));
  const TensorView& x = call.operand(0);
  if (x.numel() == 0) return Status::ok();
  const int last = x.dims.size() - 1;
  const Mask mask(mask_view);
  const RowSource<float> from(x, last);
  const RowTarget<float> to(call.output(0), last);
  const int64_t length = from.length();
  const float scale = static_cast<float>(call.number(0));
  for_each_row<float>(from.count(), length, 3, [&](int64_t row, float* scratch) {
    const float* values = from.read(row, scratch);
    const float* masked = mask.read(row, x.dims[last - 1], length, scratch + length);
    float* results = to.start(row, scratch + 2 * length);
    for (int64_t k = 0; k < length; ++k) results[k] = masked[k] != 0 ? kMasked : values[k] * scale;
    softmax_row(results, results, length);
    to.finish(row, results);
  });
  return Status::ok();
}

/// Operands: gradient, y, mask.
Status scaled_masked_softmax_backward(KernelCall& call) {
  TensorView mask_view;
  DRYDOCK_RETURN_IF_ERROR(masked_operands(call, 2, &mask_view));
  const TensorView& y = call.operand(1);
  if (y.numel() == 0) return Status::ok();
  const int last = y.dims.size() - 1;
  const Mask mask(mask_view);
  const RowSource<float> gradients(call.operand(0), last);
  const RowSource<float> outputs(y, last);
  const RowTarget<float> to(call.output(0), last);
  const int64_t length = outputs.length();
  const float scale = static_cast<float>(call.number(0));
  for_each_row<float>(outputs.count(), length, 4, [&](int64_t row, float* scratch) {
    const float* gradient = gradients.read(row, scratch);
    const float* output = outputs.read(row, scratch + length);
    const float* masked = mask.read(row, y.dims[last - 1], length, scratch + 2 * length);
    float* results = to.start(row, scratch + 3 * length);
    const float total = static_cast<float>(sum_of<float>(length, [=](int64_t k) { return gradient[k] * output[k]; }));
    for (int64_t k = 0; k < length; ++k) {
      results[k] = masked[k] != 0 ? 0.0f : (gradient[k] - total) * output[k] * scale;
    }
    to.finish(row, results);
  });
  return Status::ok();
}

}  // namespace drydock::ops::kernels
