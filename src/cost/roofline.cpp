#include "cost/roofline.h"

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <optional>
#include <vector>

#include "base/data_type.h"

namespace drydock::cost {
namespace {

using trace::Call;
using trace::CallTensor;
using trace::Signature;

constexpr double kTera = 1e12;
constexpr double kNsOfSecond = 1e9;

struct Operands {
  const Call& call;
  const Signature& signature;

  const std::vector<CallTensor>* list(std::string_view name) const {
    for (size_t index = 0; index < call.arguments.size() && index < signature.arguments.size(); ++index)
      if (signature.arguments[index].name == name) return &call.arguments[index].tensors;
    return nullptr;
  }
  const CallTensor* tensor(std::string_view name) const {
    const std::vector<CallTensor>* tensors = list(name);
    return tensors == nullptr || tensors->empty() || !tensors->front().defined ? nullptr : &tensors->front();
  }
  std::string_view text(std::string_view name) const {
    for (size_t index = 0; index < call.arguments.size() && index < signature.arguments.size(); ++index)
      if (signature.arguments[index].name == name) return call.arguments[index].text;
    return {};
  }
  std::optional<int64_t> integer(std::string_view name) const {
    for (size_t index = 0; index < call.arguments.size() && index < signature.arguments.size(); ++index)
      if (signature.arguments[index].name == name && !call.arguments[index].integers.empty())
        return call.arguments[index].integers.front();
    return std::nullopt;
  }
};

// Damaged records may say anything of sizes.
uint64_t elements_of(const CallTensor& tensor, bool without_repeats) {
  constexpr uint64_t kMost = uint64_t{1} << 48;
  uint64_t count = 1;
  for (size_t dim = 0; dim < tensor.dims.size(); ++dim) {
    const bool is_repeated = dim < tensor.strides.size() && tensor.strides[dim] == 0;
    if (without_repeats && is_repeated) continue;
    const auto size = static_cast<uint64_t>(std::max<int64_t>(tensor.dims[dim], 0));
    if (size != 0 && count > kMost / size) return kMost;
    count *= size;
  }
  return count;
}

uint64_t bytes_of(const CallTensor& tensor) {
  return tensor.defined
             ? static_cast<uint64_t>(drydock::bytes_of(tensor.dtype, static_cast<int64_t>(elements_of(tensor, true))))
             : 0;
}

bool is_one_of(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// What is only read at the places that indices name.
bool reads_by_index(std::string_view api) {
  return is_one_of(api, {"aclnnEmbedding", "aclnnIndex", "aclnnIndexSelect", "aclnnGather", "aclnnGatherV2",
                         "aclnnGatherV3", "aclnnTake"});
}

uint64_t moved_bytes(const Operands& operands) {
  uint64_t bytes = 0;
  const bool has_table = reads_by_index(operands.signature.name);
  for (size_t index = 0; index < operands.call.arguments.size(); ++index) {
    const auto direction = index < operands.signature.arguments.size() ? operands.signature.arguments[index].direction
                                                                       : ops::ArgDirection::kIn;
    for (const CallTensor& tensor : operands.call.arguments[index].tensors) {
      if (has_table && index == 0) continue;  // as much as is written
      bytes += bytes_of(tensor) * (direction == ops::ArgDirection::kInOut ? 2 : 1);
      if (has_table && direction == ops::ArgDirection::kOut) bytes += bytes_of(tensor);
    }
  }
  return bytes;
}

uint64_t last_dim(const CallTensor& tensor) {
  return tensor.dims.empty() ? 1 : static_cast<uint64_t>(std::max<int64_t>(tensor.dims.back(), 0));
}

uint64_t product_flops(const Operands& operands, std::string_view left, std::string_view out) {
  const CallTensor* a = operands.tensor(left);
  const CallTensor* c = operands.tensor(out);
  return a == nullptr || c == nullptr ? 0 : 2 * elements_of(*c, false) * last_dim(*a);
}

uint64_t grouped_flops(const Operands& operands) {
  const auto* x = operands.list("x");
  const auto* out = operands.list("out");
  if (x == nullptr || out == nullptr || x->empty()) return 0;
  uint64_t flops = 0;
  for (size_t index = 0; index < out->size(); ++index) {
    const CallTensor& a = (*x)[std::min(index, x->size() - 1)];
    if (a.defined && (*out)[index].defined) flops += 2 * elements_of((*out)[index], false) * last_dim(a);
  }
  return flops;
}

// Each element of the output is a sum over a filter, which has as many elements for each output channel; where the
// convolution is transposed, output and input change places.
uint64_t convolution_flops(const Operands& operands, std::string_view out) {
  const CallTensor* weight = operands.tensor("weight");
  const bool is_transposed = operands.integer("transposed").value_or(0) != 0;
  const CallTensor* result = operands.tensor(is_transposed ? "input" : out);
  if (weight == nullptr || result == nullptr || weight->dims.empty() || weight->dims.front() <= 0) return 0;
  return 2 * elements_of(*result, false) * (elements_of(*weight, false) / static_cast<uint64_t>(weight->dims.front()));
}

struct AttentionSizes {
  uint64_t batch = 0;
  uint64_t heads = 0;
  uint64_t length = 0;
  uint64_t width = 0;
};

std::optional<AttentionSizes> attention_sizes(const CallTensor* tensor, std::string_view layout, uint64_t heads) {
  if (tensor == nullptr) return std::nullopt;
  const auto dim = [&](size_t index) { return static_cast<uint64_t>(std::max<int64_t>(tensor->dims[index], 0)); };
  const size_t rank = tensor->dims.size();
  if (heads == 0) return std::nullopt;
  if (layout == "BNSD" && rank == 4) return AttentionSizes{dim(0), dim(1), dim(2), dim(3)};
  if (layout == "BSND" && rank == 4) return AttentionSizes{dim(0), dim(2), dim(1), dim(3)};
  if (layout == "BSH" && rank == 3) return AttentionSizes{dim(0), heads, dim(1), dim(2) / heads};
  if (layout == "SBH" && rank == 3) return AttentionSizes{dim(1), heads, dim(0), dim(2) / heads};
  return std::nullopt;
}

// Two products of queries and keys, all of them: what a mask leaves out is not known here, and half at most.
uint64_t attention_flops(const Operands& operands, uint64_t products) {
  const auto heads = static_cast<uint64_t>(std::max<int64_t>(operands.integer("headNum").value_or(0), 0));
  const std::string_view layout = operands.text("inputLayout");
  const auto query = attention_sizes(operands.tensor("query"), layout, heads);
  const CallTensor* key_tensor = operands.tensor("key") != nullptr ? operands.tensor("key") : operands.tensor("keyIn");
  const auto key = attention_sizes(key_tensor, layout, heads);
  if (!query || !key) return 0;
  const bool is_masked = operands.tensor("attenMaskOptional") != nullptr;
  return products * 2 * query->batch * query->heads * query->length * key->length * query->width / (is_masked ? 2 : 1);
}

uint64_t cube_flops(const Operands& operands) {
  const std::string_view api = operands.signature.name;
  if (is_one_of(api, {"aclnnMm", "aclnnMatmul", "aclnnBatchMatMul", "aclnnMv", "aclnnDot"}))
    return product_flops(operands, "self", "out");
  if (is_one_of(api, {"aclnnAddmm", "aclnnAddmv"})) return product_flops(operands, "mat1", "out");
  if (api == "aclnnInplaceAddmm") return product_flops(operands, "mat1", "selfRef");
  if (api == "aclnnBaddbmm") return product_flops(operands, "batch1", "out");
  if (is_one_of(api, {"aclnnMatmulWeightNz", "aclnnBatchMatMulWeightNz"}))
    return product_flops(operands, "self", "out");
  if (api.starts_with("aclnnGroupedMatmulV")) return grouped_flops(operands);
  if (api == "aclnnConvolution") return convolution_flops(operands, "output");
  if (api == "aclnnConvolutionBackward") return 2 * convolution_flops(operands, "gradOutput");
  if (api.starts_with("aclnnFlashAttentionScoreGrad")) return attention_flops(operands, 5);
  if (api.starts_with("aclnnFlashAttentionScore")) return attention_flops(operands, 2);
  return 0;
}

// Products whose sizes are not told here: packed weights, lengths in lists, sparse blocks.
bool multiplies_matrices(std::string_view api) {
  for (const std::string_view part : {"Matmul", "MatMul", "FlashAttention", "FusedInferAttention", "SparseAttention",
                                      "Convolution", "ConvDepthwise", "ConvTbc", "addbmm", "Addbmm"})
    if (api.find(part) != std::string_view::npos) return true;
  return false;
}

double cube_rate(const Call& call, const device::Profile& profile) {
  for (const trace::CallArgument& argument : call.arguments)
    for (const CallTensor& tensor : argument.tensors) {
      if (!tensor.defined) continue;
      switch (tensor.dtype) {
        case DataType::kBFloat16: return profile.bf16_tflops;
        case DataType::kFloat16: return profile.fp16_tflops;
        case DataType::kInt8: return profile.int8_tops;
        default: return profile.fp32_cube_tflops;
      }
    }
  return 0;
}

}  // namespace

Roofline roofline_of(const Call& call, const Signature& signature, const device::Profile& profile) {
  Roofline roofline;
  if (call.truncated || profile.hbm_tbs <= 0) return roofline;
  const Operands operands{call, signature};
  roofline.bytes = moved_bytes(operands);
  roofline.cube_flops = cube_flops(operands);
  roofline.memory_ns = static_cast<double>(roofline.bytes) / (profile.hbm_tbs * kTera) * kNsOfSecond;
  if (roofline.cube_flops > 0) {
    roofline.unit = Unit::kCube;
    const double rate = cube_rate(call, profile);
    if (rate <= 0) return roofline;
    roofline.cube_ns = static_cast<double>(roofline.cube_flops) / (rate * kTera) * kNsOfSecond;
  } else if (multiplies_matrices(signature.name)) {
    roofline.unit = Unit::kCube;
    return roofline;
  }
  roofline.is_known = true;
  return roofline;
}

}  // namespace drydock::cost
