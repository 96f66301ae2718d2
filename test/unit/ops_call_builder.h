#pragma once

#include <cmath>
#include <cstring>
#include <deque>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include <gtest/gtest.h>

#include "base/element_types.h"
#include "ops/kernel_access.h"
#include "ops/kernel_call.h"
#include "ops/run_kernel.h"

// Calls of kernels on host memory: tensors, scalars and attributes are added in the order of a signature.

namespace drydock::ops::testing {

template <class T>
constexpr DataType data_type_of() {
  if constexpr (std::is_same_v<T, bool>)
    return DataType::kBool;
  else if constexpr (std::is_same_v<T, int8_t>)
    return DataType::kInt8;
  else if constexpr (std::is_same_v<T, int16_t>)
    return DataType::kInt16;
  else if constexpr (std::is_same_v<T, int32_t>)
    return DataType::kInt32;
  else if constexpr (std::is_same_v<T, int64_t>)
    return DataType::kInt64;
  else if constexpr (std::is_same_v<T, uint8_t>)
    return DataType::kUInt8;
  else if constexpr (std::is_same_v<T, uint64_t>)
    return DataType::kUInt64;
  else if constexpr (std::is_same_v<T, float>)
    return DataType::kFloat;
  else if constexpr (std::is_same_v<T, double>)
    return DataType::kDouble;
  else
    static_assert(sizeof(T) == 0, "no element type");
}

/// A tensor that owns its elements. Elements are given and read as doubles or T, and stored as its data type.
class HostTensor {
 public:
  HostTensor(DataType dtype, const Dims& dims, const std::vector<double>& values) : HostTensor(dtype, dims) {
    set(values);
  }
  HostTensor(DataType dtype, const Dims& dims)
      : bytes_(static_cast<size_t>(bytes_of(dtype, dims.product())) + 64, kUntouched) {
    view_ = kernels::contiguous_view(bytes_.data(), dtype, dims);
  }
  HostTensor(const HostTensor& other) : bytes_(other.bytes_), view_(other.view_) {
    view_.data = bytes_.data() + (other.view_.data - other.bytes_.data());
  }
  HostTensor& operator=(const HostTensor&) = delete;

  void set(const std::vector<double>& values) {
    ASSERT_EQ(static_cast<int64_t>(values.size()), view_.numel());
    kernels::Rows(view_, kernels::all_axes(view_.dims.size())).write<double>(0, values.data());
  }
  std::vector<double> values() const { return values_of(view_); }
  static std::vector<double> values_of(const TensorView& view) {
    std::vector<double> values;
    kernels::for_each_value<double>(view, [&](double value) { values.push_back(value); });
    return values;
  }
  /// Another view of the same elements: sizes and strides in elements.
  HostTensor& restrided(const Dims& dims, const Dims& strides, int64_t offset = 0) {
    view_.dims = dims;
    view_.strides = strides;
    view_.data = bytes_.data() + bytes_of(view_.dtype, offset);
    return *this;
  }
  TensorView& view() { return view_; }
  char* bytes() { return bytes_.data(); }
  /// True if nothing was written after the elements.
  bool is_clean_behind() const {
    for (size_t k = bytes_.size() - 64; k < bytes_.size(); ++k) {
      if (bytes_[k] != kUntouched) return false;
    }
    return true;
  }

 private:
  static constexpr char kUntouched = 0x5a;
  std::vector<char> bytes_;
  TensorView view_;
};

template <class T>
HostTensor tensor(const Dims& dims, const std::vector<T>& values) {
  HostTensor result(data_type_of<T>(), dims);
  int64_t k = 0;
  for (T value : values) {
    std::memcpy(result.bytes() + k++ * static_cast<int64_t>(sizeof(T)), &value, sizeof(T));
  }
  return result;
}

/// A call in the making. What is added must outlive `run`.
class TestCall {
 public:
  explicit TestCall(std::string name = "aclnnTest") : name_(std::move(name)) {}

