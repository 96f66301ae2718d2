#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "ops/convolution/engine.h"
#include "ops/matmul/matrix_call.h"

// Deformable convolution: every tap of every position reads the image at a place of its own, between elements.

namespace drydock::ops::kernels {
namespace {

struct Deformation {
  int64_t kernel_height, kernel_width, stride_height, stride_width, pad_top, pad_left, dilation_height, dilation_width;
  int64_t groups;

  int64_t taps() const { return kernel_height * kernel_width; }
};

/// A plane of fp32 between its elements; 0 outside.
float interpolated(const float* plane, int64_t height, int64_t width, float y, float x) {
  if (!(y > -1 && x > -1 && y < static_cast<float>(height) && x < static_cast<float>(width))) return 0;
  const float top = std::floor(y), left = std::floor(x);
  const auto y0 = static_cast<int64_t>(top), x0 = static_cast<int64_t>(left);
  const float dy = y - top, dx = x - left;
  const auto at = [&](int64_t h, int64_t w) {
    return h >= 0 && h < height && w >= 0 && w < width ? plane[h * width + w] : 0.0F;
  };
  return (1 - dy) * ((1 - dx) * at(y0, x0) + dx * at(y0, x0 + 1)) +
         dy * ((1 - dx) * at(y0 + 1, x0) + dx * at(y0 + 1, x0 + 1));
}

/// samples[n, c, oh * KH + kh, ow * KW + kw] = mask * image at the moved place. `offset` holds, in its channels, the
/// moves in x of all (group, tap), then those in y, then the masks.
void sample(const TensorView& image, const TensorView& offset, const TensorView& samples, const Deformation& shape) {
  const int64_t channels = image.dims[1], height = image.dims[2], width = image.dims[3];
  const int64_t rows = offset.dims[2], columns = offset.dims[3], moves = shape.groups * shape.taps();
  const bool has_mask = offset.dims[1] == 3 * moves;
  std::vector<float> moved(static_cast<size_t>(offset.dims[1] * rows * columns));
  for (int64_t n = 0; n < image.dims[0]; ++n) {
    copy_view(contiguous_view(moved.data(), DataType::kFloat, Dims{offset.dims[1], rows, columns}),
              select(offset, 0, n));
    base::parallel_for(channels, 1, [&](int64_t begin, int64_t end) {
      std::vector<float> plane(static_cast<size_t>(height * width));
      std::vector<float> taken(static_cast<size_t>(samples.dims[2] * samples.dims[3]));
      for (int64_t c = begin; c < end; ++c) {
        copy_view(contiguous_view(plane.data(), DataType::kFloat, Dims{height, width}),
                  select(select(image, 0, n), 0, c));
        const int64_t group = c / (channels / shape.groups);
        for (int64_t tap = 0; tap < shape.taps(); ++tap) {
          const int64_t kh = tap / shape.kernel_width, kw = tap % shape.kernel_width;
          const float* x = moved.data() + (group * shape.taps() + tap) * rows * columns;
          const float* y = x + moves * rows * columns;
          const float* mask = y + moves * rows * columns;
          for (int64_t place = 0; place < rows * columns; ++place) {
            const int64_t oh = place / columns, ow = place % columns;
            const auto from_y =
                static_cast<float>(oh * shape.stride_height - shape.pad_top + kh * shape.dilation_height);
            const auto from_x =
                static_cast<float>(ow * shape.stride_width - shape.pad_left + kw * shape.dilation_width);
            const float value = interpolated(plane.data(), height, width, from_y + y[place], from_x + x[place]);
            taken[static_cast<size_t>((oh * shape.kernel_height + kh) * samples.dims[3] + ow * shape.kernel_width +
                                      kw)] = has_mask ? value * mask[place] : value;
          }
        }
        copy_view(select(select(samples, 0, n), 0, c),
                  contiguous_view(taken.data(), DataType::kFloat, Dims{samples.dims[2], samples.dims[3]}));
      }
    });
  }
}

Status read_deformation(const KernelCall& call, Deformation* shape) {
  const auto kernel = call.ints(0), stride = call.ints(1), padding = call.ints(2), dilation = call.ints(3);
  if (kernel.size() != 2 || stride.size() != 4 || padding.size() != 4 || dilation.size() != 4) {
    return invalid(call, "kernelSize needs two values, stride, padding and dilation four each");
  }
  *shape = {kernel[0],  kernel[1],   stride[2],   stride[3],      padding[0],
            padding[2], dilation[2], dilation[3], call.integer(1)};
  constexpr int64_t kMost = int64_t{1} << 31;
  for (int64_t value : {kernel[0], kernel[1], stride[2], stride[3], dilation[2], dilation[3], shape->groups}) {
    if (value < 1 || value > kMost)
      return invalid(call, "kernel sizes, strides, dilations and groups must be positive");
  }
  for (int64_t value : padding) {
    if (value < 0 || value > kMost) return invalid(call, "padding must not be negative");
  }
  return Status::ok();
}

}  // namespace

/// (x, weight, offset, biasOptional, kernelSize, stride, padding, dilation, groups, deformableGroups, modulated) to
/// (out, deformOutOptional)
Status deformable_convolution(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 3, 1));
  const TensorView &image = call.operand(0), &weight = call.operand(1), &offset = call.operand(2);
  const TensorView& out = call.output(0);
  for (const TensorView* view : {&image, &weight, &offset, &out}) {
    if (view->dims.size() != 4)
      return invalid(call, "a tensor of " + text_of(view->dims) + " must have four dimensions");
    if (!is_floating(view->dtype) || view->dtype == DataType::kDouble) {
      return not_computed(call, "elements of type " + std::string(name_of(view->dtype)) + " are not computed");
    }
  }
  Deformation shape{};
  DRYDOCK_RETURN_IF_ERROR(read_deformation(call, &shape));
  const int64_t moves = shape.groups * shape.taps(), rows = offset.dims[2], columns = offset.dims[3];
  const int64_t parts = call.boolean(0) ? 3 : 2;
  const auto places = [&](int64_t size, int64_t padding, int64_t reach, int64_t stride) {
    return size + padding < reach ? 0 : (size + padding - reach) / stride + 1;
  };
  const auto padding = call.ints(2);
  if (image.dims[1] % shape.groups != 0 || offset.dims[0] != image.dims[0] || offset.dims[1] != parts * moves ||
      rows != places(image.dims[2], padding[0] + padding[1], shape.dilation_height * (shape.kernel_height - 1) + 1,
                     shape.stride_height) ||
      columns != places(image.dims[3], padding[2] + padding[3], shape.dilation_width * (shape.kernel_width - 1) + 1,
                        shape.stride_width)) {
    return invalid(call, "offset " + text_of(offset.dims) + " does not belong to x " + text_of(image.dims));
  }
  const Dims sampled{image.dims[0], image.dims[1], rows * shape.kernel_height, columns * shape.kernel_width};
  TensorView samples = call.output_count() > 1 ? call.output(1) : TensorView{};
  std::vector<char> bytes;
  if (!samples.defined) {
    bytes.resize(static_cast<size_t>(bytes_of(image.dtype, sampled.product())));
    samples = contiguous_view(bytes.data(), image.dtype, sampled);
  }
  if (!(samples.dims == sampled)) return invalid(call, "deformOutOptional must be " + text_of(sampled));
  // The samples lie side by side: an ordinary convolution whose filters never overlap.
  ConvolutionViews views;
  const std::array<int64_t, 2> stride{shape.kernel_height, shape.kernel_width};
  const std::array<int64_t, 1> zero{0}, one{1};
  DRYDOCK_RETURN_IF_ERROR(arrange(call, samples, weight, out, {stride, zero, one, {}, false, call.integer(0)}, &views));
  if (call.operand(3).defined) {
    if (!(call.operand(3).dims == Dims{out.dims[1]}))
      return invalid(call, "the bias must have one value per output channel");
    views.bias = call.operand(3);
  }
  sample(image, offset, samples, shape);
  compute_map(views, InputRounding::kNone);
  return Status::ok();
}

}  // namespace drydock::ops::kernels
