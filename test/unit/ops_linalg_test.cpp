#include <cmath>
#include <complex>
#include <cstring>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "ops/generated/kernels.h"
#include "ops_call_builder.h"

namespace drydock::ops::kernels {
namespace {

using testing::HostTensor;
using testing::TestCall;

void expect_near(const std::vector<double>& got, const std::vector<double>& expected, double tolerance = 1e-6) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t k = 0; k < got.size(); ++k) EXPECT_NEAR(got[k], expected[k], tolerance) << k;
}

TEST(Linalg, InverseOfABatchAndOfATransposedView) {
  HostTensor self(DataType::kFloat, {2, 2, 2}, {1, 2, 3, 4, 0, 2, 4, 0});
  self.restrided({2, 2, 2}, {4, 1, 2});  // each matrix transposed
  HostTensor out(DataType::kFloat, {2, 2, 2});
  ASSERT_TRUE(TestCall().in(self).out(out).run(inverse).is_ok());
  expect_near(out.values(), {-2, 1.5, 1, -0.5, 0, 0.5, 0.25, 0});
}

TEST(Linalg, InverseNamesTheSingularMatrix) {
  HostTensor self(DataType::kFloat, {2, 2, 2}, {1, 0, 0, 1, 1, 1, 1, 1});
  HostTensor out(DataType::kFloat, {2, 2, 2});
  const Status status = TestCall().in(self).out(out).run(inverse);
  EXPECT_EQ(status.code(), kDeviceFault);
  EXPECT_NE(status.message().find("matrix 1"), std::string::npos) << status.message();
}

TEST(Linalg, ShapesThatDoNotFitAreRefused) {
  HostTensor wide(DataType::kFloat, {2, 3}, {1, 2, 3, 4, 5, 6});
  HostTensor square(DataType::kFloat, {2, 2}, {1, 2, 3, 4});
  HostTensor scalar(DataType::kFloat, {});
  EXPECT_EQ(TestCall().in(wide).out(square).run(inverse).code(), kParameterInvalid);
  EXPECT_EQ(TestCall().in(square).out(wide).run(inverse).code(), kParameterInvalid);
  EXPECT_EQ(TestCall().in(scalar).out(square).run(inverse).code(), kParameterInvalid);
  EXPECT_EQ(TestCall().in(wide).boolean(false).out(square).run(cholesky).code(), kParameterInvalid);
  EXPECT_EQ(TestCall().in(wide).out(scalar).out(scalar).run(slogdet).code(), kParameterInvalid);
  EXPECT_EQ(TestCall().in(wide).integer(3).out(square).out(wide).run(qr).code(), kParameterInvalid);
  EXPECT_EQ(TestCall().in(wide).integer(0).out(wide).out(wide).run(qr).code(), kParameterInvalid);
}

TEST(Linalg, ZeroSizes) {
  HostTensor self(DataType::kFloat, {2, 0, 0});
  HostTensor out(DataType::kFloat, {2, 0, 0});
  EXPECT_TRUE(TestCall().in(self).out(out).run(inverse).is_ok());
  HostTensor sign(DataType::kFloat, {2});
  HostTensor log(DataType::kFloat, {2});
  ASSERT_TRUE(TestCall().in(self).out(sign).out(log).run(slogdet).is_ok());
  expect_near(sign.values(), {1, 1});
  expect_near(log.values(), {0, 0});
  HostTensor tall(DataType::kFloat, {3, 0});
  HostTensor q(DataType::kFloat, {3, 3});
  HostTensor r(DataType::kFloat, {3, 0});
  ASSERT_TRUE(TestCall().in(tall).integer(1).out(q).out(r).run(qr).is_ok());
  expect_near(q.values(), {1, 0, 0, 0, 1, 0, 0, 0, 1});
}

