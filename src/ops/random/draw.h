#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/thread_pool.h"
#include "ops/kernel_access.h"
#include "ops/random/philox.h"

// What random kernels share: where a call's seed and offset are, and results that are drawn element by element.

namespace drydock::ops::kernels {

/// Seed and offset as the n-th and following integer arguments.
Philox generator_of_integers(const KernelCall& call, int first);
/// Seed and offset as the last two operands, plus an integer argument: the form that captured graphs use.
Status generator_of_tensors(const KernelCall& call, int offset_argument, Philox* generator);

/// Elements that one thread draws at least.
inline constexpr int64_t kDrawGrain = 1 << 13;

/// out = op(drawn, inputs...) element by element; inputs are broadcast to out. `draw(first, count, D* buffer)` gives
/// the drawn values of the elements from `first` on, in row-major order; any thread may call it. False if a shape does
/// not fit.
template <class C, class D, size_t N, class Draw, class Op>
bool map_drawn(const TensorView& out, const std::array<const TensorView*, N>& inputs, Draw&& draw, Op&& op) {
  StridedWalk walk(out.dims);
  if (!walk.add(out)) return false;
  std::array<Loader<C>, N> loaders{};
  for (size_t i = 0; i < N; ++i) {
    if (!walk.add(*inputs[i])) return false;
    loaders[i] = loader_of<C>(inputs[i]->dtype);
  }
  const Storer<C> store = storer_of<C>(out.dtype);
  uint64_t element = 0;
  walk.for_each_run([&](char* const* pointers, const int64_t* strides, int64_t count) {
    base::parallel_for(count, kDrawGrain, [&](int64_t begin, int64_t end) {
      D drawn[kChunk];
      C buffers[N + 1][kChunk];
      C* results = buffers[N];
      for (int64_t done = begin; done < end; done += kChunk) {
        const int64_t length = std::min(kChunk, end - done);
        draw(element + static_cast<uint64_t>(done), length, static_cast<D*>(drawn));
        std::array<const C*, N> values{};
        for (size_t i = 0; i < N; ++i) {
          values[i] = loaders[i](pointers[i + 1] + done * strides[i + 1], strides[i + 1], length, buffers[i]);
        }
        [&]<size_t... I>(std::index_sequence<I...>) {
          for (int64_t k = 0; k < length; ++k) results[k] = static_cast<C>(op(drawn[k], values[I][k]...));
        }
        (std::make_index_sequence<N>());
        store(pointers[0] + done * strides[0], strides[0], length, results);
      }
    });
    element += static_cast<uint64_t>(count);
  });
  return true;
}

}  // namespace drydock::ops::kernels
