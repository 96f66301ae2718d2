#include <vector>

#include "base/thread_pool.h"
#include "ops/sampling_grid/grid_taps.h"
#include "ops/spatial/planes.h"

// Images and volumes sampled at the points of a grid, and the gradients by image and grid.

namespace drydock::ops::kernels {
namespace {

// Points whose taps are kept at a time; bounds the memory.
constexpr int64_t kPointBlock = 4096;

/// One element that a point reads.
template <class C>
struct Tap {
  int64_t offset;
  C weight;
  std::array<C, 3> slopes;  ///< of the weight, by the grid's coordinates: x first
};

/// The taps of a block of points, in the order of the points.
template <class C>
struct PointTaps {
  std::vector<Tap<C>> taps;
  std::vector<int> counts;
  int most = 0;  ///< taps of a point

  const Tap<C>* begin(int64_t point) const { return taps.data() + point * most; }
  const Tap<C>* end(int64_t point) const { return begin(point) + counts[static_cast<size_t>(point)]; }
};

/// The product of what the coordinates of one point read along their axes.
template <class C>
int taps_of_point(const C* coordinates, int rank, const Extent& extent, const GridMode& mode, Tap<C>* taps) {
  std::array<AxisTaps<C>, 3> axes;  // x, y, z
  axes[2].count = 1;
  axes[2].weight[0] = C(1);
  for (int axis = 0; axis < rank; ++axis) {
    axes[static_cast<size_t>(axis)] = axis_taps(coordinates[axis], extent[static_cast<size_t>(2 - axis)], mode);
  }
  const auto& [x, y, z] = axes;
  int count = 0;
  for (size_t k = 0; k < static_cast<size_t>(z.count); ++k) {
    for (size_t j = 0; j < static_cast<size_t>(y.count); ++j) {
      for (size_t i = 0; i < static_cast<size_t>(x.count); ++i) {
        taps[count++] = {(z.index[k] * extent[1] + y.index[j]) * extent[2] + x.index[i],
                         x.weight[i] * y.weight[j] * z.weight[k],
                         {x.slope[i] * y.weight[j] * z.weight[k], x.weight[i] * y.slope[j] * z.weight[k],
                          x.weight[i] * y.weight[j] * z.slope[k]}};
      }
    }
  }
  return count;
}

template <class C>
void taps_of_points(const C* grid, int64_t count, int rank, const Extent& extent, const GridMode& mode,
                    PointTaps<C>* result) {
  const int each = mode.interpolation == GridInterpolation::kCubic ? 4 : 2;
  result->most = rank == 2 ? each * each : each * each * each;
  result->taps.resize(static_cast<size_t>(count * result->most));
  result->counts.resize(static_cast<size_t>(count));
  base::parallel_for(count, 256, [&](int64_t begin, int64_t end) {
    for (int64_t point = begin; point < end; ++point) {
      result->counts[static_cast<size_t>(point)] =
          taps_of_point(grid + point * rank, rank, extent, mode, result->taps.data() + point * result->most);
    }
  });
}

/// The planes of one image as Cs; `buffer` holds those that need conversion.
template <class C>
struct ImagePlanes {
  std::unique_ptr<C[]> buffer;
  std::vector<const C*> planes;
};
template <class C>
void read_image(const Planes& planes, int64_t image, int64_t channels, ImagePlanes<C>* result) {
  const int64_t length = planes.length();
  if (!result->buffer) result->buffer = scratch<C>(channels * length);
  result->planes.resize(static_cast<size_t>(channels));
  base::parallel_for(channels, plane_grain(length), [&](int64_t begin, int64_t end) {
    for (int64_t channel = begin; channel < end; ++channel) {
      result->planes[static_cast<size_t>(channel)] =
          planes.read<C>(image * channels + channel, result->buffer.get() + channel * length);
    }
  });
}

struct Sampler {
  int rank = 2;
  GridMode mode;
  int64_t images = 0;
  int64_t channels = 0;
  int64_t points = 0;
};

/// Checks input [N, C, spatial...], grid [N, out spatial..., rank] and a tensor [N, C, out spatial...].
Status sampler_of(const KernelCall& call, int rank, const TensorView& input, const TensorView& grid,
                  const TensorView& out, Sampler* sampler) {
  const int dims = rank + 2;
  if (input.dims.size() != dims || grid.dims.size() != dims || out.dims.size() != dims) {
    return invalid(call, "input, grid and output must have rank " + std::to_string(dims));
  }
  if (!is_floating(input.dtype) || !is_floating(grid.dtype)) return not_computed(call, "integers are not sampled");
  bool fits = grid.dims[0] == input.dims[0] && out.dims[0] == input.dims[0] && out.dims[1] == input.dims[1] &&
              grid.dims[dims - 1] == rank;
  for (int axis = 0; axis < rank; ++axis) fits = fits && out.dims[axis + 2] == grid.dims[axis + 1];
  if (!fits) return invalid(call, "the shapes of input, grid and output do not fit");
  for (int axis = 0; axis < rank; ++axis) {
    if (input.dims[axis + 2] <= 0) return invalid(call, "an image must have elements");
  }
  const int64_t interpolation = call.integer(0);
  const int64_t padding = call.integer(1);
  if (interpolation < 0 || interpolation > (rank == 2 ? 2 : 1) || padding < 0 || padding > 2) {
    return invalid(call, "interpolationMode " + std::to_string(interpolation) + " or paddingMode " +
                             std::to_string(padding) + " is unknown");
  }
  sampler->rank = rank;
  sampler->mode = {static_cast<GridInterpolation>(interpolation), static_cast<GridPadding>(padding), call.boolean(0)};
  sampler->images = input.dims[0];
  sampler->channels = input.dims[1];
  sampler->points = 1;
  for (int axis = 0; axis < rank; ++axis) sampler->points *= out.dims[axis + 2];
  return Status::ok();
}

Dims without_first(int rank) {
  Dims axes;
  for (int axis = 1; axis < rank; ++axis) axes.push_back(axis);
  return axes;
}

/// Calls `work(first point, count, taps)` for the blocks of an image's points.
template <class C, class Work>
void for_each_block(const Sampler& sampler, const C* grid, const Extent& extent, Work&& work) {
  PointTaps<C> taps;
  for (int64_t first = 0; first < sampler.points; first += kPointBlock) {
    const int64_t count = std::min(kPointBlock, sampler.points - first);
    taps_of_points(grid + first * sampler.rank, count, sampler.rank, extent, sampler.mode, &taps);
    work(first, count, taps);
  }
}

Status grid_sample(KernelCall& call, int rank) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 2, 1));
  const TensorView& input = call.operand(0);
  const TensorView& grid = call.operand(1);
  const TensorView& out = call.output(0);
  Sampler sampler;
  DRYDOCK_RETURN_IF_ERROR(sampler_of(call, rank, input, grid, out, &sampler));
  if (out.numel() == 0) return Status::ok();
  const Planes from(input, rank);
  const Planes to(out, rank);
  const Rows grids(grid, without_first(grid.dims.size()));
  return with_floating_type(compute_type_of(input.dtype), [&]<class C>() {
    ImagePlanes<C> image;
    const auto coordinates = scratch<C>(grids.length());
    const auto buffer = scratch<C>(sampler.channels * sampler.points);
    for (int64_t n = 0; n < sampler.images; ++n) {
      read_image(from, n, sampler.channels, &image);
      const auto target = [&](int64_t channel) {
        return to.target<C>(n * sampler.channels + channel, buffer.get() + channel * sampler.points);
      };
      const C* grid_of_image = grids.read<C>(n, coordinates.get());
      for_each_block(
          sampler, grid_of_image, from.extent(), [&](int64_t first, int64_t count, const PointTaps<C>& taps) {
            base::parallel_for(sampler.channels, plane_grain(count * taps.most), [&](int64_t begin, int64_t end) {
              for (int64_t channel = begin; channel < end; ++channel) {
                const C* plane = image.planes[static_cast<size_t>(channel)];
                C* result = target(channel) + first;
                for (int64_t point = 0; point < count; ++point) {
                  C sum{};
                  for (const Tap<C>* tap = taps.begin(point); tap != taps.end(point); ++tap) {
                    sum += tap->weight * plane[tap->offset];
                  }
                  result[point] = sum;
                }
              }
            });
          });
      for (int64_t channel = 0; channel < sampler.channels; ++channel) {
        to.write_back<C>(n * sampler.channels + channel, target(channel));
      }
    }
    return Status::ok();
  });
}

