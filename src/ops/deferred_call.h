#pragma once

#include <deque>
#include <vector>

#include "device/stream.h"
#include "ops/executor.h"

namespace drydock::ops {

/// A call whose turn on its stream has not come: it owns copies of all its objects, because the client may destroy
/// them as soon as phase 2 returned (contract H7).
class DeferredCall final : public device::DeferredWork {
 public:
  DeferredCall(Executor& executor, device::Stream& stream);
  Status run() override;

 private:
  struct ClientOutput {
    Tensor* client;  ///< looked up again before it is written: it may be gone
    Tensor* copy;
    uint64_t generation;  ///< of the client's object, 0 where it is not the client's own
  };

  Arg own(const Arg& arg);
  Tensor* own(Tensor* tensor);

  device::Stream& stream_;
  // Deques: the addresses of earlier elements stay when later ones are added.
  std::deque<Tensor> tensors_;
  std::deque<TensorList> tensor_lists_;
  std::deque<Scalar> scalars_;
  std::deque<ScalarList> scalar_lists_;
  std::deque<IntArray> int_arrays_;
  std::deque<FloatArray> float_arrays_;
  std::deque<BoolArray> bool_arrays_;
  std::deque<std::string> texts_;
  std::vector<ClientOutput> outputs_;
  Executor executor_;
};

}  // namespace drydock::ops
