#pragma once

#include <algorithm>
#include <array>

#include "base/thread_pool.h"
#include "ops/kernel_access.h"
#include "ops/norm/row_access.h"
#include "ops/shapes.h"

// Optimizers update a parameter and its state together: several tensors of one shape, read, changed and written back.

namespace drydock::ops::kernels {

/// Calls `update(values, count)` for runs of elements of N views of one shape; `values[i]` are the elements of view i
/// as fp32, and what it leaves there is stored in the views that `written` names. Views may be undefined: their values
/// are then zeros. False if the shapes differ.
template <size_t N, class Update>
bool update_together(const std::array<const TensorView*, N>& views, const std::array<bool, N>& written,
                     Update&& update) {
  const Dims& dims = views[0]->dims;
  bool contiguous = true;
  std::array<Loader<float>, N> loaders{};
  std::array<Storer<float>, N> storers{};
  std::array<int64_t, N> sizes{};
  for (size_t i = 0; i < N; ++i) {
    if (!views[i]->defined) continue;
    if (!(views[i]->dims == dims)) return false;
    contiguous = contiguous && is_contiguous(*views[i]);
    loaders[i] = loader_of<float>(views[i]->dtype);
    storers[i] = storer_of<float>(views[i]->dtype);
    sizes[i] = bytes_of(views[i]->dtype, 1);
  }
  const auto run = [&](const std::array<char*, N>& starts, const std::array<int64_t, N>& strides, int64_t count) {
    float buffers[N][kChunk] = {};
    for (int64_t at = 0; at < count; at += kChunk) {
      const int64_t length = std::min(kChunk, count - at);
      std::array<float*, N> values{};
      for (size_t i = 0; i < N; ++i) {
        values[i] = buffers[i];
        if (loaders[i] == nullptr) continue;
        char* const from = starts[i] + at * strides[i];
        const float* loaded = loaders[i](from, strides[i], length, buffers[i]);
        // Where the elements are floats already, they are changed where they are.
        if (loaded != buffers[i] && written[i]) {
          values[i] = reinterpret_cast<float*>(from);
        } else if (loaded != buffers[i]) {
          std::copy_n(loaded, length, buffers[i]);
        }
      }
      update(values, length);
      for (size_t i = 0; i < N; ++i) {
        if (loaders[i] == nullptr || !written[i] || values[i] != buffers[i]) continue;
        storers[i](starts[i] + at * strides[i], strides[i], length, buffers[i]);
      }
    }
  };
  if (contiguous) {
    base::parallel_for(dims.product(), 16384, [&](int64_t begin, int64_t end) {
      std::array<char*, N> starts{};
      for (size_t i = 0; i < N; ++i) starts[i] = views[i]->defined ? views[i]->data + begin * sizes[i] : nullptr;
      run(starts, sizes, end - begin);
    });
    return true;
  }
  StridedWalk walk(dims);
  for (const TensorView* view : views) walk.add(view->defined ? *view : *views[0]);
  walk.for_each_run([&](char* const* pointers, const int64_t* strides, int64_t count) {
    std::array<char*, N> starts{};
    std::array<int64_t, N> steps{};
    for (size_t i = 0; i < N; ++i) {
      starts[i] = pointers[i];
      steps[i] = strides[i];
    }
    run(starts, steps, count);
  });
  return true;
}

}  // namespace drydock::ops::kernels
