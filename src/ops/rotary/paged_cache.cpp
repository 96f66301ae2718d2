#include <algorithm>
#include <string>
#include <vector>

#include "ops/kernel_call.h"
#include "ops/rotary/rotary.h"
#include "ops/shapes.h"

// aclnnScatterPaKvCache and aclnnGatherPaKvCache: rows of keys and values into the blocks of a cache and back, as
// bytes.

namespace drydock::ops::kernels {

namespace {

/// The place of a row's elements in a cache of blocks: runs of `run` bytes, `run_stride` apart.
struct BlockRows {
  char* data = nullptr;
  int64_t slots = 0;
  int64_t block_size = 0;
  int64_t block_stride = 0;
  int64_t row_stride = 0;
  int64_t runs = 0;
  int64_t run = 0;
  int64_t run_stride = 0;

  char* row(int64_t slot) const { return data + slot / block_size * block_stride + slot % block_size * row_stride; }
};

/// `by_head`: [blocks, heads, block size, width]; `chunked`: [blocks, heads * width / n, block size, n], also with
/// heads apart; else [blocks, block size, heads, width]. False if the cache is not dense or does not hold rows of this
/// size.
bool block_rows(const TensorView& cache, bool chunked, bool by_head, int64_t row_elements, BlockRows* rows) {
  if (!cache.defined || cache.dims.size() < 4 || cache.dims.size() > 5 || cache.numel() == 0 || !is_contiguous(cache) ||
      (cache.dims.size() == 5 && !chunked)) {
    return false;
  }
  const int64_t size = bytes_of(cache.dtype, 1);
  const int last = cache.dims.size() - 1;
  rows->data = cache.data;
  rows->block_stride = cache.numel() / cache.dims[0] * size;
  if (chunked || by_head) {
    rows->block_size = cache.dims[last - 1];
    rows->run = cache.dims[last] * size;
    rows->row_stride = rows->run;
    rows->run_stride = rows->run * rows->block_size;
    rows->runs = rows->block_stride / rows->run_stride;
  } else {
    rows->block_size = cache.dims[1];
    rows->run = cache.dims[2] * cache.dims[3] * size;
    rows->row_stride = rows->run;
    rows->runs = 1;
  }
  rows->slots = cache.dims[0] * rows->block_size;
  return rows->runs * rows->run == row_elements * size;
}

void copy_runs(char* to, int64_t to_stride, const char* from, int64_t from_stride, int64_t runs, int64_t run) {
  for (int64_t k = 0; k < runs; ++k) std::copy_n(from + k * from_stride, run, to + k * to_stride);
}

/// The rows of [tokens, ...] as dense bytes.
bool token_rows(const TensorView& view, int64_t* elements) {
  if (!view.defined || view.dims.size() < 2) return false;
  *elements = view.dims[0] == 0 ? 0 : view.numel() / view.dims[0];
  return true;
}

Status scatter_rows(const KernelCall& call, const TensorView& from, const TensorView& cache,
                    const std::vector<int64_t>& slots, bool chunked, bool by_head) {
  int64_t elements = 0;
  BlockRows rows;
  if (!token_rows(from, &elements) || from.dtype != cache.dtype || from.dims[0] != static_cast<int64_t>(slots.size()) ||
      !block_rows(cache, chunked, by_head, elements, &rows)) {
    return invalid(call, "rows " + sizes_of(from) + " do not fit the cache " + sizes_of(cache) + " and " +
                             std::to_string(slots.size()) + " slots");
  }
  for (int64_t slot : slots) {
    if (slot >= rows.slots) {
      return device_fault(
          call, "slot " + std::to_string(slot) + " is beyond the cache's " + std::to_string(rows.slots) + " rows");
    }
  }
  const int64_t size = bytes_of(from.dtype, 1);
  std::vector<char> buffer(static_cast<size_t>(elements * size));
  for (size_t token = 0; token < slots.size(); ++token) {
    if (slots[token] < 0) continue;  // a token of padding
    const TensorView row = select(from, 0, static_cast<int64_t>(token));
    copy_view(contiguous_view(buffer.data(), from.dtype, row.dims), row);
    copy_runs(rows.row(slots[token]), rows.run_stride, buffer.data(), rows.run, rows.runs, rows.run);
  }
  return Status::ok();
}

Status gather_rows(const KernelCall& call, const TensorView& cache, const TensorView& to,
                   const std::vector<int64_t>& slots, bool chunked) {
  int64_t elements = 0;
  BlockRows rows;
  if (!token_rows(to, &elements) || to.dtype != cache.dtype || to.dims[0] < static_cast<int64_t>(slots.size()) ||
      !block_rows(cache, chunked, false, elements, &rows)) {
    return invalid(call, "rows " + sizes_of(to) + " do not fit the cache " + sizes_of(cache) + " and " +
                             std::to_string(slots.size()) + " tokens");
  }
  const int64_t size = bytes_of(to.dtype, 1);
  std::vector<char> buffer(static_cast<size_t>(elements * size));
  for (size_t token = 0; token < slots.size(); ++token) {
    const TensorView row = select(to, 0, static_cast<int64_t>(token));
    copy_runs(buffer.data(), rows.run, rows.row(slots[token]), rows.run_stride, rows.runs, rows.run);
    copy_view(row, contiguous_view(buffer.data(), to.dtype, row.dims));
  }
  return Status::ok();
}

std::vector<int64_t> integers_of(const TensorView& view) {
  std::vector<int64_t> values;
  if (view.defined) for_each_value<int64_t>(view, [&](int64_t value) { values.push_back(value); });
  return values;
}

bool cache_is_chunked(std::string_view mode, bool* chunked) {
  *chunked = mode == "PA_NZ";
  return *chunked || mode.empty() || mode == "Norm";
}

}  // namespace

Status scatter_paged_cache(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect_defined(call, 3, 1));
  const TensorView& key = call.operand(0);
  const TensorView& value = call.operand(3);
  bool chunked = false;
  if (!cache_is_chunked(call.text(0), &chunked)) return invalid(call, "cacheMode " + std::string(call.text(0)));
  const std::string_view mode = call.text(1);
  const bool by_head = mode == "NHSD";
  for (int optional : {5, 6, 7}) {
    if (call.operand(optional).defined && call.operand(optional).numel() > 0) {
      return not_computed(call, "no kernel for compressed keys");
    }
  }
  if (!mode.empty() && mode != "None" && !by_head) {
    return not_computed(call, "no kernel for scatterMode " + std::string(mode));
  }
  if (key.dims.size() != 3)
    return not_computed(call, "no kernel for keys of " + std::to_string(key.dims.size()) + " dimensions");
  const std::vector<int64_t> slots = integers_of(call.operand(2));
  DRYDOCK_RETURN_IF_ERROR(scatter_rows(call, key, call.output(0), slots, chunked, by_head));
  if (!value.defined || value.numel() == 0) return Status::ok();
  return scatter_rows(call, value, call.output(1), slots, chunked, by_head);
}

