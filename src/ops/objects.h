#pragma once

#include <cstdint>

#include "base/handle_pool.h"
#include "ops/tensor.h"

// The live aclnn objects of the process, one pool per kind. A client's pointer is valid if its pool finds it.

namespace drydock::ops {

struct ObjectPools {
  HandlePool<Tensor> tensors{size_t{1} << 22};
  HandlePool<Scalar> scalars{size_t{1} << 20};
  HandlePool<IntArray> int_arrays{size_t{1} << 20};
  HandlePool<FloatArray> float_arrays{size_t{1} << 18};
  HandlePool<BoolArray> bool_arrays{size_t{1} << 18};
  HandlePool<TensorList> tensor_lists{size_t{1} << 20};
  HandlePool<ScalarList> scalar_lists{size_t{1} << 18};
};

/// Lives as long as the process. Thread-safe.
ObjectPools& objects() noexcept;

}  // namespace drydock::ops
