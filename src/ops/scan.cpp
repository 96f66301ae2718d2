#include "ops/complex/complex.h"
#include "ops/elementwise.h"
#include "ops/kernel_call.h"
#include "ops/reduce.h"

// Running sums, products, maxima and minima along one dimension.

namespace drydock::ops::kernels {
namespace {

/// Rows of the output take `next(accumulator, value)`, started at `start`.
template <class Next>
Status accumulate(KernelCall& call, int64_t dim, int start, Next next) {
  const TensorView& self = call.operand(0);
  const TensorView& out = call.output(0);
  if (!(self.dims == out.dims)) return invalid(call, "the output must have the shape of the input");
  Dims axes;
  DRYDOCK_RETURN_IF_ERROR(single_axis(call, dim, &axes));
  if (self.numel() == 0) return Status::ok();
  const Rows from(self, axes);
  const Rows to(out, axes);
  const auto run = [&]<class C>() {
    using A = std::conditional_t<std::is_floating_point_v<C>, double, C>;
    transform_rows<C, C>(from, to, [&](int64_t, const C* values, C* results) {
      A total = static_cast<A>(start);
      for (int64_t k = 0; k < from.length(); ++k) {
        total = next(total, static_cast<A>(values[k]));
        results[k] = static_cast<C>(total);
      }
    });
    return Status::ok();
  };
  return has_complex(call) ? run.template operator()<Complex>() : with_compute_type(compute_type_of(out.dtype), run);
}

/// The last of equals is reported, and NaN stays once it came.
template <bool Largest>
Status running_extremum(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 1, 2));
  const TensorView& self = call.operand(0);
  if (!(self.dims == call.output(0).dims) || !(self.dims == call.output(1).dims)) {
    return invalid(call, "the outputs must have the shape of the input");
  }
  Dims axes;
  DRYDOCK_RETURN_IF_ERROR(single_axis(call, call.integer(0), &axes));
  if (self.numel() == 0) return Status::ok();
  const Rows from(self, axes);
  const Rows values_out(call.output(0), axes);
  const Rows places_out(call.output(1), axes);
  return with_compute_type(compute_type_of(self.dtype), [&]<class C>() {
    for_each_row<C>(from, [&](int64_t row, const C* read) {
      std::vector<C> values(static_cast<size_t>(from.length()));
      std::vector<int64_t> places(values.size());
      size_t place = 0;
      for (size_t k = 0; k < values.size(); ++k) {
        const bool as_good = Largest ? read[k] >= read[place] : read[k] <= read[place];
        if (is_nan(read[k]) || (!is_nan(read[place]) && as_good)) place = k;
        values[k] = read[place];
        places[k] = static_cast<int64_t>(place);
      }
      values_out.write<C>(row, values.data());
      places_out.write<int64_t>(row, places.data());
    });
    return Status::ok();
  });
}

}  // namespace

Status cumsum(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect_complex(call, 1, 1));
  return accumulate(call, call.integer(0), 0, []<class A>(A total, A value) { return wrapping_add(total, value); });
}

/// The dimension is a scalar operand here.
Status cumprod(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect_complex(call, 2, 1));
  return accumulate(call, as_int64(call.operand(1)), 1,
                    []<class A>(A total, A value) { return wrapping_multiply(total, value); });
}

Status cummax(KernelCall& call) { return running_extremum<true>(call); }
Status cummin(KernelCall& call) { return running_extremum<false>(call); }

}  // namespace drydock::ops::kernels
