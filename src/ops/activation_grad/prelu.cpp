#include "ops/elementwise.h"
#include "ops/kernel_call.h"
#include "ops/loss/reduction.h"
#include "ops/shapes.h"

// Parametric relu: the slope for negative inputs is a weight, one for all channels or one for each.

namespace drydock::ops::kernels {
namespace {

/// The weight seen with the shape of the input, whose channels are dimension 1.
Status weight_like(const KernelCall& call, const TensorView& weight, const Dims& dims, TensorView* wide) {
  const int rank = dims.size();
  const int64_t channels = rank > 1 ? dims[1] : 1;
  const int64_t count = weight.numel();
  if (count != 1 && count != channels) {
    return invalid(call, "there must be one weight or one for each of " + std::to_string(channels) + " channels");
  }
  *wide = weight;
  wide->dims = dims;
  wide->strides = dims;
  for (int axis = 0; axis < rank; ++axis) wide->strides[axis] = 0;
  if (count == 1) return Status::ok();
  for (int axis = 0; axis < weight.dims.size(); ++axis) {
    if (weight.dims[axis] != count) continue;
    wide->strides[1] = weight.strides[axis];
    return Status::ok();
  }
  return invalid(call, "the weight must be a vector");
}

constexpr std::array<DataType, 3> kNoRounding = {DataType::kUndefined, DataType::kUndefined, DataType::kUndefined};

}  // namespace

Status prelu(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 2, 1));
  const TensorView& x = call.operand(0);
  TensorView weight;
  DRYDOCK_RETURN_IF_ERROR(weight_like(call, call.operand(1), x.dims, &weight));
  return with_floating_type(floating_type_of({&x}), [&]<class C>() {
    const bool fits = map_elements<C, 2>(call.output(0), {&x, &weight}, {DataType::kUndefined, DataType::kUndefined},
                                         [](C value, C slope) { return value > C(0) ? value : value * slope; });
    return fits ? Status::ok() : shapes_do_not_fit(call);
  });
}

/// Operands: gradient, input, weight. Outputs: gradients of input and weight.
Status prelu_backward(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 3, 2));
  const TensorView& gradient = call.operand(0);
  const TensorView& x = call.operand(1);
  const TensorView& of_weight = call.output(1);
  TensorView weight;
  DRYDOCK_RETURN_IF_ERROR(weight_like(call, call.operand(2), x.dims, &weight));
  if (!(gradient.dims == x.dims)) return invalid(call, "the gradient must have the shape of the input");
  const int64_t weights = call.operand(2).numel();
  if (of_weight.numel() != weights) return invalid(call, "gradWeight must have as many elements as the weight");
  return with_floating_type(floating_type_of({&x}), [&]<class C>() {
    // The sums first: the gradient of the input may overwrite what they read.
    auto product = [](C g, C value) { return value > C(0) ? C(0) : g * value; };
    std::vector<double> sums(static_cast<size_t>(weights));
    if (weights == 1) {
      sums[0] = is_contiguous(gradient) && is_contiguous(x) ? sum_contiguous<C, 2>({&gradient, &x}, x.numel(), product)
                                                            : sum_strided<C, 2>({&gradient, &x}, x.dims, product);
    } else {
      base::parallel_for(weights, 1, [&](int64_t begin, int64_t end) {
        for (int64_t channel = begin; channel < end; ++channel) {
          const TensorView g = select(gradient, 1, channel);
          const TensorView values = select(x, 1, channel);
          sums[static_cast<size_t>(channel)] = sum_strided<C, 2>({&g, &values}, g.dims, product);
        }
      });
    }
    const bool fits = map_elements<C, 3>(call.output(0), {&gradient, &x, &weight}, kNoRounding,
                                         [](C g, C value, C slope) { return value > C(0) ? g : g * slope; });
    if (!fits) return shapes_do_not_fit(call);
    write_values(of_weight, sums);
    return Status::ok();
  });
}

}  // namespace drydock::ops::kernels
