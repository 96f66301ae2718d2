#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "base/saturating.h"
#include "base/thread_pool.h"
#include "ops/elementwise.h"

// Patches of images as columns, and sums of columns and of windows: unfold, fold and their gradients.

namespace drydock::ops::kernels {
namespace {

/// How a kernel slides over an image, in both dimensions.
struct Sliding {
  std::array<int64_t, 2> kernel, dilation, padding, stride, image, blocks;

  /// Place in the image that kernel position `tap` of block `block` sees along `axis`; may be outside.
  int64_t place(size_t axis, int64_t tap, int64_t block) const {
    return block * stride[axis] - padding[axis] + tap * dilation[axis];
  }
};

bool read_pair(std::span<const int64_t> values, int64_t least, std::array<int64_t, 2>* pair) {
  if (values.size() != 1 && values.size() != 2) return false;
  *pair = {values[0], values[values.size() - 1]};
  constexpr int64_t kMost = int64_t{1} << 31;
  return (*pair)[0] >= least && (*pair)[1] >= least && (*pair)[0] <= kMost && (*pair)[1] <= kMost;
}

/// Int arrays from `first` on: kernelSize, dilation, padding, stride.
Status read_sliding(const KernelCall& call, int first, int64_t height, int64_t width, Sliding* sliding) {
  if (!read_pair(call.ints(first), 1, &sliding->kernel) || !read_pair(call.ints(first + 1), 1, &sliding->dilation) ||
      !read_pair(call.ints(first + 2), 0, &sliding->padding) || !read_pair(call.ints(first + 3), 1, &sliding->stride)) {
    return invalid(call, "kernelSize, dilation and stride need two positive values, padding two that are not negative");
  }
  sliding->image = {height, width};
  for (size_t axis = 0; axis < 2; ++axis) {
    const int64_t room =
        sliding->image[axis] + 2 * sliding->padding[axis] - (sliding->dilation[axis] * (sliding->kernel[axis] - 1) + 1);
    if (room < 0) return invalid(call, "the kernel does not fit into the padded image");
    sliding->blocks[axis] = room / sliding->stride[axis] + 1;
  }
  return Status::ok();
}

/// `images` [N, C, H, W] and `columns` [N, C * kernel, blocks], from tensors with or without N.
Status arrange_columns(const KernelCall& call, TensorView* images, TensorView* columns, const Sliding& sliding) {
  const Dims image_dims = images->dims, column_dims = columns->dims;
  const int extra = image_dims.size() == 3 ? 1 : 0;
  const int column_extra = column_dims.size() == 2 ? 1 : 0;
  if (extra == 1) *images = unsqueeze(*images, 0);
  if (column_extra == 1) *columns = unsqueeze(*columns, 0);
  if (images->dims.size() == 4 && columns->dims.size() == 3) {
    const int64_t rows = saturating_product(images->dims[1], sliding.kernel[0], sliding.kernel[1]);
    const Dims expected{images->dims[0], rows, saturating_product(sliding.blocks[0], sliding.blocks[1])};
    if (expected == columns->dims) return Status::ok();
  }
  return invalid(call, "images of " + text_of(image_dims) + " do not belong to columns of " + text_of(column_dims));
}

/// The part [first, last) of `count` blocks along the width whose place is inside the image.
void blocks_inside(const Sliding& sliding, int64_t tap, int64_t* first, int64_t* last) {
  const int64_t step = sliding.stride[1];
  const int64_t start = sliding.place(1, tap, 0);
  *first = std::clamp<int64_t>(start >= 0 ? 0 : (-start + step - 1) / step, 0, sliding.blocks[1]);
  const int64_t room = sliding.image[1] - start;
  *last = std::clamp<int64_t>(room <= 0 ? 0 : (room - 1) / step + 1, *first, sliding.blocks[1]);
}

void fill_zero(char* to, int64_t stride, int64_t count, int64_t size) {
  for (int64_t k = 0; k < count; ++k) std::fill_n(to + k * stride, size, '\0');
}

}  // namespace

/// (self [N, C, H, W], kernelSize, dilation, padding, stride): elements of any type are moved as they are.
Status im2col(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect_defined(call, 1, 1));
  TensorView images = call.operand(0), columns = call.output(0);
  if (images.dtype != columns.dtype) return invalid(call, "self and out must have one element type");
  const int rank = images.dims.size();
  if (rank != 3 && rank != 4) return invalid(call, "self " + text_of(images.dims) + " must have 3 or 4 dimensions");
  Sliding sliding{};
  DRYDOCK_RETURN_IF_ERROR(read_sliding(call, 0, images.dims[rank - 2], images.dims[rank - 1], &sliding));
  DRYDOCK_RETURN_IF_ERROR(arrange_columns(call, &images, &columns, sliding));
  const int64_t size = bytes_of(images.dtype, 1);
  const Dims from = strides_bytes(images), to = strides_bytes(columns);
  const int64_t taps = sliding.kernel[0] * sliding.kernel[1];
  const int64_t rows = columns.dims[1], width = sliding.blocks[1];
  base::parallel_for(columns.dims[0] * rows, 16, [&](int64_t begin, int64_t end) {
    for (int64_t number = begin; number < end; ++number) {
      const int64_t n = number / rows, row = number % rows;
      const int64_t kh = row % taps / sliding.kernel[1], kw = row % sliding.kernel[1];
      const char* plane = images.data + n * from[0] + row / taps * from[1];
      char* out = columns.data + n * to[0] + row * to[1];
      int64_t first = 0, last = 0;
      blocks_inside(sliding, kw, &first, &last);
      for (int64_t block = 0; block < sliding.blocks[0]; ++block, out += width * to[2]) {
        const int64_t h = sliding.place(0, kh, block);
        if (h < 0 || h >= sliding.image[0]) {
          fill_zero(out, to[2], width, size);
          continue;
        }
        fill_zero(out, to[2], first, size);
        copy_elements(out + first * to[2], to[2], plane + h * from[2] + sliding.place(1, kw, first) * from[3],
                      sliding.stride[1] * from[3], last - first, size);
        fill_zero(out + last * to[2], to[2], width - last, size);
      }
    }
  });
  return Status::ok();
}

