#include <cmath>
#include <limits>

#include "base/thread_pool.h"
#include "ops/generated/kernels.h"
#include "ops/matmul/gemm.h"
#include "ops_call_builder.h"

namespace drydock::ops::testing {
namespace {

using kernels::gemm;

std::vector<float> counting(int64_t count) {
  std::vector<float> values;
  for (int64_t k = 0; k < count; ++k) values.push_back(static_cast<float>((k * 7 + 3) % 11 - 5));
  return values;
}

// Small integers: sums are exact in any order.
void expect_gemm(int64_t m, int64_t n, int64_t k, bool transpose_a, bool transpose_b, float alpha, float beta) {
  const std::vector<float> a = counting(m * k), b = counting(n * k);
  std::vector<float> c = counting(m * n), expected = c;
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      float sum = 0;
      for (int64_t p = 0; p < k; ++p) {
        sum += a[static_cast<size_t>(transpose_a ? p * m + i : i * k + p)] *
               b[static_cast<size_t>(transpose_b ? j * k + p : p * n + j)];
      }
      float& at = expected[static_cast<size_t>(i * n + j)];
      at = alpha * sum + (beta == 0 ? 0 : beta * at);
    }
  }
  gemm<float>(m, n, k, a.data(), transpose_a ? m : k, transpose_a, b.data(), transpose_b ? k : n, transpose_b, c.data(),
              n, alpha, beta);
  ASSERT_EQ(c, expected) << m << "x" << n << "x" << k;
}

TEST(Gemm, ComputesAllShapesAndTransposes) {
  for (int64_t m : {1, 5, 13, 100}) {
    for (int64_t n : {1, 7, 33, 70}) {
      for (int64_t k : {1, 3, 257}) {
        expect_gemm(m, n, k, m % 2 == 0, n % 2 == 0, 1, 0);
        expect_gemm(m, n, k, k % 3 == 0, n % 3 == 0, 2, 3);
      }
    }
  }
  expect_gemm(800, 40, 20, false, false, 1, 0);
  expect_gemm(9, 2100, 20, true, true, 1, 1);
  expect_gemm(3, 4, 0, false, false, 1, 2);
}

TEST(Gemm, RunsInsideARangeOfThePool) {
  constexpr int64_t kSize = 40;
  const std::vector<double> a(kSize * kSize, 1.0);
  std::vector<double> c(8 * kSize * kSize);
  base::parallel_for(8, 1, [&](int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; ++k) {
      gemm<double>(kSize, kSize, kSize, a.data(), kSize, false, a.data(), kSize, true, c.data() + k * kSize * kSize,
                   kSize);
    }
  });
  for (double value : c) ASSERT_EQ(value, kSize);
}

TEST(Gemm, RoundsToTwelveBitsForHf32) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  float values[] = {1 + 0x1p-11f, 1 + 0x1p-12f, 1 + 3 * 0x1p-12f, -1 - 0x1.8p-11f, kInfinity, std::nanf("")};
  kernels::round_inputs(kernels::InputRounding::kTwelveBits, values, 6);
  EXPECT_EQ(values[0], 1 + 0x1p-11f);
  EXPECT_EQ(values[1], 1);              // tie, to even
  EXPECT_EQ(values[2], 1 + 0x1p-10f);   // tie, to even
  EXPECT_EQ(values[3], -1 - 0x1p-10f);  // tie, to even
  EXPECT_EQ(values[4], kInfinity);
  EXPECT_TRUE(std::isnan(values[5]));
}

TEST(MatmulKernel, AddsOntoItsOwnOutput) {
  HostTensor a = tensor<float>({2, 2}, {1, 2, 3, 4});
  HostTensor b = tensor<float>({2, 2}, {1, 0, 0, 1});
  HostTensor c = tensor<float>({2, 2}, {10, 20, 30, 40});
  TestCall call;
  call.in_out(c).in(a).in(b).scalar<double>(0.5).scalar<double>(2).integer(0);
  ASSERT_TRUE(call.run(kernels::addmm).is_ok());
  EXPECT_EQ(c.values(), (std::vector<double>{7, 14, 21, 28}));
}

TEST(MatmulKernel, ReadsAnInputThatTheOutputOverwrites) {
  HostTensor a = tensor<float>({2, 2}, {1, 2, 3, 4});
  HostTensor& out = a;
  TestCall call;
  call.in(a).in(a).out(out).integer(0);
  ASSERT_TRUE(call.run(kernels::mm).is_ok());
  EXPECT_EQ(a.values(), (std::vector<double>{7, 10, 15, 22}));
}

TEST(MatmulKernel, AnAbsentDepthGivesZeros) {
  HostTensor a(DataType::kBFloat16, {2, 0}), b(DataType::kBFloat16, {0, 3}), out(DataType::kBFloat16, {2, 3});
  TestCall call;
  call.in(a).in(b).out(out).integer(0);
  ASSERT_TRUE(call.run(kernels::mm).is_ok());
  EXPECT_EQ(out.values(), std::vector<double>(6, 0));
  EXPECT_TRUE(out.is_clean_behind());
}

TEST(MatmulKernel, RefusesShapesThatDoNotFit) {
  HostTensor a = tensor<float>({2, 2}, {1, 2, 3, 4});
  HostTensor b = tensor<float>({3, 1}, {1, 2, 3});
  HostTensor out(DataType::kFloat, {2, 1});
  HostTensor vector(DataType::kFloat, {2}, {1, 2});
  EXPECT_EQ(TestCall().in(a).in(b).out(out).integer(0).run(kernels::mm).code(), kernels::kParameterInvalid);
  EXPECT_EQ(TestCall().in(a).in(vector).out(out).integer(0).run(kernels::mm).code(), kernels::kParameterInvalid);
  EXPECT_EQ(TestCall().in(a).in(vector).out(out).integer(0).run(kernels::matmul).code(), kernels::kParameterInvalid);
  EXPECT_EQ(TestCall().in(a).in(a).out(a).integer(9).run(kernels::mm).code(), kernels::kParameterInvalid);
  HostTensor scalar(DataType::kFloat, {}, {1});
  EXPECT_EQ(TestCall().in(scalar).in(a).out(out).integer(0).run(kernels::matmul).code(), kernels::kParameterInvalid);
  EXPECT_EQ(TestCall().in(vector).in(vector).out(out).run(kernels::dot).code(), kernels::kParameterInvalid);
}

}  // namespace
}  // namespace drydock::ops::testing
