#include "ops/format/private_format.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>

#include "base/generated/error_codes.h"
#include "base/thread_pool.h"
#include "ops/kernel_access.h"

namespace drydock::ops {
namespace {

constexpr int64_t kRowsOfBlock = 16;  // the other side of a fractal

int64_t blocks(int64_t size, int64_t block) { return (size + block - 1) / block; }

/// [C], [C, H] and [C, H, W] stand for [1, C, H, W].
bool as_image(const Dims& dims, Dims* image) {
  if (dims.size() > 4) return false;
  *image = dims;
  if (dims.size() == 4) return true;
  *image = Dims{1};
  for (int64_t size : dims) image->push_back(size);
  while (image->size() < 4) image->push_back(1);
  return true;
}

void fractal_nz(const Dims& dims, int64_t block, BlockedLayout* layout) {
  Dims padded = dims;
  while (padded.size() < 2) padded.push_back(1);
  const int rank = padded.size();
  const int64_t rows = blocks(padded[rank - 2], kRowsOfBlock), columns = blocks(padded[rank - 1], block);
  layout->dims = padded;
  layout->axis = rank - 1;
  layout->block_stride = rows * kRowsOfBlock * block;
  layout->strides = padded;
  layout->strides[rank - 1] = 1;
  layout->strides[rank - 2] = block;
  int64_t stride = columns * layout->block_stride;
  for (int axis = rank - 3; axis >= 0; --axis) {
    layout->strides[axis] = stride;
    stride *= padded[axis];
  }
  for (int axis = 0; axis < rank - 2; ++axis) layout->storage_dims.push_back(padded[axis]);
  for (int64_t size : {columns, rows, kRowsOfBlock, block}) layout->storage_dims.push_back(size);
}

/// [N, D, C1, H, W, C0]; without depth [N, C1, H, W, C0].
void blocked_channels(const Dims& image, int64_t block, BlockedLayout* layout) {
  const bool has_depth = image.size() == 5;
  const int64_t depth = has_depth ? image[2] : 1;
  const int64_t height = image[image.size() - 2], width = image[image.size() - 1];
  const int64_t channels = blocks(image[1], block), plane = height * width * block;
  layout->dims = image;
  layout->axis = 1;
  layout->block_stride = plane;
  layout->strides = Dims{depth * channels * plane, 1};
  layout->storage_dims = Dims{image[0]};
  if (has_depth) {
    layout->strides.push_back(channels * plane);
    layout->storage_dims.push_back(depth);
  }
  layout->strides.push_back(width * block);
  layout->strides.push_back(block);
  for (int64_t size : {channels, height, width, block}) layout->storage_dims.push_back(size);
}

/// Filters [D * C1 * H * W, N1, 16, C0].
void fractal_filters(const Dims& filters, int64_t block, BlockedLayout* layout) {
  const bool has_depth = filters.size() == 5;
  const int64_t depth = has_depth ? filters[2] : 1;
  const int64_t height = filters[filters.size() - 2], width = filters[filters.size() - 1];
  const int64_t channels = blocks(filters[1], block), rows = blocks(filters[0], kRowsOfBlock);
  const int64_t fractal = rows * kRowsOfBlock * block;
  layout->dims = filters;
  layout->axis = 1;
  layout->block_stride = height * width * fractal;
  layout->strides = Dims{block, 1};
  if (has_depth) layout->strides.push_back(channels * height * width * fractal);
  layout->strides.push_back(width * fractal);
  layout->strides.push_back(fractal);
  layout->storage_dims = Dims{depth * channels * height * width, rows, kRowsOfBlock, block};
}

/// Calls `move(plain_view, stored_view)` for each block of the cut dimension.
template <class Move>
void for_each_block(const BlockedLayout& layout, DataType dtype, char* plain, char* storage, Move move) {
  const TensorView whole = kernels::contiguous_view(plain, dtype, layout.dims);
  const int64_t size = layout.dims[layout.axis];
  base::parallel_for(blocks(size, layout.block), 1, [&](int64_t begin, int64_t end) {
    for (int64_t number = begin; number < end; ++number) {
      const int64_t first = number * layout.block;
      const TensorView part = kernels::narrow(whole, layout.axis, first, std::min(layout.block, size - first));
      TensorView stored = part;
      stored.data = storage + bytes_of(dtype, number * layout.block_stride);
      stored.strides = layout.strides;
      move(part, stored);
    }
  });
}

Status does_not_fit(const FormattedElements& elements, const std::string& why) {
  return Status::error(code::ACLNN_ERR_PARAM_INVALID, "a tensor of " + std::to_string(elements.dims.size()) +
                                                          " dimensions in format " + std::to_string(elements.format) +
                                                          ": " + why);
}

}  // namespace

int64_t block_of(DataType dtype) noexcept { return 32 / std::clamp<int64_t>(bytes_of(dtype, 1), 1, 2); }

bool blocked_layout(Format format, const Dims& dims, int64_t block, BlockedLayout* layout) {
  *layout = {};
  if (block < 1) return false;
  layout->block = block;
  Dims image;
  switch (format) {
    case Format::kFractalNz:
    case Format::kFractalNzC016:
    case Format::kFractalNzC032: fractal_nz(dims, block, layout); return true;
    case Format::kNc1hwc0:
      if (!as_image(dims, &image)) return false;
      blocked_channels(image, block, layout);
      return true;
    case Format::kFractalZ:
      if (!as_image(dims, &image)) return false;
      fractal_filters(image, block, layout);
      return true;
    case Format::kNdc1hwc0:
      if (dims.size() != 5) return false;
      blocked_channels(dims, block, layout);
      return true;
    case Format::kFractalZ3d:
      if (dims.size() != 5) return false;
      fractal_filters(dims, block, layout);
      return true;
    default: return false;
  }
}

Status layout_of(const FormattedElements& elements, BlockedLayout* layout) {
  const int rank = elements.storage_dims.size();
  const int64_t block = rank > 1 ? elements.storage_dims[rank - 1] : block_of(elements.dtype);
  if (bits_of(elements.dtype) < 8) {
    const bool pairs = bits_of(elements.dtype) == 4 && static_cast<Format>(elements.format) == Format::kFractalNz &&
                       block % 2 == 0 && elements.dims.size() > 1 && elements.dims[elements.dims.size() - 1] % 2 == 0;
    if (!pairs) return does_not_fit(elements, "elements smaller than a byte are modelled in pairs of a row of NZ");
  }
  if (!blocked_layout(static_cast<Format>(elements.format), elements.dims, block, layout)) {
    return does_not_fit(elements, "tensors of this rank cannot have this format");
  }
  if (elements.storage_dims.product() >= layout->storage_dims.product()) return Status::ok();
  return does_not_fit(elements, "the storage has " + std::to_string(elements.storage_dims.product()) +
                                    " elements, the format needs " + std::to_string(layout->storage_dims.product()));
}

/// The layout of the bytes that hold two elements each, neighbours in the dimension that is cut.
static BlockedLayout layout_of_pairs(const BlockedLayout& layout) {
  BlockedLayout pairs = layout;
  pairs.dims[pairs.axis] /= 2;
  pairs.block /= 2;
  pairs.block_stride /= 2;
  for (int axis = 0; axis < pairs.strides.size(); ++axis) {
    if (axis != pairs.axis) pairs.strides[axis] /= 2;
  }
  pairs.storage_dims[pairs.storage_dims.size() - 1] /= 2;
  return pairs;
}

void into_blocks(const BlockedLayout& layout, DataType dtype, const char* plain, char* storage) {
  if (bits_of(dtype) == 4) return into_blocks(layout_of_pairs(layout), DataType::kInt8, plain, storage);
  std::memset(storage, 0, static_cast<size_t>(bytes_of(dtype, layout.storage_dims.product())));
  for_each_block(layout, dtype, const_cast<char*>(plain), storage,
                 [](const TensorView& part, const TensorView& stored) { kernels::copy_view(stored, part); });
}

void out_of_blocks(const BlockedLayout& layout, DataType dtype, const char* storage, char* plain) {
  if (bits_of(dtype) == 4) return out_of_blocks(layout_of_pairs(layout), DataType::kInt8, storage, plain);
  for_each_block(layout, dtype, plain, const_cast<char*>(storage),
                 [](const TensorView& part, const TensorView& stored) { kernels::copy_view(part, stored); });
}

Status trans_data(const FormattedElements& in, const FormattedElements& out) {
  if (in.dtype != out.dtype || in.dims.product() != out.dims.product()) {
    return does_not_fit(out, "both sides must have the same elements");
  }
  BlockedLayout from, to;
  const bool from_blocks = is_private_format(in.format), to_blocks = is_private_format(out.format);
  if (from_blocks) DRYDOCK_RETURN_IF_ERROR(layout_of(in, &from));
  if (to_blocks) DRYDOCK_RETURN_IF_ERROR(layout_of(out, &to));
  const auto bytes = static_cast<size_t>(bytes_of(in.dtype, in.dims.product()));
  if (!from_blocks && !to_blocks) {
    std::memmove(out.storage, in.storage, bytes);
    return Status::ok();
  }
  std::unique_ptr<char[]> between;
  if (from_blocks && to_blocks) between.reset(new char[bytes]);
  char* plain = between != nullptr ? between.get() : from_blocks ? out.storage : in.storage;
  if (from_blocks) out_of_blocks(from, in.dtype, in.storage, plain);
  if (to_blocks) into_blocks(to, out.dtype, plain, out.storage);
  return Status::ok();
}

}  // namespace drydock::ops
