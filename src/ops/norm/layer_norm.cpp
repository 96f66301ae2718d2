#include "ops/kernel_access.h"
#include "ops/norm/norm_rows.h"
#include "ops/norm/row_access.h"

// Layer norm, RMS norm and their relatives: which argument is what.

namespace drydock::ops::kernels {
namespace {

/// Rows are the last dimensions, as many as gamma has.
Status inner_of_gamma(const KernelCall& call, const TensorView& x, const TensorView& gamma, int* inner) {
  *inner = gamma.dims.size();
  if (*inner <= x.dims.size() && trailing_dims(x.dims, *inner) == gamma.dims) return Status::ok();
  return invalid(call, "gamma must have the sizes of the last dimensions of the input");
}

Status inner_of_shape(const KernelCall& call, const TensorView& x, int* inner) {
  const std::span<const int64_t> shape = call.ints(0);
  *inner = static_cast<int>(shape.size());
  if (shape.empty() || *inner > x.dims.size() || !(trailing_dims(x.dims, *inner) == Dims(shape))) {
    return invalid(call, "normalizedShape must have the sizes of the last dimensions of the input");
  }
  return Status::ok();
}

const TensorView kNoTensor{};

Status rms_norm_of(KernelCall& call, const NormInput& input, const TensorView& gamma, const NormOutput& output,
                   double gamma_offset = 0) {
  NormForm form{.centred = false, .epsilon = call.number(0), .gamma_offset = gamma_offset};
  DRYDOCK_RETURN_IF_ERROR(inner_of_gamma(call, *input.first, gamma, &form.inner));
  return normalize_rows(call, form, input, gamma, kNoTensor, output);
}

}  // namespace

/// Operands: input, weight, bias. Outputs: y, mean, rstd; all but input and y may be null.
Status layer_norm(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 1, 1));
  NormForm form{.epsilon = call.number(0)};
  DRYDOCK_RETURN_IF_ERROR(inner_of_shape(call, call.operand(0), &form.inner));
  return normalize_rows(call, form, {.first = &call.operand(0)}, call.operand(1), call.operand(2),
                        {.y = &call.output(0), .mean = &call.output(1), .rstd = &call.output(2)});
}

/// Operands: gradient, input, mean, rstd, weight, bias. Outputs: gradients of input, weight, bias; any may be null.
Status layer_norm_backward(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 4, 0));
  NormForm form;
  DRYDOCK_RETURN_IF_ERROR(inner_of_shape(call, call.operand(1), &form.inner));
  const NormTape tape{.gradient = &call.operand(0),
                      .input = {.first = &call.operand(1)},
                      .mean = &call.operand(2),
                      .rstd = &call.operand(3),
                      .gamma = &call.operand(4)};
  return normalize_rows_backward(call, form, tape,
                                 {.first = &call.output(0), .gamma = &call.output(1), .beta = &call.output(2)});
}

/// Operands: x1, x2, gamma, beta, bias. Outputs: y, mean, rstd, x.
Status add_layer_norm(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 4, 1));
  NormForm form{.epsilon = call.number(0)};
  DRYDOCK_RETURN_IF_ERROR(inner_of_gamma(call, call.operand(0), call.operand(2), &form.inner));
  const NormInput input{.first = &call.operand(0), .second = &call.operand(1), .bias = &call.operand(4)};
  return normalize_rows(call, form, input, call.operand(2), call.operand(3),
                        {.y = &call.output(0),
                         .mean = &call.output(1),
                         .rstd = &call.output(2),
                         .sum = call.boolean(0) ? &call.output(3) : nullptr});
}

/// Operands: dy, x1, x2, rstd, mean, gamma, dsum. Outputs: dx, dgamma, dbeta.
Status add_layer_norm_grad(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 6, 1));
  NormForm form;
  DRYDOCK_RETURN_IF_ERROR(inner_of_gamma(call, call.operand(1), call.operand(5), &form.inner));
  const NormTape tape{.gradient = &call.operand(0),
                      .input = {.first = &call.operand(1), .second = &call.operand(2)},
                      .mean = &call.operand(4),
                      .rstd = &call.operand(3),
                      .gamma = &call.operand(5)};
  return normalize_rows_backward(
      call, form, tape,
      {.first = &call.output(0), .gamma = &call.output(1), .beta = &call.output(2), .added = &call.operand(6)});
}

