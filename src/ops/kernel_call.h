#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "ops/operator_row.h"

namespace drydock::ops {

/// A strided view of host-readable memory. `strides` in elements and may be 0 (broadcast, or a stand-in).
struct TensorView {
  char* data = nullptr;  ///< first element of the view
  DataType dtype = DataType::kUndefined;
  Dims dims;
  Dims strides;
  bool defined = false;  ///< false for a null (absent optional) tensor

  int64_t numel() const { return dims.product(); }
};

/// The view's sizes as text_of writes them, "none" for an absent one.
std::string sizes_of(const TensorView& view);

/// What a kernel sees of one call: operands and outputs in the order of the signature.
///
/// *Operands* are the tensors and scalars that are read (direction in or in-out), so that aclnnAdd(self, other, alpha),
/// aclnnAdds(self, otherScalar, alpha) and aclnnInplaceAdd(selfRef, other, alpha) look the same: operand(0), (1), (2).
/// A scalar operand is a view of rank 0. *Outputs* are the tensors written (out or in-out), in signature order.
/// All other arguments are reached by the index they have among the arguments of their kind.
class KernelCall {
 public:
  const OperatorRow& row() const { return *row_; }

  int operand_count() const { return static_cast<int>(operands_.size()); }
  const TensorView& operand(int index) const { return operands_[static_cast<size_t>(index)]; }
  int output_count() const { return static_cast<int>(outputs_.size()); }
  const TensorView& output(int index) const { return outputs_[static_cast<size_t>(index)]; }

  /// Lists of tensors, in signature order among lists; elements may be undefined views.
  const std::vector<TensorView>& operand_list(int index) const { return operand_lists_[static_cast<size_t>(index)]; }
  const std::vector<TensorView>& output_list(int index) const { return output_lists_[static_cast<size_t>(index)]; }

  /// The n-th int array, int, double, bool ... counted within its own kind, in signature order.
  /// An absent array is an empty span with `has_ints` false; an absent value is 0, false or empty.
  bool has_ints(int nth) const;
  std::span<const int64_t> ints(int nth) const;
  /// One byte each, not 0 for true; empty where absent.
  std::span<const uint8_t> bools(int nth) const;
  int64_t integer(int nth) const;
  double number(int nth) const;
  bool boolean(int nth) const;
  std::string_view text(int nth) const;
  const ScalarList* scalar_list(int nth) const;
  DataType data_type(int nth) const;

  /// For operators whose output shape depends on values: the shape that aclGetViewShape will report.
  /// The output's view becomes contiguous with these sizes.
  void set_output_dims(int index, const Dims& dims);

 private:
  friend class KernelCallBuilder;
  const Arg* nth_of_kind(ArgKind kind, int nth) const;

  const OperatorRow* row_ = nullptr;
  std::span<const Arg> args_;
  std::vector<TensorView> operands_;
  std::vector<TensorView> outputs_;
  std::vector<std::vector<TensorView>> operand_lists_;
  std::vector<std::vector<TensorView>> output_lists_;
  std::vector<Tensor*> output_tensors_;  ///< the client's objects behind outputs_
};

/// Fills a KernelCall. `Place` decides where a tensor's bytes are: device tensors, test buffers or stand-ins.
class KernelCallBuilder {
 public:
  /// Starts over; keeps the memory of the last call.
  explicit KernelCallBuilder(KernelCall& call) : call_(call) {}
  void begin(const OperatorRow& row, std::span<const Arg> args);

  void add_operand(const TensorView& view) { call_.operands_.push_back(view); }
  void add_scalar_operand(const Scalar* scalar);
  void add_output(const TensorView& view, Tensor* tensor);
  std::vector<TensorView>& add_operand_list() { return call_.operand_lists_.emplace_back(); }
  std::vector<TensorView>& add_output_list() { return call_.output_lists_.emplace_back(); }

 private:
  KernelCall& call_;
};

}  // namespace drydock::ops