Status gather_paged_cache(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect_defined(call, 6, 2));
  const TensorView& key_cache = call.operand(0);
  const TensorView& tables = call.operand(2);
  bool chunked = false;
  if (!cache_is_chunked(call.text(0), &chunked)) return invalid(call, "cacheMode " + std::string(call.text(0)));
  if (tables.dims.size() != 2 || key_cache.dims.size() < 4) {
    return invalid(call, "blockTables must be [batch, blocks], not " + sizes_of(tables));
  }
  const int64_t block_size = chunked ? key_cache.dims[key_cache.dims.size() - 2] : key_cache.dims[1];
  const bool cumulated = call.boolean(0);
  const std::vector<int64_t> lengths = integers_of(call.operand(3));
  const std::vector<int64_t> offsets = integers_of(call.operand(6));
  const std::vector<int64_t> table = integers_of(tables);
  const int64_t batches = tables.dims[0];
  if (block_size <= 0 || static_cast<int64_t>(lengths.size()) != batches + (cumulated ? 1 : 0) ||
      (!offsets.empty() && static_cast<int64_t>(offsets.size()) != batches)) {
    return invalid(call, "seqLens and seqOffset do not fit " + std::to_string(batches) + " sequences");
  }
  std::vector<int64_t> slots;
  for (int64_t batch = 0; batch < batches; ++batch) {
    const size_t at = static_cast<size_t>(batch);
    const int64_t length = cumulated ? lengths[at + 1] - lengths[at] : lengths[at];
    const int64_t skipped = offsets.empty() ? 0 : offsets[at] / block_size;
    if (length < 0 || skipped < 0 || skipped + (length + block_size - 1) / block_size > tables.dims[1]) {
      return invalid(call,
                     "a sequence of " + std::to_string(length) + " tokens needs more blocks than blockTables has");
    }
    for (int64_t token = 0; token < length; ++token) {
      const int64_t block = table[static_cast<size_t>(batch * tables.dims[1] + skipped + token / block_size)];
      if (block < 0 || block >= key_cache.dims[0] || block >= call.operand(1).dims[0]) {
        return device_fault(call, "block " + std::to_string(block) + " does not exist");
      }
      slots.push_back(block * block_size + token % block_size);
    }
  }
  DRYDOCK_RETURN_IF_ERROR(gather_rows(call, key_cache, call.output(0), slots, chunked));
  return gather_rows(call, call.operand(1), call.output(1), slots, chunked);
}

}  // namespace drydock::ops::kernels
