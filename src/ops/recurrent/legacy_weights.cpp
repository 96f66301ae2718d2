#include "ops/recurrent/legacy_weights.h"

#include <utility>

#include "ops/matmul/matrix_call.h"

namespace drydock::ops::kernels::recurrent {

TensorView transposed(const TensorView& view) {
  TensorView result = view;
  std::swap(result.dims[0], result.dims[1]);
  std::swap(result.strides[0], result.strides[1]);
  return result;
}

Status expect_count(const KernelCall& call, const TensorView& view, int64_t count, const std::string& what) {
  if (!view.defined) return invalid(call, what + " is missing");
  if (!is_real_element(view.dtype)) return not_computed(call, "no kernel for the elements of " + what);
  if (view.numel() == count) return Status::ok();
  return invalid(call, what + " must have " + std::to_string(count) + " elements, its shape is " + text_of(view.dims));
}

Status legacy_sizes(const KernelCall& call, const TensorView& input, int64_t gates, int64_t hidden, Sizes* sizes) {
  // The gradient of a cell gets its input without the dimension of the steps.
  const int rank = input.defined ? input.dims.size() : 0;
  if (rank != 2 && rank != 3) return invalid(call, "x must have 3 dimensions, or 2 for one step");
  sizes->steps = rank == 3 ? input.dims[0] : 1;
  sizes->batch = input.dims[rank - 2];
  sizes->inputs = input.dims[rank - 1];
  sizes->hidden = hidden;
  sizes->layers = 1;
  sizes->gates = gates;
  sizes->with_bias = true;
  return Status::ok();
}

}  // namespace drydock::ops::kernels::recurrent
