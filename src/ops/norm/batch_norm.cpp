#include "ops/kernel_call.h"
#include "ops/norm/channel_norm.h"

// Batch norm with its gradient, and the parts that batch norm across devices is made of.

namespace drydock::ops::kernels {
namespace {

std::vector<double> inverse_deviations(const std::vector<double>& variances, double epsilon) {
  std::vector<double> results;
  for (double variance : variances) results.push_back(1 / std::sqrt(variance + epsilon));
  return results;
}

/// running = running * (1 - momentum) + value * momentum, where the view is defined.
void update_running(const TensorView& from, const TensorView& to, const std::vector<double>& values, double momentum) {
  if (!to.defined) return;
  std::vector<double> running = values_of<double>(from);
  for (size_t c = 0; c < running.size(); ++c) running[c] = running[c] * (1 - momentum) + values[c] * momentum;
  write_values(to, running);
}

/// y = (x - mean) * inverse_deviation * weight + bias.
Status normalize_channels(const ChannelPlanes& planes, const TensorView& x, const TensorView& y,
                          const std::vector<double>& means, const std::vector<double>& deviations,
                          const std::vector<double>& weights, const std::vector<double>& biases) {
  return with_floating_type(floating_type_of({&x}), [&]<class C>() {
    const std::vector<C> mean = converted<C>(means);
    const std::vector<C> bias = converted<C>(biases);
    std::vector<C> scale = converted<C>(deviations);
    for (size_t c = 0; c < scale.size(); ++c) scale[c] *= static_cast<C>(weights[c]);
    map_channels<C, 1>(planes, y, {&x}, [mean = mean.data(), scale = scale.data(), bias = bias.data()](int64_t c, C v) {
      return (v - mean[c]) * scale[c] + bias[c];
    });
    return Status::ok();
  });
}

/// Sums over each channel of the gradient, and of the gradient times (x - mean).
struct GradientSums {
  std::vector<double> gradient;
  std::vector<double> product;
};

GradientSums gradient_sums(const ChannelPlanes& planes, const TensorView& gradient, const TensorView& x,
                           const std::vector<double>& means) {
  GradientSums sums;
  const auto add = [&]<class C>() {
    const RowSource<C> gradients(gradient, planes.axes);
    const RowSource<C> values(x, planes.axes);
    const std::vector<C> mean = converted<C>(means);
    sums.gradient = sum_channels<C>(planes, 1, [&](int64_t row, C* scratch) {
      return [g = gradients.read(row, scratch)](int64_t, int64_t k) { return g[k]; };
    });
    sums.product = sum_channels<C>(planes, 2, [&](int64_t row, C* scratch) {
      return [g = gradients.read(row, scratch), v = values.read(row, scratch + planes.row()), mean = mean.data()](
                 int64_t c, int64_t k) { return g[k] * (v[k] - mean[c]); };
    });
    return Status::ok();
  };
  if (with_floating_type(floating_type_of({&x}), add).is_ok()) return sums;
  return sums;
}

/// dx = (dy - shift[c] - (x - mean[c]) * slope[c]) * scale[c].
Status gradient_of_input(const ChannelPlanes& planes, const TensorView& gradient, const TensorView& x,
                         const TensorView& out, const std::vector<double>& means, const std::vector<double>& shifts,
                         const std::vector<double>& slopes, const std::vector<double>& scales) {
  return with_floating_type(floating_type_of({&x}), [&]<class C>() {
    const std::vector<C> mean = converted<C>(means);
    const std::vector<C> shift = converted<C>(shifts);
    const std::vector<C> slope = converted<C>(slopes);
    const std::vector<C> scale = converted<C>(scales);
    map_channels<C, 2>(planes, out, {&gradient, &x},
                       [mean = mean.data(), shift = shift.data(), slope = slope.data(), scale = scale.data()](
                           int64_t c, C g, C v) { return (g - shift[c] - (v - mean[c]) * slope[c]) * scale[c]; });
    return Status::ok();
  });
}

Status expect_same(const KernelCall& call, const TensorView& a, const TensorView& b) {
  return a.dims == b.dims ? Status::ok() : invalid(call, "input, gradient and output must have one shape");
}

}  // namespace

/// Operands: input, weight, bias, running mean, running variance. Outputs: running mean, running variance, output,
/// mean, inverse deviation. Only input and output must be there.
Status batch_norm(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 1, 0));
  const TensorView& x = call.operand(0);
  const TensorView& y = call.output(2);
  const bool training = call.boolean(0);
  ChannelPlanes planes;
  DRYDOCK_RETURN_IF_ERROR(planes_of(call, x, &planes));
  if (!y.defined || !is_real_element(y.dtype)) return not_computed(call, "the output is missing or not real");
  DRYDOCK_RETURN_IF_ERROR(expect_same(call, x, y));
  std::vector<double> weights, biases, means, variances;
  DRYDOCK_RETURN_IF_ERROR(channel_values(call, call.operand(1), planes.channels, 1, &weights));
  DRYDOCK_RETURN_IF_ERROR(channel_values(call, call.operand(2), planes.channels, 0, &biases));
  DRYDOCK_RETURN_IF_ERROR(channel_values(call, call.operand(3), planes.channels, 0, &means));
  DRYDOCK_RETURN_IF_ERROR(channel_values(call, call.operand(4), planes.channels, 1, &variances));
  if (training) {
    DRYDOCK_RETURN_IF_ERROR(expect_vector(call, call.output(3), planes.channels, "saveMean"));
    DRYDOCK_RETURN_IF_ERROR(expect_vector(call, call.output(4), planes.channels, "saveInvstd"));
    const auto moments = [&]<class C>() {
      channel_moments<C>(planes, x, &means, &variances);
      return Status::ok();
    };
    DRYDOCK_RETURN_IF_ERROR(with_floating_type(floating_type_of({&x}), moments));
    const auto count = static_cast<double>(planes.count());
    std::vector<double> unbiased = variances;
    for (double& variance : unbiased) variance *= count / (count - 1);
    update_running(call.operand(3), call.output(0), means, call.number(0));
    update_running(call.operand(4), call.output(1), unbiased, call.number(0));
  } else if (!call.operand(3).defined || !call.operand(4).defined) {
    return invalid(call, "without training there must be a running mean and variance");
  }
  const std::vector<double> deviations = inverse_deviations(variances, call.number(1));
  if (training) {
    write_values(call.output(3), means);
    write_values(call.output(4), deviations);
  }
  return normalize_channels(planes, x, y, means, deviations, weights, biases);
}

