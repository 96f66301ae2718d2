#include "base/instruction_set.h"
#include "base/saturating.h"
#include "base/vector_math.h"
#include "ops/kernel_call.h"
#include "ops/norm/channel_norm.h"
#include "ops/shapes.h"

// Group norm, alone or with a swish behind it, and the gradients. A group of channels of one sample is a row.

namespace drydock::ops::kernels {
namespace {

struct Groups {
  int64_t samples = 0;
  int64_t groups = 0;
  int64_t channels = 0;  ///< in a group
  int64_t size = 0;      ///< elements of one channel of one sample

  int64_t rows() const { return saturating_product(samples, groups); }
  int64_t row() const { return saturating_product(channels, size); }
  int64_t all_channels() const { return saturating_product(channels, groups); }
  int64_t elements() const { return saturating_product(rows(), row()); }
};

/// Rows of `view`: (samples, groups, channels in a group, ...).
Status grouped_view(const KernelCall& call, const Groups& groups, const TensorView& view, TensorView* grouped) {
  if (view.numel() != groups.elements()) {
    return invalid(call, "a tensor has " + std::to_string(view.numel()) + " elements where the sizes say " +
                             std::to_string(groups.elements()));
  }
  const int rank = view.dims.size();
  if (rank >= 2 && view.dims[0] == groups.samples && view.dims[1] == groups.all_channels()) {
    *grouped = view;
    grouped->dims = {groups.samples, groups.groups, groups.channels};
    grouped->strides = {view.strides[0], view.strides[1] * groups.channels, view.strides[1]};
    for (int axis = 2; axis < rank; ++axis) {
      grouped->dims.push_back(view.dims[axis]);
      grouped->strides.push_back(view.strides[axis]);
    }
    return Status::ok();
  }
  if (!is_contiguous(view)) return not_computed(call, "a strided tensor of other sizes than (N, C, ...)");
  *grouped = contiguous_view(view.data, view.dtype, {groups.samples, groups.groups, groups.channels, groups.size});
  return Status::ok();
}

Dims inner_axes(const TensorView& grouped) {
  Dims axes;
  for (int axis = 2; axis < grouped.dims.size(); ++axis) axes.push_back(axis);
  return axes;
}

/// From N, C and HxW, as integers 0 to 3.
Status groups_of_sizes(const KernelCall& call, Groups* groups) {
  const int64_t channels = call.integer(1);
  groups->samples = call.integer(0);
  groups->size = call.integer(2);
  groups->groups = call.integer(3);
  if (groups->groups <= 0 || channels % groups->groups != 0 || groups->samples < 0 || channels < 0 ||
      groups->size < 0) {
    return invalid(call, "the channels (" + std::to_string(channels) + ") must divide into the groups (" +
                             std::to_string(groups->groups) + ")");
  }
  groups->channels = channels / groups->groups;
  int64_t elements = 0;
  if (__builtin_mul_overflow(groups->samples, channels, &elements) ||
      __builtin_mul_overflow(elements, groups->size, &elements)) {
    return invalid(call, "N * C * HxW is not a number of elements");
  }
  return Status::ok();
}

/// From the shape of x.
Status groups_of_shape(const KernelCall& call, const TensorView& x, int64_t count, Groups* groups) {
  ChannelPlanes planes;
  DRYDOCK_RETURN_IF_ERROR(planes_of(call, x, &planes));
  if (count <= 0 || planes.channels % count != 0) {
    return invalid(call, "the channels (" + std::to_string(planes.channels) + ") must divide into the groups (" +
                             std::to_string(count) + ")");
  }
  *groups = {planes.samples, count, planes.channels / count, planes.size};
  return Status::ok();
}

/// x / (1 + exp(-scale x)) if there is a swish, else x.
struct Swish {
  bool applies = false;
  double scale = 1;

