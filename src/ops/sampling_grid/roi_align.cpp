#include <cmath>
#include <vector>

#include "base/thread_pool.h"
#include "ops/spatial/planes.h"

// Regions of interest pooled by bilinear samples, and the gradient by the image.

namespace drydock::ops::kernels {
namespace {

/// How a region's corners become positions.
enum class RoiEnd : int64_t { kAsGiven = 0, kOneMore = 1, kHalfPixel = 2, kOneMoreOfAnySize = 3 };

struct RoiPooling {
  float scale = 1;
  int64_t height = 1;
  int64_t width = 1;
  int64_t samples = 0;
  RoiEnd end = RoiEnd::kOneMore;
};

struct Region {
  int64_t image = 0;
  float start_x = 0, start_y = 0;
  float bin_width = 0, bin_height = 0;
  int64_t samples_x = 1, samples_y = 1;
};

// More samples than any region has; a region of infinite size has them all.
constexpr float kMostSamples = 65536;

int64_t samples_for(int64_t samples, float length) {
  if (samples > 0) return samples;
  return length > 0 ? static_cast<int64_t>(std::ceil(std::min(length, kMostSamples))) : 0;
}

Status region_of(const KernelCall& call, const float* roi, const RoiPooling& pooling, int64_t images, Region* region) {
  if (!(roi[0] >= 0) || roi[0] >= static_cast<float>(images)) {
    return device_fault(call, "a region names image " + std::to_string(roi[0]) + " of " + std::to_string(images));
  }
  region->image = static_cast<int64_t>(roi[0]);
  const float shift = pooling.end == RoiEnd::kHalfPixel ? 0.5F : 0.0F;
  const float more = pooling.end == RoiEnd::kOneMore || pooling.end == RoiEnd::kOneMoreOfAnySize ? pooling.scale : 0.0F;
  region->start_x = roi[1] * pooling.scale - shift;
  region->start_y = roi[2] * pooling.scale - shift;
  float width = roi[3] * pooling.scale + more - shift - region->start_x;
  float height = roi[4] * pooling.scale + more - shift - region->start_y;
  if (pooling.end == RoiEnd::kAsGiven || pooling.end == RoiEnd::kOneMore) {
    width = std::max(width, 1.0F);
    height = std::max(height, 1.0F);
  } else if (pooling.end == RoiEnd::kOneMoreOfAnySize) {
    width = std::max(width, 0.0F);
    height = std::max(height, 0.0F);
  }
  region->bin_width = width / static_cast<float>(pooling.width);
  region->bin_height = height / static_cast<float>(pooling.height);
  region->samples_x = samples_for(pooling.samples, region->bin_width);
  region->samples_y = samples_for(pooling.samples, region->bin_height);
  return Status::ok();
}

/// The two elements around a position along one axis; none if it is more than one element outside.
struct Pair {
  bool inside = false;
  int64_t low = 0, high = 0;
  float low_weight = 0, high_weight = 0;
};
Pair pair_at(float at, int64_t size) {
  Pair pair;
  if (!(at >= -1.0F) || at > static_cast<float>(size)) return pair;
  pair.inside = true;
  at = std::max(at, 0.0F);
  pair.low = static_cast<int64_t>(at);
  if (pair.low >= size - 1) {
    pair.low = pair.high = size - 1;
    at = static_cast<float>(pair.low);
  } else {
    pair.high = pair.low + 1;
  }
  pair.high_weight = at - static_cast<float>(pair.low);
  pair.low_weight = 1 - pair.high_weight;
  return pair;
}

/// Calls `each(bin, offset in the plane, weight)` for every element that a bin of the region reads.
template <class Each>
void for_each_sample(const Region& region, const RoiPooling& pooling, const Extent& extent, Each&& each) {
  const auto count = static_cast<float>(std::max<int64_t>(1, region.samples_x * region.samples_y));
  for (int64_t bin_y = 0; bin_y < pooling.height; ++bin_y) {
    for (int64_t bin_x = 0; bin_x < pooling.width; ++bin_x) {
      for (int64_t iy = 0; iy < region.samples_y; ++iy) {
        const Pair y =
            pair_at(region.start_y + static_cast<float>(bin_y) * region.bin_height +
                        (static_cast<float>(iy) + 0.5F) * region.bin_height / static_cast<float>(region.samples_y),
                    extent[1]);
        if (!y.inside) continue;
        for (int64_t ix = 0; ix < region.samples_x; ++ix) {
          const Pair x =
              pair_at(region.start_x + static_cast<float>(bin_x) * region.bin_width +
                          (static_cast<float>(ix) + 0.5F) * region.bin_width / static_cast<float>(region.samples_x),
                      extent[2]);
          if (!x.inside) continue;
          const int64_t bin = bin_y * pooling.width + bin_x;
          each(bin, y.low * extent[2] + x.low, y.low_weight * x.low_weight / count);
          each(bin, y.low * extent[2] + x.high, y.low_weight * x.high_weight / count);
          each(bin, y.high * extent[2] + x.low, y.high_weight * x.low_weight / count);
          each(bin, y.high * extent[2] + x.high, y.high_weight * x.high_weight / count);
        }
      }
    }
  }
}

/// Checks an image [N, C, H, W], regions [K, 5] and bins [K, C, height, width], and reads the regions.
Status regions_of(const KernelCall& call, const TensorView& image, const TensorView& rois, const TensorView& bins,
                  const RoiPooling& pooling, std::vector<Region>* regions) {
  if (image.dims.size() != 4 || bins.dims.size() != 4 || rois.dims.size() != 2 || rois.dims[1] != 5 ||
      bins.dims[0] != rois.dims[0] || bins.dims[1] != image.dims[1] || bins.dims[2] != pooling.height ||
      bins.dims[3] != pooling.width) {
    return invalid(call, "the shapes of image, rois [K, 5] and bins [K, C, height, width] do not fit");
  }
  if (pooling.height <= 0 || pooling.width <= 0 || image.dims[2] <= 0 || image.dims[3] <= 0 || pooling.samples < 0 ||
      pooling.samples > static_cast<int64_t>(kMostSamples) || pooling.end < RoiEnd::kAsGiven ||
      pooling.end > RoiEnd::kOneMoreOfAnySize) {
    return invalid(call, "sizes must be positive, the number of samples not negative, roiEndMode 0 to 3");
  }
  if (!is_floating(image.dtype) || !is_floating(bins.dtype) || !is_floating(rois.dtype)) {
    return not_computed(call, "integers are not pooled");
  }
  const Rows rows(rois, 1);
  std::array<float, 5> buffer{};
  for (int64_t row = 0; row < rows.count(); ++row) {
    DRYDOCK_RETURN_IF_ERROR(
        region_of(call, rows.read<float>(row, buffer.data()), pooling, image.dims[0], &regions->emplace_back()));
  }
  return Status::ok();
}

}  // namespace

/// Operands: image and rois.
Status roi_align(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 2, 1));
  const TensorView& image = call.operand(0);
  const TensorView& out = call.output(0);
  const RoiPooling pooling{static_cast<float>(call.number(0)), call.integer(0), call.integer(1), call.integer(2),
                           static_cast<RoiEnd>(call.integer(3))};
  std::vector<Region> regions;
  DRYDOCK_RETURN_IF_ERROR(regions_of(call, image, call.operand(1), out, pooling, &regions));
  const Planes from(image, 2);
  const Planes to(out, 2);
  const int64_t channels = image.dims[1];
  base::parallel_for(to.count(), plane_grain(to.length() * 16), [&](int64_t begin, int64_t end) {
    const auto buffer = scratch<float>(from.length());
    const auto sums = scratch<float>(to.length());
    int64_t loaded = -1;
    const float* plane = nullptr;
    for (int64_t bin_plane = begin; bin_plane < end; ++bin_plane) {
      const Region& region = regions[static_cast<size_t>(bin_plane / channels)];
      const int64_t wanted = region.image * channels + bin_plane % channels;
      if (wanted != loaded) plane = from.read<float>(wanted, buffer.get());
      loaded = wanted;
      std::fill_n(sums.get(), to.length(), 0.0F);
      for_each_sample(region, pooling, from.extent(), [&](int64_t bin, int64_t offset, float weight) {
        sums[static_cast<size_t>(bin)] += weight * plane[offset];
      });
      to.write<float>(bin_plane, sums.get());
    }
  });
  return Status::ok();
}

