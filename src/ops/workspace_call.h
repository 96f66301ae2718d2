#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/data_type.h"
#include "base/saturating.h"
#include "ops/operator_row.h"
#include "ops/tensor.h"
#include "ops/workspace.h"

// What the formulas of spec/workspace.csv may ask of a call. All numbers are int64 and stop at its ends; what is not
// there (a null optional tensor, a dimension beyond the rank) is 0, so that no formula can fail.

namespace drydock::ops {

class WorkspaceCall {
 public:
  WorkspaceCall(std::span<const Arg> args, const WorkspaceMachine& machine) : args_(args), machine_(machine) {}

  int64_t aic() const { return machine_.cube_cores; }
  int64_t aiv() const { return machine_.vector_cores; }
  int64_t sys() const { return machine_.system_bytes; }

  /// Elements of a tensor, or of all tensors of a list.
  int64_t n(size_t arg) const {
    int64_t sum = 0;
    each(arg, [&sum](const Tensor& tensor) { sum = saturating_sum(sum, elements(tensor)); });
    return sum;
  }
  int64_t bytes(size_t arg) const {
    int64_t sum = 0;
    each(arg, [&sum](const Tensor& tensor) { sum = saturating_sum(sum, bytes_of(tensor)); });
    return sum;
  }
  /// Bytes of one element; 0 for types without a size.
  int64_t size(size_t arg) const {
    const Tensor* tensor = first(arg);
    return tensor == nullptr ? 0 : (bits_of(tensor->dtype) + 7) / 8;
  }
  int64_t rank(size_t arg) const {
    const Tensor* tensor = first(arg);
    return tensor == nullptr ? 0 : tensor->dims.size();
  }
  /// Negative `index`: counted from the last dimension, which is -1.
  int64_t dim(size_t arg, int64_t index) const {
    const Tensor* tensor = first(arg);
    if (tensor == nullptr) return 0;
    if (index < 0) index += tensor->dims.size();
    if (index < 0 || index >= tensor->dims.size()) return 0;
    return std::max<int64_t>(0, tensor->dims[static_cast<int>(index)]);
  }
  /// The dimension that `layout` ("BSH", "TND") calls `letter`; N and D are taken out of H with `heads`.
  int64_t axis(size_t arg, char letter, size_t layout, int64_t heads) const {
    const std::string_view letters = text(layout);
    if (const size_t found = letters.find(letter); found != std::string_view::npos)
      return dim(arg, static_cast<int64_t>(found));
    const size_t folded = letters.find('H');
    if (folded == std::string_view::npos || heads <= 0) return letter == 'B' ? 1 : 0;
    if (letter == 'N') return heads;
    return letter == 'D' ? dim(arg, static_cast<int64_t>(folded)) / heads : 0;
  }
  /// `dtypes`: a bit for each DataType.
  bool is(size_t arg, uint64_t dtypes) const {
    const Tensor* tensor = first(arg);
    if (tensor == nullptr || tensor->dtype == DataType::kUndefined) return false;
    return (dtypes >> static_cast<unsigned>(tensor->dtype) & 1) != 0;
  }
  bool given(size_t arg) const { return first(arg) != nullptr; }
  /// Elements of the innermost dimension as it lies in memory, and of the one around it.
  int64_t inner(size_t arg) const {
    const Tensor* tensor = first(arg);
    if (tensor == nullptr || tensor->dims.empty()) return 0;
    return dim(arg, is_transposed(*tensor) ? -2 : -1);
  }
  int64_t outer(size_t arg) const {
    const Tensor* tensor = first(arg);
    if (tensor == nullptr || tensor->dims.size() < 2) return 1;
    return dim(arg, is_transposed(*tensor) ? -1 : -2);
  }
  /// A copy of the tensor's elements as the type of `like`, padded, where the types differ; else 0.
  int64_t cast(size_t arg, size_t like) const {
    const Tensor* tensor = first(arg);
    const Tensor* other = first(like);
    if (tensor == nullptr || other == nullptr || tensor->dtype == other->dtype) return 0;
    return align(drydock::bytes_of(other->dtype, elements(*tensor)));
  }
  /// Elements of a list or array.
  int64_t length(size_t arg) const {
    const Arg& given = args_[arg];
    if (given.pointer == nullptr) return 0;
    if (given.kind == ArgKind::kTensorList) return static_cast<int64_t>(given.tensors->tensors.size());
    if (given.kind == ArgKind::kIntArray) return static_cast<int64_t>(given.ints->values.size());
    return 0;
  }
  /// An attribute.
  int64_t number(size_t arg) const {
    const Arg& given = args_[arg];
    switch (given.kind) {
      case ArgKind::kInt:
      case ArgKind::kDataType: return given.integer;
      case ArgKind::kBool: return given.boolean ? 1 : 0;
      case ArgKind::kDouble:
        return given.number >= -9.0e18 && given.number <= 9.0e18 ? static_cast<int64_t>(given.number) : 0;
      case ArgKind::kScalar: return given.scalar == nullptr ? 0 : given.scalar->as_int64();
      default: return 0;
    }
  }
  bool has_text(size_t arg, std::string_view wanted) const { return text(arg) == wanted; }