/// Layer norm of x * alpha + gx. Operands: x, gx, beta, gamma. Outputs: mean, rstd, y.
Status deep_norm(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 4, 3));
  NormForm form{.epsilon = call.number(1)};
  DRYDOCK_RETURN_IF_ERROR(inner_of_gamma(call, call.operand(0), call.operand(3), &form.inner));
  const NormInput input{.first = &call.operand(0), .second = &call.operand(1), .scale = call.number(0)};
  return normalize_rows(call, form, input, call.operand(3), call.operand(2),
                        {.y = &call.output(2), .mean = &call.output(0), .rstd = &call.output(1)});
}

/// Operands: dy, x, gx, gamma, mean, rstd. Outputs: dx, dgx, dbeta, dgamma.
Status deep_norm_grad(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 6, 4));
  NormForm form;
  DRYDOCK_RETURN_IF_ERROR(inner_of_gamma(call, call.operand(1), call.operand(3), &form.inner));
  const NormTape tape{.gradient = &call.operand(0),
                      .input = {.first = &call.operand(1), .second = &call.operand(2), .scale = call.number(0)},
                      .mean = &call.operand(4),
                      .rstd = &call.operand(5),
                      .gamma = &call.operand(3)};
  return normalize_rows_backward(
      call, form, tape,
      {.first = &call.output(0), .second = &call.output(1), .gamma = &call.output(3), .beta = &call.output(2)});
}

/// Operands: x, gamma. Outputs: y, rstd.
Status rms_norm(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 2, 1));
  return rms_norm_of(call, {.first = &call.operand(0)}, call.operand(1),
                     {.y = &call.output(0), .rstd = &call.output(1)});
}

/// RMS norm with 1 + gamma.
Status gemma_rms_norm(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 2, 1));
  return rms_norm_of(call, {.first = &call.operand(0)}, call.operand(1),
                     {.y = &call.output(0), .rstd = &call.output(1)}, 1);
}

/// Operands: x1, x2, gamma. Outputs: y, rstd, x = x1 + x2.
Status add_rms_norm(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 3, 1));
  return rms_norm_of(call, {.first = &call.operand(0), .second = &call.operand(1)}, call.operand(2),
                     {.y = &call.output(0), .rstd = &call.output(1), .sum = &call.output(2)});
}

/// The same with y in x1 and the sum in x2. Outputs: x1, x2, rstd.
Status inplace_add_rms_norm(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 3, 2));
  return rms_norm_of(call, {.first = &call.operand(0), .second = &call.operand(1)}, call.operand(2),
                     {.y = &call.output(0), .rstd = &call.output(2), .sum = &call.output(1)});
}

/// Outputs: y as fp32, y in the type of the input, rstd, x.
Status add_rms_norm_cast(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 3, 1));
  return rms_norm_of(
      call, {.first = &call.operand(0), .second = &call.operand(1)}, call.operand(2),
      {.y = &call.output(0), .second_y = &call.output(1), .rstd = &call.output(2), .sum = &call.output(3)});
}

/// Operands: dy, x, rstd, gamma. Outputs: dx, dgamma.
Status rms_norm_grad(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 4, 1));
  NormForm form{.centred = false};
  DRYDOCK_RETURN_IF_ERROR(inner_of_gamma(call, call.operand(1), call.operand(3), &form.inner));
  const NormTape tape{.gradient = &call.operand(0),
                      .input = {.first = &call.operand(1)},
                      .rstd = &call.operand(2),
                      .gamma = &call.operand(3)};
  return normalize_rows_backward(call, form, tape, {.first = &call.output(0), .gamma = &call.output(1)});
}

}  // namespace drydock::ops::kernels
