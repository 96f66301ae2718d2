#pragma once

#include <array>
#include <vector>

#include "base/instruction_set.h"
#include "base/thread_pool.h"
#include "ops/elementwise.h"
#include "ops/norm/row_access.h"
#include "ops/shapes.h"

// Losses that are a function of elements, reduced to a mean or a sum or not at all, and their gradients.

namespace drydock::ops::kernels {

/// As PyTorch numbers them.
enum class Reduction : int64_t { kNone = 0, kMean = 1, kSum = 2 };

Status reduction_of(const KernelCall& call, int64_t value, Reduction* reduction);
/// By name: none, mean or sum.
Status reduction_of(const KernelCall& call, std::string_view name, Reduction* reduction);

/// The shape that all views broadcast to.
template <size_t N>
bool common_dims(const std::array<const TensorView*, N>& views, Dims* dims) {
  *dims = views[0]->dims;
  for (size_t i = 1; i < N; ++i) {
    if (!broadcast_dims(*dims, views[i]->dims, dims)) return false;
  }
  return true;
}

/// Sum of op(elements...) over runs of compute values.
template <class C, size_t N, class Op>
double sum_run(const std::array<const C*, N>& values, int64_t length, const Op& op) {
  double total = 0;
  base::vectorized([=, &op, &total] {
    const Op own = op;
    [&]<size_t... I>(std::index_sequence<I...>) {
      const std::array<const C*, N> at = values;
      total = sum_of<C>(length, [&](int64_t k) { return static_cast<C>(own(at[I][k]...)); });
    }
    (std::make_index_sequence<N>());
  });
  return total;
}

/// Sum of op(elements...) over contiguous elements.
template <class C, size_t N, class Op>
double sum_contiguous(const std::array<const TensorView*, N>& views, int64_t count, Op& op) {
  constexpr int64_t kBlock = 65536;  // of one thread; a multiple of kChunk
  std::array<Loader<C>, N> loaders{};
  std::array<int64_t, N> sizes{};
  for (size_t i = 0; i < N; ++i) {
    loaders[i] = loader_of<C>(views[i]->dtype);
    sizes[i] = bytes_of(views[i]->dtype, 1);
  }
  const int64_t blocks = (count + kBlock - 1) / kBlock;
  std::vector<double> sums(static_cast<size_t>(blocks));
  base::parallel_for(blocks, 1, [&](int64_t begin, int64_t end) {
    C buffers[N][kChunk];
    for (int64_t block = begin; block < end; ++block) {
      double total = 0;
      const int64_t last = std::min(count, (block + 1) * kBlock);
      for (int64_t at = block * kBlock; at < last; at += kChunk) {
        const int64_t length = std::min(kChunk, last - at);
        std::array<const C*, N> values{};
        for (size_t i = 0; i < N; ++i) {
          values[i] = loaders[i](views[i]->data + at * sizes[i], sizes[i], length, buffers[i]);
        }
        total += sum_run<C, N>(values, length, op);
      }
      sums[static_cast<size_t>(block)] = total;
    }
  });
  double total = 0;
  for (double sum : sums) total += sum;
  return total;
}

/// Sum of op(elements...) over views that are broadcast to `dims`.
template <class C, size_t N, class Op>
double sum_strided(const std::array<const TensorView*, N>& views, const Dims& dims, Op& op) {
  StridedWalk walk(dims);
  std::array<Loader<C>, N> loaders{};
  for (size_t i = 0; i < N; ++i) {
    walk.add(*views[i]);
    loaders[i] = loader_of<C>(views[i]->dtype);
  }
  double total = 0;
  walk.for_each_run([&](char* const* pointers, const int64_t* strides, int64_t count) {
    C buffers[N][kChunk];
    for (int64_t at = 0; at < count; at += kChunk) {
      const int64_t length = std::min(kChunk, count - at);
      std::array<const C*, N> values{};
      for (size_t i = 0; i < N; ++i) {
        values[i] = loaders[i](pointers[i] + at * strides[i], strides[i], length, buffers[i]);
      }
      total += sum_run<C, N>(values, length, op);
    }
  });
  return total;
}

/// output(0) = op(views...) element by element, or the sum or mean of that over the shape they broadcast to.
template <size_t N, class Op>
Status reduced_loss(KernelCall& call, Reduction reduction, const std::array<const TensorView*, N>& views, Op op) {
  const TensorView& out = call.output(0);
  Dims dims;
  bool contiguous = true;
  for (const TensorView* view : views) contiguous = contiguous && is_contiguous(*view);
  if (!common_dims(views, &dims)) return shapes_do_not_fit(call);
  for (const TensorView* view : views) contiguous = contiguous && view->dims == dims;
  return with_floating_type(floating_type_of({views[0], views[1], &out}), [&]<class C>() {
    if (reduction == Reduction::kNone) {
      std::array<DataType, N> rounds{};
      rounds.fill(DataType::kUndefined);
      return map_elements<C, N>(out, views, rounds, op) ? Status::ok() : shapes_do_not_fit(call);
    }
    if (out.numel() != 1) return invalid(call, "a reduced loss has one element");
    const int64_t count = dims.product();
    const double sum = contiguous ? sum_contiguous<C, N>(views, count, op) : sum_strided<C, N>(views, dims, op);
    set_value<double>(out, reduction == Reduction::kMean ? sum / static_cast<double>(count) : sum);
    return Status::ok();
  });
}

/// output(0) = op(views...) times 1 / number of elements if the loss is a mean.
template <size_t N, class Op>
Status loss_gradient(KernelCall& call, Reduction reduction, const std::array<const TensorView*, N>& views, Op op) {
  const TensorView& out = call.output(0);
  const double factor = reduction == Reduction::kMean ? 1 / static_cast<double>(out.numel()) : 1;
  return with_floating_type(floating_type_of({views[0], views[1], &out}), [&]<class C>() {
    const C scale = static_cast<C>(factor);
    std::array<DataType, N> rounds{};
    rounds.fill(DataType::kUndefined);
    const auto scaled = [&](auto... values) -> C { return op(values...) * scale; };
    return map_elements<C, N>(out, views, rounds, scaled) ? Status::ok() : shapes_do_not_fit(call);
  });
}

}  // namespace drydock::ops::kernels
