#include "ops/norm/norm_rows.h"

#include "base/instruction_set.h"
#include "ops/norm/column_sums.h"
#include "ops/norm/row_access.h"

namespace drydock::ops::kernels {
namespace {

bool is_there(const TensorView* view) { return view != nullptr && view->defined; }

/// Every view is real or not there.
Status expect_real(const KernelCall& call, std::initializer_list<const TensorView*> views) {
  for (const TensorView* view : views) {
    if (is_there(view) && !is_real_element(view->dtype)) return not_computed(call, "a tensor is not real");
  }
  return Status::ok();
}

Status expect_shape(const KernelCall& call, const TensorView* view, const Dims& dims, const char* what) {
  if (!is_there(view) || view->dims == dims) return Status::ok();
  return invalid(call, std::string(what) + " must have the shape of the input");
}

/// Sizes that come in several ranks, such as (rows) and (rows, 1): only the number of elements counts.
Status expect_count(const KernelCall& call, const TensorView* view, int64_t count, const char* what) {
  if (!is_there(view) || view->numel() == count) return Status::ok();
  return invalid(call, std::string(what) + " must have " + std::to_string(count) + " elements, not " +
                           std::to_string(view->numel()));
}

/// Elements of an optional vector plus `offset`; without the vector `otherwise`.
template <class C>
std::vector<C> vector_or(const TensorView* view, int64_t length, C otherwise, double offset = 0) {
  if (!is_there(view)) return std::vector<C>(static_cast<size_t>(length), otherwise);
  std::vector<C> values = values_of<C>(*view);
  if (offset != 0) {
    for (C& value : values) value += static_cast<C>(offset);
  }
  return values;
}

/// Reads the rows that are normalised.
template <class C>
class InputRows {
 public:
  InputRows(const NormInput& input, const Dims& axes, int64_t length)
      : first_(*input.first, axes),
        second_(source_of(input.second, axes)),
        scale_(static_cast<C>(input.scale)),
        length_(length) {
    if (!is_there(input.bias)) return;
    // A bias of one row is the same for all rows.
    if (input.bias->numel() == length && input.first->numel() != length) {
      bias_row_ = values_of<C>(*input.bias);
    } else {
      bias_ = source_of(input.bias, axes);
    }
  }

  /// Row `row`, or `buffer` filled with it; `spare` is one row more.
  const C* read(int64_t row, C* buffer, C* spare) const {
    const C* values = first_.read(row, buffer);
    if (second_ == nullptr) return values;
    const C* others = second_->read(row, spare);
    for (int64_t k = 0; k < length_; ++k) buffer[k] = values[k] * scale_ + others[k];
    if (!bias_row_.empty()) {
      for (int64_t k = 0; k < length_; ++k) buffer[k] += bias_row_[static_cast<size_t>(k)];
    } else if (bias_ != nullptr) {
      const C* bias = bias_->read(row, spare);
      for (int64_t k = 0; k < length_; ++k) buffer[k] += bias[k];
    }
    return buffer;
  }

  static std::unique_ptr<RowSource<C>> source_of(const TensorView* view, const Dims& axes) {
    return std::unique_ptr<RowSource<C>>(is_there(view) ? new RowSource<C>(*view, axes) : nullptr);
  }