/// Operands: gradient, input, weight, running mean and variance, saved mean and inverse deviation. Outputs: gradients
/// of input, weight and bias, which may be null.
Status batch_norm_backward(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 2, 0));
  const TensorView& gradient = call.operand(0);
  const TensorView& x = call.operand(1);
  const TensorView& out = call.output(0);
  const bool training = call.boolean(0);
  ChannelPlanes planes;
  DRYDOCK_RETURN_IF_ERROR(planes_of(call, x, &planes));
  DRYDOCK_RETURN_IF_ERROR(expect_same(call, x, gradient));
  std::vector<double> weights, means, deviations;
  DRYDOCK_RETURN_IF_ERROR(channel_values(call, call.operand(2), planes.channels, 1, &weights));
  for (int index = 1; index <= 2; ++index) {
    DRYDOCK_RETURN_IF_ERROR(expect_vector(call, call.output(index), planes.channels, "a gradient of a vector"));
  }
  if (!call.operand(training ? 5 : 3).defined || !call.operand(training ? 6 : 4).defined) {
    return invalid(call, "the mean or the variance is missing");
  }
  DRYDOCK_RETURN_IF_ERROR(channel_values(call, call.operand(training ? 5 : 3), planes.channels, 0, &means));
  DRYDOCK_RETURN_IF_ERROR(channel_values(call, call.operand(training ? 6 : 4), planes.channels, 1, &deviations));
  if (!training) deviations = inverse_deviations(deviations, call.number(0));
  GradientSums sums = gradient_sums(planes, gradient, x, means);
  std::vector<double> of_weight(sums.product.size());
  for (size_t c = 0; c < of_weight.size(); ++c) of_weight[c] = sums.product[c] * deviations[c];
  if (out.defined) {
    if (!is_real_element(out.dtype)) return not_computed(call, "gradInput is not real");
    DRYDOCK_RETURN_IF_ERROR(expect_same(call, x, out));
    std::vector<double> shifts(of_weight.size()), slopes(of_weight.size()), scales(of_weight.size());
    const auto count = static_cast<double>(planes.count());
    for (size_t c = 0; c < scales.size(); ++c) {
      shifts[c] = training ? sums.gradient[c] / count : 0;
      slopes[c] = training ? of_weight[c] * deviations[c] / count : 0;
      scales[c] = deviations[c] * weights[c];
    }
    DRYDOCK_RETURN_IF_ERROR(gradient_of_input(planes, gradient, x, out, means, shifts, slopes, scales));
  }
  write_values(call.output(1), of_weight);
  write_values(call.output(2), sums.gradient);
  return Status::ok();
}

