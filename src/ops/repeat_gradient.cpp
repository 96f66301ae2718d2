#include "base/thread_pool.h"
#include "ops/reduce.h"
#include "ops/spatial/planes.h"

// The gradient of an operator that reads elements more than once.

namespace drydock::ops::kernels {

/// Operands: the gradient and the repetitions along the axis, one number for all or one for each element. Output
/// element i along the axis is the sum of the gradients of its copies.
Status repeat_interleave_grad(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 2, 1));
  const TensorView& grad = call.operand(0);
  const TensorView& repeats = call.operand(1);
  const TensorView& out = call.output(0);
  int axis = 0;
  DRYDOCK_RETURN_IF_ERROR(wrap_dim(call, call.integer(0), grad.dims.size(), &axis));
  if (grad.dims.empty() || repeats.dims.size() > 1 || is_floating(repeats.dtype)) {
    return invalid(call, "yGrad needs a dimension, repeats must be a vector of integers");
  }
  if (!is_floating(grad.dtype)) return not_computed(call, "gradients of integers are not computed");
  const int64_t length = grad.dims[axis];
  std::vector<int64_t> counts;
  for_each_value<int64_t>(repeats, [&](int64_t count) { counts.push_back(count); });
  if (counts.size() == 1 && counts[0] > 0) counts.assign(static_cast<size_t>(length / counts[0]), counts[0]);
  int64_t total = 0;
  for (int64_t count : counts) {
    if (count < 0 || count > length - total) return invalid(call, "repeats must add up to the size of the axis");
    total += count;
  }
  int64_t others = 1;
  for (int other = 0; other < grad.dims.size(); ++other) others *= other == axis ? 1 : grad.dims[other];
  const auto outputs = static_cast<int64_t>(counts.size());
  if (total != length || out.numel() != others * outputs) {
    return invalid(call, "repeats must add up to the size of the axis, and the output have an element for each");
  }
  // Any shape of as many elements will do for the output: it is the result of the axis' reduction in row-major order.
  Dims result_dims = grad.dims;
  result_dims[axis] = outputs;
  return with_floating_type(compute_type_of(grad.dtype), [&]<class C>() {
    std::vector<C> results(static_cast<size_t>(out.numel()));
    const TensorView result =
        contiguous_view(results.data(), std::is_same_v<C, double> ? DataType::kDouble : DataType::kFloat, result_dims);
    const Rows from(grad, axis);
    const Rows to(result, axis);
    base::parallel_for(from.count(), plane_grain(length), [&](int64_t begin, int64_t end) {
      const auto buffer = scratch<C>(length);
      const auto sums = scratch<C>(outputs);
      for (int64_t row = begin; row < end; ++row) {
        const C* values = length > 0 ? from.read<C>(row, buffer.get()) : buffer.get();
        for (size_t k = 0; k < counts.size(); ++k) {
          C sum{};
          for (int64_t copy = 0; copy < counts[k]; ++copy) sum += *values++;
          sums[k] = sum;
        }
        to.write<C>(row, sums.get());
      }
    });
    return write_all(call, out, results);
  });
}

}  // namespace drydock::ops::kernels
