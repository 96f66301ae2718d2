#include <array>
#include <string>

#include "ops/quant/integer_rows.h"

// Convolution of int8 volumes: exact sums, a scale for each channel, then a bias.

namespace drydock::ops::kernels {
namespace {

struct Volume {
  std::array<int64_t, 3> stride{1, 1, 1};
  std::array<int64_t, 3> padding{0, 0, 0};
  std::array<int64_t, 3> dilation{1, 1, 1};
};

Status read_triple(const KernelCall& call, int nth, int64_t least, const char* name, std::array<int64_t, 3>* triple) {
  const auto values = call.ints(nth);
  if (values.size() != 3) return invalid(call, std::string(name) + " must have three elements on this device");
  for (size_t axis = 0; axis < 3; ++axis) {
    if (values[axis] < least) return invalid(call, std::string(name) + " is too small");
    (*triple)[axis] = values[axis];
  }
  return Status::ok();
}

Status check_sizes(const KernelCall& call, const Volume& volume) {
  const TensorView& image = call.operand(0);
  const TensorView& filters = call.operand(1);
  const TensorView& out = call.output(0);
  if (image.dims.size() != 5 || filters.dims.size() != 5 || out.dims.size() != 5) {
    return invalid(call, "input, weight and output must be volumes (N, C, D, H, W) on this device");
  }
  if (image.dtype != DataType::kInt8 || filters.dtype != DataType::kInt8) {
    return not_computed(call, "input or weight of another type than int8");
  }
  if (image.dims[1] != filters.dims[1] || out.dims[0] != image.dims[0] || out.dims[1] != filters.dims[0]) {
    return invalid(call, "the channels of input, weight and output do not fit");
  }
  for (int axis = 0; axis < 3; ++axis) {
    const auto at = static_cast<size_t>(axis);
    const int64_t reach = volume.dilation[at] * (filters.dims[axis + 2] - 1) + 1;
    const int64_t room = image.dims[axis + 2] + 2 * volume.padding[at] - reach;
    if (filters.dims[axis + 2] < 1 || room < 0 || out.dims[axis + 2] != room / volume.stride[at] + 1) {
      return invalid(call, "the output does not have the size of the convolution");
    }
  }
  return Status::ok();
}

}  // namespace

/// aclnnQuantConvolution(input, weight, bias, scale, offset, stride, padding, dilation, transposed, outputPadding,
/// groups, offsetx, roundMode, output).
Status quant_convolution(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 2, 1));
  const TensorView& image = call.operand(0);
  const TensorView& filters = call.operand(1);
  const TensorView& out = call.output(0);
  if (call.boolean(0) || call.integer(0) != 1 || call.integer(1) != 0 || is_present(call.operand(4))) {
    return invalid(call, "transposed must be false, groups 1, offsetx 0 and offset null on this device");
  }
  Volume volume;
  DRYDOCK_RETURN_IF_ERROR(read_triple(call, 0, 1, "stride", &volume.stride));
  DRYDOCK_RETURN_IF_ERROR(read_triple(call, 1, 0, "padding", &volume.padding));
  DRYDOCK_RETURN_IF_ERROR(read_triple(call, 2, 1, "dilation", &volume.dilation));
  DRYDOCK_RETURN_IF_ERROR(check_sizes(call, volume));
  const int64_t channels = filters.dims[0];
  std::vector<float> scale;
  std::vector<float> bias;
  if (!is_present(call.operand(3)) || call.operand(3).numel() != channels || !read_floats(call.operand(3), &scale)) {
    return invalid(call, "scale must have one element for each channel of the output");
  }
  if (is_present(call.operand(2)) && (call.operand(2).numel() != channels || !read_floats(call.operand(2), &bias))) {
    return invalid(call, "bias must have one element for each channel of the output");
  }
  if (!is_floating(out.dtype)) return not_computed(call, "an output of type " + std::string(name_of(out.dtype)));
  const Rows results(out, 4);
  const int64_t width = out.dims[4];
  const auto tap = [&](int64_t sample, int64_t channel, int64_t depth, int64_t height, int64_t column) {
    return static_cast<int64_t>(
        image.data[sample * image.strides[0] + channel * image.strides[1] + depth * image.strides[2] +
                   height * image.strides[3] + column * image.strides[4]]);
  };
  for_each_row(results.count(), width, [&](int64_t row, float* values) {
    const int64_t height = row % out.dims[3];
    const int64_t depth = row / out.dims[3] % out.dims[2];
    const int64_t channel = row / (out.dims[3] * out.dims[2]) % channels;
    const int64_t sample = row / (out.dims[3] * out.dims[2] * channels);
    std::vector<int64_t> sums(static_cast<size_t>(width));
    for (int64_t from = 0; from < filters.dims[1]; ++from) {
      for (int64_t kd = 0; kd < filters.dims[2]; ++kd) {
        const int64_t d = depth * volume.stride[0] - volume.padding[0] + kd * volume.dilation[0];
        if (d < 0 || d >= image.dims[2]) continue;
        for (int64_t kh = 0; kh < filters.dims[3]; ++kh) {
          const int64_t h = height * volume.stride[1] - volume.padding[1] + kh * volume.dilation[1];
          if (h < 0 || h >= image.dims[3]) continue;
          for (int64_t kw = 0; kw < filters.dims[4]; ++kw) {
            const int64_t weight =
                filters.data[channel * filters.strides[0] + from * filters.strides[1] + kd * filters.strides[2] +
                             kh * filters.strides[3] + kw * filters.strides[4]];
            for (int64_t column = 0; column < width; ++column) {
              const int64_t w = column * volume.stride[2] - volume.padding[2] + kw * volume.dilation[2];
              if (w >= 0 && w < image.dims[4]) sums[static_cast<size_t>(column)] += weight * tap(sample, from, d, h, w);
            }
          }
        }
      }
    }
    for (int64_t column = 0; column < width; ++column) {
      const float scaled = static_cast<float>(sums[static_cast<size_t>(column)]) * scale[static_cast<size_t>(channel)];
      values[column] = bias.empty() ? scaled : scaled + bias[static_cast<size_t>(channel)];
    }
    results.write<float>(row, values);
  });
  return Status::ok();
}

}  // namespace drydock::ops::kernels
