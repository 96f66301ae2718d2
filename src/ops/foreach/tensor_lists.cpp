#include "ops/foreach/tensor_lists.h"

namespace drydock::ops::kernels {

Status expect_lists(const KernelCall& call, const std::vector<TensorView>& out,
                    std::initializer_list<const std::vector<TensorView>*> inputs) {
  for (const std::vector<TensorView>* input : inputs) {
    if (input->size() != out.size()) return invalid(call, "the lists have different lengths");
    for (const TensorView& view : *input) {
      if (!view.defined || !is_real_element(view.dtype)) return not_computed(call, "a tensor of the list is not real");
    }
  }
  for (const TensorView& view : out) {
    if (!view.defined || !is_real_element(view.dtype)) return not_computed(call, "an output of the list is not real");
  }
  return Status::ok();
}

Status ListScalars::read_operand(const KernelCall& call) { return read_elements(call, 1); }

Status ListScalars::read_elements(const KernelCall& call, size_t count) {
  if (call.operand_count() < 1 || !call.operand(0).defined || !is_real_element(call.operand(0).dtype)) {
    return not_computed(call, "the scalar is missing or not real");
  }
  const TensorView& scalars = call.operand(0);
  if (scalars.numel() != static_cast<int64_t>(count)) {
    return invalid(call, "there must be " + std::to_string(count) + " scalars, not " + std::to_string(scalars.numel()));
  }
  for (size_t i = 0; i < count; ++i) {
    TensorView one = contiguous_view(flat_element(scalars, static_cast<int64_t>(i)), scalars.dtype, Dims());
    views_.push_back(one);
  }
  return Status::ok();
}

Status ListScalars::read_list(const KernelCall& call, size_t count) {
  const ScalarList* scalars = call.scalar_list(0);
  if (scalars == nullptr || scalars->scalars.size() != count) {
    return invalid(call, "there must be one scalar for each tensor");
  }
  for (const Scalar* value : scalars->scalars) {
    if (value == nullptr || !is_real_element(value->dtype)) return not_computed(call, "a scalar is null or not real");
    // Kernels only read operands; the view type is shared with outputs.
    views_.push_back(contiguous_view(const_cast<unsigned char*>(value->bytes.data()), value->dtype, Dims()));
  }
  return Status::ok();
}

}  // namespace drydock::ops::kernels
