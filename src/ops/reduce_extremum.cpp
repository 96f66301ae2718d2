#include "ops/elementwise.h"
#include "ops/kernel_call.h"
#include "ops/reduce.h"

// Maximum and minimum, with and without where they are. NaN counts as the extremum, the first of equals is reported.

namespace drydock::ops::kernels {
namespace {

template <bool Largest, class C>
int64_t place_of_extremum(const C* values, int64_t count) {
  int64_t place = 0;
  for (int64_t k = 1; k < count && !is_nan(values[place]); ++k) {
    const bool better = Largest ? values[k] > values[place] : values[k] < values[place];
    if (better || is_nan(values[k])) place = k;
  }
  return place;
}

/// Values of the extremum over `axes` into `value_output`, places into `place_output`; -1 for neither.
template <bool Largest>
Status extremum(KernelCall& call, const Dims& axes, int value_output, int place_output) {
  const Rows rows(call.operand(0), axes);
  DRYDOCK_RETURN_IF_ERROR(expect_rows_not_empty(call, rows));
  return with_compute_type(compute_type_of(call.operand(0).dtype), [&]<class C>() {
    std::vector<C> buffer(static_cast<size_t>(rows.length()));
    std::vector<C> values(static_cast<size_t>(rows.count()));
    std::vector<int64_t> places(values.size());
    for (size_t row = 0; row < values.size(); ++row) {
      const C* read = rows.read<C>(static_cast<int64_t>(row), buffer.data());
      places[row] = place_of_extremum<Largest>(read, rows.length());
      values[row] = read[places[row]];
    }
    if (value_output >= 0) DRYDOCK_RETURN_IF_ERROR(write_all(call, call.output(value_output), values));
    if (place_output >= 0) DRYDOCK_RETURN_IF_ERROR(write_all(call, call.output(place_output), places));
    return Status::ok();
  });
}

enum class Over { kAll, kDims, kDim };

Status prepare(const KernelCall& call, Over over, int outputs, Dims* axes) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 1, outputs));
  const int rank = call.operand(0).dims.size();
  if (over == Over::kDim) return single_axis(call, call.integer(0), axes);
  if (over == Over::kDims) return axes_of(call, call.ints(0), rank, axes);
  *axes = all_axes(rank);
  return Status::ok();
}

template <bool Largest>
Status extremum(KernelCall& call, Over over, int value_output, int place_output) {
  Dims axes;
  DRYDOCK_RETURN_IF_ERROR(prepare(call, over, value_output >= 0 && place_output >= 0 ? 2 : 1, &axes));
  return extremum<Largest>(call, axes, value_output, place_output);
}

Status both(KernelCall& call, Over over) {
  Dims axes;
  DRYDOCK_RETURN_IF_ERROR(prepare(call, over, 2, &axes));
  DRYDOCK_RETURN_IF_ERROR(extremum<false>(call, axes, 0, -1));
  return extremum<true>(call, axes, 1, -1);
}

}  // namespace

Status max_all(KernelCall& call) { return extremum<true>(call, Over::kAll, 0, -1); }
Status min_all(KernelCall& call) { return extremum<false>(call, Over::kAll, 0, -1); }
Status amax(KernelCall& call) { return extremum<true>(call, Over::kDims, 0, -1); }
Status amin(KernelCall& call) { return extremum<false>(call, Over::kDims, 0, -1); }
Status max_dim(KernelCall& call) { return extremum<true>(call, Over::kDim, 0, 1); }
Status min_dim(KernelCall& call) { return extremum<false>(call, Over::kDim, 0, 1); }
Status argmax(KernelCall& call) { return extremum<true>(call, Over::kDim, -1, 0); }
Status argmin(KernelCall& call) { return extremum<false>(call, Over::kDim, -1, 0); }
Status aminmax_all(KernelCall& call) { return both(call, Over::kAll); }
Status aminmax(KernelCall& call) { return both(call, Over::kDims); }
Status aminmax_dim(KernelCall& call) { return both(call, Over::kDim); }

}  // namespace drydock::ops::kernels
