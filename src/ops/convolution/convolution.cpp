#include <array>
#include <string>

#include "ops/convolution/engine.h"
#include "ops/matmul/matrix_call.h"

// Convolutions as operators: arguments, gradients asked for, and layouts.

namespace drydock::ops::kernels {
namespace {

Status expect_low_precision(const KernelCall& call, std::span<const TensorView* const> views) {
  for (const TensorView* view : views) {
    if (!view->defined) continue;
    if (view->dtype != DataType::kFloat && view->dtype != DataType::kFloat16 && view->dtype != DataType::kBFloat16) {
      return not_computed(call, "convolutions compute fp32, fp16 and bf16, not " + std::string(name_of(view->dtype)));
    }
  }
  return Status::ok();
}

/// The bias as a vector: one dimension holds all of it.
Status bias_vector(const KernelCall& call, const TensorView& bias, int64_t channels, TensorView* vector) {
  *vector = {};
  if (!bias.defined) return Status::ok();
  int axis = 0;
  while (axis < bias.dims.size() && bias.dims[axis] != channels) ++axis;
  if (axis == bias.dims.size() || bias.numel() != channels) {
    return invalid(call, "the bias is " + text_of(bias.dims) + ", it must have one value for each of the " +
                             std::to_string(channels) + " output channels");
  }
  *vector = bias;
  vector->dims = Dims{channels};
  vector->strides = Dims{bias.strides[axis]};
  return Status::ok();
}

struct Tensors {
  const TensorView& input;
  const TensorView& weight;
  const TensorView& bias;
  const TensorView& output;
};

Status convolve(const KernelCall& call, const Tensors& tensors, const ConvolutionArguments& arguments,
                int64_t cube_math_type) {
  const std::array<const TensorView*, 4> all{&tensors.input, &tensors.weight, &tensors.bias, &tensors.output};
  DRYDOCK_RETURN_IF_ERROR(expect_low_precision(call, all));
  ConvolutionViews views;
  DRYDOCK_RETURN_IF_ERROR(arrange(call, tensors.input, tensors.weight, tensors.output, arguments, &views));
  InputRounding rounding{};
  DRYDOCK_RETURN_IF_ERROR(rounding_of(call, cube_math_type, tensors.input.dtype, tensors.weight.dtype, &rounding));
  DRYDOCK_RETURN_IF_ERROR(bias_vector(call, tensors.bias, tensors.output.dims[1], &views.bias));
  if (arguments.transposed) {
    compute_image(views, rounding);
  } else {
    compute_map(views, rounding);
  }
  return Status::ok();
}

struct Gradients {
  const TensorView& input;
  const TensorView& weight;
  const TensorView& bias;
  std::array<bool, 3> wanted;
};

Status expect_shape(const KernelCall& call, const TensorView& gradient, const Dims& dims, const char* name) {
  if (gradient.dims == dims) return Status::ok();
  return invalid(call, std::string(name) + " is " + text_of(gradient.dims) + ", it must be " + text_of(dims));
}

Status differentiate(const KernelCall& call, const TensorView& grad_output, const TensorView& input,
                     const TensorView& weight, const ConvolutionArguments& arguments, int64_t cube_math_type,
                     const Gradients& gradients) {
  const std::array<const TensorView*, 6> all{&grad_output,      &input,         &weight, &gradients.input,
                                             &gradients.weight, &gradients.bias};
  DRYDOCK_RETURN_IF_ERROR(expect_low_precision(call, all));
  InputRounding rounding{};
  DRYDOCK_RETURN_IF_ERROR(rounding_of(call, cube_math_type, input.dtype, weight.dtype, &rounding));
  ConvolutionViews views;
  DRYDOCK_RETURN_IF_ERROR(arrange(call, input, weight, grad_output, arguments, &views));
  const bool wants_input = gradients.wanted[0] && gradients.input.defined;
  const bool wants_weight = gradients.wanted[1] && gradients.weight.defined;
  const bool wants_bias = gradients.wanted[2] && gradients.bias.defined;
  if (wants_input) DRYDOCK_RETURN_IF_ERROR(expect_shape(call, gradients.input, input.dims, "gradInput"));
  if (wants_weight) DRYDOCK_RETURN_IF_ERROR(expect_shape(call, gradients.weight, weight.dims, "gradWeight"));
  if (wants_bias) DRYDOCK_RETURN_IF_ERROR(expect_shape(call, gradients.bias, Dims{grad_output.dims[1]}, "gradBias"));
  if (wants_input) {
    ConvolutionViews for_input;
    DRYDOCK_RETURN_IF_ERROR(arrange(call, gradients.input, weight, grad_output, arguments, &for_input));
    if (arguments.transposed) {
      compute_map(for_input, rounding);
    } else {
      compute_image(for_input, rounding);
    }
  }
  if (wants_weight) {
    ConvolutionViews for_weight;
    DRYDOCK_RETURN_IF_ERROR(arrange(call, input, gradients.weight, grad_output, arguments, &for_weight));
    compute_filters(for_weight, rounding);
  }
  if (wants_bias) sum_channels(grad_output, gradients.bias);
  return Status::ok();
}

TensorView permuted(const TensorView& view, std::array<int, 3> axes) {
  TensorView result = view;
  for (int k = 0; k < 3; ++k) {
    result.dims[k] = view.dims[axes[static_cast<size_t>(k)]];
    result.strides[k] = view.strides[axes[static_cast<size_t>(k)]];
  }
  return result;
}

/// [T, B, C] as [B, C, T].
TensorView batch_first(const TensorView& view) { return permuted(view, {1, 2, 0}); }
/// Filters [K, C, O] as [O, C, K].
TensorView map_channels_first(const TensorView& view) { return permuted(view, {2, 1, 0}); }

Status expect_three_dims(const KernelCall& call, std::span<const TensorView* const> views) {
  for (const TensorView* view : views) {
    if (view->defined && view->dims.size() != 3) {
      return invalid(call, "a tensor of " + text_of(view->dims) + " must have three dimensions");
    }
  }
  return Status::ok();
}

constexpr std::array<int64_t, 1> kOne{1};

}  // namespace

/// (input, weight, bias, stride, padding, dilation, transposed, outputPadding, groups)
Status convolution(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 2, 1));
  const ConvolutionArguments arguments{call.ints(0), call.ints(1),    call.ints(2),
                                       call.ints(3), call.boolean(0), call.integer(0)};
  return convolve(call, {call.operand(0), call.operand(1), call.operand(2), call.output(0)}, arguments,
                  call.integer(1));
}

