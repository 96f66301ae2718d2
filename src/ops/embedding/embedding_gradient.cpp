#include <vector>

#include "base/thread_pool.h"
#include "ops/index.h"
#include "ops/spatial/planes.h"

// The gradient of an embedding's weight.

namespace drydock::ops::kernels {
namespace {

constexpr int64_t kNoRow = -1;

/// The row of the weight that each index names, kNoRow for the padding.
Status rows_of_weight(const KernelCall& call, const TensorView& index, int64_t rows, int64_t padding,
                      std::vector<int64_t>* chosen) {
  if (is_floating(index.dtype)) return not_computed(call, "indices of floating types are not computed");
  Status status = Status::ok();
  chosen->reserve(static_cast<size_t>(index.numel()));
  for_each_value<int64_t>(index, [&](int64_t value) {
    if (value == padding) {
      value = kNoRow;
    } else if ((value < 0 || value >= rows) && status.is_ok()) {
      status = device_fault(
          call, "index " + std::to_string(value) + " is outside a weight of " + std::to_string(rows) + " rows");
    }
    chosen->push_back(value);
  });
  return status;
}

}  // namespace

/// Operands: grad and indices. Row r of the output is the sum of the gradients whose index is r, in their order.
Status embedding_dense_backward(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 2, 1));
  const TensorView& grad = call.operand(0);
  const TensorView& out = call.output(0);
  const int64_t count = call.integer(0);
  if (grad.dims.empty() || out.dims.size() != 2 || out.dims[0] != count ||
      out.dims[1] != grad.dims[grad.dims.size() - 1]) {
    return invalid(call, "the output must have numWeights rows of the width of the gradient");
  }
  if (!is_floating(grad.dtype)) return not_computed(call, "gradients of integers are not computed");
  const Rows grads(grad, grad.dims.size() - 1);
  if (grads.count() != call.operand(1).numel()) return invalid(call, "grad must have a row for each index");
  std::vector<int64_t> chosen;
  DRYDOCK_RETURN_IF_ERROR(rows_of_weight(call, call.operand(1), count, call.integer(1), &chosen));
  // The gradients of each row one behind the other.
  std::vector<int64_t> first(static_cast<size_t>(count) + 1);
  for (int64_t row : chosen) {
    if (row != kNoRow) ++first[static_cast<size_t>(row) + 1];
  }
  for (size_t row = 1; row < first.size(); ++row) first[row] += first[row - 1];
  std::vector<int64_t> sources(static_cast<size_t>(first.back()));
  std::vector<int64_t> next(first.begin(), first.end() - 1);
  for (size_t k = 0; k < chosen.size(); ++k) {
    if (chosen[k] == kNoRow) continue;
    sources[static_cast<size_t>(next[static_cast<size_t>(chosen[k])]++)] = static_cast<int64_t>(k);
  }
  const bool scales = call.boolean(0);
  const Planes to(out, 1);
  const int64_t width = out.dims[1];
  return with_floating_type(compute_type_of(grad.dtype), [&]<class C>() {
    base::parallel_for(count, plane_grain(width), [&](int64_t begin, int64_t end) {
      const auto own_sum = scratch<C>(width);
      const auto buffer = scratch<C>(width);
      for (int64_t row = begin; row < end; ++row) {
        C* const sum = to.target<C>(row, own_sum.get());
        std::fill_n(sum, width, C{0});
        const int64_t last = first[static_cast<size_t>(row) + 1];
        const int64_t start = first[static_cast<size_t>(row)];
        for (int64_t k = start; k < last; ++k) {
          const C* values = grads.read<C>(sources[static_cast<size_t>(k)], buffer.get());
          for (int64_t x = 0; x < width; ++x) sum[x] += values[x];
        }
        if (scales && last > start) {
          for (int64_t x = 0; x < width; ++x) sum[x] /= static_cast<C>(last - start);
        }
        to.write_back<C>(row, sum);
      }
    });
    return Status::ok();
  });
}

}  // namespace drydock::ops::kernels
