#include <atomic>
#include <cmath>
#include <limits>

#include "base/thread_pool.h"
#include "ops/pooling/windows.h"
#include "ops/shapes.h"

// Largest elements of windows with their places, and the gradients that go back to those places. A place is the number
// of an element inside its plane, or a bit in the device's mask.

namespace drydock::ops::kernels {
namespace {

Status expect_floating(const KernelCall& call, const TensorView& view) {
  return is_floating(view.dtype) ? Status::ok() : not_computed(call, "maxima of integers are not computed");
}

using PlaneRanges = std::array<WindowRanges, 3>;

/// The first largest element of every window; NaN is larger than all, and a later NaN than an earlier one.
template <class C>
void largest_of_windows(const C* plane, const Extent& extent, const PlaneRanges& ranges, C* largest, int64_t* places) {
  for (size_t z = 0; z < ranges[0].begin.size(); ++z) {
    for (size_t y = 0; y < ranges[1].begin.size(); ++y) {
      for (size_t x = 0; x < ranges[2].begin.size(); ++x) {
        const int64_t z_begin = ranges[0].begin[z];
        const int64_t y_begin = ranges[1].begin[y];
        const int64_t x_begin = ranges[2].begin[x];
        C best = -std::numeric_limits<C>::infinity();
        int64_t place = (z_begin * extent[1] + y_begin) * extent[2] + x_begin;
        for (int64_t iz = z_begin; iz < ranges[0].end[z]; iz += ranges[0].step) {
          for (int64_t iy = y_begin; iy < ranges[1].end[y]; iy += ranges[1].step) {
            const int64_t row = (iz * extent[1] + iy) * extent[2];
            for (int64_t ix = x_begin; ix < ranges[2].end[x]; ix += ranges[2].step) {
              const C value = plane[row + ix];
              if (value > best || std::isnan(value)) {
                best = value;
                place = row + ix;
              }
            }
          }
        }
        *largest++ = best;
        *places++ = place;
      }
    }
  }
}

/// `store(plane, places)` keeps the places of one plane.
template <class C, class Store>
void max_pool_planes(const Planes& from, const Planes& to, const PlaneRanges& ranges, Store&& store) {
  base::parallel_for(to.count(), plane_grain(from.length() + to.length()), [&](int64_t begin, int64_t end) {
    const auto values = scratch<C>(from.length());
    const auto results = scratch<C>(to.length());
    const auto places = scratch<int64_t>(to.length());
    for (int64_t plane = begin; plane < end; ++plane) {
      C* const target = to.target<C>(plane, results.get());
      largest_of_windows(from.read<C>(plane, values.get()), from.extent(), ranges, target, places.get());
      to.write_back<C>(plane, target);
      store(plane, places.get());
    }
  });
}

Status max_pool_with_indices(KernelCall& call, int rank, const PlaneRanges& ranges) {
  const TensorView& self = call.operand(0);
  const TensorView& out = call.output(0);
  if (!(call.output(1).dims == out.dims)) return invalid(call, "the indices must have the shape of the output");
  const Planes from(self, rank);
  const Planes to(out, rank);
  const Planes indices(call.output(1), rank);
  if (out.numel() == 0) return Status::ok();
  return with_floating_type(compute_type_of(self.dtype), [&]<class C>() {
    max_pool_planes<C>(from, to, ranges,
                       [&](int64_t plane, const int64_t* places) { indices.write<int64_t>(plane, places); });
    return Status::ok();
  });
}

Status expect_max_pool(const KernelCall& call, int rank) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 1, 2));
  DRYDOCK_RETURN_IF_ERROR(expect_floating(call, call.operand(0)));
  return expect_planes(call, rank, {&call.operand(0), &call.output(0)});
}

Status windowed_max_pool(KernelCall& call, int rank) {
  DRYDOCK_RETURN_IF_ERROR(expect_max_pool(call, rank));
  const Extent input = Planes(call.operand(0), rank).extent();
  Windows windows;
  DRYDOCK_RETURN_IF_ERROR(
      windows_of(call, rank, input, Planes(call.output(0), rank).extent(), true, call.boolean(0), &windows));
  return max_pool_with_indices(call, rank, {ranges_of(windows[0]), ranges_of(windows[1]), ranges_of(windows[2])});
}

Status adaptive_max_pool(KernelCall& call, int rank) {
  DRYDOCK_RETURN_IF_ERROR(expect_max_pool(call, rank));
  const Extent input = Planes(call.operand(0), rank).extent();
  const Extent output = Planes(call.output(0), rank).extent();
  DRYDOCK_RETURN_IF_ERROR(expect_output_size(call, rank, output));
  if (volume(input) == 0 && volume(output) != 0) return invalid(call, "a plane without elements has no maximum");
  return max_pool_with_indices(call, rank,
                               {adaptive_ranges(input[0], output[0]), adaptive_ranges(input[1], output[1]),
                                adaptive_ranges(input[2], output[2])});
}

