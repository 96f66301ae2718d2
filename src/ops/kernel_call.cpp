#include "ops/kernel_call.h"

#include "base/saturating.h"

namespace drydock::ops {

std::string sizes_of(const TensorView& view) { return view.defined ? text_of(view.dims) : "none"; }

const Arg* KernelCall::nth_of_kind(ArgKind kind, int nth) const {
  for (const Arg& arg : args_) {
    if (arg.kind == kind && nth-- == 0) return &arg;
  }
  return nullptr;
}

bool KernelCall::has_ints(int nth) const {
  const Arg* arg = nth_of_kind(ArgKind::kIntArray, nth);
  return arg != nullptr && arg->ints != nullptr;
}

std::span<const int64_t> KernelCall::ints(int nth) const {
  const Arg* arg = nth_of_kind(ArgKind::kIntArray, nth);
  return arg != nullptr && arg->ints != nullptr ? std::span<const int64_t>(arg->ints->values)
                                                : std::span<const int64_t>();
}

std::span<const uint8_t> KernelCall::bools(int nth) const {
  const Arg* arg = nth_of_kind(ArgKind::kBoolArray, nth);
  return arg != nullptr && arg->bools != nullptr ? std::span<const uint8_t>(arg->bools->values)
                                                 : std::span<const uint8_t>();
}

int64_t KernelCall::integer(int nth) const {
  const Arg* arg = nth_of_kind(ArgKind::kInt, nth);
  return arg != nullptr ? arg->integer : 0;
}

double KernelCall::number(int nth) const {
  const Arg* arg = nth_of_kind(ArgKind::kDouble, nth);
  return arg != nullptr ? arg->number : 0.0;
}

bool KernelCall::boolean(int nth) const {
  const Arg* arg = nth_of_kind(ArgKind::kBool, nth);
  return arg != nullptr && arg->boolean;
}

std::string_view KernelCall::text(int nth) const {
  const Arg* arg = nth_of_kind(ArgKind::kString, nth);
  return arg != nullptr && arg->text != nullptr ? std::string_view(arg->text) : std::string_view();
}

const ScalarList* KernelCall::scalar_list(int nth) const {
  const Arg* arg = nth_of_kind(ArgKind::kScalarList, nth);
  return arg != nullptr ? arg->scalars : nullptr;
}

DataType KernelCall::data_type(int nth) const {
  const Arg* arg = nth_of_kind(ArgKind::kDataType, nth);
  return arg != nullptr ? static_cast<DataType>(arg->integer) : DataType::kUndefined;
}

void KernelCall::set_output_dims(int index, const Dims& dims) {
  TensorView& view = outputs_[static_cast<size_t>(index)];
  view.dims = dims;
  view.strides = dims;
  int64_t stride = 1;
  for (int axis = dims.size() - 1; axis >= 0; --axis) {
    view.strides[axis] = stride;
    stride = saturating_product(stride, dims[axis]);
  }
  if (Tensor* tensor = output_tensors_[static_cast<size_t>(index)]) {
    tensor->dims = view.dims;
    tensor->strides = view.strides;
  }
}

void KernelCallBuilder::begin(const OperatorRow& row, std::span<const Arg> args) {
  call_.row_ = &row;
  call_.args_ = args;
  call_.operands_.clear();
  call_.outputs_.clear();
  call_.operand_lists_.clear();
  call_.output_lists_.clear();
  call_.output_tensors_.clear();
}

void KernelCallBuilder::add_scalar_operand(const Scalar* scalar) {
  TensorView view;
  if (scalar != nullptr) {
    view.dtype = scalar->dtype;
    // Kernels only read operands; the view type is shared with outputs.
    view.data = reinterpret_cast<char*>(const_cast<unsigned char*>(scalar->bytes.data()));
    view.defined = true;
  }
  call_.operands_.push_back(view);
}

void KernelCallBuilder::add_output(const TensorView& view, Tensor* tensor) {
  call_.outputs_.push_back(view);
  call_.output_tensors_.push_back(tensor);
}

}  // namespace drydock::ops
