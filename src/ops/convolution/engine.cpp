#include "ops/convolution/engine.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "base/thread_pool.h"
#include "ops/convolution/direct.h"
#include "ops/convolution/image.h"

namespace drydock::ops::kernels {
namespace {

constexpr int64_t kMostColumnElements = int64_t{1} << 24;
constexpr int64_t kManyPositions = 1024;

/// A view that can be read or written by [outer..., dense tail]: the view itself if its last `tail` dimensions are
/// dense in row-major order, else a copy of the same type.
class DenseTail {
 public:
  DenseTail(const TensorView& view, int tail, bool reads) : original_(view), view_(view) {
    int64_t stride = 1;
    bool dense = true;
    for (int axis = view.dims.size() - 1; axis >= view.dims.size() - tail; --axis) {
      if (view.dims[axis] != 1 && view.strides[axis] != stride) dense = false;
      stride *= view.dims[axis];
    }
    if (dense) return;
    bytes_.reset(new char[static_cast<size_t>(bytes_of(view.dtype, view.numel()))]);
    view_ = contiguous_view(bytes_.get(), view.dtype, view.dims);
    if (reads) copy_view(view_, view);
  }
  const TensorView& view() const { return view_; }
  /// Writes a copy back to where it belongs.
  void finish() const {
    if (bytes_ != nullptr) copy_view(original_, view_);
  }

 private:
  TensorView original_, view_;
  std::unique_ptr<char[]> bytes_;
};

const char* element_at(const TensorView& view, int64_t first, int64_t second) {
  return view.data + bytes_of(view.dtype, first * view.strides[0] + second * view.strides[1]);
}

/// Rows are channels, columns are positions of all batches in a tensor [N, C, dense tail].
class ChannelProduct final : public Product<float> {
 public:
  /// `batches` from a batch on, from a channel on; `bias` may be undefined.
  ChannelProduct(const TensorView& out, int64_t batch, int64_t batches, int64_t channel, int64_t positions,
                 const TensorView& bias)
      : out_(const_cast<char*>(element_at(out, batch, channel))),
        size_(bytes_of(out.dtype, 1)),
        batch_stride_(size_ * out.strides[0]),
        channel_stride_(size_ * out.strides[1]),
        positions_(positions),
        store_(storer_of<float>(out.dtype)),
        bias_(bias),
        channel_(channel),
        in_place_(out.dtype == DataType::kFloat && batches == 1) {}

  float* memory(int64_t* stride) const override {
    *stride = channel_stride_ / size_;
    return in_place_ ? reinterpret_cast<float*>(out_) : nullptr;
  }
  void store(int64_t row, int64_t rows, int64_t column, int64_t columns, const float* values,
             int64_t stride) const override {
    if (in_place_ && !bias_.defined) return;  // the sums grew there
    float sums[kChunk];
    for (int64_t i = 0; i < rows; ++i) {
      const float added = bias_.defined ? as_value<float>(select(bias_, 0, channel_ + row + i)) : 0;
      for (int64_t done = 0; done < columns;) {
        const int64_t position = (column + done) % positions_;
        const int64_t length = std::min({kChunk, columns - done, positions_ - position});
        const float* from = values + i * stride + done;
        char* to = out_ + (column + done) / positions_ * batch_stride_ + (row + i) * channel_stride_ + position * size_;
        if (bias_.defined) {
          for (int64_t k = 0; k < length; ++k) sums[k] = from[k] + added;
          from = sums;
        }
        store_(to, size_, length, from);
        done += length;
      }
    }
  }

 private:
  char* out_;
  int64_t size_, batch_stride_, channel_stride_, positions_;
  Storer<float> store_;
  const TensorView& bias_;
  int64_t channel_;
  bool in_place_;
};

/// A dense fp32 matrix, written or added to.
class MatrixSum final : public Product<float> {
 public:
  MatrixSum(float* data, int64_t stride, bool adds) : data_(data), stride_(stride), adds_(adds) {}
  float* memory(int64_t* stride) const override {
    *stride = stride_;
    return adds_ ? nullptr : data_;
  }
  void store(int64_t row, int64_t rows, int64_t column, int64_t columns, const float* values,
             int64_t stride) const override {
    if (!adds_) return;
    for (int64_t i = 0; i < rows; ++i) {
      float* to = data_ + (row + i) * stride_ + column;
      for (int64_t k = 0; k < columns; ++k) to[k] += values[i * stride + k];
    }
  }

