#include "ops/convolution/direct.h"

#include <algorithm>
#include <vector>

#include "base/thread_pool.h"
#include "ops/matmul/row_loops.h"

namespace drydock::ops::kernels {
namespace {

constexpr int64_t kMostChannels = 3;

/// Filters as dense fp32 [O, C / groups, taps].
std::vector<float> filters_of(const ConvolutionViews& views, InputRounding rounding) {
  std::vector<float> filters(static_cast<size_t>(views.filters.numel()));
  copy_view(contiguous_view(filters.data(), DataType::kFloat, views.filters.dims), views.filters);
  round_inputs(rounding, filters.data(), views.filters.numel());
  return filters;
}

float bias_of(const ConvolutionViews& views, int64_t channel) {
  return views.bias.defined ? as_value<float>(select(views.bias, 0, channel)) : 0.0F;
}

/// Calls `row(tap, map_row, image_offset)` for all taps and all rows of one map plane: `map_row` counts rows, and
/// `image_offset` is where its first position meets the tap in a padded plane of the image with these strides.
template <class Row>
void for_each_row(const ConvolutionViews& views, const Dims& strides, Row row) {
  const auto& [wd, wh, ww] = views.window;
  int64_t tap = 0;
  for (int64_t kd = 0; kd < wd.size; ++kd) {
    for (int64_t kh = 0; kh < wh.size; ++kh) {
      for (int64_t kw = 0; kw < ww.size; ++kw, ++tap) {
        for (int64_t d = 0; d < views.map.dims[2]; ++d) {
          for (int64_t h = 0; h < views.map.dims[3]; ++h) {
            row(tap, d * views.map.dims[3] + h,
                (d * wd.stride + kd * wd.dilation) * strides[0] + (h * wh.stride + kh * wh.dilation) * strides[1] +
                    kw * ww.dilation * strides[2]);
          }
        }
      }
    }
  }
}

Dims strides_of(const PaddedImage& image) { return Dims{image.stride(0), image.stride(1), image.stride(2)}; }

/// A plane [D, H, W] of fp32 into the channel of a tensor.
void write_plane(const TensorView& to, int64_t batch, int64_t channel, const float* from, const Dims& strides) {
  const TensorView out = select(select(to, 0, batch), 0, channel);
  TensorView plane = contiguous_view(const_cast<float*>(from), DataType::kFloat, out.dims);
  plane.strides = strides;
  copy_view(out, plane);
}

}  // namespace

bool is_direct(const ConvolutionViews& views) {
  return views.groups > 1 && views.image_channels() <= kMostChannels && views.map_channels() <= kMostChannels;
}

void compute_map_directly(const ConvolutionViews& views, const Margins& margins, InputRounding rounding) {
  const std::vector<float> filters = filters_of(views, rounding);
  const int64_t in_group = views.image_channels(), out_group = views.map_channels(), taps = views.taps();
  const int64_t width = views.map.dims[4], step = views.window[2].stride;
  const Dims dense = contiguous_strides(Dims{views.map.dims[2], views.map.dims[3], width});
  const int64_t chunk = batches_at_once(views.image, margins);
  for (int64_t batch = 0; batch < views.batch(); batch += chunk) {
    const int64_t batches = std::min(chunk, views.batch() - batch);
    const PaddedImage image(views.image, batch, batches, margins, rounding);
    const Dims strides = strides_of(image);
    base::parallel_for(batches * views.map.dims[1], 1, [&](int64_t begin, int64_t end) {
      std::vector<float> plane(static_cast<size_t>(views.map_positions()));
      for (int64_t number = begin; number < end; ++number) {
        const int64_t n = number / views.map.dims[1], o = number % views.map.dims[1];
        std::fill(plane.begin(), plane.end(), bias_of(views, o));
        for (int64_t c = 0; c < in_group; ++c) {
          const float* from =
              image.data() + n * image.batch_stride() + (o / out_group * in_group + c) * image.channel_stride();
          const float* scale = filters.data() + (o * in_group + c) * taps;
          for_each_row(views, strides, [&](int64_t tap, int64_t row, int64_t offset) {
            add_scaled(plane.data() + row * width, 1, from + offset, step, scale[tap], width);
          });
        }
        write_plane(views.map, batch + n, o, plane.data(), dense);
      }
    });
  }
}

void compute_image_directly(const ConvolutionViews& views, const Margins& margins, InputRounding rounding) {
  const std::vector<float> filters = filters_of(views, rounding);
  const int64_t out_group = views.image_channels(), in_group = views.map_channels(), taps = views.taps();
  const int64_t width = views.map.dims[4], step = views.window[2].stride;
  const Dims padded = padded_sizes(views.image, margins);
  const Dims strides = contiguous_strides(padded);
  const int64_t start = margins.before[0] * strides[0] + margins.before[1] * strides[1] + margins.before[2];
  const int64_t chunk = batches_at_once(views.map, Margins{});
  for (int64_t batch = 0; batch < views.batch(); batch += chunk) {
    const int64_t batches = std::min(chunk, views.batch() - batch);
    const PaddedImage map(views.map, batch, batches, Margins{}, rounding);
    base::parallel_for(batches * views.image.dims[1], 1, [&](int64_t begin, int64_t end) {
      std::vector<float> plane(static_cast<size_t>(padded.product()));
      for (int64_t number = begin; number < end; ++number) {
        const int64_t n = number / views.image.dims[1], c = number % views.image.dims[1];
        std::fill(plane.begin(), plane.end(), bias_of(views, c));
        for (int64_t k = 0; k < in_group; ++k) {
          const int64_t o = c / out_group * in_group + k;
          const float* from = map.data() + n * map.batch_stride() + o * map.channel_stride();
          const float* scale = filters.data() + (o * out_group + c % out_group) * taps;
          for_each_row(views, strides, [&](int64_t tap, int64_t row, int64_t offset) {
            const int64_t at = row / views.map.dims[3] * map.stride(0) + row % views.map.dims[3] * map.stride(1);
            add_scaled(plane.data() + offset, step, from + at, 1, scale[tap], width);
          });
        }
        write_plane(views.image, batch + n, c, plane.data() + start, strides);
      }
    });
  }
}

void compute_filters_directly(const ConvolutionViews& views, const Margins& margins, InputRounding rounding) {
  const int64_t in_group = views.image_channels(), out_group = views.map_channels(), taps = views.taps();
  const int64_t width = views.map.dims[4], step = views.window[2].stride;
  std::vector<double> sums(static_cast<size_t>(views.filters.numel()));
  const int64_t chunk = std::min(batches_at_once(views.image, margins), batches_at_once(views.map, Margins{}));
  for (int64_t batch = 0; batch < views.batch() && views.map.numel() > 0; batch += chunk) {
    const int64_t batches = std::min(chunk, views.batch() - batch);
    const PaddedImage image(views.image, batch, batches, margins, rounding);
    const PaddedImage map(views.map, batch, batches, Margins{}, rounding);
    const Dims strides = strides_of(image);
    base::parallel_for(views.map.dims[1] * in_group, 1, [&](int64_t begin, int64_t end) {
      for (int64_t number = begin; number < end; ++number) {
        const int64_t o = number / in_group, c = o / out_group * in_group + number % in_group;
        double* sum = sums.data() + number * taps;
        for (int64_t n = 0; n < batches; ++n) {
          const float* from = image.data() + n * image.batch_stride() + c * image.channel_stride();
          const float* weights = map.data() + n * map.batch_stride() + o * map.channel_stride();
          for_each_row(views, strides, [&](int64_t tap, int64_t row, int64_t offset) {
            const int64_t at = row / views.map.dims[3] * map.stride(0) + row % views.map.dims[3] * map.stride(1);
            sum[tap] += dot_product(from + offset, step, weights + at, width);
          });
        }
      }
    });
  }
  copy_view(views.filters, contiguous_view(sums.data(), DataType::kDouble, views.filters.dims));
}

}  // namespace drydock::ops::kernels
