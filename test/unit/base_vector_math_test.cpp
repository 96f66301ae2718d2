#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include "base/instruction_set.h"
#include "base/vector_math.h"

namespace drydock::vector_math {
namespace {

/// Arguments of every exponent and sign: each 16381st bit pattern, and what is special.
std::vector<float> arguments() {
  std::vector<float> values = {0.0f, -0.0f, 1.0f, -1.0f, 2.0f, 88.72f, 88.73f, -87.4f, -103.9f, -104.1f, 1e-45f};
  values.insert(values.end(), {INFINITY, -INFINITY, NAN});
  for (uint64_t bits = 0; bits < (uint64_t{1} << 32); bits += 16381) {
    values.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits)));
  }
  for (int k = -20000; k <= 20000; ++k) values.push_back(static_cast<float>(k) * 0.001f);
  return values;
}

/// Distance in units in the last place of the rounded truth; 0 for two NaNs or equal infinities.
double error_in_ulp(float got, double truth) {
  const float rounded = static_cast<float>(truth);
  if (std::isnan(truth) || std::isnan(got)) return std::isnan(truth) && std::isnan(got) ? 0 : 1e9;
  if (got == rounded) return 0;
  if (std::isinf(got) || std::isinf(rounded)) return std::isinf(got) && std::isinf(truth) ? 1e9 : 1;
  const double unit = std::max(std::ldexp(1.0, std::ilogb(rounded == 0 ? 1e-45f : rounded) - 23), 0x1p-149);
  return std::abs(static_cast<double>(got) - truth) / unit;
}

template <class Function, class Truth>
void expect_accurate(const char* name, Function function, Truth truth, double most_ulp = 2) {
  double worst = 0;
  float where = 0;
  for (float x : arguments()) {
    const double error = error_in_ulp(function(x), truth(static_cast<double>(x)));
    if (error > worst) {
      worst = error;
      where = x;
    }
  }
  EXPECT_LE(worst, most_ulp) << name << "(" << where << ")";
}

TEST(VectorMath, WithinTwoUnits) {
  expect_accurate(
      "exp", [](float x) { return exp(x); }, [](double x) { return std::exp(x); });
  expect_accurate(
      "exp2", [](float x) { return exp2(x); }, [](double x) { return std::exp2(x); });
  expect_accurate(
      "expm1", [](float x) { return expm1(x); }, [](double x) { return std::expm1(x); });
  expect_accurate(
      "log", [](float x) { return log(x); }, [](double x) { return std::log(x); });
  expect_accurate(
      "log2", [](float x) { return log2(x); }, [](double x) { return std::log2(x); });
  expect_accurate(
      "log10", [](float x) { return log10(x); }, [](double x) { return std::log10(x); });
  expect_accurate(
      "log1p", [](float x) { return log1p(x); }, [](double x) { return std::log1p(x); });
  expect_accurate(
      "tanh", [](float x) { return tanh(x); }, [](double x) { return std::tanh(x); });
  expect_accurate(
      "erf", [](float x) { return erf(x); }, [](double x) { return std::erf(x); });
  // Its subnormal results may be 0.
  expect_accurate(
      "sigmoid", [](float x) { return x < -87 ? 0 : sigmoid(x); },
      [](double x) { return x < -87 ? 0 : 1 / (1 + std::exp(-x)); }, 3);
}

TEST(VectorMath, AnglesInRange) {
  for (float x : arguments()) {
    if (!(std::abs(x) <= kMostAngle)) continue;
    EXPECT_LE(error_in_ulp(sin_in_range(x), std::sin(static_cast<double>(x))), 2) << x;
    EXPECT_LE(error_in_ulp(cos_in_range(x), std::cos(static_cast<double>(x))), 2) << x;
  }
}

TEST(VectorMath, PowersAsTheLibrarys) {
  const std::vector<float> some = {0.0f,   -0.0f,    1.0f,        -1.0f,        0.5f,        -0.5f,  2.0f,
                                   -2.0f,  3.0f,     -3.0f,       10.0f,        1.5f,        -1.5f,  0.3f,
                                   7e8f,   -7e8f,    16777215.0f, -16777215.0f, 16777216.0f, 1e-30f, 1e30f,
                                   1e-40f, INFINITY, -INFINITY,   NAN};
  for (float x : some) {
    for (float y : some) {
      const float expected = std::pow(x, y);
      const float got = pow(x, y);
      EXPECT_LE(error_in_ulp(got, std::pow(static_cast<double>(x), static_cast<double>(y))), 1) << x << " ^ " << y;
      EXPECT_TRUE(expected != 0 || std::signbit(got) == std::signbit(expected)) << x << " ^ " << y;
    }
  }
}

TEST(VectorMath, TheSameBitsWithEveryInstructionSet) {
  const std::vector<float> values = arguments();
  std::vector<std::vector<float>> results;
  for (auto set : {base::InstructionSet::kBaseline, base::InstructionSet::kAvx2, base::InstructionSet::kAvx512}) {
    base::limit_instruction_set(set);
    std::vector<float>& result = results.emplace_back(values.size());
    base::vectorized([&] {
      const float* in = values.data();
      float* out = result.data();
      const int64_t count = static_cast<int64_t>(values.size());
#pragma GCC ivdep
      for (int64_t k = 0; k < count; ++k)
        out[k] = exp(in[k]) + log(in[k]) + tanh(in[k]) + erf(in[k]) + pow(2.5f, in[k]);
    });
  }
  for (size_t set = 1; set < results.size(); ++set) {
    for (size_t k = 0; k < values.size(); ++k) {
      if (std::isnan(results[0][k]) && std::isnan(results[set][k])) continue;
      ASSERT_EQ(results[0][k], results[set][k]) << values[k];
    }
  }
}

}  // namespace
}  // namespace drydock::vector_math