/// (gradOutput [N, C * kernel, blocks], inputSize, kernelSize, dilation, padding, stride): columns that see the same
/// place are added up.
Status im2col_backward(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 1, 1));
  TensorView columns = call.operand(0), images = call.output(0);
  const int rank = images.dims.size();
  if (rank != 3 && rank != 4) return invalid(call, "out " + text_of(images.dims) + " must have 3 or 4 dimensions");
  std::array<int64_t, 2> size{};
  if (!read_pair(call.ints(0), 1, &size) || size[0] != images.dims[rank - 2] || size[1] != images.dims[rank - 1]) {
    return invalid(call, "inputSize must be the height and width of out " + text_of(images.dims));
  }
  Sliding sliding{};
  DRYDOCK_RETURN_IF_ERROR(read_sliding(call, 1, size[0], size[1], &sliding));
  DRYDOCK_RETURN_IF_ERROR(arrange_columns(call, &images, &columns, sliding));
  const int64_t channels = images.dims[1], taps = sliding.kernel[0] * sliding.kernel[1];
  const Dims from = strides_bytes(columns);
  return with_floating_type(compute_type_of(images.dtype), [&]<class C>() {
    const Loader<C> load = loader_of<C>(columns.dtype);
    base::parallel_for(images.dims[0] * channels, 1, [&](int64_t begin, int64_t end) {
      std::vector<C> plane(static_cast<size_t>(size[0] * size[1])), buffer(static_cast<size_t>(sliding.blocks[1]));
      for (int64_t number = begin; number < end; ++number) {
        const int64_t n = number / channels, c = number % channels;
        std::fill(plane.begin(), plane.end(), C(0));
        for (int64_t tap = 0; tap < taps; ++tap) {
          const int64_t kh = tap / sliding.kernel[1], kw = tap % sliding.kernel[1];
          const char* row = columns.data + n * from[0] + (c * taps + tap) * from[1];
          int64_t first = 0, last = 0;
          blocks_inside(sliding, kw, &first, &last);
          for (int64_t block = 0; block < sliding.blocks[0]; ++block, row += sliding.blocks[1] * from[2]) {
            const int64_t h = sliding.place(0, kh, block);
            if (h < 0 || h >= size[0] || first == last) continue;
            const C* values = load(row + first * from[2], from[2], last - first, buffer.data());
            C* to = plane.data() + h * size[1] + sliding.place(1, kw, first);
            for (int64_t k = 0; k < last - first; ++k) to[k * sliding.stride[1]] += values[k];
          }
        }
        const DataType type = sizeof(C) == sizeof(float) ? DataType::kFloat : DataType::kDouble;
        copy_view(select(select(images, 0, n), 0, c), contiguous_view(plane.data(), type, Dims{size[0], size[1]}));
      }
    });
    return Status::ok();
  });
}

