#include <algorithm>

#include "ops/attention/call_arguments.h"
#include "ops/attention/layout.h"
#include "ops/kernel_call.h"

// aclnnNsaCompress and its gradient: windows of tokens become one by a weighted sum.

namespace drydock::ops::kernels {

namespace attention {

namespace {

/// The first tokens of all windows, sequence by sequence.
Status windows_of(const KernelCall& call, std::span<const int64_t> ends, int64_t tokens, int64_t size, int64_t stride,
                  std::vector<int64_t>* starts) {
  if (size <= 0 || stride <= 0) return invalid(call, "compressBlockSize and compressStride must be positive");
  int64_t start = 0;
  for (int64_t end : ends) {
    if (end < start || end > tokens) {
      return invalid(call, "actSeqLen must not fall and not exceed the " + std::to_string(tokens) + " tokens");
    }
    for (int64_t first = start; first + size <= end; first += stride) starts->push_back(first);
    start = end;
  }
  return Status::ok();
}

struct Compression {
  HeadView input, output;
  std::vector<float> weights;  ///< [window, heads]
  std::vector<int64_t> starts;
  int64_t size = 0;

  float weight(int64_t row, int64_t head) const { return weights[static_cast<size_t>(row * input.heads + head)]; }
};

Status parse_compression(const KernelCall& call, const CallArguments& arguments, const TensorView& output,
                         const char* lengths, Compression* compression) {
  const TensorView& input = arguments.tensor_or_empty("input");
  const TensorView& weight = arguments.tensor_or_empty("weight");
  compression->size = arguments.integer("compressBlockSize");
  const std::string sizes =
      ": input " + sizes_of(input) + ", weight " + sizes_of(weight) + ", output " + sizes_of(output);
  if (!head_view(input, "TND", 0, &compression->input) || !head_view(output, "TND", 0, &compression->output) ||
      weight.dims.size() != 2 || weight.dims[0] != compression->size || weight.dims[1] != compression->input.heads ||
      compression->output.heads != compression->input.heads || compression->output.width != compression->input.width) {
    return invalid(call, "input must be [tokens, heads, width], weight [window, heads]" + sizes);
  }
  if (arguments.integer("actSeqLenType") != 0) return not_computed(call, "no kernel for actSeqLenType 1");
  DRYDOCK_RETURN_IF_ERROR(windows_of(call, arguments.ints(lengths), compression->input.rows, compression->size,
                                     arguments.integer("compressStride"), &compression->starts));
  if (static_cast<int64_t>(compression->starts.size()) != compression->output.rows) {
    return invalid(call, "the output must have a row for each of " + std::to_string(compression->starts.size()) +
                             " windows" + sizes);
  }
  for_each_value<float>(weight, [&](float value) { compression->weights.push_back(value); });
  return Status::ok();
}

}  // namespace

}  // namespace attention

Status nsa_compress(KernelCall& call) {
  using namespace attention;
  const CallArguments arguments(call);
  Compression compression;
  DRYDOCK_RETURN_IF_ERROR(
      parse_compression(call, arguments, arguments.output("output"), "actSeqLenOptional", &compression));
  const HeadView& input = compression.input;
  std::vector<float> row(static_cast<size_t>(input.width)), sums(row.size());
  for (size_t window = 0; window < compression.starts.size(); ++window) {
    for (int64_t head = 0; head < input.heads; ++head) {
      std::fill(sums.begin(), sums.end(), 0.0f);
      for (int64_t k = 0; k < compression.size; ++k) {
        read_rows(input, 0, head, compression.starts[window] + k, 1, {row.data(), input.width});
        for (size_t i = 0; i < row.size(); ++i) sums[i] += row[i] * compression.weight(k, head);
      }
      write_rows(compression.output, 0, head, static_cast<int64_t>(window), 1, ConstBlock(sums.data(), input.width));
    }
  }
  return Status::ok();
}

Status nsa_compress_grad(KernelCall& call) {
  using namespace attention;
  const CallArguments arguments(call);
  Compression compression;
  DRYDOCK_RETURN_IF_ERROR(parse_compression(call, arguments, arguments.tensor_or_empty("outputGrad"),
                                            "actSeqLenOptionalOptional", &compression));
  const HeadView& input = compression.input;
  HeadView input_grad;
  const TensorView& weight_grad = arguments.output("weightGradOut");
  if (!head_view(arguments.output("inputGradOut"), "TND", 0, &input_grad) || input_grad.rows != input.rows ||
      input_grad.heads != input.heads || input_grad.width != input.width || weight_grad.dims.size() != 2 ||
      weight_grad.dims[0] != compression.size || weight_grad.dims[1] != input.heads) {
    return invalid(call, "the gradients must have the shapes of input and weight");
  }
  std::vector<double> weight_sums(compression.weights.size(), 0.0);
  std::vector<float> sums(static_cast<size_t>(input.rows * input.width));
  std::vector<float> row(static_cast<size_t>(input.width)), gradient(row.size());
  for (int64_t head = 0; head < input.heads; ++head) {
    std::fill(sums.begin(), sums.end(), 0.0f);
    for (size_t window = 0; window < compression.starts.size(); ++window) {
      read_rows(compression.output, 0, head, static_cast<int64_t>(window), 1, {gradient.data(), input.width});
      for (int64_t k = 0; k < compression.size; ++k) {
        const int64_t token = compression.starts[window] + k;
        read_rows(input, 0, head, token, 1, {row.data(), input.width});
        weight_sums[static_cast<size_t>(k * input.heads + head)] += dot(row.data(), gradient.data(), input.width);
        float* to = sums.data() + token * input.width;
        for (size_t i = 0; i < row.size(); ++i) to[i] += gradient[i] * compression.weight(k, head);
      }
    }
    write_rows(input_grad, 0, head, 0, input.rows, ConstBlock(sums.data(), input.width));
  }
  Rows(weight_grad, all_axes(2)).write<double>(0, weight_sums.data());
  return Status::ok();
}

}  // namespace drydock::ops::kernels