/// Sums of gradients by one image, in the order of the points.
template <class C>
void add_image_gradient(const PointTaps<C>& taps, int64_t count, const C* grad, C* sums) {
  for (int64_t point = 0; point < count; ++point) {
    for (const Tap<C>* tap = taps.begin(point); tap != taps.end(point); ++tap) {
      sums[tap->offset] += tap->weight * grad[point];
    }
  }
}

/// The gradient by the coordinates of one point.
template <class C>
void point_gradient(const PointTaps<C>& taps, int64_t point, int rank, const std::vector<const C*>& image,
                    const std::vector<const C*>& grads, int64_t at, C* result) {
  std::array<C, 3> sums{};
  for (size_t channel = 0; channel < image.size(); ++channel) {
    const C grad = grads[channel][at];
    for (const Tap<C>* tap = taps.begin(point); tap != taps.end(point); ++tap) {
      const C value = grad * image[channel][tap->offset];
      for (size_t axis = 0; axis < 3; ++axis) sums[axis] += value * tap->slopes[axis];
    }
  }
  std::copy_n(sums.begin(), rank, result);
}

/// Operands: gradOutput, input, grid. Outputs, each of which may be undefined: gradients by input and by grid.
Status grid_sample_backward(KernelCall& call, int rank) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 3, 0));
  const TensorView& grad = call.operand(0);
  const TensorView& input = call.operand(1);
  const TensorView& grid = call.operand(2);
  Sampler sampler;
  DRYDOCK_RETURN_IF_ERROR(sampler_of(call, rank, input, grid, grad, &sampler));
  const TensorView& image_gradient = call.output(0);
  const TensorView& grid_gradient = call.output(1);
  const bool by_image = image_gradient.defined && image_gradient.numel() > 0;
  const bool by_grid = grid_gradient.defined && grid_gradient.numel() > 0;
  if ((by_image && !(image_gradient.dims == input.dims)) || (by_grid && !(grid_gradient.dims == grid.dims))) {
    return invalid(call, "the gradients must have the shapes of input and grid");
  }
  if ((by_image && !is_floating(image_gradient.dtype)) || (by_grid && !is_floating(grid_gradient.dtype))) {
    return not_computed(call, "gradients of integers are not computed");
  }
  if (!by_image && !by_grid) return Status::ok();
  const Planes from(input, rank);
  const Planes grads(grad, rank);
  const Planes image_sums(by_image ? image_gradient : input, rank);
  const Rows grids(grid, without_first(grid.dims.size()));
  const Rows grid_sums(by_grid ? grid_gradient : grid, without_first(grid.dims.size()));
  return with_floating_type(compute_type_of(input.dtype), [&]<class C>() {
    ImagePlanes<C> image;
    ImagePlanes<C> grads_of_image;
    const auto coordinates = scratch<C>(grids.length());
    const auto grid_buffer = scratch<C>(by_grid ? grids.length() : 0);
    const auto buffer = scratch<C>(by_image ? sampler.channels * from.length() : 0);
    for (int64_t n = 0; n < sampler.images; ++n) {
      read_image(from, n, sampler.channels, &image);
      read_image(grads, n, sampler.channels, &grads_of_image);
      if (by_image) std::fill_n(buffer.get(), sampler.channels * from.length(), C{});
      const C* grid_of_image = grids.read<C>(n, coordinates.get());
      for_each_block(
          sampler, grid_of_image, from.extent(), [&](int64_t first, int64_t count, const PointTaps<C>& taps) {
            if (by_image) {
              base::parallel_for(sampler.channels, plane_grain(count * taps.most), [&](int64_t begin, int64_t end) {
                for (int64_t channel = begin; channel < end; ++channel) {
                  add_image_gradient(taps, count, grads_of_image.planes[static_cast<size_t>(channel)] + first,
                                     buffer.get() + channel * from.length());
                }
              });
            }
            if (by_grid) {
              base::parallel_for(count, plane_grain(sampler.channels * taps.most), [&](int64_t begin, int64_t end) {
                for (int64_t point = begin; point < end; ++point) {
                  point_gradient(taps, point, rank, image.planes, grads_of_image.planes, first + point,
                                 grid_buffer.get() + (first + point) * rank);
                }
              });
            }
          });
      if (by_grid) grid_sums.write<C>(n, grid_buffer.get());
      for (int64_t channel = 0; by_image && channel < sampler.channels; ++channel) {
        image_sums.write<C>(n * sampler.channels + channel, buffer.get() + channel * from.length());
      }
    }
    return Status::ok();
  });
}

}  // namespace

