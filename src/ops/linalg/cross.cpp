#include <type_traits>

#include "ops/complex/complex.h"
#include "ops/linalg/matrices.h"

namespace drydock::ops::kernels {
namespace {

template <class C>
void cross_element(const TensorView& out, const std::array<const TensorView*, 4>& factors) {
  using Wrapping = std::conditional_t<std::is_integral_v<C>, uint64_t, C>;
  constexpr DataType kAsItIs = DataType::kUndefined;
  map_elements<C, 4>(out, factors, {kAsItIs, kAsItIs, kAsItIs, kAsItIs}, [](C first, C second, C third, C fourth) {
    return static_cast<C>(Wrapping(first) * Wrapping(second) - Wrapping(third) * Wrapping(fourth));
  });
}

}  // namespace

/// out = self x other along a dimension of three elements.
Status linalg_cross(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect_numbers(call, 2, 1));
  const TensorView& out = call.output(0);
  int axis = 0;
  DRYDOCK_RETURN_IF_ERROR(wrap_dim(call, call.integer(0), out.dims.size(), &axis));
  std::array<TensorView, 2> sides;
  for (int side = 0; side < 2; ++side) {
    if (!broadcast_view(call.operand(side), out.dims, &sides[static_cast<size_t>(side)])) {
      return invalid(call, "self " + text_of(call.operand(0).dims) + " and other " + text_of(call.operand(1).dims) +
                               " do not broadcast to the output's shape " + text_of(out.dims));
    }
  }
  if (out.dims.empty() || out.dims[axis] != 3) {
    return invalid(call, "dimension " + std::to_string(axis) + " of " + text_of(out.dims) + " must have 3 elements");
  }
  for (int64_t i = 0; i < 3; ++i) {
    const int64_t j = (i + 1) % 3;
    const int64_t k = (i + 2) % 3;
    const TensorView place = select(out, axis, i);
    const TensorView a_j = select(sides[0], axis, j);
    const TensorView a_k = select(sides[0], axis, k);
    const TensorView b_j = select(sides[1], axis, j);
    const TensorView b_k = select(sides[1], axis, k);
    const std::array<const TensorView*, 4> factors = {&a_j, &b_k, &a_k, &b_j};
    if (has_complex(call)) {
      cross_element<Complex>(place, factors);
      continue;
    }
    DRYDOCK_RETURN_IF_ERROR(with_compute_type(compute_type_of(out.dtype), [&]<class C>() {
      cross_element<C>(place, factors);
      return Status::ok();
    }));
  }
  return Status::ok();
}

}  // namespace drydock::ops::kernels
