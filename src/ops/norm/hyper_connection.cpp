#include "ops/kernel_call.h"
#include "ops/norm/column_sums.h"
#include "ops/norm/row_access.h"

// Manifold-constrained hyper-connections: a layer's residual is N streams of D features for each token. "Post" mixes
// the streams and adds the layer's output to each; "pre" gives the layer's input and the matrices of the mixing.

namespace drydock::ops::kernels {
namespace {

/// Sizes of a residual (..., streams, features).
struct Streams {
  int64_t tokens = 0;
  int64_t count = 0;
  int64_t features = 0;

  int64_t row() const { return count * features; }
};

Status streams_of(const KernelCall& call, const TensorView& x, Streams* streams) {
  const int rank = x.dims.size();
  if (rank != 3 && rank != 4) return invalid(call, "x must be (batch, tokens, streams, features) or without the batch");
  *streams = {leading_dims(x.dims, 2).product(), x.dims[rank - 2], x.dims[rank - 1]};
  return Status::ok();
}

/// Real, and of `tokens` rows of `length` elements, which are the last `inner` dimensions.
Status expect_rows(const KernelCall& call, const TensorView& view, int64_t tokens, int64_t length, const char* what,
                   int inner = 0) {
  if (!view.defined || !is_real_element(view.dtype)) return not_computed(call, std::string(what) + " is missing");
  if (view.numel() == tokens * length && view.dims.size() >= inner &&
      (inner == 0 || trailing_dims(view.dims, inner).product() == length)) {
    return Status::ok();
  }
  return invalid(call, std::string(what) + " must have " + std::to_string(length) + " elements for each of " +
                           std::to_string(tokens) + " tokens");
}

/// Rows of one token each; `inner` dimensions belong to a token.
RowSource<float> tokens_of(const TensorView& view, int inner) {
  Dims axes;
  for (int axis = view.dims.size() - inner; axis < view.dims.size(); ++axis) axes.push_back(axis);
  return RowSource<float>(view, axes);
}
RowTarget<float> target_tokens_of(const TensorView& view, int inner) {
  Dims axes;
  for (int axis = view.dims.size() - inner; axis < view.dims.size(); ++axis) axes.push_back(axis);
  return RowTarget<float>(view, axes);
}

float dot(const float* a, const float* b, int64_t count) {
  return static_cast<float>(sum_of<float>(count, [=](int64_t k) { return a[k] * b[k]; }));
}

void add_scaled(float* to, const float* from, float scale, int64_t count) {
  for (int64_t k = 0; k < count; ++k) to[k] += from[k] * scale;
}

Status expect_post(const KernelCall& call, const Streams& s, int first) {
  DRYDOCK_RETURN_IF_ERROR(expect_rows(call, call.operand(first), s.tokens, s.count * s.count, "hRes", 2));
  DRYDOCK_RETURN_IF_ERROR(expect_rows(call, call.operand(first + 1), s.tokens, s.features, "hOut", 1));
  DRYDOCK_RETURN_IF_ERROR(expect_rows(call, call.operand(first + 2), s.tokens, s.count, "hPost", 1));
  return Status::ok();
}

}  // namespace

/// out = transpose(hRes) x + hPost (outer product) hOut, for each token. Operands: x, hRes, hOut, hPost.
Status mhc_post(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 4, 1));
  Streams s;
  DRYDOCK_RETURN_IF_ERROR(streams_of(call, call.operand(0), &s));
  DRYDOCK_RETURN_IF_ERROR(expect_post(call, s, 1));
  if (!(call.output(0).dims == call.operand(0).dims)) return invalid(call, "the output must have the shape of x");
  if (call.output(0).numel() == 0) return Status::ok();
  const auto x = tokens_of(call.operand(0), 2);
  const auto mixing = tokens_of(call.operand(1), 2);
  const auto layer = tokens_of(call.operand(2), 1);
  const auto gates = tokens_of(call.operand(3), 1);
  const auto out = target_tokens_of(call.output(0), 2);
  const int64_t row = s.row();
  const int64_t extra = s.count * s.count + s.features + s.count;
  for_each_row<float>(s.tokens, 2 * row + extra, 1, [&](int64_t token, float* scratch) {
    const float* const streams = x.read(token, scratch);
    const float* const mix = mixing.read(token, scratch + 2 * row);
    const float* const features = layer.read(token, scratch + 2 * row + s.count * s.count);
    const float* const gate = gates.read(token, scratch + 2 * row + s.count * s.count + s.features);
    float* const results = scratch + row;
    for (int64_t i = 0; i < s.count; ++i) {
      float* const to = results + i * s.features;
      for (int64_t k = 0; k < s.features; ++k) to[k] = features[k] * gate[i];
      for (int64_t j = 0; j < s.count; ++j) {
        add_scaled(to, streams + j * s.features, mix[j * s.count + i], s.features);
      }
    }
    float* const to = out.start(token, results);
    if (to != results) std::copy_n(results, row, to);
    out.finish(token, to);
  });
  return Status::ok();
}

