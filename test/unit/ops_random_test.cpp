#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include "ops/random/philox.h"

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

}  // namespace
}  // namespace drydock::ops::kernels
