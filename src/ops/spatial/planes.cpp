#include "ops/spatial/planes.h"

namespace drydock::ops::kernels {

Status expect_planes(const KernelCall& call, int rank, std::initializer_list<const TensorView*> views) {
  const TensorView& first = **views.begin();
  const int batch = first.dims.size() - rank;
  if (batch < 0 || batch > 2) {
    return invalid(call, "a tensor of rank " + std::to_string(rank + 1) + " or " + std::to_string(rank + 2) +
                             " is expected, not " + std::to_string(first.dims.size()));
  }
  for (const TensorView* view : views) {
    bool fits = view->dims.size() == first.dims.size();
    for (int axis = 0; fits && axis < batch; ++axis) fits = view->dims[axis] == first.dims[axis];
    if (!fits) return invalid(call, "the tensors differ in rank, batch or channels");
  }
  return Status::ok();
}

}  // namespace drydock::ops::kernels