/// Operands: gradient, x, hRes, hOut, hPost. Outputs: gradients of x, hRes, hOut, hPost.
Status mhc_post_backward(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 5, 4));
  Streams s;
  DRYDOCK_RETURN_IF_ERROR(streams_of(call, call.operand(1), &s));
  DRYDOCK_RETURN_IF_ERROR(expect_post(call, s, 2));
  for (int index = 0; index < 4; ++index) {
    if (!(call.output(index).dims == call.operand(index + 1).dims)) {
      return invalid(call, "each gradient must have the shape of its input");
    }
  }
  if (!(call.operand(0).dims == call.operand(1).dims)) return invalid(call, "gradOutput must have the shape of x");
  if (call.operand(0).numel() == 0) return Status::ok();
  const auto gradients = tokens_of(call.operand(0), 2);
  const auto x = tokens_of(call.operand(1), 2);
  const auto mixing = tokens_of(call.operand(2), 2);
  const auto layer = tokens_of(call.operand(3), 1);
  const auto gates = tokens_of(call.operand(4), 1);
  const auto of_x = target_tokens_of(call.output(0), 2);
  const auto of_mixing = target_tokens_of(call.output(1), 2);
  const auto of_layer = target_tokens_of(call.output(2), 1);
  const auto of_gates = target_tokens_of(call.output(3), 1);
  const int64_t row = s.row();
  const int64_t matrix = s.count * s.count;
  const int64_t size = 3 * row + 2 * matrix + 2 * s.features + 2 * s.count;
  for_each_row<float>(s.tokens, size, 1, [&](int64_t token, float* scratch) {
    float* next = scratch;
    const auto take = [&next](int64_t count) { return std::exchange(next, next + count); };
    const float* const g = gradients.read(token, take(row));
    const float* const streams = x.read(token, take(row));
    const float* const mix = mixing.read(token, take(matrix));
    const float* const features = layer.read(token, take(s.features));
    const float* const gate = gates.read(token, take(s.count));
    float* const dx = of_x.start(token, take(row));
    float* const dmix = of_mixing.start(token, take(matrix));
    float* const dfeatures = of_layer.start(token, take(s.features));
    float* const dgate = of_gates.start(token, take(s.count));
    std::fill_n(dx, row, 0.0f);
    std::fill_n(dfeatures, s.features, 0.0f);
    for (int64_t i = 0; i < s.count; ++i) {
      for (int64_t j = 0; j < s.count; ++j) {
        add_scaled(dx + i * s.features, g + j * s.features, mix[i * s.count + j], s.features);
        dmix[i * s.count + j] = dot(streams + i * s.features, g + j * s.features, s.features);
      }
      add_scaled(dfeatures, g + i * s.features, gate[i], s.features);
      dgate[i] = dot(g + i * s.features, features, s.features);
    }
    of_x.finish(token, dx);
    of_mixing.finish(token, dmix);
    of_layer.finish(token, dfeatures);
    of_gates.finish(token, dgate);
  });
  return Status::ok();
}