/// Operands: the gradient by the bins, and rois; int array 0 is the shape of the image.
Status roi_align_backward(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 2, 1));
  const TensorView& grad = call.operand(0);
  const TensorView& out = call.output(0);
  const RoiPooling pooling{static_cast<float>(call.number(0)), call.integer(1), call.integer(0), call.integer(2),
                           static_cast<RoiEnd>(call.integer(3))};
  std::vector<Region> regions;
  if (!(Dims(call.ints(0)) == out.dims)) return invalid(call, "xdiffShape must be the shape of the output");
  DRYDOCK_RETURN_IF_ERROR(regions_of(call, out, call.operand(1), grad, pooling, &regions));
  const Planes from(grad, 2);
  const Planes to(out, 2);
  const int64_t channels = out.dims[1];
  base::parallel_for(to.count(), 1, [&](int64_t begin, int64_t end) {
    const auto buffer = scratch<float>(from.length());
    const auto sums = scratch<float>(to.length());
    for (int64_t plane = begin; plane < end; ++plane) {
      std::fill_n(sums.get(), to.length(), 0.0F);
      for (size_t k = 0; k < regions.size(); ++k) {
        if (regions[k].image != plane / channels) continue;
        const float* grads = from.read<float>(static_cast<int64_t>(k) * channels + plane % channels, buffer.get());
        for_each_sample(regions[k], pooling, to.extent(), [&](int64_t bin, int64_t offset, float weight) {
          sums[static_cast<size_t>(offset)] += weight * grads[bin];
        });
      }
      to.write<float>(plane, sums.get());
    }
  });
  return Status::ok();
}

}  // namespace drydock::ops::kernels
