#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include "ops/generated/kernels.h"
#include "ops/random/philox.h"
#include "ops_call_builder.h"

namespace drydock::ops::kernels {
namespace {

TEST(Philox, GivesTheAuthorsKnownAnswers) {
  EXPECT_EQ(Philox(0, 0).block(0), (Philox::Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(Philox(~uint64_t{0}, ~uint64_t{0}).block(~uint64_t{0}),
            (Philox::Block{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(Philox(0x299f31d0a4093822, 0x0370734413198a2e).block(0x85a308d3243f6a88),
            (Philox::Block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, GivesTheSameWordsFromAnyPlace) {
  const Philox generator(7, 40);
  std::vector<uint32_t> all(300);
  generator.words(0, 300, all.data());
  for (uint64_t word = 0; word < 300; ++word) EXPECT_EQ(all[word], generator.block(word / 4)[word % 4]);
  for (int64_t first : {0, 1, 2, 3, 4, 61, 130}) {
    std::vector<uint32_t> part(150);
    generator.words(static_cast<uint64_t>(first), 150, part.data());
    EXPECT_TRUE(std::equal(part.begin(), part.end(), all.begin() + first)) << first;
  }
}

template <class C>
void expect_parts_of_one_stream() {
  const Philox generator(3, 1);
  std::vector<C> all(200);
  std::vector<C> part(100);
  for (const bool normal : {false, true}) {
    const auto draw = [&](uint64_t first, int64_t count, C* out) {
      normal ? generator.normals(first, count, out) : generator.units(first, count, out);
    };
    draw(0, 200, all.data());
    for (int64_t first : {0, 1, 2, 5, 64, 99}) {
      draw(static_cast<uint64_t>(first), 100, part.data());
      EXPECT_TRUE(std::equal(part.begin(), part.end(), all.begin() + first)) << first;
    }
  }
}

TEST(Philox, DrawsPartsOfOneStream) {
  expect_parts_of_one_stream<float>();
  expect_parts_of_one_stream<double>();
}

TEST(Philox, BitsAndUnitsAreTheSameElements) {
  const Philox generator(11, 12);
  double units[5];
  generator.units(0, 5, units);
  for (uint64_t k = 0; k < 5; ++k) EXPECT_EQ(units[k], generator.unit(k));
}

template <class C>
void expect_moments() {
  const Philox generator(20260801, 4);
  const int64_t count = 100000;
  std::vector<C> values(static_cast<size_t>(count));
  const auto moments = [&](double& mean, double& variance) {
    mean = 0;
    variance = 0;
    for (C value : values) mean += static_cast<double>(value) / static_cast<double>(count);
    for (C value : values) variance += std::pow(static_cast<double>(value) - mean, 2) / static_cast<double>(count);
  };
  double mean = 0;
  double variance = 0;
  generator.units(0, count, values.data());
  moments(mean, variance);
  EXPECT_NEAR(mean, 0.5, 0.004);
  EXPECT_NEAR(variance, 1.0 / 12, 0.002);
  EXPECT_GE(*std::min_element(values.begin(), values.end()), 0);
  EXPECT_LT(*std::max_element(values.begin(), values.end()), 1);
  // Kolmogorov-Smirnov distance from the uniform distribution; its 0.1 % bound is 1.95 / sqrt(n).
  std::sort(values.begin(), values.end());
  double distance = 0;
  for (int64_t k = 0; k < count; ++k) {
    const double fraction = (static_cast<double>(k) + 0.5) / static_cast<double>(count);
    distance = std::max(distance, std::fabs(static_cast<double>(values[static_cast<size_t>(k)]) - fraction));
  }
  EXPECT_LT(distance, 0.0062);
  generator.normals(0, count, values.data());
  moments(mean, variance);
  EXPECT_NEAR(mean, 0, 0.013);
  EXPECT_NEAR(variance, 1, 0.02);
}

TEST(Philox, FollowsItsDistributions) {
  expect_moments<float>();
  expect_moments<double>();
}

using testing::HostTensor;
using testing::TestCall;

TEST(RandomKernels, TakeTheSameElementsWhateverTheStrides) {
  HostTensor dense(DataType::kFloat, {3, 4});
  HostTensor turned(DataType::kFloat, {3, 4});
  turned.restrided({3, 4}, {1, 3});
  for (HostTensor* out : {&dense, &turned}) {
    ASSERT_TRUE(TestCall().out(*out).number(1).number(2).integer(5).integer(6).run(normal).is_ok());
  }
  EXPECT_EQ(dense.values(), turned.values());
  HostTensor other(DataType::kFloat, {3, 4});
  ASSERT_TRUE(TestCall().out(other).number(1).number(2).integer(5).integer(7).run(normal).is_ok());
  EXPECT_NE(dense.values(), other.values());
  EXPECT_TRUE(turned.is_clean_behind());
}

TEST(RandomKernels, SeedAndOffsetMayBeTensors) {
  HostTensor numbers(DataType::kFloat, {9});
  HostTensor tensors(DataType::kFloat, {9});
  HostTensor seed = testing::tensor<int64_t>({1}, {5});
  HostTensor offset = testing::tensor<int64_t>({1}, {4});
  ASSERT_TRUE(TestCall().out(numbers).number(-1).number(1).integer(5).integer(6).run(uniform).is_ok());
  TestCall call;
  call.out(tensors).number(-1).number(1).in(seed).in(offset).integer(2);
  ASSERT_TRUE(call.run(uniform_seeded_by_tensors).is_ok());
  EXPECT_EQ(numbers.values(), tensors.values());
}

TEST(RandomKernels, RefuseWhatIsNoDistribution) {
  HostTensor out(DataType::kFloat, {4});
  EXPECT_EQ(TestCall().out(out).number(1).number(0).integer(1).integer(1).run(uniform).code(), kParameterInvalid);
  EXPECT_EQ(TestCall().out(out).number(1).number(-1).integer(1).integer(1).run(normal).code(), kParameterInvalid);
  EXPECT_EQ(TestCall().out(out).integer(4).number(0).integer(1).integer(1).run(exponential).code(), kParameterInvalid);
  HostTensor mean(DataType::kFloat, {3}, {0, 0, 0});
  TestCall call;
  EXPECT_EQ(call.in(mean).number(1).integer(1).integer(1).out(out).run(normal_of_tensor_and_number).code(),
            kParameterInvalid);
  HostTensor empty(DataType::kFloat, {0});
  EXPECT_TRUE(TestCall().out(empty).number(0).number(1).integer(1).integer(1).run(uniform).is_ok());
}

TEST(RandomKernels, PermutationsHoldEveryNumberOnce) {
  HostTensor out(DataType::kInt32, {600});
  ASSERT_TRUE(TestCall().integer(600).integer(1).integer(2).out(out).run(randperm).is_ok());
  std::vector<double> values = out.values();
  EXPECT_FALSE(std::is_sorted(values.begin(), values.end()));
  std::sort(values.begin(), values.end());
  for (size_t k = 0; k < values.size(); ++k) EXPECT_EQ(values[k], static_cast<double>(k));
}

TEST(RandomKernels, MultinomialDrawsWeightedClassesAlone) {
  HostTensor weights(DataType::kFloat, {2, 3}, {0, 2, 1, 1, 0, 5});
  HostTensor all(DataType::kInt64, {2, 2});
  TestCall distinct;
  ASSERT_TRUE(distinct.in(weights).integer(2).boolean(false).integer(3).integer(4).out(all).run(multinomial).is_ok());
  std::vector<double> values = all.values();
  EXPECT_EQ(values[0] + values[1], 3);  // classes 1 and 2
  EXPECT_EQ(values[2] + values[3], 2);  // classes 0 and 2
  HostTensor many(DataType::kInt64, {2, 50});
  TestCall repeated;
  ASSERT_TRUE(repeated.in(weights).integer(50).boolean(true).integer(3).integer(4).out(many).run(multinomial).is_ok());
  values = many.values();
  EXPECT_TRUE(std::all_of(values.begin(), values.begin() + 50, [](double v) { return v == 1 || v == 2; }));
  EXPECT_TRUE(std::all_of(values.begin() + 50, values.end(), [](double v) { return v == 0 || v == 2; }));
  HostTensor wrong(DataType::kFloat, {2, 3}, {0, -2, 1, 1, 0, 0});
  TestCall negative;
  EXPECT_EQ(negative.in(wrong).integer(2).boolean(true).integer(3).integer(4).out(all).run(multinomial).code(),
            kParameterInvalid);
}

}  // namespace
}  // namespace drydock::ops::kernels