/// (self, weight, kernelSize, bias, stride, padding, dilation): each input channel has filters of its own.
Status depthwise_convolution(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 2, 1));
  const TensorView& input = call.operand(0);
  if (input.dims.size() != 4) return invalid(call, "self " + text_of(input.dims) + " must have four dimensions");
  const ConvolutionArguments arguments{call.ints(1), call.ints(2), call.ints(3), {}, false, input.dims[1]};
  return convolve(call, {input, call.operand(1), call.operand(2), call.output(0)}, arguments, call.integer(0));
}

/// (gradOutput, input, weight, biasSizes, stride, padding, dilation, transposed, outputPadding, groups, outputMask)
Status convolution_backward(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 3, 0));
  const ConvolutionArguments arguments{call.ints(1), call.ints(2),    call.ints(3),
                                       call.ints(4), call.boolean(0), call.integer(0)};
  const std::span<const uint8_t> mask = call.bools(0);
  if (mask.size() != 3) return invalid(call, "outputMask must have three values");
  if (call.output_count() != 3) return not_computed(call, "three gradients are expected");
  return differentiate(call, call.operand(0), call.operand(1), call.operand(2), arguments, call.integer(1),
                       {call.output(0), call.output(1), call.output(2), {mask[0] != 0, mask[1] != 0, mask[2] != 0}});
}

/// (self [T, B, C], weight [K, C, O], bias, pad)
Status convolution_tbc(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 2, 1));
  const std::array<const TensorView*, 3> all{&call.operand(0), &call.operand(1), &call.output(0)};
  DRYDOCK_RETURN_IF_ERROR(expect_three_dims(call, all));
  const std::array<int64_t, 1> pad{call.integer(0)};
  const TensorView input = batch_first(call.operand(0)), weight = map_channels_first(call.operand(1));
  return convolve(call, {input, weight, call.operand(2), batch_first(call.output(0))}, {kOne, pad, kOne, {}, false, 1},
                  call.integer(1));
}

/// (gradOutput [T, B, O], input [T, B, C], weight [K, C, O], bias, pad)
Status convolution_tbc_backward(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 3, 0));
  if (call.output_count() != 3) return not_computed(call, "three gradients are expected");
  const std::array<const TensorView*, 5> all{&call.operand(0), &call.operand(1), &call.operand(2), &call.output(0),
                                             &call.output(1)};
  DRYDOCK_RETURN_IF_ERROR(expect_three_dims(call, all));
  const std::array<int64_t, 1> pad{call.integer(0)};
  const auto arranged = [](const TensorView& view, TensorView (*arrangement)(const TensorView&)) {
    return view.defined ? arrangement(view) : view;
  };
  const TensorView grad_input = arranged(call.output(0), batch_first);
  const TensorView grad_weight = arranged(call.output(1), map_channels_first);
  return differentiate(call, batch_first(call.operand(0)), batch_first(call.operand(1)),
                       map_channels_first(call.operand(2)), {kOne, pad, kOne, {}, false, 1}, call.integer(1),
                       {grad_input, grad_weight, call.output(2), {true, true, true}});
}

}  // namespace drydock::ops::kernels
