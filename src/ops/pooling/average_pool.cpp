#include "ops/pooling/windows.h"
#include "ops/spatial/separable.h"

// Averages over windows, and their gradients: sums along each axis, and one division.

namespace drydock::ops::kernels {
namespace {

/// A map with a divisor for each axis and output.
template <class C>
void add_axis(PlaneMap<C>* map, size_t axis, const WindowRanges& ranges, int64_t inputs, bool divides_by_length) {
  AxisMap<C>& sums = map->axes[axis];
  sums.inputs = inputs;
  for (size_t output = 0; output < ranges.begin.size(); ++output) {
    for (int64_t at = ranges.begin[output]; at < ranges.end[output]; ++at) sums.index.push_back(at);
    sums.end_output();
    if (divides_by_length) {
      map->divide_outputs[axis].push_back(
          static_cast<C>(std::max<int64_t>(0, ranges.end[output] - ranges.begin[output])));
    }
  }
}

/// The averages of a call with windows; `input` and `output` are the forward's.
template <class C>
Status average_map(const KernelCall& call, int rank, const Extent& input, const Extent& output, PlaneMap<C>* map) {
  Windows windows;
  DRYDOCK_RETURN_IF_ERROR(windows_of(call, rank, input, output, false, call.boolean(0), &windows));
  const bool counts_padding = call.boolean(1);
  const int64_t divisor = call.integer(0);
  for (size_t axis = 0; axis < 3; ++axis) {
    const WindowAxis& window = windows[axis];
    add_axis(map, axis, ranges_of(window), window.inputs, divisor == 0 && !counts_padding);
    std::vector<C>& divisors = map->divide_outputs[axis];
    if (divisor != 0) {
      if (axis == 2) divisors.assign(static_cast<size_t>(window.outputs), static_cast<C>(divisor));
    } else if (counts_padding) {
      for (int64_t at = 0; at < window.outputs; ++at) {
        const int64_t start = window.start(at);
        divisors.push_back(static_cast<C>(std::min(start + window.kernel, window.inputs + window.padding) - start));
      }
    }
  }
  return Status::ok();
}

template <class C>
PlaneMap<C> adaptive_map(const Extent& input, const Extent& output) {
  PlaneMap<C> map;
  for (size_t axis = 0; axis < 3; ++axis) {
    add_axis(&map, axis, adaptive_ranges(input[axis], output[axis]), input[axis], true);
  }
  return map;
}

Status expect_floating(const KernelCall& call, const TensorView& view) {
  return is_floating(view.dtype) ? Status::ok() : not_computed(call, "averages of integers are not computed");
}

/// `make(C{}, input extent, output extent, &map)` gives the forward's map.
template <class Make>
Status pool_forward(KernelCall& call, int rank, Make&& make) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 1, 1));
  const TensorView& self = call.operand(0);
  const TensorView& out = call.output(0);
  DRYDOCK_RETURN_IF_ERROR(expect_floating(call, self));
  DRYDOCK_RETURN_IF_ERROR(expect_planes(call, rank, {&self, &out}));
  const Planes from(self, rank);
  const Planes to(out, rank);
  return with_floating_type(compute_type_of(self.dtype), [&]<class C>() {
    PlaneMap<C> map;
    DRYDOCK_RETURN_IF_ERROR(make(from.extent(), to.extent(), &map));
    apply_plane_map(map, from, to);
    return Status::ok();
  });
}

/// Operands: gradOutput and self, whose values do not matter; the output is the gradient of self.
template <class Make>
Status pool_backward(KernelCall& call, int rank, Make&& make) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 2, 1));
  const TensorView& grad = call.operand(0);
  const TensorView& self = call.operand(1);
  const TensorView& out = call.output(0);
  DRYDOCK_RETURN_IF_ERROR(expect_floating(call, grad));
  DRYDOCK_RETURN_IF_ERROR(expect_planes(call, rank, {&grad, &self, &out}));
  if (!(out.dims == self.dims)) return invalid(call, "the gradient must have the shape of self");
  const Planes from(grad, rank);
  const Planes to(out, rank);
  return with_floating_type(compute_type_of(grad.dtype), [&]<class C>() {
    PlaneMap<C> map;
    DRYDOCK_RETURN_IF_ERROR(make(to.extent(), from.extent(), &map));
    apply_plane_map(transposed(map), from, to);
    return Status::ok();
  });
}

template <int kRank>
Status average_pool(KernelCall& call) {
  return pool_forward(call, kRank, [&]<class C>(const Extent& input, const Extent& output, PlaneMap<C>* map) {
    return average_map(call, kRank, input, output, map);
  });
}

template <int kRank>
Status average_pool_backward(KernelCall& call) {
  return pool_backward(call, kRank, [&]<class C>(const Extent& input, const Extent& output, PlaneMap<C>* map) {
    return average_map(call, kRank, input, output, map);
  });
}

template <int kRank>
Status adaptive_average_pool(KernelCall& call) {
  return pool_forward(call, kRank, [&]<class C>(const Extent& input, const Extent& output, PlaneMap<C>* map) {
    DRYDOCK_RETURN_IF_ERROR(expect_output_size(call, kRank, output));
    *map = adaptive_map<C>(input, output);
    return Status::ok();
  });
}

template <int kRank>
Status adaptive_average_pool_backward(KernelCall& call) {
  return pool_backward(call, kRank, [&]<class C>(const Extent& input, const Extent& output, PlaneMap<C>* map) {
    *map = adaptive_map<C>(input, output);
    return Status::ok();
  });
}

}  // namespace

Status avg_pool2d(KernelCall& call) { return average_pool<2>(call); }
Status avg_pool3d(KernelCall& call) { return average_pool<3>(call); }
Status avg_pool2d_backward(KernelCall& call) { return average_pool_backward<2>(call); }
Status avg_pool3d_backward(KernelCall& call) { return average_pool_backward<3>(call); }
Status adaptive_avg_pool2d(KernelCall& call) { return adaptive_average_pool<2>(call); }
Status adaptive_avg_pool3d(KernelCall& call) { return adaptive_average_pool<3>(call); }
Status adaptive_avg_pool2d_backward(KernelCall& call) { return adaptive_average_pool_backward<2>(call); }
Status adaptive_avg_pool3d_backward(KernelCall& call) { return adaptive_average_pool_backward<3>(call); }

}  // namespace drydock::ops::kernels