/// Adds each element of a plane of gradients to the place that `place_of(plane, element)` names.
template <class C>
void add_at_places(const C* grad, const int64_t* places, int64_t count, int64_t size, C* out,
                   std::atomic<bool>* out_of_range) {
  for (int64_t k = 0; k < count; ++k) {
    if (places[k] < 0 || places[k] >= size) {
      out_of_range->store(true, std::memory_order_relaxed);
      continue;
    }
    out[places[k]] += grad[k];
  }
}

/// Operands: gradOutput, self, indices; `places_of(plane, buffer)` reads the places of one plane of gradients.
template <class PlacesOf>
Status scatter_gradients(KernelCall& call, int rank, PlacesOf&& places_of) {
  const Planes grads(call.operand(0), rank);
  const Planes to(call.output(0), rank);
  std::atomic<bool> out_of_range{false};
  DRYDOCK_RETURN_IF_ERROR(with_floating_type(compute_type_of(call.output(0).dtype), [&]<class C>() {
    base::parallel_for(to.count(), plane_grain(grads.length() + to.length()), [&](int64_t begin, int64_t end) {
      const auto values = scratch<C>(grads.length());
      const auto results = scratch<C>(to.length());
      const auto places = scratch<int64_t>(grads.length());
      for (int64_t plane = begin; plane < end; ++plane) {
        C* const target = to.target<C>(plane, results.get());
        std::fill_n(target, to.length(), C{0});
        add_at_places(grads.read<C>(plane, values.get()), places_of(plane, places.get()), grads.length(), to.length(),
                      target, &out_of_range);
        to.write_back<C>(plane, target);
      }
    });
    return Status::ok();
  }));
  return out_of_range ? device_fault(call, "an index is outside its plane") : Status::ok();
}

Status expect_max_pool_backward(const KernelCall& call, int rank) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 3, 1));
  const TensorView& grad = call.operand(0);
  DRYDOCK_RETURN_IF_ERROR(expect_floating(call, grad));
  DRYDOCK_RETURN_IF_ERROR(expect_planes(call, rank, {&grad, &call.operand(1), &call.output(0)}));
  if (!(call.operand(1).dims == call.output(0).dims)) return invalid(call, "the gradient must have the shape of self");
  return Status::ok();
}

Status backward_by_indices(KernelCall& call, int rank) {
  DRYDOCK_RETURN_IF_ERROR(expect_max_pool_backward(call, rank));
  const TensorView& indices = call.operand(2);
  if (!(indices.dims == call.operand(0).dims) || is_floating(indices.dtype)) {
    return invalid(call, "the indices must be integers in the shape of gradOutput");
  }
  const Planes planes(indices, rank);
  return scatter_gradients(call, rank,
                           [&](int64_t plane, int64_t* buffer) { return planes.read<int64_t>(plane, buffer); });
}

// The mask of a plane: one row of bytes for each element of a window, in it one bit for each output.
Status expect_mask(const KernelCall& call, const TensorView& mask, const TensorView& out, const Windows& windows) {
  DRYDOCK_RETURN_IF_ERROR(expect_planes(call, 2, {&out, &mask}));
  const Extent extent = Planes(mask, 2).extent();
  if (bytes_of(mask.dtype, 1) != 1 || !is_contiguous(mask) || extent[1] != windows[1].kernel * windows[2].kernel ||
      extent[2] < (windows[1].outputs * windows[2].outputs + 7) / 8) {
    return invalid(call,
                   "the mask must be contiguous bytes, a row for each element of a window with a bit for each "
                   "output");
  }
  return Status::ok();
}

}  // namespace

Status max_pool2d_with_indices(KernelCall& call) { return windowed_max_pool(call, 2); }
Status max_pool3d_with_argmax(KernelCall& call) { return windowed_max_pool(call, 3); }
Status adaptive_max_pool2d(KernelCall& call) { return adaptive_max_pool(call, 2); }
Status adaptive_max_pool3d(KernelCall& call) { return adaptive_max_pool(call, 3); }
Status max_pool2d_backward(KernelCall& call) { return backward_by_indices(call, 2); }
Status max_pool3d_backward(KernelCall& call) { return backward_by_indices(call, 3); }