TEST(Linalg, SignAndLogarithmOfDeterminants) {
  HostTensor self(DataType::kDouble, {3, 2, 2}, {1, 2, 3, 4, 2, 0, 0, 3, 1, 1, 1, 1});
  HostTensor sign(DataType::kDouble, {3});
  HostTensor log(DataType::kDouble, {3});
  ASSERT_TRUE(TestCall().in(self).out(sign).out(log).run(slogdet).is_ok());
  expect_near(sign.values(), {-1, 1, 0});
  const std::vector<double> logs = log.values();
  EXPECT_NEAR(logs[0], std::log(2), 1e-12);
  EXPECT_NEAR(logs[1], std::log(6), 1e-12);
  EXPECT_EQ(logs[2], -std::numeric_limits<double>::infinity());
}

TEST(Linalg, CholeskyReadsOneTriangle) {
  HostTensor lower(DataType::kFloat, {2, 2}, {4, 99, 2, 5});
  HostTensor upper(DataType::kFloat, {2, 2}, {4, 2, 99, 5});
  HostTensor out(DataType::kFloat, {2, 2});
  ASSERT_TRUE(TestCall().in(lower).boolean(false).out(out).run(cholesky).is_ok());
  expect_near(out.values(), {2, 0, 1, 2});
  ASSERT_TRUE(TestCall().in(upper).boolean(true).out(out).run(cholesky).is_ok());
  expect_near(out.values(), {2, 1, 0, 2});
  HostTensor negative(DataType::kFloat, {1, 1}, {-1});
  HostTensor one(DataType::kFloat, {1, 1});
  EXPECT_EQ(TestCall().in(negative).boolean(false).out(one).run(cholesky).code(), kDeviceFault);
}

TEST(Linalg, QrHasTheSignsOfLapack) {
  HostTensor self(DataType::kFloat, {2, 2}, {1, 2, 3, 4});
  HostTensor q(DataType::kFloat, {2, 2});
  HostTensor r(DataType::kFloat, {2, 2});
  ASSERT_TRUE(TestCall().in(self).integer(0).out(q).out(r).run(qr).is_ok());
  expect_near(q.values(), {-0.316228, -0.948683, -0.948683, 0.316228}, 1e-5);
  expect_near(r.values(), {-3.162278, -4.427189, 0, -0.632456}, 1e-5);
  HostTensor none(DataType::kFloat, {0});
  HostTensor again(DataType::kFloat, {2, 2});
  ASSERT_TRUE(TestCall().in(self).integer(2).out(none).out(again).run(qr).is_ok());
  EXPECT_EQ(again.values(), r.values());
}

TEST(Linalg, TriangularSolveInAllForms) {
  HostTensor a(DataType::kFloat, {2, 2}, {2, 1, 5, 4});
  HostTensor b(DataType::kFloat, {2, 1}, {4, 8});
  HostTensor x(DataType::kFloat, {2, 1});
  HostTensor m(DataType::kFloat, {2, 2});
  const auto solve = [&](bool upper, bool transpose, bool unit) {
    TestCall call;
    call.in(b).in(a).boolean(upper).boolean(transpose).boolean(unit).out(x).out(m);
    EXPECT_TRUE(call.run(triangular_solve).is_ok());
    return x.values();
  };
  expect_near(solve(true, false, false), {1, 2});
  expect_near(solve(false, false, false), {2, -0.5});
  expect_near(solve(true, true, false), {2, 1.5});
  expect_near(solve(false, true, false), {-3, 2});
  expect_near(solve(true, false, true), {-4, 8});
  expect_near(solve(false, false, true), {4, -12});
  expect_near(m.values(), {2, 1, 5, 4});
  HostTensor wrong(DataType::kFloat, {3, 1}, {1, 2, 3});
  TestCall call;
  call.in(wrong).in(a).boolean(true).boolean(false).boolean(false).out(x).out(m);
  EXPECT_EQ(call.run(triangular_solve).code(), kParameterInvalid);
}

