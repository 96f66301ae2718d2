#include "ops/norm/row_access.h"

namespace drydock::ops::kernels {

Dims leading_dims(const Dims& dims, int inner) {
  Dims result;
  for (int axis = 0; axis < dims.size() - inner; ++axis) result.push_back(dims[axis]);
  return result;
}

Dims trailing_dims(const Dims& dims, int inner) {
  Dims result;
  for (int axis = dims.size() - inner; axis < dims.size(); ++axis) result.push_back(dims[axis]);
  return result;
}

ComputeType floating_type_of(std::initializer_list<const TensorView*> views) noexcept {
  for (const TensorView* view : views) {
    if (view->defined && view->dtype == DataType::kDouble) return ComputeType::kDouble;
  }
  return ComputeType::kFloat;
}

}  // namespace drydock::ops::kernels