 private:
  RowSource<C> first_;
  std::unique_ptr<RowSource<C>> second_, bias_;
  std::vector<C> bias_row_;
  C scale_;
  int64_t length_;
};

template <class C>
std::unique_ptr<RowTarget<C>> target_of(const TensorView* view, const Dims& axes) {
  return std::unique_ptr<RowTarget<C>>(is_there(view) ? new RowTarget<C>(*view, axes) : nullptr);
}

/// What one row of the input is like: its dimensions, their product, and the number of rows.
struct Geometry {
  Dims axes;
  int64_t rows = 0;
  int64_t length = 0;
};

Status geometry_of(const KernelCall& call, const TensorView& input, int inner, Geometry* geometry) {
  const int rank = input.dims.size();
  if (inner < 0 || inner > rank) {
    return invalid(call, "rows of " + std::to_string(inner) + " dimensions do not exist in an input of rank " +
                             std::to_string(rank));
  }
  geometry->rows = leading_dims(input.dims, inner).product();
  geometry->length = trailing_dims(input.dims, inner).product();
  for (int axis = rank - inner; axis < rank; ++axis) geometry->axes.push_back(axis);
  return Status::ok();
}

Status check_input(const KernelCall& call, const NormInput& input, const Geometry& geometry) {
  DRYDOCK_RETURN_IF_ERROR(expect_real(call, {input.first, input.second, input.bias}));
  DRYDOCK_RETURN_IF_ERROR(expect_shape(call, input.second, input.first->dims, "the second input"));
  if (is_there(input.bias) && input.bias->numel() == geometry.length) return Status::ok();
  return expect_shape(call, input.bias, input.first->dims, "the bias");
}

struct Statistics {
  double mean = 0;
  double rstd = 0;
};

template <class C>
Statistics statistics_of(const C* x, int64_t length, const NormForm& form) {
  double mean = 0;
  double squares = 0;
  base::vectorized([x, length, centred = form.centred, &mean, &squares] {
    const double average =
        centred ? sum_of<C>(length, [x](int64_t k) { return x[k]; }) / static_cast<double>(length) : 0.0;
    const C centre = static_cast<C>(average);
    squares = sum_of<C>(length, [x, centre](int64_t k) { return (x[k] - centre) * (x[k] - centre); });
    mean = average;
  });
  return {mean, 1 / std::sqrt(squares / static_cast<double>(length) + form.epsilon)};
}

/// results = (x - mean) * rstd * weight + shift, where results may be x.
template <class C>
void normalize_row(const C* x, C mean, C rstd, const C* weight, const C* shift, C* results, int64_t length) {
  base::vectorized([=] {
#pragma GCC ivdep
    for (int64_t k = 0; k < length; ++k) results[k] = (x[k] - mean) * rstd * weight[k] + shift[k];
  });
}

/// What a row adds to the gradients of gamma and beta.
template <class C>
void add_parameter_gradients(const C* x, const C* dy, C mean, C rstd, C* __restrict gamma_sums, C* __restrict beta_sums,
                             int64_t length) {
  base::vectorized([=] {
#pragma GCC ivdep
    for (int64_t k = 0; k < length; ++k) {
      gamma_sums[k] += dy[k] * ((x[k] - mean) * rstd);
      beta_sums[k] += dy[k];
    }
  });
}

/// The gradient of a row.
template <class C>
void gradient_row(const C* x, const C* dy, const C* weight, C mean, C rstd, bool centred, C* __restrict results,
                  int64_t length) {
  base::vectorized([=] {
    const auto count = static_cast<double>(length);
    const C average =
        centred ? static_cast<C>(sum_of<C>(length, [=](int64_t k) { return dy[k] * weight[k]; }) / count) : C(0);
    const C projection = static_cast<C>(
        sum_of<C>(length, [=](int64_t k) { return dy[k] * weight[k] * ((x[k] - mean) * rstd); }) / count);
#pragma GCC ivdep
    for (int64_t k = 0; k < length; ++k) {
      results[k] = (dy[k] * weight[k] - average - (x[k] - mean) * rstd * projection) * rstd;
    }
  });
}

template <class C>
void forward(const NormForm& form, const NormInput& input, const TensorView& gamma, const TensorView& beta,
             const NormOutput& output, const Geometry& geometry) {
  const int64_t length = geometry.length;
  const InputRows<C> from(input, geometry.axes, length);
  const auto y = target_of<C>(output.y, geometry.axes);
  const auto second_y = target_of<C>(output.second_y, geometry.axes);
  const auto sum = target_of<C>(output.sum, geometry.axes);
  const std::vector<C> weights = vector_or<C>(&gamma, length, C(1), form.gamma_offset);
  const std::vector<C> shifts = vector_or<C>(&beta, length, C(0));
  std::vector<C> means(is_there(output.mean) ? static_cast<size_t>(geometry.rows) : 0);
  std::vector<C> rstds(is_there(output.rstd) ? static_cast<size_t>(geometry.rows) : 0);
  for_each_row<C>(geometry.rows, length, 3, [&](int64_t row, C* scratch) {
    const C* x = from.read(row, scratch, scratch + length);
    const Statistics statistics = statistics_of(x, length, form);
    const C mean = static_cast<C>(statistics.mean);
    const C rstd = static_cast<C>(statistics.rstd);
    if (!means.empty()) means[static_cast<size_t>(row)] = mean;
    if (!rstds.empty()) rstds[static_cast<size_t>(row)] = rstd;
    // Before y, which may be written over the input.
    if (sum) {
      C* const sums = sum->start(row, scratch + length);
      std::copy_n(x, length, sums);
      sum->finish(row, sums);
    }
    C* const results = (y ? y : second_y)->start(row, scratch + 2 * length);
    normalize_row(x, mean, rstd, weights.data(), shifts.data(), results, length);
    if (y) y->finish(row, results);
    if (y && second_y) {
      C* const copies = second_y->start(row, results);
      if (copies != results) std::copy_n(results, length, copies);
      second_y->finish(row, copies);
    } else if (second_y) {
      second_y->finish(row, results);
    }
  });
  if (!means.empty()) write_values(*output.mean, means);
  if (!rstds.empty()) write_values(*output.rstd, rstds);
}

template <class C>
void backward(const NormForm& form, const NormTape& tape, const NormGradient& gradient, const Geometry& geometry) {
  const int64_t length = geometry.length;
  const InputRows<C> from(tape.input, geometry.axes, length);
  const RowSource<C> gradients(*tape.gradient, geometry.axes);
  const auto added = InputRows<C>::source_of(gradient.added, geometry.axes);
  const auto first = target_of<C>(gradient.first, geometry.axes);
  const auto second = target_of<C>(gradient.second, geometry.axes);
  const std::vector<C> weights = vector_or<C>(tape.gamma, length, C(1));
  const std::vector<C> means = vector_or<C>(tape.mean, geometry.rows, C(0));
  const std::vector<C> rstds = values_of<C>(*tape.rstd);
  const C scale = static_cast<C>(tape.input.scale);
  const bool parameters = is_there(gradient.gamma) || is_there(gradient.beta);

  const auto work = [&](int64_t row, C* scratch, C* sums) {
    const C* const x = from.read(row, scratch, scratch + length);
    const C* const dy = gradients.read(row, scratch + length);
    const C mean = means[static_cast<size_t>(row)];
    const C rstd = rstds[static_cast<size_t>(row)];
    if (parameters) add_parameter_gradients(x, dy, mean, rstd, sums, sums + length, length);
    if (!first && !second) return;
    C* const results = scratch + 2 * length;
    gradient_row(x, dy, weights.data(), mean, rstd, form.centred, results, length);
    if (added) {
      const C* const others = added->read(row, scratch + length);
      for (int64_t k = 0; k < length; ++k) results[k] += others[k];
    }
    if (second) {
      C* const to = second->start(row, results);
      if (to != results) std::copy_n(results, length, to);
      second->finish(row, to);
    }
    if (first) {
      C* const to = first->start(row, results);
      for (int64_t k = 0; k < length; ++k) to[k] = results[k] * scale;
      first->finish(row, to);
    }
  };

  if (!parameters) {
    for_each_row<C>(geometry.rows, length, 3, [&](int64_t row, C* scratch) { work(row, scratch, nullptr); });
    return;
  }
  const std::vector<double> totals = sum_over_rows<C>(geometry.rows, 2 * length, 3 * length, work);
  const auto middle = totals.begin() + length;
  if (is_there(gradient.gamma)) write_values(*gradient.gamma, std::vector<double>(totals.begin(), middle));
  if (is_there(gradient.beta)) write_values(*gradient.beta, std::vector<double>(middle, totals.end()));
}

}  // namespace

Status normalize_rows(const KernelCall& call, const NormForm& form, const NormInput& input, const TensorView& gamma,
                      const TensorView& beta, const NormOutput& output) {
  Geometry geometry;
  DRYDOCK_RETURN_IF_ERROR(geometry_of(call, *input.first, form.inner, &geometry));
  DRYDOCK_RETURN_IF_ERROR(check_input(call, input, geometry));
  DRYDOCK_RETURN_IF_ERROR(
      expect_real(call, {&gamma, &beta, output.y, output.second_y, output.mean, output.rstd, output.sum}));
  for (const TensorView* view : {output.y, output.second_y, output.sum}) {
    DRYDOCK_RETURN_IF_ERROR(expect_shape(call, view, input.first->dims, "an output"));
  }
  DRYDOCK_RETURN_IF_ERROR(expect_count(call, &gamma, geometry.length, "gamma"));
  DRYDOCK_RETURN_IF_ERROR(expect_count(call, &beta, geometry.length, "beta"));
  DRYDOCK_RETURN_IF_ERROR(expect_count(call, output.mean, geometry.rows, "mean"));
  DRYDOCK_RETURN_IF_ERROR(expect_count(call, output.rstd, geometry.rows, "rstd"));
  if (!is_there(output.y) && !is_there(output.second_y)) return not_computed(call, "there is no output");
  return with_floating_type(floating_type_of({input.first}), [&]<class C>() {
    forward<C>(form, input, gamma, beta, output, geometry);
    return Status::ok();
  });
}

Status normalize_rows_backward(const KernelCall& call, const NormForm& form, const NormTape& tape,
                               const NormGradient& gradient) {
  Geometry geometry;
  const Dims& dims = tape.input.first->dims;
  DRYDOCK_RETURN_IF_ERROR(geometry_of(call, *tape.input.first, form.inner, &geometry));
  DRYDOCK_RETURN_IF_ERROR(check_input(call, tape.input, geometry));
  DRYDOCK_RETURN_IF_ERROR(expect_real(call, {tape.gradient, tape.mean, tape.rstd, tape.gamma, gradient.first,
                                             gradient.second, gradient.gamma, gradient.beta, gradient.added}));
  for (const TensorView* view : {tape.gradient, gradient.first, gradient.second, gradient.added}) {
    DRYDOCK_RETURN_IF_ERROR(expect_shape(call, view, dims, "a gradient"));
  }
  DRYDOCK_RETURN_IF_ERROR(expect_count(call, tape.mean, geometry.rows, "mean"));
  DRYDOCK_RETURN_IF_ERROR(expect_count(call, tape.rstd, geometry.rows, "rstd"));
  for (const TensorView* view : {tape.gamma, gradient.gamma, gradient.beta}) {
    DRYDOCK_RETURN_IF_ERROR(expect_count(call, view, geometry.length, "gamma, beta and their gradients"));
  }
  return with_floating_type(floating_type_of({tape.input.first}), [&]<class C>() {
    backward<C>(form, tape, gradient, geometry);
    return Status::ok();
  });
}

}  // namespace drydock::ops::kernels
