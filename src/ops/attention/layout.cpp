#include "ops/attention/layout.h"

#include <algorithm>
#include <cstring>

namespace drydock::ops::kernels::attention {

bool head_view(const TensorView& view, std::string_view layout, int64_t heads, HeadView* result) {
  if (!view.defined || view.dims.size() != static_cast<int>(layout.size())) return false;
  HeadView found;
  found.data = view.data;
  found.dtype = view.dtype;
  found.batches = 1;
  found.heads = 1;
  found.rows = 1;
  found.width = 1;
  const Dims strides = strides_bytes(view);
  for (int axis = 0; axis < view.dims.size(); ++axis) {
    const int64_t size = view.dims[axis];
    switch (layout[static_cast<size_t>(axis)]) {
      case 'B':
        found.batches = size;
        found.batch_stride = strides[axis];
        break;
      case 'N':
        found.heads = size;
        found.head_stride = strides[axis];
        break;
      case 'S':
      case 'T':
        found.rows = size;
        found.row_stride = strides[axis];
        break;
      case 'D':
        found.width = size;
        found.element_stride = strides[axis];
        break;
      case 'H':
        if (heads <= 0 || size % heads != 0) return false;
        found.heads = heads;
        found.width = size / heads;
        found.element_stride = strides[axis];
        found.head_stride = found.width * strides[axis];
        break;
      default: return false;
    }
  }
  *result = found;
  return true;
}

void read_rows(const HeadView& view, int64_t batch, int64_t head, int64_t first, int64_t count, Block rows) {
  const Loader<float> load = loader_of<float>(view.dtype);
  for (int64_t row = 0; row < count; ++row) {
    float* to = rows.data + row * rows.stride;
    const float* values = load(view.at(batch, head, first + row), view.element_stride, view.width, to);
    if (values != to) std::copy_n(values, view.width, to);
  }
}

void write_rows(const HeadView& view, int64_t batch, int64_t head, int64_t first, int64_t count, ConstBlock rows) {
  const Storer<float> store = storer_of<float>(view.dtype);
  for (int64_t row = 0; row < count; ++row) {
    store(view.at(batch, head, first + row), view.element_stride, view.width, rows.data + row * rows.stride);
  }
}

void clear_view(const TensorView& view) {
  if (!view.defined || view.numel() == 0) return;
  const int64_t size = bytes_of(view.dtype, 1);
  StridedWalk walk(view.dims);
  walk.add(view);
  walk.for_each_run([&](char* const* pointers, const int64_t* strides, int64_t count) {
    if (strides[0] == size) {
      std::memset(pointers[0], 0, static_cast<size_t>(count * size));
    } else {
      for (int64_t k = 0; k < count; ++k) std::memset(pointers[0] + k * strides[0], 0, static_cast<size_t>(size));
    }
  });
}

}  // namespace drydock::ops::kernels::attention
