#include "ops/spatial/gather_planes.h"
#include "ops/spatial/separable.h"

// Padding with elements of the tensor itself, and its gradients.

namespace drydock::ops::kernels {
namespace {

enum class Padding : uint8_t { kReflection, kReplication };

// Larger than any axis; keeps the arithmetic below free of overflow.
constexpr int64_t kMostPadding = int64_t{1} << 40;

/// The places that a padded plane's elements come from. Int array 0 has two numbers for each axis, the last axis
/// first: elements before and behind, which may be negative.
Status padding_index(const KernelCall& call, int rank, Padding kind, const Extent& input, const Extent& output,
                     PlaneIndex* index) {
  const std::span<const int64_t> numbers = call.ints(0);
  if (numbers.size() != static_cast<size_t>(2 * rank)) {
    return invalid(call, "padding needs " + std::to_string(2 * rank) + " numbers");
  }
  (*index)[0] = (*index)[1] = {0};
  for (int from_last = 0; from_last < rank; ++from_last) {
    const auto axis = static_cast<size_t>(2 - from_last);
    const int64_t before = numbers[static_cast<size_t>(2 * from_last)];
    const int64_t behind = numbers[static_cast<size_t>(2 * from_last) + 1];
    const int64_t size = input[axis];
    if (std::max(before, behind) >= kMostPadding || std::min(before, behind) <= -kMostPadding || size <= 0 ||
        size + before + behind != output[axis] || output[axis] < 1) {
      return invalid(call, "an axis of " + std::to_string(size) + " padded by " + std::to_string(before) + " and " +
                               std::to_string(behind) + " does not give " + std::to_string(output[axis]));
    }
    if (kind == Padding::kReflection && (before >= size || behind >= size)) {
      return invalid(call, "a padding by reflection of " + std::to_string(std::max(before, behind)) +
                               " must be less than the axis, " + std::to_string(size));
    }
    std::vector<int64_t>& places = (*index)[axis];
    places.clear();
    for (int64_t at = -before; at < size + behind; ++at) {
      if (kind == Padding::kReplication) {
        places.push_back(std::clamp<int64_t>(at, 0, size - 1));
      } else {
        places.push_back(at < 0 ? -at : at >= size ? 2 * (size - 1) - at : at);
      }
    }
  }
  return Status::ok();
}

Status pad(KernelCall& call, int rank, Padding kind) {
  DRYDOCK_RETURN_IF_ERROR(expect_defined(call, 1, 1));
  const TensorView& self = call.operand(0);
  const TensorView& out = call.output(0);
  if (self.dtype != out.dtype) return invalid(call, "self and output must have the same type");
  if (bits_of(self.dtype) < 8) return not_computed(call, "packed elements are not computed");
  DRYDOCK_RETURN_IF_ERROR(expect_planes(call, rank, {&self, &out}));
  PlaneIndex index;
  DRYDOCK_RETURN_IF_ERROR(
      padding_index(call, rank, kind, Planes(self, rank).extent(), Planes(out, rank).extent(), &index));
  gather_planes(self, out, rank, index);
  return Status::ok();
}

/// Complex numbers as pairs of real ones, with the parts as the first dimension.
TensorView parts_of(TensorView view) {
  if (view.dtype != DataType::kComplex64 && view.dtype != DataType::kComplex128) return view;
  view.dtype = view.dtype == DataType::kComplex64 ? DataType::kFloat : DataType::kDouble;
  for (int axis = 0; axis < view.strides.size(); ++axis) view.strides[axis] *= 2;
  view = unsqueeze(view, 0);
  view.dims[0] = 2;
  view.strides[0] = 1;
  return view;
}

/// Operands: gradOutput and self. An element's gradient is the sum of those of all its copies.
Status pad_backward(KernelCall& call, int rank, Padding kind) {
  DRYDOCK_RETURN_IF_ERROR(expect_defined(call, 2, 1));
  const TensorView& grad = call.operand(0);
  const TensorView& out = call.output(0);
  DRYDOCK_RETURN_IF_ERROR(expect_planes(call, rank, {&grad, &call.operand(1), &out}));
  if (!(call.operand(1).dims == out.dims)) return invalid(call, "the gradient must have the shape of self");
  if (grad.dtype != out.dtype) return invalid(call, "the gradients must have the same type");
  const TensorView grad_parts = parts_of(grad);
  const TensorView out_parts = parts_of(out);
  if (!is_floating(grad_parts.dtype) || !is_real_element(grad_parts.dtype)) {
    return not_computed(call, "gradients of this type are not computed");
  }
  const Planes from(grad_parts, rank);
  const Planes to(out_parts, rank);
  PlaneIndex index;
  DRYDOCK_RETURN_IF_ERROR(padding_index(call, rank, kind, to.extent(), from.extent(), &index));
  return with_floating_type(compute_type_of(grad_parts.dtype), [&]<class C>() {
    PlaneMap<C> map;
    for (size_t axis = 0; axis < 3; ++axis) {
      map.axes[axis].inputs = to.extent()[axis];
      map.axes[axis].index = index[axis];
      for (size_t at = 1; at <= index[axis].size(); ++at) map.axes[axis].first.push_back(static_cast<int64_t>(at));
    }
    apply_plane_map(transposed(map), from, to);
    return Status::ok();
  });
}

}  // namespace

Status reflection_pad1d(KernelCall& call) { return pad(call, 1, Padding::kReflection); }
Status reflection_pad2d(KernelCall& call) { return pad(call, 2, Padding::kReflection); }
Status reflection_pad3d(KernelCall& call) { return pad(call, 3, Padding::kReflection); }
Status replication_pad1d(KernelCall& call) { return pad(call, 1, Padding::kReplication); }
Status replication_pad2d(KernelCall& call) { return pad(call, 2, Padding::kReplication); }
Status replication_pad3d(KernelCall& call) { return pad(call, 3, Padding::kReplication); }
Status reflection_pad1d_backward(KernelCall& call) { return pad_backward(call, 1, Padding::kReflection); }
Status reflection_pad2d_backward(KernelCall& call) { return pad_backward(call, 2, Padding::kReflection); }
Status reflection_pad3d_backward(KernelCall& call) { return pad_backward(call, 3, Padding::kReflection); }
Status replication_pad1d_backward(KernelCall& call) { return pad_backward(call, 1, Padding::kReplication); }
Status replication_pad2d_backward(KernelCall& call) { return pad_backward(call, 2, Padding::kReplication); }
Status replication_pad3d_backward(KernelCall& call) { return pad_backward(call, 3, Padding::kReplication); }

/// Channels in groups, dealt out: channel i of group g comes to place i * groups + g.
Status channel_shuffle(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect_defined(call, 1, 1));
  const TensorView& self = call.operand(0);
  const TensorView& out = call.output(0);
  const int64_t groups = call.integer(0);
  if (self.dims.size() < 3 || !(self.dims == out.dims) || self.dtype != out.dtype) {
    return invalid(call, "self needs three dimensions or more, and the output its shape and type");
  }
  if (groups <= 0 || self.dims[1] % groups != 0) {
    return invalid(call,
                   std::to_string(self.dims[1]) + " channels do not split into " + std::to_string(groups) + " groups");
  }
  const int64_t members = self.dims[1] / groups;
  // The channels as two dimensions: group and member there, member and group here.
  const auto split = [&](const TensorView& view, int64_t outer_step, int64_t inner_step) {
    TensorView result = unsqueeze(view, 1);
    result.dims[1] = members;
    result.dims[2] = groups;
    result.strides[1] = outer_step * view.strides[1];
    result.strides[2] = inner_step * view.strides[1];
    return result;
  };
  if (!copy_view(split(out, groups, 1), split(self, 1, members))) return not_computed(call, "this type is not copied");
  return Status::ok();
}

}  // namespace drydock::ops::kernels