/// Operand: input. Outputs: mean, inverse deviation.
Status batch_norm_stats(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 1, 2));
  const TensorView& x = call.operand(0);
  ChannelPlanes planes;
  DRYDOCK_RETURN_IF_ERROR(planes_of(call, x, &planes));
  DRYDOCK_RETURN_IF_ERROR(expect_vector(call, call.output(0), planes.channels, "mean"));
  DRYDOCK_RETURN_IF_ERROR(expect_vector(call, call.output(1), planes.channels, "invstd"));
  return with_floating_type(floating_type_of({&x}), [&]<class C>() {
    std::vector<double> means, variances;
    channel_moments<C>(planes, x, &means, &variances);
    write_values(call.output(0), means);
    write_values(call.output(1), inverse_deviations(variances, call.number(0)));
    return Status::ok();
  });
}

/// Operand: x. Outputs: sums and sums of squares.
Status batch_norm_reduce(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 1, 2));
  const TensorView& x = call.operand(0);
  ChannelPlanes planes;
  DRYDOCK_RETURN_IF_ERROR(planes_of(call, x, &planes));
  DRYDOCK_RETURN_IF_ERROR(expect_vector(call, call.output(0), planes.channels, "sum"));
  DRYDOCK_RETURN_IF_ERROR(expect_vector(call, call.output(1), planes.channels, "squareSum"));
  return with_floating_type(floating_type_of({&x}), [&]<class C>() {
    const RowSource<C> from(x, planes.axes);
    write_values(call.output(0), sum_channels<C>(planes, 1, [&](int64_t row, C* scratch) {
                   return [v = from.read(row, scratch)](int64_t, int64_t k) { return v[k]; };
                 }));
    write_values(call.output(1), sum_channels<C>(planes, 1, [&](int64_t row, C* scratch) {
                   return [v = from.read(row, scratch)](int64_t, int64_t k) { return v[k] * v[k]; };
                 }));
    return Status::ok();
  });
}

/// Operands: input, weight, bias, mean, inverse deviation.
Status batch_norm_elemt(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 1, 1));
  const TensorView& x = call.operand(0);
  ChannelPlanes planes;
  DRYDOCK_RETURN_IF_ERROR(planes_of(call, x, &planes));
  DRYDOCK_RETURN_IF_ERROR(expect_same(call, x, call.output(0)));
  std::vector<double> weights, biases, means, deviations;
  DRYDOCK_RETURN_IF_ERROR(channel_values(call, call.operand(1), planes.channels, 1, &weights));
  DRYDOCK_RETURN_IF_ERROR(channel_values(call, call.operand(2), planes.channels, 0, &biases));
  DRYDOCK_RETURN_IF_ERROR(channel_values(call, call.operand(3), planes.channels, 0, &means));
  DRYDOCK_RETURN_IF_ERROR(channel_values(call, call.operand(4), planes.channels, 1, &deviations));
  return normalize_channels(planes, x, call.output(0), means, deviations, weights, biases);
}