Status max_pool2d_with_mask(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect_max_pool(call, 2));
  const TensorView& self = call.operand(0);
  const TensorView& out = call.output(0);
  const Planes from(self, 2);
  const Planes to(out, 2);
  Windows windows;
  DRYDOCK_RETURN_IF_ERROR(windows_of(call, 2, from.extent(), to.extent(), true, call.boolean(0), &windows));
  DRYDOCK_RETURN_IF_ERROR(expect_mask(call, call.output(1), out, windows));
  if (out.numel() == 0) return Status::ok();
  const Planes masks(call.output(1), 2);
  const int64_t row_bytes = masks.extent()[2];
  const int64_t width = from.extent()[2];
  return with_floating_type(compute_type_of(self.dtype), [&]<class C>() {
    const PlaneRanges ranges{ranges_of(windows[0]), ranges_of(windows[1]), ranges_of(windows[2])};
    max_pool_planes<C>(from, to, ranges, [&](int64_t plane, const int64_t* places) {
      char* const bytes = masks.start_of(plane);
      std::fill_n(bytes, masks.length(), char{0});
      int64_t output = 0;
      for (int64_t y = 0; y < windows[1].outputs; ++y) {
        for (int64_t x = 0; x < windows[2].outputs; ++x, ++output) {
          const int64_t row = (places[output] / width - windows[1].start(y)) / windows[1].dilation;
          const int64_t column = (places[output] % width - windows[2].start(x)) / windows[2].dilation;
          bytes[(row * windows[2].kernel + column) * row_bytes + output / 8] |= static_cast<char>(1 << (output % 8));
        }
      }
    });
    return Status::ok();
  });
}

Status max_pool2d_with_mask_backward(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect_max_pool_backward(call, 2));
  const TensorView& grad = call.operand(0);
  const Extent extent = Planes(call.output(0), 2).extent();
  const Extent outputs = Planes(grad, 2).extent();
  Windows windows;
  DRYDOCK_RETURN_IF_ERROR(windows_of(call, 2, extent, outputs, true, call.boolean(0), &windows));
  DRYDOCK_RETURN_IF_ERROR(expect_mask(call, call.operand(2), grad, windows));
  const Planes masks(call.operand(2), 2);
  const int64_t count = volume(outputs);
  return scatter_gradients(call, 2, [&](int64_t plane, int64_t* places) {
    std::fill_n(places, count, int64_t{-1});
    const char* row_of_bits = masks.start_of(plane);
    for (int64_t row = 0; row < masks.extent()[1]; ++row, row_of_bits += masks.extent()[2]) {
      for (int64_t byte = 0; byte * 8 < count; ++byte) {
        const auto bits = static_cast<unsigned char>(row_of_bits[byte]);
        if (bits == 0) continue;
        for (int64_t output = byte * 8; output < std::min(count, byte * 8 + 8); ++output) {
          if ((bits >> (output % 8) & 1) == 0) continue;
          const int64_t y = windows[1].start(output / outputs[2]) + row / windows[2].kernel * windows[1].dilation;
          const int64_t x = windows[2].start(output % outputs[2]) + row % windows[2].kernel * windows[2].dilation;
          const bool inside = y >= 0 && y < extent[1] && x >= 0 && x < extent[2];
          places[output] = inside ? y * extent[2] + x : -1;
        }
      }
    }
    return static_cast<const int64_t*>(places);
  });
}

namespace {

/// Operands: self and indices; each element goes to its place in a plane of zeros, the last one wins.
Status unpool(KernelCall& call, int rank) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 2, 1));
  const TensorView& self = call.operand(0);
  const TensorView& indices = call.operand(1);
  const TensorView& out = call.output(0);
  DRYDOCK_RETURN_IF_ERROR(expect_planes(call, rank, {&self, &indices, &out}));
  if (!(indices.dims == self.dims) || is_floating(indices.dtype)) {
    return invalid(call, "the indices must be integers in the shape of self");
  }
  const Planes from(self, rank);
  const Planes places(indices, rank);
  const Planes to(out, rank);
  DRYDOCK_RETURN_IF_ERROR(expect_output_size(call, rank, to.extent()));
  std::atomic<bool> out_of_range{false};
  DRYDOCK_RETURN_IF_ERROR(with_compute_type(compute_type_of(out.dtype), [&]<class C>() {
    base::parallel_for(to.count(), plane_grain(from.length() + to.length()), [&](int64_t begin, int64_t end) {
      const auto values = scratch<C>(from.length());
      const auto results = scratch<C>(to.length());
      const auto numbers = scratch<int64_t>(from.length());
      for (int64_t plane = begin; plane < end; ++plane) {
        const C* value = from.read<C>(plane, values.get());
        const int64_t* place = places.read<int64_t>(plane, numbers.get());
        std::fill_n(results.get(), to.length(), C{0});
        for (int64_t k = 0; k < from.length(); ++k) {
          if (place[k] < 0 || place[k] >= to.length()) {
            out_of_range.store(true, std::memory_order_relaxed);
          } else {
            results[static_cast<size_t>(place[k])] = value[k];
          }
        }
        to.write<C>(plane, results.get());
      }
    });
    return Status::ok();
  }));
  return out_of_range ? device_fault(call, "an index is outside the plane of the output") : Status::ok();
}

}  // namespace

Status max_unpool2d(KernelCall& call) { return unpool(call, 2); }
Status max_unpool3d(KernelCall& call) { return unpool(call, 3); }

}  // namespace drydock::ops::kernels
