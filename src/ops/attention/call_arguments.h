#pragma once

#include <span>
#include <string_view>

#include "ops/kernel_call.h"

namespace drydock::ops::kernels::attention {

/// The arguments of a call by the names of its signature: versions of an attention operator differ in which optional
/// arguments they have, and a kernel serves all of them. What the signature does not have is absent.
class CallArguments {
 public:
  explicit CallArguments(const KernelCall& call) : call_(call) {}

  /// An operand (in or in-out tensor); an undefined view if there is none. Tensors without elements count as absent.
  const TensorView& tensor(std::string_view name) const;
  /// The same, but a tensor without elements is one.
  const TensorView& tensor_or_empty(std::string_view name) const;
  const TensorView& output(std::string_view name) const;
  std::span<const TensorView> list(std::string_view name) const;
  std::span<const int64_t> ints(std::string_view name) const;
  int64_t integer(std::string_view name, int64_t otherwise = 0) const;
  double number(std::string_view name, double otherwise = 0) const;
  bool boolean(std::string_view name) const;
  std::string_view text(std::string_view name) const;

 private:
  /// Position among the arguments of its kind; -1 if there is none.
  int index_of(std::string_view name, ArgKind kind) const;

  const KernelCall& call_;
};

}  // namespace drydock::ops::kernels::attention
