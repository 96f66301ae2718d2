#include <vector>

#include "ops/kernel_access.h"
#include "ops/kernel_call.h"

namespace drydock::ops::kernels {

/// y = x with its dimensions in the order of int array 0.
Status transpose(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect_defined(call, 1, 1));
  const TensorView& x = call.operand(0);
  const std::span<const int64_t> order = call.ints(0);
  TensorView turned = x;
  std::vector<bool> seen(static_cast<size_t>(x.dims.size()), false);
  bool is_order = order.size() == seen.size();
  for (size_t axis = 0; is_order && axis < order.size(); ++axis) {
    const int64_t from = order[axis];
    is_order = from >= 0 && from < x.dims.size() && !seen[static_cast<size_t>(from)];
    if (!is_order) break;
    seen[static_cast<size_t>(from)] = true;
    turned.dims[static_cast<int>(axis)] = x.dims[static_cast<int>(from)];
    turned.strides[static_cast<int>(axis)] = x.strides[static_cast<int>(from)];
  }
  if (!is_order) return invalid(call, "perm must name each dimension of x once");
  if (!(turned.dims == call.output(0).dims))
    return invalid(call, "y does not have the sizes of x in the order of perm");
  return copy_view(call.output(0), turned) ? Status::ok() : not_computed(call, "x has a type that is not computed");
}

}  // namespace drydock::ops::kernels