TEST(Linalg, SingularValuesAndVectorsGiveTheMatrixBack) {
  HostTensor self(DataType::kFloat, {2, 3}, {3, 0, 0, 0, 0, -2});
  HostTensor sigma(DataType::kFloat, {2});
  HostTensor u(DataType::kFloat, {2, 2});
  HostTensor v(DataType::kFloat, {3, 3});
  TestCall call;
  call.in(self).boolean(true).boolean(true).out(sigma).out(u).out(v);
  ASSERT_TRUE(call.run(singular_values).is_ok());
  expect_near(sigma.values(), {3, 2});
  const std::vector<double> s = sigma.values();
  const std::vector<double> uv = u.values();
  const std::vector<double> vv = v.values();
  const std::vector<double> expected = self.values();
  for (size_t r = 0; r < 2; ++r) {
    for (size_t c = 0; c < 3; ++c) {
      EXPECT_NEAR(uv[2 * r] * s[0] * vv[3 * c] + uv[2 * r + 1] * s[1] * vv[3 * c + 1], expected[3 * r + c], 1e-5);
    }
  }
  HostTensor nan(DataType::kFloat, {1, 1}, {std::nan("")});
  HostTensor one(DataType::kFloat, {1});
  TestCall fails;
  EXPECT_EQ(fails.in(nan).boolean(false).boolean(false).out(one).run(singular_values).code(), kDeviceFault);
}

TEST(Linalg, CrossProductsAlongAnyDimension) {
  HostTensor self(DataType::kInt32, {3, 2}, {1, 0, 2, 1, 3, 0});
  HostTensor other(DataType::kInt32, {3, 1}, {4, 5, 6});
  HostTensor out(DataType::kInt32, {3, 2});
  ASSERT_TRUE(TestCall().in(self).in(other).integer(-2).out(out).run(linalg_cross).is_ok());
  EXPECT_EQ(out.values(), (std::vector<double>{-3, 6, 6, 0, -3, -4}));
  EXPECT_EQ(TestCall().in(self).in(other).integer(1).out(out).run(linalg_cross).code(), kParameterInvalid);
  EXPECT_EQ(TestCall().in(self).in(other).integer(2).out(out).run(linalg_cross).code(), kParameterInvalid);
}

TEST(Linalg, ComplexElements) {
  // [[1i]] inverted by a determinant: sign i, logarithm 0.
  HostTensor self(DataType::kComplex64, {1, 1});
  const float one[2] = {0, 2};
  std::memcpy(self.bytes(), one, sizeof one);
  HostTensor sign(DataType::kComplex64, {});
  HostTensor log(DataType::kFloat, {});
  ASSERT_TRUE(TestCall().in(self).out(sign).out(log).run(slogdet).is_ok());
  float parts[2];
  std::memcpy(parts, sign.bytes(), sizeof parts);
  EXPECT_FLOAT_EQ(parts[0], 0);
  EXPECT_FLOAT_EQ(parts[1], 1);
  EXPECT_NEAR(log.values()[0], std::log(2), 1e-6);
}

TEST(Linalg, ComplexSingularVectors) {
  // [[0, 2i], [3, 0]] = U diag(3, 2) V^T.
  HostTensor self(DataType::kComplex64, {2, 2});
  const float elements[8] = {0, 0, 0, 2, 3, 0, 0, 0};
  std::memcpy(self.bytes(), elements, sizeof elements);
  HostTensor sigma(DataType::kFloat, {2});
  HostTensor u(DataType::kComplex64, {2, 2});
  HostTensor v(DataType::kComplex64, {2, 2});
  TestCall call;
  ASSERT_TRUE(call.in(self).boolean(false).boolean(true).out(sigma).out(u).out(v).run(singular_values).is_ok());
  expect_near(sigma.values(), {3, 2});
  std::complex<float> u_of[4];
  std::complex<float> v_of[4];
  std::memcpy(u_of, u.bytes(), sizeof u_of);
  std::memcpy(v_of, v.bytes(), sizeof v_of);
  for (size_t r = 0; r < 2; ++r) {
    for (size_t c = 0; c < 2; ++c) {
      const std::complex<float> value = u_of[2 * r] * 3.0F * v_of[2 * c] + u_of[2 * r + 1] * 2.0F * v_of[2 * c + 1];
      EXPECT_NEAR(value.real(), elements[4 * r + 2 * c], 1e-5);
      EXPECT_NEAR(value.imag(), elements[4 * r + 2 * c + 1], 1e-5);
    }
  }
}

}  // namespace
}  // namespace drydock::ops::kernels
