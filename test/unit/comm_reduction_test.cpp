#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/element_types.h"
#include "base/generated/error_codes.h"
#include "comm/reduction.h"

namespace drydock::comm {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

template <class T>
std::vector<T> reduce(HcclType type, ReduceOp op, const std::vector<std::vector<T>>& of_ranks) {
  alignas(64) static unsigned char scratch[Reduction::kScratchBytes];
  Reduction reduction(type, op, scratch);
  const uint64_t count = of_ranks.front().size();
  reduction.begin(of_ranks.front().data(), count);
  for (size_t rank = 1; rank < of_ranks.size(); ++rank) reduction.add(of_ranks[rank].data(), count);
  std::vector<T> result(count);
  reduction.end(result.data(), count);
  return result;
}

TEST(ReductionTest, SumsOfFloatsFollowTheRanks) {
  // From the right, or in pairs, the sum would be 2 or 0.
  EXPECT_THAT(reduce<float>(HcclType::kFloat32, ReduceOp::kSum, {{1e8F}, {1.0F}, {-1e8F}, {1.0F}}), ElementsAre(1.0F));
}

TEST(ReductionTest, SixteenBitFloatsAreRoundedOnce) {
  // Rounded after each sum, 1 + 2^-8 + 2^-8 of bf16 would stay 1.
  const BFloat16 one = bfloat16_of(1.0F);
  const BFloat16 little = bfloat16_of(0x1p-8F);
  const auto sum = reduce<BFloat16>(HcclType::kBFloat16, ReduceOp::kSum, {{one}, {little}, {little}});
  EXPECT_EQ(float_of(sum[0]), 1.0F + 0x1p-7F);
  const auto half = reduce<Float16>(HcclType::kFloat16, ReduceOp::kProd, {{float16_of(3.0F)}, {float16_of(0.5F)}});
  EXPECT_EQ(float_of(half[0]), 1.5F);
}

TEST(ReductionTest, IntegersWrap) {
  EXPECT_THAT(reduce<int8_t>(HcclType::kInt8, ReduceOp::kSum, {{127, -3}, {1, -4}}), ElementsAre(-128, -7));
  EXPECT_THAT(reduce<int16_t>(HcclType::kInt16, ReduceOp::kSum, {{32767}, {1}}), ElementsAre(-32768));
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  EXPECT_THAT(reduce<int64_t>(HcclType::kInt64, ReduceOp::kSum, {{kMost}, {1}}),
              ElementsAre(std::numeric_limits<int64_t>::min()));
  EXPECT_THAT(reduce<int32_t>(HcclType::kInt32, ReduceOp::kProd, {{1 << 30, -3}, {4, 5}}), ElementsAre(0, -15));
}

TEST(ReductionTest, ExtremaKeepNans) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const auto most = reduce<float>(HcclType::kFloat32, ReduceOp::kMax, {{nan, 1, 2, -1}, {1, nan, 3, -2}});
  EXPECT_TRUE(std::isnan(most[0]) && std::isnan(most[1]));
  EXPECT_EQ(most[2], 3.0F);
  EXPECT_EQ(most[3], -1.0F);
  const auto least = reduce<float>(HcclType::kFloat32, ReduceOp::kMin, {{nan, 1, 2, -1}, {1, nan, 3, -2}});
  EXPECT_TRUE(std::isnan(least[0]) && std::isnan(least[1]));
  EXPECT_EQ(least[2], 2.0F);
  EXPECT_EQ(least[3], -2.0F);
}

TEST(ReductionTest, WhatTheChipDoesNotReduceIsRefused) {
  EXPECT_TRUE(check_reduction("HcclAllReduce", 4, 0).is_ok());
  EXPECT_TRUE(check_reduction("HcclAllReduce", 11, 2).is_ok());
  const Status doubles = check_reduction("HcclAllReduce", 10, 0);
  EXPECT_EQ(doubles.code(), code::HCCL_E_NOT_SUPPORT);
  EXPECT_THAT(doubles.message(), HasSubstr("the sum of fp64"));
  EXPECT_EQ(check_reduction("HcclAllReduce", 11, 1).code(), code::HCCL_E_NOT_SUPPORT);
  EXPECT_EQ(check_reduction("HcclAllReduce", 4, 4).code(), code::HCCL_E_PARA);
  EXPECT_EQ(check_reduction("HcclAllReduce", 13, 0).code(), code::HCCL_E_PARA);
  EXPECT_EQ(check_type("HcclSend", -1).code(), code::HCCL_E_PARA);
}

}  // namespace
}  // namespace drydock::comm
