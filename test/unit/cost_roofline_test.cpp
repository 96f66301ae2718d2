#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "cost/roofline.h"

namespace drydock::cost {
namespace {

using ops::ArgDirection;
using trace::Call;
using trace::CallArgument;
using trace::CallTensor;
using trace::Signature;

device::Profile a_device() {
  device::Profile profile;
  profile.hbm_tbs = 1;       // a byte takes 1 ps
  profile.bf16_tflops = 10;  // an operation takes 0.1 ps
  profile.fp32_cube_tflops = 1;
  return profile;
}

struct Builder {
  Call call;
  Signature signature;

  explicit Builder(std::string name) { signature.name = std::move(name); }
  Builder& tensor(const std::string& name, std::vector<int64_t> dims, ArgDirection direction = ArgDirection::kIn,
                  DataType dtype = DataType::kBFloat16, std::vector<int64_t> strides = {}) {
    CallArgument argument;
    argument.kind = ops::ArgKind::kTensor;
    argument.present = true;
    argument.tensors.push_back(
        {.defined = true, .dtype = dtype, .dims = std::move(dims), .strides = std::move(strides)});
    call.arguments.push_back(std::move(argument));
    signature.arguments.push_back({name, direction});
    return *this;
  }
  Builder& integer(const std::string& name, int64_t value) {
    CallArgument argument;
    argument.kind = ops::ArgKind::kInt;
    argument.integers = {value};
    call.arguments.push_back(std::move(argument));
    signature.arguments.push_back({name, ArgDirection::kIn});
    return *this;
  }
  Builder& text(const std::string& name, const std::string& value) {
    CallArgument argument;
    argument.kind = ops::ArgKind::kString;
    argument.text = value;
    call.arguments.push_back(std::move(argument));
    signature.arguments.push_back({name, ArgDirection::kIn});
    return *this;
  }
  Roofline roofline(const device::Profile& profile = a_device()) const { return roofline_of(call, signature, profile); }
};

TEST(Roofline, AVectorOperatorMovesItsTensorsOnce) {
  const Roofline add = Builder("aclnnAdd")
                           .tensor("self", {1000, 1000})
                           .tensor("other", {1000, 1000}, ArgDirection::kIn, DataType::kFloat)
                           .tensor("out", {1000, 1000}, ArgDirection::kOut)
                           .roofline();
  EXPECT_TRUE(add.is_known);
  EXPECT_EQ(add.unit, Unit::kVector);
  EXPECT_EQ(add.bytes, 8'000'000U);
  EXPECT_DOUBLE_EQ(add.device_ns(), 8000);
}

TEST(Roofline, WhatAViewRepeatsCountsOnceAndWhatIsUpdatedTwice) {
  const Roofline add = Builder("aclnnInplaceAdd")
                           .tensor("selfRef", {100, 10}, ArgDirection::kInOut)
                           .tensor("other", {100, 10}, ArgDirection::kIn, DataType::kBFloat16, {0, 1})
                           .roofline();
  EXPECT_EQ(add.bytes, 2U * 2000 + 20);
}

TEST(Roofline, ATableIsReadWhereItsIndicesPoint) {
  const Roofline embedding = Builder("aclnnEmbedding")
                                 .tensor("weight", {100'000, 64})
                                 .tensor("indices", {8}, ArgDirection::kIn, DataType::kInt64)
                                 .tensor("out", {8, 64}, ArgDirection::kOut)
                                 .roofline();
  EXPECT_EQ(embedding.bytes, 64U + 2 * 8 * 64 * 2);
}

TEST(Roofline, AMatrixProductTakesTheLongerOfMovingAndMultiplying) {
  const auto product = [](int64_t rows) {
    return Builder("aclnnMm")
        .tensor("self", {rows, 1000})
        .tensor("mat2", {1000, 500})
        .tensor("out", {rows, 500}, ArgDirection::kOut)
        .roofline();
  };
  const Roofline large = product(4000);
  EXPECT_EQ(large.unit, Unit::kCube);
  EXPECT_EQ(large.cube_flops, 2ULL * 4000 * 1000 * 500);
  EXPECT_DOUBLE_EQ(large.device_ns(), 400'000);
  const Roofline small = product(1);
  EXPECT_DOUBLE_EQ(small.device_ns(), small.memory_ns) << "the weight has to come";
  EXPECT_GT(small.memory_ns, small.cube_ns);
}

TEST(Roofline, ConvolutionsAndAttention) {
  const Roofline convolution = Builder("aclnnConvolution")
                                   .tensor("input", {2, 16, 32, 32})
                                   .tensor("weight", {64, 16, 3, 3})
                                   .integer("transposed", 0)
                                   .tensor("output", {2, 64, 32, 32}, ArgDirection::kOut)
                                   .roofline();
  EXPECT_EQ(convolution.cube_flops, 2ULL * (2 * 64 * 32 * 32) * (16 * 3 * 3));
  const auto attention = [](const std::string& layout, std::vector<int64_t> dims, bool is_masked) {
    Builder builder("aclnnFlashAttentionScore");
    builder.tensor("query", dims).tensor("key", dims).tensor("value", dims);
    if (is_masked) builder.tensor("attenMaskOptional", {128, 128}, ArgDirection::kIn, DataType::kBool);
    return builder.integer("headNum", 8).text("inputLayout", layout).roofline().cube_flops;
  };
  constexpr uint64_t kWhole = 2ULL * 2 * 2 * 8 * 128 * 128 * 64;
  EXPECT_EQ(attention("BNSD", {2, 8, 128, 64}, false), kWhole);
  EXPECT_EQ(attention("BSND", {2, 128, 8, 64}, false), kWhole);
  EXPECT_EQ(attention("BSH", {2, 128, 512}, false), kWhole);
  EXPECT_EQ(attention("SBH", {128, 2, 512}, true), kWhole / 2);
  EXPECT_EQ(attention("TND", {256, 8, 64}, false), 0U) << "lengths are not in the shapes";
  const Roofline packed = Builder("aclnnQuantMatmulV5").tensor("x1", {16, 16}).roofline();
  EXPECT_FALSE(packed.is_known);
  EXPECT_EQ(packed.unit, Unit::kCube);
}

TEST(Roofline, WhatCannotBeKnownIsSaid) {
  Builder product("aclnnMm");
  product.tensor("self", {10, 10}).tensor("mat2", {10, 10}).tensor("out", {10, 10}, ArgDirection::kOut);
  device::Profile profile = a_device();
  profile.bf16_tflops = 0;
  EXPECT_FALSE(product.roofline(profile).is_known);
  profile.hbm_tbs = 0;
  EXPECT_FALSE(product.roofline(profile).is_known);
  product.call.truncated = true;
  EXPECT_FALSE(product.roofline().is_known);
  // Sizes that no tensor has, of damaged records.
  const Roofline absurd = Builder("aclnnMm")
                              .tensor("self", {INT64_MAX, INT64_MAX})
                              .tensor("mat2", {-5, 7})
                              .tensor("out", {}, ArgDirection::kOut)
                              .roofline();
  EXPECT_GE(absurd.device_ns(), 0);
}

TEST(Roofline, MoreIsNeverFasterAndAFasterDeviceNeverSlower) {
  double last_ns = 0;
  for (int64_t rows = 1; rows <= 4096; rows *= 2) {
    Builder product("aclnnMm");
    product.tensor("self", {rows, 256}).tensor("mat2", {256, 512}).tensor("out", {rows, 512}, ArgDirection::kOut);
    const double now_ns = product.roofline().device_ns();
    EXPECT_GE(now_ns, last_ns);
    last_ns = now_ns;
    device::Profile faster = a_device();
    faster.hbm_tbs *= 2;
    EXPECT_LE(product.roofline(faster).device_ns(), now_ns);
    faster.bf16_tflops *= 2;
    EXPECT_LE(product.roofline(faster).device_ns(), now_ns / 2 * 1.000001);
  }
}

}  // namespace
}  // namespace drydock::cost
