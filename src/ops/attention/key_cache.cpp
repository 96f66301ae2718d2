#include "ops/attention/key_cache.h"

#include <algorithm>

namespace drydock::ops::kernels::attention {

void Dequantization::apply(int64_t batch, int64_t head, int64_t token, int64_t width, float* row) const {
  int64_t first = 0;
  switch (kind) {
    case Kind::kNone: return;
    case Kind::kTensor: break;
    case Kind::kChannel: first = head * width; break;
    case Kind::kHead: first = head; break;
    case Kind::kToken: first = batch * tokens_per_batch + token; break;
  }
  const bool by_channel = kind == Kind::kChannel;
  for (int64_t k = 0; k < width; ++k) {
    const size_t at = static_cast<size_t>(by_channel ? first + k : first);
    row[k] = (row[k] + (offsets.empty() ? 0.0f : offsets[at])) * scales[at];
  }
}

bool KeyCache::set_tensors(std::span<const TensorView> tensors, std::string_view layout, int64_t heads) {
  tensors_.clear();
  if (tensors.empty()) return false;
  for (const TensorView& tensor : tensors) {
    HeadView view;
    if (!head_view(tensor, layout, heads, &view)) return false;
    if (!tensors_.empty() && (view.heads != first().heads || view.width != first().width || view.batches != 1 ||
                              first().batches != 1 || view.dtype != first().dtype)) {
      return false;
    }
    tensors_.push_back(view);
  }
  is_list_ = tensors.size() > 1;
  width_ = first().width;
  chunk_ = width_;
  return true;
}

bool KeyCache::set_blocks(const TensorView& view, int64_t block_size, int64_t heads) {
  if (!view.defined || view.dims.size() < 3 || view.dims.size() > 5 || block_size <= 0 || heads <= 0) return false;
  HeadView blocks;
  if (view.dims.size() == 3) {
    if (!head_view(view, "BSH", heads, &blocks)) return false;
  } else if (view.dims.size() == 4) {
    const bool heads_first = view.dims[1] == heads && view.dims[2] == block_size;
    if (!head_view(view, heads_first ? "BNSD" : "BSND", heads, &blocks)) return false;
  } else {
    // [blocks, heads, chunks, block_size, chunk]
    const Dims strides = strides_bytes(view);
    blocks.data = view.data;
    blocks.dtype = view.dtype;
    blocks.batches = view.dims[0];
    blocks.heads = view.dims[1];
    blocks.rows = view.dims[3];
    blocks.width = view.dims[4];
    blocks.batch_stride = strides[0];
    blocks.head_stride = strides[1];
    blocks.row_stride = strides[3];
    blocks.element_stride = strides[4];
    chunk_stride_ = strides[2];
  }
  if (blocks.rows != block_size || blocks.heads != heads) return false;
  tensors_ = {blocks};
  chunk_ = blocks.width;
  width_ = view.dims.size() == 5 ? blocks.width * view.dims[2] : blocks.width;
  return true;
}

bool KeyCache::set_prefix(const TensorView& view, std::string_view layout, int64_t heads, int64_t length) {
  if (!head_view(view, layout, heads, &prefix_)) return false;
  prefix_length_ = length < 0 ? prefix_.rows : length;
  return prefix_.batches == 1 && prefix_.heads == first().heads && prefix_.width == width_ &&
         prefix_length_ <= prefix_.rows && prefix_.dtype == first().dtype;
}

bool KeyCache::has_shape_of(const KeyCache& other) const {
  if (tensors_.size() != other.tensors_.size() || prefix_length_ != other.prefix_length_) return false;
  for (size_t k = 0; k < tensors_.size(); ++k) {
    const HeadView& a = tensors_[k];
    const HeadView& b = other.tensors_[k];
    if (a.batches != b.batches || a.heads != b.heads || a.rows != b.rows) return false;
  }
  return true;
}

void KeyCache::read_elements(const HeadView& view, const char* from, int64_t width, float* to) const {
  const Loader<float> load = loader_of<float>(view.dtype);
  const int64_t chunk = std::max<int64_t>(1, std::min(chunk_, width));
  for (int64_t done = 0; done < width; done += chunk) {
    const float* values = load(from + done / chunk * chunk_stride_, view.element_stride, chunk, to + done);
    if (values != to + done) std::copy_n(values, chunk, to + done);
  }
}

void KeyCache::read(int64_t sequence, int64_t batch, int64_t first_row, int64_t head, int64_t token, float* to) const {
  if (token < prefix_length_) {
    read_elements(prefix_, prefix_.at(0, head, token), width_, to);
  } else {
    const int64_t row = first_row + token - prefix_length_;
    if (!table_.empty()) {
      const int64_t block = table_[static_cast<size_t>(sequence)][static_cast<size_t>(row / block_size())];
      read_elements(first(), first().at(block, head, row % block_size()), width_, to);
    } else if (is_list_) {
      const HeadView& own = tensors_[static_cast<size_t>(sequence)];
      read_elements(own, own.at(0, head, row), width_, to);
    } else {
      read_elements(first(), first().at(batch, head, row), width_, to);
    }
  }
  dequantization_.apply(sequence, head, token, width_, to);
}

}  // namespace drydock::ops::kernels::attention
