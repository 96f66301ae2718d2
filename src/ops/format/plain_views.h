#pragma once

#include <memory>
#include <vector>

#include "ops/format/private_format.h"

namespace drydock::ops {

/// Shows kernels tensors in private formats as plain ones: operands are copied out of their blocks before the call,
/// outputs back into them after it. Kernels know nothing of formats, and the cast of a format is a copy.
class PlainViews {
 public:
  void clear() { tensors_.clear(); }

  /// Makes a plain view of `tensor`, with its elements if `reads`; once for each tensor. `storage` is where the host
  /// finds its storage.
  Status add(const Tensor& tensor, char* storage, bool reads);
  /// Null if `tensor` was not added.
  const TensorView* find(const Tensor& tensor) const;
  /// Keeps what a kernel wrote to the view of `tensor`, if there is one.
  void write_back(const Tensor& tensor);

 private:
  struct Plain {
    const Tensor* tensor;
    char* storage;
    BlockedLayout layout;
    TensorView view;
    std::unique_ptr<char[]> bytes;
  };
  std::vector<Plain> tensors_;
};

}  // namespace drydock::ops
