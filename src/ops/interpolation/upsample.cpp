#include "ops/interpolation/sampling.h"
#include "ops/spatial/gather_planes.h"

// Interpolation of lines, images and volumes, and its gradients.

namespace drydock::ops::kernels {
namespace {

using PlaneSampling = std::array<AxisSampling, 3>;

/// The sampling of a call whose int array 0 is the size of the output, with a scale for each axis, or none.
Status sampling_of(const KernelCall& call, int rank, const Extent& input, const Extent& output,
                   PlaneSampling* sampling) {
  const std::span<const int64_t> size = call.ints(0);
  if (size.size() != static_cast<size_t>(rank)) {
    return invalid(call, "outputSize needs " + std::to_string(rank) + " numbers");
  }
  for (int axis = 0; axis < rank; ++axis) {
    const auto place = static_cast<size_t>(3 - rank + axis);
    if (size[static_cast<size_t>(axis)] != output[place]) {
      return invalid(call, "outputSize says " + std::to_string(size[static_cast<size_t>(axis)]) +
                               ", but the output has " + std::to_string(output[place]));
    }
    if (input[place] <= 0 || output[place] <= 0) return invalid(call, "an image must have elements");
    (*sampling)[place] = {input[place], output[place], call.boolean(0), call.number(axis)};
  }
  return Status::ok();
}

template <class C>
PlaneMap<C> map_of(const PlaneSampling& sampling, int rank, Sampling kind) {
  PlaneMap<C> map;
  for (int axis = 0; axis < 3; ++axis) {
    const auto place = static_cast<size_t>(axis);
    map.axes[place] = axis < 3 - rank ? identity_map<C>(1) : sampling_map<C>(sampling[place], kind);
  }
  return map;
}

Status interpolate_nearest(KernelCall& call, int rank, bool exact) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 1, 1));
  const TensorView& self = call.operand(0);
  const TensorView& out = call.output(0);
  DRYDOCK_RETURN_IF_ERROR(expect_planes(call, rank, {&self, &out}));
  if (self.dtype != out.dtype) return invalid(call, "self and output must have the same type");
  PlaneSampling sampling;
  DRYDOCK_RETURN_IF_ERROR(sampling_of(call, rank, Planes(self, rank).extent(), Planes(out, rank).extent(), &sampling));
  PlaneIndex index;
  for (size_t axis = 0; axis < 3; ++axis) {
    index[axis] = self.dtype == DataType::kDouble ? nearest_elements<double>(sampling[axis], exact)
                                                  : nearest_elements<float>(sampling[axis], exact);
  }
  gather_planes(self, out, rank, index);
  return Status::ok();
}

Status interpolate(KernelCall& call, int rank, Sampling kind) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 1, 1));
  const TensorView& self = call.operand(0);
  const TensorView& out = call.output(0);
  if (!is_floating(self.dtype)) return not_computed(call, "integers are not interpolated");
  DRYDOCK_RETURN_IF_ERROR(expect_planes(call, rank, {&self, &out}));
  const Planes from(self, rank);
  const Planes to(out, rank);
  PlaneSampling sampling;
  DRYDOCK_RETURN_IF_ERROR(sampling_of(call, rank, from.extent(), to.extent(), &sampling));
  return with_floating_type(compute_type_of(self.dtype), [&]<class C>() {
    apply_plane_map(map_of<C>(sampling, rank, kind), from, to);
    return Status::ok();
  });
}

/// The operand is the gradient of the output; int array 1 is the shape of the input.
Status interpolate_backward(KernelCall& call, int rank, Sampling kind) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 1, 1));
  const TensorView& grad = call.operand(0);
  const TensorView& out = call.output(0);
  if (!is_floating(grad.dtype)) return not_computed(call, "gradients of integers are not computed");
  DRYDOCK_RETURN_IF_ERROR(expect_planes(call, rank, {&grad, &out}));
  if (!(Dims(call.ints(1)) == out.dims)) return invalid(call, "inputSize must be the shape of the output");
  const Planes from(grad, rank);
  const Planes to(out, rank);
  PlaneSampling sampling;
  DRYDOCK_RETURN_IF_ERROR(sampling_of(call, rank, to.extent(), from.extent(), &sampling));
  return with_floating_type(compute_type_of(grad.dtype), [&]<class C>() {
    apply_plane_map(transposed(map_of<C>(sampling, rank, kind)), from, to);
    return Status::ok();
  });
}

}  // namespace

Status upsample_nearest1d(KernelCall& call) { return interpolate_nearest(call, 1, false); }
Status upsample_nearest2d(KernelCall& call) { return interpolate_nearest(call, 2, false); }
Status upsample_nearest3d(KernelCall& call) { return interpolate_nearest(call, 3, false); }
Status upsample_nearest_exact1d(KernelCall& call) { return interpolate_nearest(call, 1, true); }
Status upsample_nearest_exact2d(KernelCall& call) { return interpolate_nearest(call, 2, true); }
Status upsample_nearest_exact3d(KernelCall& call) { return interpolate_nearest(call, 3, true); }

Status upsample_nearest1d_backward(KernelCall& call) { return interpolate_backward(call, 1, Sampling::kNearest); }
Status upsample_nearest2d_backward(KernelCall& call) { return interpolate_backward(call, 2, Sampling::kNearest); }
Status upsample_nearest3d_backward(KernelCall& call) { return interpolate_backward(call, 3, Sampling::kNearest); }
Status upsample_nearest_exact1d_backward(KernelCall& call) {
  return interpolate_backward(call, 1, Sampling::kNearestExact);
}
Status upsample_nearest_exact2d_backward(KernelCall& call) {
  return interpolate_backward(call, 2, Sampling::kNearestExact);
}
Status upsample_nearest_exact3d_backward(KernelCall& call) {
  return interpolate_backward(call, 3, Sampling::kNearestExact);
}

Status upsample_linear1d(KernelCall& call) { return interpolate(call, 1, Sampling::kLinear); }
Status upsample_bilinear2d(KernelCall& call) { return interpolate(call, 2, Sampling::kLinear); }
Status upsample_trilinear3d(KernelCall& call) { return interpolate(call, 3, Sampling::kLinear); }
Status upsample_bicubic2d(KernelCall& call) { return interpolate(call, 2, Sampling::kCubic); }
Status upsample_bilinear2d_aa(KernelCall& call) { return interpolate(call, 2, Sampling::kLinearAntialiased); }
Status upsample_bicubic2d_aa(KernelCall& call) { return interpolate(call, 2, Sampling::kCubicAntialiased); }

Status upsample_linear1d_backward(KernelCall& call) { return interpolate_backward(call, 1, Sampling::kLinear); }
Status upsample_bilinear2d_backward(KernelCall& call) { return interpolate_backward(call, 2, Sampling::kLinear); }
Status upsample_trilinear3d_backward(KernelCall& call) { return interpolate_backward(call, 3, Sampling::kLinear); }
Status upsample_bicubic2d_backward(KernelCall& call) { return interpolate_backward(call, 2, Sampling::kCubic); }
Status upsample_bilinear2d_aa_backward(KernelCall& call) {
  return interpolate_backward(call, 2, Sampling::kLinearAntialiased);
}
Status upsample_bicubic2d_aa_backward(KernelCall& call) {
  return interpolate_backward(call, 2, Sampling::kCubicAntialiased);
}

}  // namespace drydock::ops::kernels
