#pragma once

#include <cstdint>

#include "ops/operator_row.h"

// How the generated operator doors pack their typed arguments. Handles go in as the client gave them.

namespace drydock::abi {

inline ops::Arg of_kind(ops::ArgKind kind) noexcept {
  ops::Arg arg;
  arg.kind = kind;
  return arg;
}

inline ops::Arg pack_tensor(const void* handle) noexcept {
  ops::Arg arg = of_kind(ops::ArgKind::kTensor);
  arg.tensor = static_cast<ops::Tensor*>(const_cast<void*>(handle));
  return arg;
}

inline ops::Arg pack_tensors(const void* handle) noexcept {
  ops::Arg arg = of_kind(ops::ArgKind::kTensorList);
  arg.tensors = static_cast<ops::TensorList*>(const_cast<void*>(handle));
  return arg;
}

inline ops::Arg pack_scalar(const void* handle) noexcept {
  ops::Arg arg = of_kind(ops::ArgKind::kScalar);
  arg.scalar = static_cast<const ops::Scalar*>(handle);
  return arg;
}

inline ops::Arg pack_scalars(const void* handle) noexcept {
  ops::Arg arg = of_kind(ops::ArgKind::kScalarList);
  arg.scalars = static_cast<const ops::ScalarList*>(handle);
  return arg;
}

inline ops::Arg pack_ints(const void* handle) noexcept {
  ops::Arg arg = of_kind(ops::ArgKind::kIntArray);
  arg.ints = static_cast<const ops::IntArray*>(handle);
  return arg;
}

inline ops::Arg pack_floats(const void* handle) noexcept {
  ops::Arg arg = of_kind(ops::ArgKind::kFloatArray);
  arg.floats = static_cast<const ops::FloatArray*>(handle);
  return arg;
}

inline ops::Arg pack_bools(const void* handle) noexcept {
  ops::Arg arg = of_kind(ops::ArgKind::kBoolArray);
  arg.bools = static_cast<const ops::BoolArray*>(handle);
  return arg;
}

inline ops::Arg pack_int(int64_t value) noexcept {
  ops::Arg arg = of_kind(ops::ArgKind::kInt);
  arg.integer = value;
  return arg;
}

inline ops::Arg pack_double(double value) noexcept {
  ops::Arg arg = of_kind(ops::ArgKind::kDouble);
  arg.number = value;
  return arg;
}

inline ops::Arg pack_bool(bool value) noexcept {
  ops::Arg arg = of_kind(ops::ArgKind::kBool);
  arg.boolean = value;
  return arg;
}

inline ops::Arg pack_text(const char* text) noexcept {
  ops::Arg arg = of_kind(ops::ArgKind::kString);
  arg.text = text;
  return arg;
}

inline ops::Arg pack_data_type(int32_t value) noexcept {
  ops::Arg arg = of_kind(ops::ArgKind::kDataType);
  arg.integer = value;
  return arg;
}

inline ops::Arg pack_pointer(const void* pointer) noexcept {
  ops::Arg arg = of_kind(ops::ArgKind::kPointer);
  arg.pointer = pointer;
  return arg;
}

}  // namespace drydock::abi
