#include <algorithm>
#include <limits>

#include "ops/elementwise.h"
#include "ops/kernel_call.h"
#include "ops/reduce.h"

// Maximum and minimum, with and without where they are. NaN counts as the extremum, the first of equals is reported.

namespace drydock::ops::kernels {
namespace {

template <class C>
struct Extreme {
  C value;
  int64_t place;
};

/// Place of the first value that is `wanted`, or NaN if that is; there is one.
template <class C>
int64_t place_of(const C* values, int64_t count, C wanted) {
  constexpr int64_t kBlock = 64;
  const auto matches = [wanted](C value) { return is_nan(wanted) ? is_nan(value) : value == wanted; };
  for (int64_t start = 0;; start += kBlock) {
    const int64_t length = std::min(kBlock, count - start);
    int64_t found = 0;
    base::vectorized([&found, values, start, length, matches] {
      int64_t hits = 0;
      for (int64_t k = 0; k < length; ++k) hits += matches(values[start + k]) ? 1 : 0;
      found = hits;
    });
    if (found == 0 && start + length < count) continue;
    int64_t place = start;
    while (place + 1 < count && !matches(values[place])) ++place;
    return place;
  }
}

template <bool Largest>
struct FirstExtreme {
  template <class C>
  Extreme<C> part(const C* values, int64_t count, int64_t start) const {
    C best = values[0];
    bool has_nan = false;
    base::vectorized([&best, &has_nan, values, count] {
      constexpr int64_t kLanes = 32;
      C lanes[kLanes];
      int64_t nans = 0;
      for (C& lane : lanes) lane = values[0];
      int64_t k = 0;
      for (; k + kLanes <= count; k += kLanes) {
        for (int64_t lane = 0; lane < kLanes; ++lane) {
          const C value = values[k + lane];
          lanes[lane] = (Largest ? value > lanes[lane] : value < lanes[lane]) ? value : lanes[lane];
        }
        if constexpr (std::is_floating_point_v<C>) {
          for (int64_t lane = 0; lane < kLanes; ++lane) nans += is_nan(values[k + lane]) ? 1 : 0;
        }
      }
      C extreme = values[0];
      for (; k < count; ++k) {
        extreme = (Largest ? values[k] > extreme : values[k] < extreme) ? values[k] : extreme;
        nans += is_nan(values[k]) ? 1 : 0;
      }
      for (C lane : lanes) extreme = (Largest ? lane > extreme : lane < extreme) ? lane : extreme;
      best = extreme;
      has_nan = nans > 0;
    });
    if constexpr (std::is_floating_point_v<C>) {
      if (has_nan) best = std::numeric_limits<C>::quiet_NaN();
    }
    const int64_t place = place_of(values, count, best);
    return {values[place], start + place};
  }
  template <class C>
  Extreme<C> join(const Extreme<C>& a, const Extreme<C>& b) const {
    if (is_nan(a.value)) return a;
    return is_nan(b.value) || (Largest ? b.value > a.value : b.value < a.value) ? b : a;
  }
};

/// Values of the extremum over `axes` into `value_output`, places into `place_output`; -1 for neither.
template <bool Largest>
Status extremum(KernelCall& call, const Dims& axes, int value_output, int place_output) {
  const Rows rows(call.operand(0), axes);
  DRYDOCK_RETURN_IF_ERROR(expect_rows_not_empty(call, rows));
  return with_compute_type(compute_type_of(call.operand(0).dtype), [&]<class C>() {
    const FirstExtreme<Largest> first;
    const std::vector<Extreme<C>> extremes = fold_rows_in_parts(rows, PlainFold<C, Extreme<C>>(first));
    std::vector<C> values(extremes.size());
    std::vector<int64_t> places(extremes.size());
    for (size_t row = 0; row < extremes.size(); ++row) {
      values[row] = extremes[row].value;
      places[row] = extremes[row].place;
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
