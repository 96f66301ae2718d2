#include "ops/deferred_call.h"

#include <string>

#include "ops/execute.h"
#include "ops/objects.h"

namespace drydock::ops {

DeferredCall::DeferredCall(Executor& executor, device::Stream& stream)
    : stream_(stream), executor_(executor.operator_index(), executor.args(), executor.call(), executor.line()) {
  for (Arg& arg : executor_.args()) arg = own(arg);
}

Tensor* DeferredCall::own(Tensor* tensor) {
  if (tensor == nullptr) return nullptr;
  Tensor* copy = &tensors_.emplace_back(*tensor);
  outputs_.push_back({tensor, copy, objects().tensors.generation(tensor)});
  return copy;
}

Arg DeferredCall::own(const Arg& arg) {
  Arg owned = arg;
  if (arg.pointer == nullptr) return owned;
  switch (arg.kind) {
    case ArgKind::kTensor: owned.tensor = own(arg.tensor); break;
    case ArgKind::kTensorList: {
      TensorList& list = tensor_lists_.emplace_back();
      for (Tensor* tensor : arg.tensors->tensors) list.tensors.push_back(own(tensor));
      owned.tensors = &list;
      break;
    }
    case ArgKind::kScalar: owned.scalar = &scalars_.emplace_back(*arg.scalar); break;
    case ArgKind::kScalarList: {
      ScalarList& list = scalar_lists_.emplace_back();
      for (Scalar* scalar : arg.scalars->scalars) {
        list.scalars.push_back(scalar == nullptr ? nullptr : &scalars_.emplace_back(*scalar));
      }
      owned.scalars = &list;
      break;
    }
    case ArgKind::kIntArray: owned.ints = &int_arrays_.emplace_back(*arg.ints); break;
    case ArgKind::kFloatArray: owned.floats = &float_arrays_.emplace_back(*arg.floats); break;
    case ArgKind::kBoolArray: owned.bools = &bool_arrays_.emplace_back(*arg.bools); break;
    case ArgKind::kString: owned.text = texts_.emplace_back(arg.text).c_str(); break;
    default: break;
  }
  return owned;
}

Status DeferredCall::run() {
  trace::Outcome outcome = trace::Outcome::kGhost;
  Status status = execute(executor_, outcome);
  // A shape that depends on values is read from the client's own object (contract H15).
  for (const ClientOutput& output : outputs_) {
    // The client may have destroyed it since, and another tensor may live in its slot.
    if (objects().tensors.generation(output.client) != output.generation || output.generation == 0) continue;
    output.client->dims = output.copy->dims;
    output.client->strides = output.copy->strides;
  }
  trace::operator_launched(stream_.device(), stream_.id(), executor_.call(), executor_.line(), outcome);
  if (!status.is_ok()) record_fault(executor_, status);
  return status;
}

}  // namespace drydock::ops