 private:
  float* data_;
  int64_t stride_;
  bool adds_;
};

Margins margins_of(const ConvolutionViews& views) {
  Margins margins;
  for (size_t axis = 0; axis < 3; ++axis) {
    const Window& window = views.window[axis];
    margins.before[axis] = window.pad_before;
    // The last application may end before the padding does, or (with an output padding) beyond it.
    margins.after[axis] =
        std::max(window.pad_after, (views.map.dims[static_cast<int>(axis) + 2] - 1) * window.stride + window.reach() -
                                       views.image.dims[static_cast<int>(axis) + 2] - window.pad_before);
  }
  return margins;
}

Positions positions_in(const PaddedImage& image, const TensorView& map, const std::array<Window, 3>& window) {
  Positions positions{};
  for (int axis = 0; axis < 3; ++axis) {
    positions.sizes[static_cast<size_t>(axis)] = map.dims[axis + 2];
    positions.steps[static_cast<size_t>(axis)] = window[static_cast<size_t>(axis)].stride * image.stride(axis);
  }
  positions.batch_step = image.batch_stride();
  return positions;
}

/// Offsets of (channel, tap) in an image, taps in their order or from the last to the first.
std::vector<int64_t> tap_offsets(const PaddedImage& image, const std::array<Window, 3>& window, int64_t channels,
                                 bool reversed) {
  std::vector<int64_t> taps;
  for (int64_t d = 0; d < window[0].size; ++d) {
    for (int64_t h = 0; h < window[1].size; ++h) {
      for (int64_t w = 0; w < window[2].size; ++w) {
        taps.push_back(d * window[0].dilation * image.stride(0) + h * window[1].dilation * image.stride(1) +
                       w * window[2].dilation * image.stride(2));
      }
    }
  }
  if (reversed) std::reverse(taps.begin(), taps.end());
  std::vector<int64_t> offsets;
  offsets.reserve(static_cast<size_t>(channels) * taps.size());
  for (int64_t channel = 0; channel < channels; ++channel) {
    for (int64_t tap : taps) offsets.push_back(channel * image.channel_stride() + tap);
  }
  return offsets;
}

/// The image from the map where the stride is 1: itself a convolution, of the padded map with the filters turned round.
void compute_image_by_patches(const ConvolutionViews& views, const Margins& margins, InputRounding rounding) {
  const DenseTail filters(views.filters, 4, true);
  const DenseTail out(views.image, 3, false);
  const int64_t in_group = views.map_channels(), out_group = views.image_channels(), taps = views.taps();
  const int64_t positions = views.image.dims[2] * views.image.dims[3] * views.image.dims[4];
  const int64_t chunk = batches_at_once(views.map, margins);
  for (int64_t batch = 0; batch < views.batch(); batch += chunk) {
    const int64_t batches = std::min(chunk, views.batch() - batch);
    const PaddedImage map(views.map, batch, batches, margins, rounding);
    const Positions places = positions_in(map, views.image, views.window);
    const std::vector<int64_t> offsets = tap_offsets(map, views.window, in_group, true);
    for (int64_t group = 0; group < views.groups; ++group) {
      const TensorView& weights = filters.view();
      MatrixFactor<float> left(element_at(weights, group * in_group, 0), weights.dtype, taps, 1, rounding);
      left.set_nested_depth(taps, weights.strides[0]);
      const PatchFactor right(map.data() + group * in_group * map.channel_stride(), places, offsets.data(),
                              PatchFactor::Lines::kPositions);
      multiply<float>(out_group, batches * positions, in_group * taps, left, right,
                      ChannelProduct(out.view(), batch, batches, group * out_group, positions, views.bias));
    }
  }
  out.finish();
}

/// Adds what each (channel, tap) row of `columns` says to the channel's plane of the image, and writes it.
void fold_columns(const ConvolutionViews& views, const float* columns, int64_t batch, int64_t channel,
                  int64_t channels) {
  const Margins margins = margins_of(views);
  const Dims sizes = padded_sizes(views.image, margins);
  const Dims& map = views.map.dims;
  const auto& [wd, wh, ww] = views.window;
  const int64_t positions = views.map_positions();
  base::parallel_for(channels, 1, [&](int64_t begin, int64_t end) {
    std::vector<float> plane(static_cast<size_t>(sizes.product()));
    for (int64_t c = begin; c < end; ++c) {
      std::fill(plane.begin(), plane.end(),
                views.bias.defined ? as_value<float>(select(views.bias, 0, channel + c)) : 0.0F);
      const float* from = columns + c * views.taps() * positions;
      for (int64_t tap = 0; tap < views.taps(); ++tap) {
        const int64_t kd = tap / (wh.size * ww.size), kh = tap / ww.size % wh.size, kw = tap % ww.size;
        for (int64_t d = 0; d < map[2]; ++d) {
          for (int64_t h = 0; h < map[3]; ++h, from += map[4]) {
            float* row = plane.data() +
                         ((d * wd.stride + kd * wd.dilation) * sizes[1] + h * wh.stride + kh * wh.dilation) * sizes[2] +
                         kw * ww.dilation;
            for (int64_t w = 0; w < map[4]; ++w) row[w * ww.stride] += from[w];
          }
        }
      }
      const TensorView out = select(select(views.image, 0, batch), 0, channel + c);
      const float* first =
          plane.data() + (margins.before[0] * sizes[1] + margins.before[1]) * sizes[2] + margins.before[2];
      TensorView inner = contiguous_view(const_cast<float*>(first), DataType::kFloat, out.dims);
      inner.strides = Dims{sizes[1] * sizes[2], sizes[2], 1};
      copy_view(out, inner);
    }
  });
}

void compute_image_by_columns(const ConvolutionViews& views, InputRounding rounding) {
  const DenseTail filters(views.filters, 4, true);
  const DenseTail map(views.map, 3, true);
  const int64_t in_group = views.map_channels(), out_group = views.image_channels(), taps = views.taps();
  const int64_t positions = views.map_positions();
  const int64_t chunk = std::clamp<int64_t>(kMostColumnElements / std::max<int64_t>(1, taps * positions), 1, out_group);
  const std::unique_ptr<float[]> columns(new float[static_cast<size_t>(chunk * taps * positions)]);
  for (int64_t batch = 0; batch < views.batch(); ++batch) {
    for (int64_t group = 0; group < views.groups; ++group) {
      const TensorView& weights = filters.view();
      const TensorView& values = map.view();
      const MatrixFactor<float> right(element_at(values, batch, group * in_group), values.dtype, 1, values.strides[1],
                                      rounding);
      for (int64_t channel = 0; channel < out_group; channel += chunk) {
        const int64_t channels = std::min(chunk, out_group - channel);
        const MatrixFactor<float> left(element_at(weights, group * in_group, channel), weights.dtype, 1,
                                       weights.strides[0], rounding);
        multiply<float>(channels * taps, positions, in_group, left, right, MatrixSum(columns.get(), positions, false));
        fold_columns(views, columns.get(), batch, group * out_group + channel, channels);
      }
    }
  }
}

/// Padding that makes the data gradient a convolution of the map; false if there is none.
bool reversed_margins(const ConvolutionViews& views, Margins* margins) {
  for (size_t axis = 0; axis < 3; ++axis) {
    const Window& window = views.window[axis];
    const int64_t image = views.image.dims[static_cast<int>(axis) + 2];
    margins->before[axis] = window.reach() - 1 - window.pad_before;
    margins->after[axis] =
        image + window.reach() - 1 - margins->before[axis] - views.map.dims[static_cast<int>(axis) + 2];
    if (window.stride != 1 || margins->before[axis] < 0 || margins->after[axis] < 0) return false;
  }
  return true;
}

/// Filters of one tap at every position of the image: the image is a matrix of channels by positions already.
bool is_pointwise(const ConvolutionViews& views, const Margins& margins) {
  if (views.taps() != 1) return false;
  for (size_t axis = 0; axis < 3; ++axis) {
    if (views.window[axis].stride != 1 || margins.before[axis] != 0 || margins.after[axis] != 0) return false;
  }
  int64_t stride = 1;
  for (int axis = 4; axis >= 2; --axis) {
    if (views.image.dims[axis] != 1 && views.image.strides[axis] != stride) return false;
    stride *= views.image.dims[axis];
  }
  return true;
}

/// `map` has dense planes.
void compute_map_pointwise(const ConvolutionViews& views, const TensorView& filters, const TensorView& map,
                           InputRounding rounding) {
  const int64_t in_group = views.image_channels(), out_group = views.map_channels(), positions = views.map_positions();
  const TensorView& image = views.image;
  for (int64_t batch = 0; batch < views.batch(); ++batch) {
    for (int64_t group = 0; group < views.groups; ++group) {
      const MatrixFactor<float> left(element_at(filters, group * out_group, 0), filters.dtype, filters.strides[0], 1,
                                     rounding);
      const MatrixFactor<float> right(element_at(image, batch, group * in_group), image.dtype, 1, image.strides[1],
                                      rounding);
      multiply<float>(out_group, positions, in_group, left, right,
                      ChannelProduct(map, batch, 1, group * out_group, positions, views.bias));
    }
  }
}

}  // namespace

void compute_map(const ConvolutionViews& views, InputRounding rounding) {
  if (views.map.numel() == 0) return;
  const Margins margins = margins_of(views);
  if (is_direct(views)) return compute_map_directly(views, margins, rounding);
  const DenseTail filters(views.filters, 4, true);
  const DenseTail out(views.map, 3, false);
  const int64_t in_group = views.image_channels(), out_group = views.map_channels(), depth = in_group * views.taps();
  if (is_pointwise(views, margins)) {
    compute_map_pointwise(views, filters.view(), out.view(), rounding);
    return out.finish();
  }
  // A batch with many positions is a product of its own, whose sums may grow in the map itself.
  const bool single = views.map_positions() >= kManyPositions && views.map.dtype == DataType::kFloat;
  const int64_t chunk = single ? 1 : batches_at_once(views.image, margins);
  for (int64_t batch = 0; batch < views.batch(); batch += chunk) {
    const int64_t batches = std::min(chunk, views.batch() - batch);
    const PaddedImage image(views.image, batch, batches, margins, rounding);
    const Positions positions = positions_in(image, views.map, views.window);
    const std::vector<int64_t> offsets = tap_offsets(image, views.window, in_group, false);
    for (int64_t group = 0; group < views.groups; ++group) {
      const TensorView& weights = filters.view();
      const MatrixFactor<float> left(element_at(weights, group * out_group, 0), weights.dtype, weights.strides[0], 1,
                                     rounding);
      const PatchFactor right(image.data() + group * in_group * image.channel_stride(), positions, offsets.data(),
                              PatchFactor::Lines::kPositions);
      multiply<float>(out_group, batches * positions.per_batch(), depth, left, right,
                      ChannelProduct(out.view(), batch, batches, group * out_group, positions.per_batch(), views.bias));
    }
  }
  out.finish();
}

void compute_image(const ConvolutionViews& views, InputRounding rounding) {
  if (views.image.numel() == 0) return;
  if (is_direct(views)) return compute_image_directly(views, margins_of(views), rounding);
  Margins margins;
  if (reversed_margins(views, &margins)) {
    compute_image_by_patches(views, margins, rounding);
  } else {
    compute_image_by_columns(views, rounding);
  }
}

void compute_filters(const ConvolutionViews& views, InputRounding rounding) {
  if (views.filters.numel() == 0) return;
  const Margins margins = margins_of(views);
  if (is_direct(views)) return compute_filters_directly(views, margins, rounding);
  const DenseTail map(views.map, 3, true);
  const int64_t in_group = views.image_channels(), out_group = views.map_channels(), columns = in_group * views.taps();
  const std::unique_ptr<float[]> sums(new float[static_cast<size_t>(views.filters.numel())]);
  std::fill_n(sums.get(), views.filters.numel(), 0.0F);
  const int64_t chunk = batches_at_once(views.image, margins);
  for (int64_t batch = 0; batch < views.batch() && views.map.numel() > 0; batch += chunk) {
    const int64_t batches = std::min(chunk, views.batch() - batch);
    const PaddedImage image(views.image, batch, batches, margins, rounding);
    const Positions positions = positions_in(image, views.map, views.window);
    const std::vector<int64_t> offsets = tap_offsets(image, views.window, in_group, false);
    for (int64_t group = 0; group < views.groups; ++group) {
      const TensorView& values = map.view();
      MatrixFactor<float> left(element_at(values, batch, group * out_group), values.dtype, values.strides[1], 1,
                               rounding);
      left.set_nested_depth(positions.per_batch(), values.strides[0]);
      const PatchFactor right(image.data() + group * in_group * image.channel_stride(), positions, offsets.data(),
                              PatchFactor::Lines::kTaps);
      multiply<float>(out_group, columns, batches * positions.per_batch(), left, right,
                      MatrixSum(sums.get() + group * out_group * columns, columns, batch > 0));
    }
  }
  copy_view(views.filters, contiguous_view(sums.get(), DataType::kFloat, views.filters.dims));
}

void sum_channels(const TensorView& view, const TensorView& sums) {
  base::parallel_for(view.dims[1], 1, [&](int64_t begin, int64_t end) {
    for (int64_t channel = begin; channel < end; ++channel) {
      double sum = 0;
      for_each_value<float>(select(view, 1, channel), [&](float value) { sum += value; });
      set_value<double>(select(sums, 0, channel), sum);
    }
  });
}

}  // namespace drydock::ops::kernels
