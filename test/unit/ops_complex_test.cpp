#include <complex>

#include <gtest/gtest.h>

#include "ops/complex/complex.h"
#include "ops/generated/kernels.h"
#include "ops_call_builder.h"

namespace drydock::ops::testing {
namespace {

using kernels::Complex;

HostTensor complex_tensor(const Dims& dims, const std::vector<Complex>& values, DataType dtype = DataType::kComplex64) {
  HostTensor result(dtype, dims);
  kernels::Rows(result.view(), kernels::all_axes(dims.size())).write<Complex>(0, values.data());
  return result;
}

std::vector<Complex> complex_values(HostTensor& tensor) {
  std::vector<Complex> values;
  kernels::for_each_value<Complex>(tensor.view(), [&](Complex value) { values.push_back(value); });
  return values;
}

TEST(ComplexKernels, ArithmeticTakesRealOperandsToo) {
  HostTensor a = complex_tensor({2}, {{1, 2}, {3, -1}});
  HostTensor b = tensor<float>({2}, {2, 3});
  HostTensor out(DataType::kComplex64, {2});
  EXPECT_TRUE(TestCall().in(a).in(b).out(out).run(kernels::multiply).is_ok());
  EXPECT_EQ(complex_values(out), (std::vector<Complex>{{2, 4}, {9, -3}}));
  EXPECT_TRUE(TestCall().in(a).in(b).scalar(2.0f).out(out).run(kernels::add).is_ok());
  EXPECT_EQ(complex_values(out), (std::vector<Complex>{{5, 2}, {9, -1}}));
  EXPECT_TRUE(TestCall().in(a).in(a).out(out).run(kernels::divide).is_ok());
  EXPECT_EQ(complex_values(out), (std::vector<Complex>{{1, 0}, {1, 0}}));
}

TEST(ComplexKernels, AbsoluteIsReal) {
  HostTensor z = complex_tensor({3}, {{3, 4}, {0, -2}, {0, 0}}, DataType::kComplex32);
  HostTensor out(DataType::kFloat, {3});
  EXPECT_TRUE(TestCall().in(z).out(out).run(kernels::absolute).is_ok());
  EXPECT_EQ(out.values(), (std::vector<double>{5, 2, 0}));
}

TEST(ComplexKernels, EqualityAndSums) {
  HostTensor a = complex_tensor({2, 2}, {{1, 2}, {3, -1}, {0, 1}, {0, 0}}, DataType::kComplex128);
  HostTensor b = complex_tensor({2, 2}, {{1, 2}, {3, 1}, {0, 1}, {1, 0}}, DataType::kComplex128);
  HostTensor same(DataType::kBool, {2, 2});
  EXPECT_TRUE(TestCall().in(a).in(b).out(same).run(kernels::equal_to).is_ok());
  EXPECT_EQ(same.values(), (std::vector<double>{1, 0, 1, 0}));
  HostTensor sums(DataType::kComplex128, {2});
  EXPECT_TRUE(TestCall().in(a).ints({1}).out(sums).run(kernels::reduce_sum).is_ok());
  EXPECT_EQ(complex_values(sums), (std::vector<Complex>{{4, 1}, {0, 1}}));
}

TEST(ComplexKernels, PartsAndShapes) {
  HostTensor real = tensor<float>({2}, {1, 2});
  HostTensor imaginary = tensor<float>({2}, {3, 4});
  HostTensor out(DataType::kComplex64, {2});
  EXPECT_TRUE(TestCall().in(real).in(imaginary).out(out).run(kernels::make_complex).is_ok());
  EXPECT_EQ(complex_values(out), (std::vector<Complex>{{1, 3}, {2, 4}}));
  HostTensor wrong = tensor<float>({3}, {3, 4, 5});
  EXPECT_EQ(TestCall().in(real).in(wrong).out(out).run(kernels::make_complex).code(), kernels::kParameterInvalid);
}

}  // namespace
}  // namespace drydock::ops::testing