namespace {

/// Sizes and inputs of the gradient of "pre", as vectors: they are small next to x.
struct Pre {
  Streams s;
  int64_t outputs = 0;  ///< columns of the mixing product: gates before, gates after, matrix
  std::vector<float> phi, alpha, before, after, mixed, inverse_rms, of_before_sum, of_after, of_matrix, gamma;
};

Status read_pre(KernelCall& call, Pre* pre) {
  const TensorView& x = call.operand(0);
  DRYDOCK_RETURN_IF_ERROR(streams_of(call, x, &pre->s));
  const Streams& s = pre->s;
  pre->outputs = 2 * s.count + s.count * s.count;
  DRYDOCK_RETURN_IF_ERROR(expect_rows(call, call.operand(1), pre->outputs, s.row(), "phi"));
  DRYDOCK_RETURN_IF_ERROR(expect_rows(call, call.operand(2), 1, 3, "alpha"));
  DRYDOCK_RETURN_IF_ERROR(expect_rows(call, call.operand(3), s.tokens, s.features, "gradHIn", 1));
  DRYDOCK_RETURN_IF_ERROR(expect_rows(call, call.operand(4), s.tokens, s.count, "gradHPost"));
  DRYDOCK_RETURN_IF_ERROR(expect_rows(call, call.operand(5), s.tokens, s.count * s.count, "gradHRes"));
  DRYDOCK_RETURN_IF_ERROR(expect_rows(call, call.operand(6), s.tokens, 1, "invRms"));
  DRYDOCK_RETURN_IF_ERROR(expect_rows(call, call.operand(7), s.tokens, pre->outputs, "hMix"));
  DRYDOCK_RETURN_IF_ERROR(expect_rows(call, call.operand(8), s.tokens, s.count, "hPre"));
  DRYDOCK_RETURN_IF_ERROR(expect_rows(call, call.operand(9), s.tokens, s.count, "hPost"));
  if (call.operand(10).defined) DRYDOCK_RETURN_IF_ERROR(expect_rows(call, call.operand(10), 1, s.row(), "gamma"));
  if (call.operand(11).defined) {
    DRYDOCK_RETURN_IF_ERROR(expect_rows(call, call.operand(11), s.tokens, s.row(), "gradXPost"));
    if (!(call.operand(11).dims == x.dims)) return invalid(call, "gradXPost must have the shape of x");
  }
  if (!(call.output(0).dims == x.dims)) return invalid(call, "gradX must have the shape of x");
  DRYDOCK_RETURN_IF_ERROR(expect_rows(call, call.output(1), pre->outputs, s.row(), "gradPhi"));
  DRYDOCK_RETURN_IF_ERROR(expect_rows(call, call.output(2), 1, 3, "gradAlpha"));
  DRYDOCK_RETURN_IF_ERROR(expect_rows(call, call.output(3), 1, pre->outputs, "gradBias"));
  pre->phi = values_of<float>(call.operand(1));
  pre->alpha = values_of<float>(call.operand(2));
  pre->of_after = values_of<float>(call.operand(4));
  pre->of_matrix = values_of<float>(call.operand(5));
  pre->inverse_rms = values_of<float>(call.operand(6));
  pre->mixed = values_of<float>(call.operand(7));
  pre->before = values_of<float>(call.operand(8));
  pre->after = values_of<float>(call.operand(9));
  pre->gamma = call.operand(10).defined ? values_of<float>(call.operand(10))
                                        : std::vector<float>(static_cast<size_t>(s.row()), 1.0f);
  return Status::ok();
}

/// The gradient of the linear outputs of one token, before the factor alpha: `scaled` = that of alpha * w + bias.
void gate_gradients(const Pre& pre, int64_t token, const float* of_before, float epsilon, float* scaled) {
  const int64_t n = pre.s.count;
  for (int64_t i = 0; i < n; ++i) {
    const auto at = static_cast<size_t>(token * n + i);
    const float sigmoid = pre.before[at] - epsilon;
    scaled[i] = of_before[i] * sigmoid * (1 - sigmoid);
    scaled[n + i] = pre.of_after[at] * pre.after[at] * (1 - pre.after[at] / 2);
  }
  for (int64_t i = 0; i < n * n; ++i) scaled[2 * n + i] = pre.of_matrix[static_cast<size_t>(token * n * n + i)];
}

}  // namespace

