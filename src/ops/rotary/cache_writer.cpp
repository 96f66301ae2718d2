#include "ops/rotary/cache_writer.h"

#include <algorithm>
#include <cmath>

#include "ops/rotary/rotary.h"
#include "ops/shapes.h"

namespace drydock::ops::kernels::rotary {

namespace {
constexpr int64_t kChunkBytes = 32;
}

bool CacheWriter::set(const TensorView& cache, Arrangement arrangement) {
  if (!cache.defined || cache.dims.size() != 4) return false;
  cache_ = cache;
  strides_ = strides_bytes(cache);
  arrangement_ = arrangement;
  width_ = cache.dims[3];
  chunk_ = width_;
  if (arrangement == Arrangement::kBatch) {
    heads_ = cache.dims[1];
    slots_ = cache.dims[2];
    return true;
  }
  heads_ = cache.dims[2];
  block_size_ = cache.dims[1];
  slots_ = cache.dims[0] * block_size_;
  if (arrangement == Arrangement::kBlocks) return block_size_ > 0;
  chunk_ = kChunkBytes / bytes_of(cache.dtype, 1);
  return block_size_ > 0 && heads_ == 1 && width_ % chunk_ == 0 && is_contiguous(cache);
}

bool CacheWriter::set_merged_chunks(const TensorView& cache, int64_t heads, int64_t width) {
  if (!cache.defined || cache.dims.size() != 4) return false;
  cache_ = cache;
  strides_ = strides_bytes(cache);
  arrangement_ = Arrangement::kChunks;
  heads_ = heads;
  width_ = width;
  chunk_ = cache.dims[3];
  block_size_ = cache.dims[2];
  slots_ = cache.dims[0] * block_size_;
  return chunk_ > 0 && block_size_ > 0 && width % chunk_ == 0 && cache.dims[1] * chunk_ == heads * width &&
         is_contiguous(cache);
}

bool CacheWriter::set_rounding(Rounding rounding, const TensorView& scales, const TensorView& offsets) {
  rounding_ = rounding;
  const auto read = [&](const TensorView& view, std::vector<float>* values) {
    for_each_value<float>(view, [&](float value) { values->push_back(value); });
    const int64_t count = static_cast<int64_t>(values->size());
    if (count == 1) values->assign(static_cast<size_t>(heads_ * width_), values->front());
    if (count == width_ && heads_ > 1) {
      for (int64_t head = 1; head < heads_; ++head) {
        for (int64_t k = 0; k < width_; ++k) values->push_back((*values)[static_cast<size_t>(k)]);
      }
    }
    return static_cast<int64_t>(values->size()) == heads_ * width_;
  };
  return scales.defined && read(scales, &scales_) && (!offsets.defined || read(offsets, &offsets_));
}

char* CacheWriter::element(int64_t batch, int64_t slot, int64_t head, int64_t at) const {
  if (arrangement_ == Arrangement::kBatch) {
    return cache_.data + batch * strides_[0] + head * strides_[1] + slot * strides_[2] + at * strides_[3];
  }
  const int64_t block = slot / block_size_;
  const int64_t row = slot % block_size_;
  if (arrangement_ == Arrangement::kBlocks) {
    return cache_.data + block * strides_[0] + row * strides_[1] + head * strides_[2] + at * strides_[3];
  }
  const int64_t in_row = head * width_ + at;
  const int64_t number =
      (block * heads_ * width_ + in_row / chunk_ * chunk_) * block_size_ + row * chunk_ + in_row % chunk_;
  return cache_.data + number * bytes_of(cache_.dtype, 1);
}

void CacheWriter::write(int64_t batch, int64_t slot, int64_t head, const float* values) const {
  std::vector<float> rounded;
  if (rounding_ != Rounding::kNone) {
    rounded.resize(static_cast<size_t>(width_));
    for (size_t k = 0; k < rounded.size(); ++k) {
      const size_t at = static_cast<size_t>(head * width_) + k;
      const float scaled = rounding_ == Rounding::kMultiply ? values[k] * scales_[at] : values[k] / scales_[at];
      rounded[k] = std::clamp(std::nearbyint(scaled + (offsets_.empty() ? 0.0f : offsets_[at])), -128.0f, 127.0f);
    }
    values = rounded.data();
  }
  const Storer<float> store = storer_of<float>(cache_.dtype);
  const int64_t stride = arrangement_ == Arrangement::kChunks ? bytes_of(cache_.dtype, 1) : strides_[3];
  for (int64_t at = 0; at < width_; at += chunk_) {
    store(element(batch, slot, head, at), stride, std::min(chunk_, width_ - at), values + at);
  }
}

std::vector<float> floats_of(const TensorView& view) {
  std::vector<float> values;
  if (view.defined) for_each_value<float>(view, [&](float value) { values.push_back(value); });
  return values;
}

Status Slots::set(const KernelCall& call, const TensorView& index, int64_t batches, int64_t length, int64_t block_size,
                  bool by_block, int64_t limit) {
  length_ = length;
  block_size_ = block_size;
  by_block_ = by_block;
  const int64_t per_batch = by_block ? (length + block_size - 1) / block_size : length;
  if (!index.defined || is_floating(index.dtype) || index.numel() != batches * per_batch) {
    return invalid(call, "index must hold " + std::to_string(batches * per_batch) + " numbers, not " + sizes_of(index));
  }
  Status status = Status::ok();
  for_each_value<int64_t>(index, [&](int64_t slot) {
    if (status.is_ok() && (slot < -1 || slot >= limit)) {
      status = device_fault(
          call, "index " + std::to_string(slot) + " is beyond the cache's " + std::to_string(limit) + " rows");
    }
    slots_.push_back(slot);
  });
  return status;
}

int64_t Slots::of(int64_t batch, int64_t row) const {
  if (!by_block_) return slots_[static_cast<size_t>(batch * length_ + row)];
  const int64_t per_batch = (length_ + block_size_ - 1) / block_size_;
  const int64_t start = slots_[static_cast<size_t>(batch * per_batch + row / block_size_)];
  return start < 0 ? -1 : start / block_size_ * block_size_ + row % block_size_;
}

}  // namespace drydock::ops::kernels::rotary