/// (gradOut, inputSizes, dim, size, step): gradOut is the gradient of x.unfold(dim, size, step), with the window last.
Status unfold_grad(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 1, 1));
  TensorView grad = call.operand(0);
  TensorView out = call.output(0);
  const int64_t window = call.integer(1), step = call.integer(2);
  int axis = 0;
  DRYDOCK_RETURN_IF_ERROR(wrap_dim(call, call.integer(0), out.dims.size(), &axis));
  const Dims sizes(call.ints(0));
  if (!(sizes == out.dims) || out.dims.size() + 1 != grad.dims.size() || step < 1 || window < 0) {
    return invalid(call, "gradOut " + text_of(grad.dims) + " does not belong to an input of " + text_of(sizes));
  }
  const bool is_one_element = out.dims.empty();
  if (is_one_element) {  // one window of it, or of nothing
    out = unsqueeze(out, 0);
    grad = unsqueeze(grad, 0);
  }
  const int64_t length = out.dims[axis];
  Dims expected = out.dims;
  expected[axis] = length < window ? 0 : is_one_element ? 1 : (length - window) / step + 1;
  expected.push_back(window);
  if (!(expected == grad.dims)) {
    return invalid(call, "gradOut is " + text_of(grad.dims) + ", it must be " + text_of(expected));
  }
  if (out.numel() == 0) return Status::ok();
  const TensorView windows = grad.numel() > 0 ? select(grad, grad.dims.size() - 1, 0) : grad;
  return with_floating_type(compute_type_of(out.dtype), [&]<class C>() {
    // All lines of the input along the axis, each with the windows it was cut into.
    const Rows lines(out, axis);
    base::parallel_for(lines.count(), 16, [&](int64_t begin, int64_t end) {
      std::vector<C> sums(static_cast<size_t>(length)), buffer(static_cast<size_t>(std::max<int64_t>(window, 1)));
      for (int64_t line = begin; line < end; ++line) {
        std::fill(sums.begin(), sums.end(), C(0));
        if (grad.numel() > 0) {
          int64_t rest = line;
          const char* from = windows.data;
          for (int k = out.dims.size() - 1; k >= 0; --k) {
            if (k == axis) continue;
            from += bytes_of(grad.dtype, rest % out.dims[k] * windows.strides[k]);
            rest /= out.dims[k];
          }
          const int64_t to_next = bytes_of(grad.dtype, grad.strides[axis]);
          const int64_t inside = bytes_of(grad.dtype, grad.strides[grad.dims.size() - 1]);
          for (int64_t block = 0; block < grad.dims[axis]; ++block) {
            const C* values = loader_of<C>(grad.dtype)(from + block * to_next, inside, window, buffer.data());
            for (int64_t k = 0; k < window; ++k) sums[static_cast<size_t>(block * step + k)] += values[k];
          }
        }
        lines.write<C>(line, sums.data());
      }
    });
    return Status::ok();
  });
}

}  // namespace drydock::ops::kernels