Status grid_sampler_2d(KernelCall& call) { return grid_sample(call, 2); }
Status grid_sampler_3d(KernelCall& call) { return grid_sample(call, 3); }
Status grid_sampler_2d_backward(KernelCall& call) { return grid_sample_backward(call, 2); }
Status grid_sampler_3d_backward(KernelCall& call) { return grid_sample_backward(call, 3); }

/// The grid of an affine map: theta [N, 2, 3] or [N, 3, 4]; int array 0 is the shape of the image.
Status affine_grid(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 1, 1));
  const TensorView& theta = call.operand(0);
  const TensorView& out = call.output(0);
  const std::span<const int64_t> size = call.ints(0);
  const int rank = static_cast<int>(size.size()) - 2;
  if ((rank != 2 && rank != 3) || theta.dims.size() != 3 || theta.dims[0] != size[0] || theta.dims[1] != rank ||
      theta.dims[2] != rank + 1 || !is_floating(theta.dtype)) {
    return invalid(call, "theta must be [N, 2, 3] for a size of 4 numbers or [N, 3, 4] for 5");
  }
  int64_t points = 1;
  Extent extent{1, 1, 1};
  for (int axis = 0; axis < rank; ++axis) {
    const int64_t length = size[static_cast<size_t>(axis + 2)];
    if (length < 0 || length > (int64_t{1} << 31)) return invalid(call, "a size must not be negative");
    extent[static_cast<size_t>(3 - rank + axis)] = length;
    points *= length;
  }
  if (out.dims.size() < 2 || out.dims[0] != size[0] || out.dims[out.dims.size() - 1] != rank ||
      out.numel() != size[0] * points * rank) {
    return invalid(call, "the output must have " + std::to_string(rank) + " coordinates for each point");
  }
  if (out.numel() == 0) return Status::ok();
  const bool align_corners = call.boolean(0);
  const Rows maps(theta, Dims{1, 2});
  const Rows grids(out, without_first(out.dims.size()));
  return with_floating_type(compute_type_of(theta.dtype), [&]<class C>() {
    const auto base_of = [&](size_t axis, int64_t at) {
      const int64_t length = extent[axis];
      if (length <= 1) return C(0);
      const C place = C(-1) + C(2) * static_cast<C>(at) / static_cast<C>(length - 1);
      return align_corners ? place : place * static_cast<C>(length - 1) / static_cast<C>(length);
    };
    const auto grid = scratch<C>(points * rank);
    std::array<C, 12> buffer;
    for (int64_t n = 0; n < size[0]; ++n) {
      const C* map = maps.read<C>(n, buffer.data());
      C* next = grid.get();
      for (int64_t z = 0; z < extent[0]; ++z) {
        for (int64_t y = 0; y < extent[1]; ++y) {
          for (int64_t x = 0; x < extent[2]; ++x) {
            const std::array<C, 3> base{base_of(2, x), base_of(1, y), base_of(0, z)};
            for (int row = 0; row < rank; ++row) {
              C sum = map[row * (rank + 1) + rank];
              for (int axis = 0; axis < rank; ++axis) {
                sum += map[row * (rank + 1) + axis] * base[static_cast<size_t>(axis)];
              }
              *next++ = sum;
            }
          }
        }
      }
      grids.write<C>(n, grid.get());
    }
    return Status::ok();
  });
}

}  // namespace drydock::ops::kernels