/// Operands: x, phi, alpha, gradients of hIn, hPost and hRes, then invRms, hMix, hPre, hPost of the forward operator,
/// gamma and the gradient of x from elsewhere (may be null). Outputs: gradients of x, phi, alpha, bias and gamma.
Status mhc_pre_backward(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 10, 4));
  Pre pre;
  DRYDOCK_RETURN_IF_ERROR(read_pre(call, &pre));
  const Streams& s = pre.s;
  const int64_t row = s.row();
  const int64_t outputs = pre.outputs;
  const auto epsilon = static_cast<float>(call.number(0));
  const TensorView& of_gamma = call.output(4);
  if (of_gamma.defined && of_gamma.numel() != row) return invalid(call, "gradGamma must have the shape of gamma");
  const auto x = tokens_of(call.operand(0), 2);
  const auto of_input = tokens_of(call.operand(3), 1);
  const auto to = target_tokens_of(call.output(0), 2);
  std::unique_ptr<RowSource<float>> added;
  if (call.operand(11).defined) added.reset(new RowSource<float>(tokens_of(call.operand(11), 2)));
  // Sums over tokens: phi (outputs, row), alpha (3), bias (outputs), gamma (row).
  const int64_t phi_size = outputs * row;
  const int64_t width = phi_size + 3 + outputs + row;
  const std::vector<double> totals = sum_over_rows<float>(
      s.tokens, width, 3 * row + s.features + s.count + 2 * outputs, [&](int64_t token, float* scratch, float* sums) {
        float* next = scratch;
        const auto take = [&next](int64_t count) { return std::exchange(next, next + count); };
        const float* const streams = x.read(token, take(row));
        const float* const g = of_input.read(token, take(s.features));
        float* const of_before = take(s.count);
        float* const scaled = take(outputs);
        float* const of_mixed = take(outputs);
        float* const results = take(row);
        float* const spare = take(row);
        for (int64_t i = 0; i < s.count; ++i) of_before[i] = dot(g, streams + i * s.features, s.features);
        gate_gradients(pre, token, of_before, epsilon, scaled);
        const float rms = pre.inverse_rms[static_cast<size_t>(token)];
        const float* const mixed = pre.mixed.data() + token * outputs;
        float of_rms = 0;
        for (int64_t k = 0; k < outputs; ++k) {
          const int64_t part = k < s.count ? 0 : k < 2 * s.count ? 1 : 2;
          sums[phi_size + part] += scaled[k] * mixed[k] * rms;
          sums[phi_size + 3 + k] += scaled[k];
          const float of_linear = scaled[k] * pre.alpha[static_cast<size_t>(part)];
          of_mixed[k] = of_linear * rms;
          of_rms += of_linear * mixed[k];
        }
        const float* const gamma = pre.gamma.data();
        std::fill_n(results, row, 0.0f);
        for (int64_t k = 0; k < outputs; ++k) {
          add_scaled(results, pre.phi.data() + k * row, of_mixed[k], row);
          float* const of_phi = sums + k * row;
          for (int64_t e = 0; e < row; ++e) of_phi[e] += of_mixed[k] * (streams[e] * gamma[e]);
        }
        float* const gamma_sums = sums + phi_size + 3 + outputs;
        const float shrink = of_rms * rms * rms * rms / static_cast<float>(row);
        for (int64_t e = 0; e < row; ++e) {
          gamma_sums[e] += streams[e] * results[e];
          results[e] = results[e] * gamma[e] - shrink * streams[e];
        }
        for (int64_t i = 0; i < s.count; ++i) {
          add_scaled(results + i * s.features, g, pre.before[static_cast<size_t>(token * s.count + i)], s.features);
        }
        if (added) add_scaled(results, added->read(token, spare), 1, row);
        float* const out = to.start(token, results);
        if (out != results) std::copy_n(results, row, out);
        to.finish(token, out);
      });
  const auto part = [&](int64_t begin, int64_t count) {
    return std::vector<double>(totals.begin() + begin, totals.begin() + begin + count);
  };
  write_values(call.output(1), part(0, phi_size));
  write_values(call.output(2), part(phi_size, 3));
  write_values(call.output(3), part(phi_size + 3, outputs));
  if (of_gamma.defined) write_values(of_gamma, part(phi_size + 3 + outputs, row));
  return Status::ok();
}

}  // namespace drydock::ops::kernels