/// Operands: gradient, input, mean, inverse deviation, weight. Outputs: sum of the gradient, of the gradient times
/// (x - mean), gradients of weight and bias; any may be null.
Status batch_norm_reduce_backward(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 4, 0));
  const TensorView& x = call.operand(1);
  ChannelPlanes planes;
  DRYDOCK_RETURN_IF_ERROR(planes_of(call, x, &planes));
  DRYDOCK_RETURN_IF_ERROR(expect_same(call, x, call.operand(0)));
  for (int index = 0; index < 4; ++index) {
    DRYDOCK_RETURN_IF_ERROR(expect_vector(call, call.output(index), planes.channels, "a sum"));
  }
  std::vector<double> means, deviations;
  DRYDOCK_RETURN_IF_ERROR(channel_values(call, call.operand(2), planes.channels, 0, &means));
  DRYDOCK_RETURN_IF_ERROR(channel_values(call, call.operand(3), planes.channels, 1, &deviations));
  const GradientSums sums = gradient_sums(planes, call.operand(0), x, means);
  std::vector<double> of_weight = sums.product;
  for (size_t c = 0; c < of_weight.size(); ++c) of_weight[c] *= deviations[c];
  write_values(call.output(0), sums.gradient);
  write_values(call.output(1), sums.product);
  write_values(call.output(2), of_weight);
  write_values(call.output(3), sums.gradient);
  return Status::ok();
}

/// Operands: gradient, input, mean, inverse deviation, weight, sum of the gradient, sum of its product with (x - mean),
/// counts of all devices.
Status batch_norm_elemt_backward(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 4, 1));
  const TensorView& x = call.operand(1);
  const TensorView& counts = call.operand(7);
  ChannelPlanes planes;
  DRYDOCK_RETURN_IF_ERROR(planes_of(call, x, &planes));
  DRYDOCK_RETURN_IF_ERROR(expect_same(call, x, call.operand(0)));
  DRYDOCK_RETURN_IF_ERROR(expect_same(call, x, call.output(0)));
  std::vector<double> means, deviations, weights, sums, products;
  DRYDOCK_RETURN_IF_ERROR(channel_values(call, call.operand(2), planes.channels, 0, &means));
  DRYDOCK_RETURN_IF_ERROR(channel_values(call, call.operand(3), planes.channels, 1, &deviations));
  DRYDOCK_RETURN_IF_ERROR(channel_values(call, call.operand(4), planes.channels, 1, &weights));
  DRYDOCK_RETURN_IF_ERROR(channel_values(call, call.operand(5), planes.channels, 0, &sums));
  DRYDOCK_RETURN_IF_ERROR(channel_values(call, call.operand(6), planes.channels, 0, &products));
  if (!counts.defined || !is_real_element(counts.dtype)) return not_computed(call, "the counts are missing");
  double count = 0;
  for_each_value<double>(counts, [&](double value) { count += value; });
  for (size_t c = 0; c < sums.size(); ++c) {
    sums[c] /= count;
    products[c] *= deviations[c] * deviations[c] / count;
    weights[c] *= deviations[c];
  }
  return gradient_of_input(planes, call.operand(0), x, call.output(0), means, sums, products, weights);
}