  template <class C>
  C value(C x) const {
    return applies ? x * vector_math::sigmoid(static_cast<C>(scale) * x) : x;
  }
  template <class C>
  C slope(C x) const {
    if (!applies) return C(1);
    const C factor = static_cast<C>(scale);
    const C sigmoid = vector_math::sigmoid(factor * x);
    return sigmoid * (C(1) + factor * x * (C(1) - sigmoid));
  }
};

/// Operands: x, gamma, beta (may be null). Outputs: y, mean, rstd.
Status forward(KernelCall& call, const Groups& groups, double epsilon, const Swish& swish) {
  TensorView x, y;
  DRYDOCK_RETURN_IF_ERROR(grouped_view(call, groups, call.operand(0), &x));
  DRYDOCK_RETURN_IF_ERROR(grouped_view(call, groups, call.output(0), &y));
  DRYDOCK_RETURN_IF_ERROR(expect_vector(call, call.output(1), groups.rows(), "meanOut"));
  DRYDOCK_RETURN_IF_ERROR(expect_vector(call, call.output(2), groups.rows(), "rstdOut"));
  std::vector<double> gammas, betas;
  DRYDOCK_RETURN_IF_ERROR(channel_values(call, call.operand(1), groups.all_channels(), 1, &gammas));
  DRYDOCK_RETURN_IF_ERROR(channel_values(call, call.operand(2), groups.all_channels(), 0, &betas));
  return with_floating_type(floating_type_of({&x}), [&]<class C>() {
    const Dims axes = inner_axes(x);
    const RowSource<C> from(x, axes);
    const RowTarget<C> to(y, axes);
    const int64_t length = groups.row();
    std::vector<double> means(static_cast<size_t>(groups.rows())), rstds(means.size());
    for_each_row<C>(groups.rows(), length, 2, [&](int64_t row, C* scratch) {
      const C* const values = from.read(row, scratch);
      C* const results = to.start(row, scratch + length);
      const auto count = static_cast<double>(length);
      double mean = 0;
      double squares = 0;
      base::vectorized([=, &mean, &squares] {
        const double average = sum_of<C>(length, [values](int64_t k) { return values[k]; }) / count;
        const C middle = static_cast<C>(average);
        squares = sum_of<C>(length, [=](int64_t k) { return (values[k] - middle) * (values[k] - middle); });
        mean = average;
      });
      const C centre = static_cast<C>(mean);
      const double rstd = 1 / std::sqrt(squares / count + epsilon);
      means[static_cast<size_t>(row)] = mean;
      rstds[static_cast<size_t>(row)] = rstd;
      for (int64_t c = 0; c < groups.channels; ++c) {
        const auto channel = static_cast<size_t>(row % groups.groups * groups.channels + c);
        const C scale = static_cast<C>(rstd * gammas[channel]);
        const C shift = static_cast<C>(betas[channel]);
        const int64_t end = (c + 1) * groups.size;
        const int64_t begin = c * groups.size;
        base::vectorized([=] {
          if (!swish.applies) {
#pragma GCC ivdep
            for (int64_t k = begin; k < end; ++k) results[k] = (values[k] - centre) * scale + shift;
            return;
          }
#pragma GCC ivdep
          for (int64_t k = begin; k < end; ++k) results[k] = swish.value((values[k] - centre) * scale + shift);
        });
      }
      to.finish(row, results);
    });
    write_values(call.output(1), means);
    write_values(call.output(2), rstds);
    return Status::ok();
  });
}

struct GradientOperands {
  const TensorView& gradient;
  const TensorView& x;
  const TensorView& mean;
  const TensorView& rstd;
  const TensorView& gamma;
  const TensorView& beta;
};

/// Outputs: gradients of x, gamma, beta; any may be null.
Status backward(KernelCall& call, const Groups& groups, const GradientOperands& operands, const Swish& swish) {
  TensorView x, gradient, out;
  DRYDOCK_RETURN_IF_ERROR(grouped_view(call, groups, operands.x, &x));
  DRYDOCK_RETURN_IF_ERROR(grouped_view(call, groups, operands.gradient, &gradient));
  DRYDOCK_RETURN_IF_ERROR(expect_vector(call, operands.mean, groups.rows(), "mean"));
  DRYDOCK_RETURN_IF_ERROR(expect_vector(call, operands.rstd, groups.rows(), "rstd"));
  DRYDOCK_RETURN_IF_ERROR(expect_vector(call, call.output(1), groups.all_channels(), "the gradient of gamma"));
  DRYDOCK_RETURN_IF_ERROR(expect_vector(call, call.output(2), groups.all_channels(), "the gradient of beta"));
  const bool wants_x = call.output(0).defined;
  if (wants_x) {
    if (!is_real_element(call.output(0).dtype)) return not_computed(call, "the gradient of x is not real");
    DRYDOCK_RETURN_IF_ERROR(grouped_view(call, groups, call.output(0), &out));
  }
  std::vector<double> gammas, betas;
  DRYDOCK_RETURN_IF_ERROR(channel_values(call, operands.gamma, groups.all_channels(), 1, &gammas));
  DRYDOCK_RETURN_IF_ERROR(channel_values(call, operands.beta, groups.all_channels(), 0, &betas));
  return with_floating_type(floating_type_of({&x}), [&]<class C>() {
    const RowSource<C> from(x, inner_axes(x));
    const RowSource<C> gradients(gradient, inner_axes(gradient));
    std::unique_ptr<RowTarget<C>> to;
    if (wants_x) to.reset(new RowTarget<C>(out, inner_axes(out)));
    const std::vector<C> means = values_of<C>(operands.mean);
    const std::vector<C> rstds = values_of<C>(operands.rstd);
    const int64_t length = groups.row();
    const auto cells = static_cast<size_t>(groups.samples * groups.all_channels());
    std::vector<double> sums(cells), products(cells);  // of dy and dy * normalised x, for each sample and channel
    for_each_row<C>(groups.rows(), length, 3, [&](int64_t row, C* scratch) {
      const C* const values = from.read(row, scratch);
      const C* dy = gradients.read(row, scratch + length);
      C* const results = wants_x ? to->start(row, scratch + 2 * length) : scratch + 2 * length;
      const C mean = means[static_cast<size_t>(row)];
      const C rstd = rstds[static_cast<size_t>(row)];
      const int64_t first = row % groups.groups * groups.channels;
      if (swish.applies) {
        C* const inner = scratch + length;  // where dy may be already
        for (int64_t k = 0; k < length; ++k) {
          const auto channel = static_cast<size_t>(first + k / groups.size);
          const C normalised = (values[k] - mean) * rstd;
          inner[k] = dy[k] * swish.slope(normalised * static_cast<C>(gammas[channel]) + static_cast<C>(betas[channel]));
        }
        dy = inner;
      }
      double sum = 0, product = 0;
      for (int64_t c = 0; c < groups.channels; ++c) {
        const C* const g = dy + c * groups.size;
        const C* const v = values + c * groups.size;
        const auto cell = static_cast<size_t>(row * groups.channels + c);
        base::vectorized([=, size = groups.size, sum_out = &sums[cell], product_out = &products[cell]] {
          *sum_out = sum_of<C>(size, [=](int64_t k) { return g[k]; });
          *product_out = sum_of<C>(size, [=](int64_t k) { return g[k] * ((v[k] - mean) * rstd); });
        });
        sum += sums[cell] * gammas[static_cast<size_t>(first + c)];
        product += products[cell] * gammas[static_cast<size_t>(first + c)];
      }
      if (!wants_x) return;
      const C shift = static_cast<C>(sum / static_cast<double>(length));
      const C slope = static_cast<C>(product / static_cast<double>(length)) * rstd;
      for (int64_t c = 0; c < groups.channels; ++c) {
        const C gamma = static_cast<C>(gammas[static_cast<size_t>(first + c)]);
        const int64_t end = (c + 1) * groups.size;
        base::vectorized([=, begin = c * groups.size] {
#pragma GCC ivdep
          for (int64_t k = begin; k < end; ++k) {
            results[k] = (dy[k] * gamma - shift - (values[k] - mean) * slope) * rstd;
          }
        });
      }
      to->finish(row, results);
    });
    std::vector<double> of_gamma(static_cast<size_t>(groups.all_channels())), of_beta(of_gamma.size());
    for (size_t cell = 0; cell < cells; ++cell) {
      of_gamma[cell % of_gamma.size()] += products[cell];
      of_beta[cell % of_beta.size()] += sums[cell];
    }
    write_values(call.output(1), of_gamma);
    write_values(call.output(2), of_beta);
    return Status::ok();
  });
}

/// Channels come second; the manual allows other names of the layout for devices that are not modelled.
Status expect_channels_second(const KernelCall& call) {
  const std::string_view layout = call.text(0);
  if (layout.empty() || layout == "NCHW" || layout == "NCDHW" || layout == "ND") return Status::ok();
  return not_computed(call, "the layout " + std::string(layout));
}

}  // namespace

Status group_norm(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 1, 1));
  Groups groups;
  DRYDOCK_RETURN_IF_ERROR(groups_of_sizes(call, &groups));
  return forward(call, groups, call.number(0), {});
}