  static int64_t up(int64_t value, int64_t unit) { return saturating_product(ceil(value, unit), unit); }
  static int64_t ceil(int64_t value, int64_t unit) {
    return unit <= 0 ? 0 : saturating_sum(std::max<int64_t>(value, 0), unit - 1) / unit;
  }
  static int64_t divide(int64_t value, int64_t by) { return by <= 0 ? 0 : value / by; }
  /// What a part of a composite call's workspace takes: a multiple of 512 that leaves 32 bytes.
  static int64_t align(int64_t bytes) {
    return saturating_product(saturating_sum(std::max<int64_t>(bytes, 0), 32 + 511) / 512, 512);
  }

  static int64_t elements(const Tensor& tensor) { return std::max<int64_t>(0, saturating_product(tensor.dims.span())); }
  static int64_t bytes_of(const Tensor& tensor) { return drydock::bytes_of(tensor.dtype, elements(tensor)); }
  /// A matrix (or a batch of them) whose rows lie in memory as columns, densely: kernels of products take it as it is.
  static bool is_transposed(const Tensor& tensor) {
    const int rank = tensor.dims.size();
    if (rank < 2 || tensor.strides[rank - 2] != 1 || tensor.strides[rank - 1] != tensor.dims[rank - 2]) return false;
    if (tensor.strides[rank - 1] == 1 && tensor.dims[rank - 1] != 1) return false;
    int64_t dense = saturating_product(tensor.dims[rank - 1], tensor.dims[rank - 2]);
    for (int index = rank - 3; index >= 0; --index) {
      if (tensor.dims[index] != 1 && tensor.strides[index] != dense) return false;
      dense = saturating_product(dense, tensor.dims[index]);
    }
    return true;
  }

 private:
  const Tensor* first(size_t arg) const {
    const Arg& given = args_[arg];
    if (given.pointer == nullptr) return nullptr;
    if (given.kind == ArgKind::kTensor) return given.tensor;
    if (given.kind != ArgKind::kTensorList || given.tensors->tensors.empty()) return nullptr;
    return given.tensors->tensors.front();
  }
  template <class Use>
  void each(size_t arg, Use&& use) const {
    const Arg& given = args_[arg];
    if (given.pointer == nullptr) return;
    if (given.kind == ArgKind::kTensor) {
      use(*given.tensor);
    } else if (given.kind == ArgKind::kTensorList) {
      for (const Tensor* tensor : given.tensors->tensors)
        if (tensor != nullptr) use(*tensor);
    }
  }
  std::string_view text(size_t arg) const {
    const Arg& given = args_[arg];
    return given.kind != ArgKind::kString || given.text == nullptr ? std::string_view() : given.text;
  }

  std::span<const Arg> args_;
  const WorkspaceMachine& machine_;
};

}  // namespace drydock::ops
