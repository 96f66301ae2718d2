#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "ops/clear_view.h"
#include "ops/kernel_access.h"
#include "ops/kernel_call.h"

// The two halves of a p-norm as the legacy operators split it.

namespace drydock::ops::kernels {
namespace {

double start_of(double p) {
  return p == -std::numeric_limits<double>::infinity() ? std::numeric_limits<double>::infinity() : 0.0;
}

double with_next(double sum, double magnitude, double p) {
  if (std::isinf(p)) {
    if (std::isnan(magnitude) || std::isnan(sum)) return std::numeric_limits<double>::quiet_NaN();
    return p > 0 ? std::max(sum, magnitude) : std::min(sum, magnitude);
  }
  if (p == 0) return sum + (magnitude != 0 ? 1 : 0);
  if (p == 1) return sum + magnitude;
  return sum + (p == 2 ? magnitude * magnitude : std::pow(magnitude, p));
}

}  // namespace

/// y = sum of |x|^p over `axes` (int array 0; none: all); for p of infinity the largest, of minus infinity the smallest
/// |x|, for 0 how many are not 0. number(0): p.
Status lp_norm_reduce(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 1, 1));
  const TensorView& x = call.operand(0);
  const TensorView& y = call.output(0);
  const double p = call.number(0);
  Dims axes;
  DRYDOCK_RETURN_IF_ERROR(axes_of(call, call.ints(0), x.dims.size(), &axes));
  const Rows rows(x, axes);
  if (rows.count() != y.numel()) {
    return invalid(call,
                   "y has " + std::to_string(y.numel()) + " elements, the axes leave " + std::to_string(rows.count()));
  }
  std::vector<double> row(static_cast<size_t>(std::max<int64_t>(rows.length(), 1)));
  std::vector<double> sums(static_cast<size_t>(rows.count()));
  for (int64_t index = 0; index < rows.count(); ++index) {
    const double* values = rows.length() > 0 ? rows.read<double>(index, row.data()) : row.data();
    double sum = start_of(p);
    for (int64_t k = 0; k < rows.length(); ++k) sum = with_next(sum, std::abs(values[k]), p);
    sums[static_cast<size_t>(index)] = sum;
  }
  const TensorView from = contiguous_view(sums.data(), DataType::kDouble, y.dims);
  return copy_view(y, from) ? Status::ok() : not_computed(call, "y has a type that is not computed");
}

/// y = x^(1/p); x itself for p of 0 and of both infinities.
Status lp_norm_update(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 1, 1));
  const double p = call.number(0);
  const double exponent = std::isinf(p) || p == 0 ? 1.0 : 1.0 / p;
  const bool fits = map_elements<double, 1>(call.output(0), {&call.operand(0)}, {DataType::kUndefined},
                                            [exponent](double sum) { return std::pow(sum, exponent); });
  return fits ? Status::ok() : invalid(call, "x does not have the shape of y");
}

/// All outputs, if there are any, hold the status of a device on which nothing overflowed: zeros.
Status clear_float_status(KernelCall& call) {
  for (int index = 0; index < call.output_count(); ++index) {
    const TensorView& data = call.output(index);
    if (!data.defined || data.numel() == 0) continue;
    if (!clear_view(data)) {
      return not_computed(call, "the status has a type that is not computed");
    }
  }
  return Status::ok();
}

}  // namespace drydock::ops::kernels