Status group_norm_silu(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 1, 1));
  Groups groups;
  DRYDOCK_RETURN_IF_ERROR(groups_of_shape(call, call.operand(0), call.integer(0), &groups));
  return forward(call, groups, call.number(0), {true, 1});
}

Status group_norm_swish(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 1, 1));
  Groups groups;
  DRYDOCK_RETURN_IF_ERROR(expect_channels_second(call));
  DRYDOCK_RETURN_IF_ERROR(groups_of_shape(call, call.operand(0), call.integer(0), &groups));
  return forward(call, groups, call.number(0), {call.boolean(0), call.number(1)});
}

/// Operands: gradient, x, mean, rstd, gamma.
Status group_norm_backward(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 4, 0));
  Groups groups;
  DRYDOCK_RETURN_IF_ERROR(groups_of_sizes(call, &groups));
  const TensorView none{};
  return backward(call, groups,
                  {call.operand(0), call.operand(1), call.operand(2), call.operand(3), call.operand(4), none}, {});
}

/// Operands: gradient, mean, rstd, x, gamma, beta.
Status group_norm_swish_grad(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 4, 0));
  Groups groups;
  DRYDOCK_RETURN_IF_ERROR(expect_channels_second(call));
  DRYDOCK_RETURN_IF_ERROR(groups_of_shape(call, call.operand(3), call.integer(0), &groups));
  return backward(
      call, groups,
      {call.operand(0), call.operand(3), call.operand(1), call.operand(2), call.operand(4), call.operand(5)},
      {true, call.number(0)});
}

}  // namespace drydock::ops::kernels
