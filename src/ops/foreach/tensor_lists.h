#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "base/thread_pool.h"
#include "ops/elementwise.h"
#include "ops/kernel_call.h"

// Operators on lists of tensors: the i-th tensors of all lists make one element-wise operation.

namespace drydock::ops::kernels {

/// Every list is as long as the output's, and all tensors are real.
Status expect_lists(const KernelCall& call, const std::vector<TensorView>& out,
                    std::initializer_list<const std::vector<TensorView>*> inputs);

/// The scalars of a call: one for all tensors (an aclScalar or a tensor of one element), or one for each (a list of
/// aclScalars or a tensor). They weigh as scalars in the choice of types.
class ListScalars {
 public:
  /// Operand 0.
  Status read_operand(const KernelCall& call);
  /// Operand 0, a tensor with one element for each of `count` tensors.
  Status read_elements(const KernelCall& call, size_t count);
  /// The call's list of aclScalars.
  Status read_list(const KernelCall& call, size_t count);

  const TensorView& at(size_t index) const { return views_[views_.size() == 1 ? 0 : index]; }

 private:
  std::vector<TensorView> views_;
};

/// Calls `work(i)` for all tensors of a list: small tensors on several threads, large ones one after the other (they
/// split their own work). Returns the first error.
template <class Work>
Status for_each_tensor(const std::vector<TensorView>& out, Work&& work) {
  constexpr int64_t kLarge = 1 << 16;
  int64_t elements = 0;
  for (const TensorView& view : out) elements += view.numel();
  const auto count = static_cast<int64_t>(out.size());
  if (count < 2 || elements > kLarge * count || elements < kLarge / 4) {
    for (size_t i = 0; i < out.size(); ++i) DRYDOCK_RETURN_IF_ERROR(work(i));
    return Status::ok();
  }
  std::vector<Status> results;
  for (size_t i = 0; i < out.size(); ++i) results.push_back(Status::ok());
  base::parallel_for(count, 1, [&](int64_t begin, int64_t end) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) results[i] = work(i);
  });
  for (Status& result : results) DRYDOCK_RETURN_IF_ERROR(std::move(result));
  return Status::ok();
}

inline Operand as_tensor(const TensorView& view) { return {&view, false}; }
inline Operand as_scalar(const TensorView& view) { return {&view, true}; }

}  // namespace drydock::ops::kernels