  TestCall& in(HostTensor& added) { return tensor(added, ArgDirection::kIn); }
  TestCall& out(HostTensor& added) { return tensor(added, ArgDirection::kOut); }
  TestCall& in_out(HostTensor& added) { return tensor(added, ArgDirection::kInOut); }
  TestCall& tensor(HostTensor& added, ArgDirection direction) { return add_tensor(&added, direction); }
  TestCall& absent(ArgDirection direction = ArgDirection::kIn) { return add_tensor(nullptr, direction); }
  TestCall& tensor_or_absent(HostTensor* added) { return add_tensor(added, ArgDirection::kIn); }
  TestCall& in_list(std::vector<HostTensor*> added) { return list(std::move(added), ArgDirection::kIn); }
  TestCall& out_list(std::vector<HostTensor*> added) { return list(std::move(added), ArgDirection::kOut); }
  TestCall& in_out_list(std::vector<HostTensor*> added) { return list(std::move(added), ArgDirection::kInOut); }
  TestCall& list(std::vector<HostTensor*> added, ArgDirection direction) {
    add(ArgKind::kTensorList, direction);
    parts_.push_back({false, true, direction, nullptr, 0, std::move(added)});
    return *this;
  }
  template <class T>
  TestCall& scalar(T value) {
    Scalar& scalar = scalars_.emplace_back();
    scalar.dtype = data_type_of<T>();
    std::memcpy(scalar.bytes.data(), &value, sizeof value);
    Arg& arg = add(ArgKind::kScalar);
    arg.scalar = &scalar;
    return *this;
  }
  TestCall& no_scalar() {
    add(ArgKind::kScalar).scalar = nullptr;
    return *this;
  }
  TestCall& ints(std::vector<int64_t> values) {
    add(ArgKind::kIntArray).ints = &arrays_.emplace_back(IntArray{std::move(values)});
    return *this;
  }
  TestCall& bools(std::vector<uint8_t> values) {
    add(ArgKind::kBoolArray).bools = &bool_arrays_.emplace_back(BoolArray{std::move(values)});
    return *this;
  }
  TestCall& integer(int64_t value) {
    add(ArgKind::kInt).integer = value;
    return *this;
  }
  TestCall& number(double value) {
    add(ArgKind::kDouble).number = value;
    return *this;
  }
  TestCall& boolean(bool value) {
    add(ArgKind::kBool).boolean = value;
    return *this;
  }

  TestCall& text(const char* value) {
    add(ArgKind::kString).text = value;
    return *this;
  }

  /// A null argument of another kind.
  TestCall& other(ArgKind kind) {
    add(kind);
    return *this;
  }

  Status run(Kernel kernel) {
    name_arguments();
    row_ = {name_, OperatorClass::kModelled, specs_, kernel, AssumedValue::kDefault, 0, {}};
    KernelCallBuilder builder(call_);
    builder.begin(row_, args_);
    for (const Part& part : parts_) {
      if (part.is_scalar) {
        builder.add_scalar_operand(args_[part.arg].scalar);
      } else if (part.is_list) {
        if (part.direction != ArgDirection::kOut) fill(builder.add_operand_list(), part.list);
        if (part.direction != ArgDirection::kIn) fill(builder.add_output_list(), part.list);
      } else {
        const TensorView view = part.tensor ? part.tensor->view() : TensorView{};
        if (part.direction != ArgDirection::kOut) builder.add_operand(view);
        if (part.direction != ArgDirection::kIn) builder.add_output(view, nullptr);
      }
    }
    return kernels::run_kernel(kernel, call_);
  }

  /// The shape that set_output_dims gave an output, and its values.
  const Dims& output_dims(int index) const { return call_.output(index).dims; }
  std::vector<double> output_values(int index) const { return HostTensor::values_of(call_.output(index)); }

 private:
  struct Part {
    bool is_scalar = false;
    bool is_list = false;
    ArgDirection direction = ArgDirection::kIn;
    HostTensor* tensor = nullptr;
    size_t arg = 0;
    std::vector<HostTensor*> list;
  };

  /// A call of an operator that exists has the names of its signature.
  void name_arguments() {
    for (const OperatorRow& row : operator_rows()) {
      if (row.name != name_) continue;
      ASSERT_EQ(row.args.size(), specs_.size());
      for (size_t k = 0; k < specs_.size(); ++k) {
        ASSERT_EQ(row.args[k].kind, specs_[k].kind) << row.args[k].name;
        specs_[k].name = row.args[k].name;
      }
    }
  }
  static void fill(std::vector<TensorView>& views, const std::vector<HostTensor*>& tensors) {
    for (HostTensor* tensor : tensors) views.push_back(tensor ? tensor->view() : TensorView{});
  }
  Arg& add(ArgKind kind, ArgDirection direction = ArgDirection::kIn) {
    specs_.push_back({"", kind, direction});
    args_.emplace_back().kind = kind;
    if (kind == ArgKind::kScalar) parts_.push_back({true, false, direction, nullptr, args_.size() - 1, {}});
    return args_.back();
  }
  TestCall& add_tensor(HostTensor* tensor, ArgDirection direction) {
    add(ArgKind::kTensor, direction);
    parts_.push_back({false, false, direction, tensor, 0, {}});
    return *this;
  }
  std::string name_;
  OperatorRow row_{};
  std::vector<ArgSpec> specs_;
  std::vector<Arg> args_;
  std::vector<Part> parts_;
  std::deque<Scalar> scalars_;
  std::deque<IntArray> arrays_;
  std::deque<BoolArray> bool_arrays_;
  KernelCall call_;
};

}  // namespace drydock::ops::testing