/// Operands: input (its sizes), means and inverse deviations (devices, channels), running mean and variance, counts.
/// Outputs: running mean and variance, mean and inverse deviation of all devices.
Status batch_norm_gather_stats(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 3, 0));
  const TensorView& means = call.operand(1);
  const TensorView& counts = call.operand(5);
  if (means.dims.size() != 2 || !(means.dims == call.operand(2).dims)) {
    return invalid(call, "mean and invstd must be of shape (devices, channels)");
  }
  const int64_t devices = means.dims[0];
  const int64_t channels = means.dims[1];
  if (!counts.defined) return invalid(call, "the counts are missing");
  DRYDOCK_RETURN_IF_ERROR(expect_vector(call, counts, devices, "counts"));
  for (const TensorView* view : {&call.operand(3), &call.operand(4), &call.output(2), &call.output(3)}) {
    DRYDOCK_RETURN_IF_ERROR(expect_vector(call, *view, channels, "a vector of channels"));
  }
  const std::vector<double> mean = values_of<double>(means);
  const std::vector<double> deviation = values_of<double>(call.operand(2));
  const std::vector<double> count = values_of<double>(counts);
  const double epsilon = call.number(1);
  std::vector<double> all_means, unbiased, deviations;
  for (int64_t c = 0; c < channels; ++c) {
    double average = 0, squares = 0, total = 0;  // squares: the sum of (x - average)^2 so far
    for (int64_t device = 0; device < devices; ++device) {
      const auto at = static_cast<size_t>(device * channels + c);
      const double here = count[static_cast<size_t>(device)];
      const double difference = mean[at] - average;
      if (here == 0) continue;
      squares += (1 / (deviation[at] * deviation[at]) - epsilon) * here +
                 difference * difference * total * here / (total + here);
      average += difference * here / (total + here);
      total += here;
    }
    all_means.push_back(average);
    unbiased.push_back(squares / (total - 1));
    deviations.push_back(1 / std::sqrt(squares / total + epsilon));
  }
  update_running(call.operand(3), call.output(0), all_means, call.number(0));
  update_running(call.operand(4), call.output(1), unbiased, call.number(0));
  write_values(call.output(2), all_means);
  write_values(call.output(3), deviations);
  return Status::ok();
}

/// Operands: sums and sums of squares (devices, channels), counts, running mean and variance. Outputs: the latter two,
/// mean and inverse deviation of all devices.
Status sync_batch_norm_gather_stats(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 3, 0));
  const TensorView& sums = call.operand(0);
  if (sums.dims.size() != 2 || !(sums.dims == call.operand(1).dims)) {
    return invalid(call, "the sums must be of shape (devices, channels)");
  }
  const int64_t channels = sums.dims[1];
  DRYDOCK_RETURN_IF_ERROR(expect_vector(call, call.operand(2), sums.dims[0], "sampleCount"));
  for (const TensorView* view : {&call.operand(3), &call.operand(4), &call.output(2), &call.output(3)}) {
    DRYDOCK_RETURN_IF_ERROR(expect_vector(call, *view, channels, "a vector of channels"));
  }
  const std::vector<double> sum = values_of<double>(sums);
  const std::vector<double> squares = values_of<double>(call.operand(1));
  double count = 0;
  for (double value : values_of<double>(call.operand(2))) count += value;
  std::vector<double> means(static_cast<size_t>(channels)), variances(means.size());
  for (size_t at = 0; at < sum.size(); ++at) {
    means[at % means.size()] += sum[at] / count;
    variances[at % means.size()] += squares[at] / count;
  }
  for (size_t c = 0; c < means.size(); ++c) variances[c] -= means[c] * means[c];
  std::vector<double> unbiased = variances;
  for (double& variance : unbiased) variance *= count / (count - 1);
  update_running(call.operand(3), call.output(0), means, call.number(0));
  update_running(call.operand(4), call.output(1), unbiased, call.number(0));
  write_values(call.output(2), means);
  write_values(call.output(3), inverse_deviations(variances, call.number(1)));
  return Status::ok();
}

}  // namespace drydock::ops::kernels
