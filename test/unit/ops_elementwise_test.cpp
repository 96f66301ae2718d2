#include "ops/generated/kernels.h"
#include "ops_call_builder.h"

namespace drydock::ops::kernels {
namespace {

using testing::HostTensor;
using testing::tensor;
using testing::TestCall;
using Values = std::vector<double>;

constexpr double kInf = std::numeric_limits<double>::infinity();
const double kNan = std::nan("");

/// A binary kernel on two tensors.
Values binary(Kernel kernel, HostTensor a, HostTensor b, DataType out_type, const Dims& dims) {
  HostTensor out(out_type, dims);
  const Status status = TestCall().in(a).in(b).out(out).run(kernel);
  EXPECT_TRUE(status.is_ok()) << status.message();
  EXPECT_TRUE(out.is_clean_behind());
  return out.values();
}

Values unary(Kernel kernel, HostTensor a, DataType out_type) {
  HostTensor out(out_type, a.view().dims);
  const Status status = TestCall().in(a).out(out).run(kernel);
  EXPECT_TRUE(status.is_ok()) << status.message();
  return out.values();
}

TEST(Arithmetic, AddsWithAlphaAndBroadcasts) {
  HostTensor a(DataType::kFloat, {2, 2}, {1, 2, 3, 4});
  HostTensor b(DataType::kFloat, {2}, {10, 20});
  HostTensor out(DataType::kFloat, {2, 2});
  ASSERT_TRUE(TestCall().in(a).in(b).scalar(0.5).out(out).run(add).is_ok());
  EXPECT_EQ(out.values(), (Values{6, 12, 8, 14}));
  ASSERT_TRUE(TestCall().in_out(a).in(b).scalar(int64_t{2}).run(subtract).is_ok());
  EXPECT_EQ(a.values(), (Values{-19, -38, -17, -36}));
  ASSERT_TRUE(TestCall().in(b).scalar(int64_t{1}).scalar(int64_t{3}).out(b).run(reverse_subtract).is_ok());
  EXPECT_EQ(b.values(), (Values{1 - 30, 1 - 60}));
}

TEST(Arithmetic, IntegersWrapInTheirOwnWidth) {
  HostTensor a(DataType::kUInt8, {2}, {3, 200});
  HostTensor b(DataType::kUInt8, {2}, {5, 100});
  HostTensor out(DataType::kUInt8, {2});
  ASSERT_TRUE(TestCall().in(a).in(b).scalar(int64_t{1}).out(out).run(subtract).is_ok());
  EXPECT_EQ(out.values(), (Values{254, 100}));
  ASSERT_TRUE(TestCall().in(a).in(b).scalar(int64_t{1}).out(out).run(add).is_ok());
  EXPECT_EQ(out.values(), (Values{8, 44}));
  HostTensor large = tensor<int64_t>({1}, {std::numeric_limits<int64_t>::max()});
  HostTensor wrapped(DataType::kInt64, {1});
  ASSERT_TRUE(TestCall().in(large).scalar(int64_t{1}).scalar(int64_t{1}).out(wrapped).run(add).is_ok());
  EXPECT_EQ(as_int64(wrapped.view()), std::numeric_limits<int64_t>::min());
}

TEST(Arithmetic, IntegerTensorWithFloatingScalarComputesInFp32) {
  HostTensor a(DataType::kInt32, {3}, {1, 2, 3});
  HostTensor out(DataType::kFloat, {3});
  ASSERT_TRUE(TestCall().in(a).scalar(0.5).out(out).run(multiply).is_ok());
  EXPECT_EQ(out.values(), (Values{0.5, 1, 1.5}));
  ASSERT_TRUE(TestCall().in(a).scalar(int64_t{2}).out(out).run(divide).is_ok());
  EXPECT_EQ(out.values(), (Values{0.5, 1, 1.5}));
}

TEST(Arithmetic, DivisionRoundsAsItsModeSays) {
  HostTensor a(DataType::kInt32, {4}, {7, -7, 7, -7});
  HostTensor b(DataType::kInt32, {4}, {2, 2, -2, -2});
  HostTensor out(DataType::kInt32, {4});
  ASSERT_TRUE(TestCall().in(a).in(b).integer(1).out(out).run(divide_with_mode).is_ok());
  EXPECT_EQ(out.values(), (Values{3, -3, -3, 3}));
  ASSERT_TRUE(TestCall().in(a).in(b).integer(2).out(out).run(divide_with_mode).is_ok());
  EXPECT_EQ(out.values(), (Values{3, -4, -4, 3}));
  EXPECT_EQ(TestCall().in(a).in(b).integer(3).out(out).run(divide_with_mode).code(), kParameterInvalid);
  EXPECT_EQ(binary(remainder, a, b, DataType::kInt32, {4}), (Values{1, 1, -1, -1}));
  EXPECT_EQ(binary(fmod, a, b, DataType::kInt32, {4}), (Values{1, -1, 1, -1}));
}

TEST(Arithmetic, IntegerDivisionByZeroAndOverflowDoNotTrap) {
  HostTensor a = tensor<int64_t>({2}, {5, std::numeric_limits<int64_t>::min()});
  HostTensor b = tensor<int64_t>({2}, {0, -1});
  for (Kernel kernel : {&floor_divide, &remainder, &fmod}) {
    HostTensor out(DataType::kInt64, {2});
    EXPECT_TRUE(TestCall().in(a).in(b).out(out).run(kernel).is_ok());
  }
}

TEST(Arithmetic, PowersOfIntegersAndFloats) {
  HostTensor base(DataType::kInt64, {4}, {2, -3, 1, -1});
  HostTensor exponent(DataType::kInt64, {4}, {10, 3, -5, -3});
  EXPECT_EQ(binary(pow, base, exponent, DataType::kInt64, {4}), (Values{1024, -27, 1, -1}));
  HostTensor out(DataType::kFloat, {4});
  ASSERT_TRUE(TestCall().scalar(2.0).in(exponent).out(out).run(pow).is_ok());
  EXPECT_EQ(out.values(), (Values{1024, 8, 0.03125, 0.125}));
}

TEST(Arithmetic, NanWinsInMaximumAndMinimum) {
  HostTensor a(DataType::kFloat, {3}, {1, kNan, 3});
  HostTensor b(DataType::kFloat, {3}, {2, 2, kNan});
  const Values high = binary(maximum, a, b, DataType::kFloat, {3});
  EXPECT_EQ(high[0], 2);
  EXPECT_TRUE(std::isnan(high[1]) && std::isnan(high[2]));
  EXPECT_EQ(binary(minimum, a, b, DataType::kFloat, {3})[0], 1);
}

TEST(Arithmetic, UInt64ComparesAndDividesAsUnsigned) {
  HostTensor a = tensor<uint64_t>({1}, {std::numeric_limits<uint64_t>::max()});
  HostTensor b = tensor<uint64_t>({1}, {2});
  EXPECT_EQ(binary(greater, a, b, DataType::kBool, {1}), Values{1});
  HostTensor out(DataType::kUInt64, {1});
  ASSERT_TRUE(TestCall().in(a).in(b).out(out).run(floor_divide).is_ok());
  EXPECT_EQ(as_value<uint64_t>(out.view()), std::numeric_limits<uint64_t>::max() / 2);
}

TEST(Arithmetic, RefusesShapesThatDoNotBroadcastAndTypesItCannotRead) {
  HostTensor a(DataType::kFloat, {3}, {1, 2, 3});
  HostTensor b(DataType::kFloat, {2}, {1, 2});
  HostTensor out(DataType::kFloat, {3});
  const Status status = TestCall("aclnnMul").in(a).in(b).out(out).run(multiply);
  EXPECT_EQ(status.code(), kParameterInvalid);
  EXPECT_NE(status.message().find("aclnnMul"), std::string::npos);
  HostTensor packed(DataType::kInt4, {3});
  EXPECT_EQ(TestCall().in(packed).in(a).out(out).run(multiply).code(), kNotComputed);
  EXPECT_EQ(TestCall().absent().in(a).out(out).run(multiply).code(), kNotComputed);
  EXPECT_EQ(TestCall().in(a).out(out).run(multiply).code(), kNotComputed);
}

TEST(Arithmetic, FusedForms) {
  HostTensor self(DataType::kFloat, {2}, {1, 2});
  HostTensor a(DataType::kFloat, {2}, {3, 4});
  HostTensor b(DataType::kFloat, {2}, {2, 8});
  HostTensor out(DataType::kFloat, {2});
  ASSERT_TRUE(TestCall().in(self).in(a).in(b).scalar(0.5).out(out).run(addcmul).is_ok());
  EXPECT_EQ(out.values(), (Values{4, 18}));
  ASSERT_TRUE(TestCall().in(self).in(a).in(b).scalar(2.0).out(out).run(addcdiv).is_ok());
  EXPECT_EQ(out.values(), (Values{4, 3}));
  ASSERT_TRUE(TestCall().in(self).in(a).scalar(0.25).out(out).run(lerp).is_ok());
  EXPECT_EQ(out.values(), (Values{1.5, 2.5}));
}

TEST(Compare, MixedTypesCompareInThePromotedType) {
  HostTensor halves(DataType::kFloat16, {2}, {0.1, 0.5});
  HostTensor out(DataType::kBool, {2});
  // 0.1 is not an fp16 value, but the scalar becomes the same fp16 value as the element.
  ASSERT_TRUE(TestCall().in(halves).scalar(0.1).out(out).run(equal_to).is_ok());
  EXPECT_EQ(out.values(), (Values{1, 0}));
  HostTensor ints(DataType::kInt64, {3}, {1, 2, 3});
  HostTensor truth(DataType::kBool, {3});
  ASSERT_TRUE(TestCall().in(ints).scalar(2.5).out(truth).run(less).is_ok());
  EXPECT_EQ(truth.values(), (Values{1, 1, 0}));
  const int64_t large = (int64_t{1} << 53) + 1;
  HostTensor a = tensor<int64_t>({1}, {large});
  HostTensor b = tensor<int64_t>({1}, {large - 1});
  EXPECT_EQ(binary(equal_to, a, b, DataType::kBool, {1}), Values{0});
}

TEST(Compare, InPlaceWritesTheTensorsOwnType) {
  HostTensor a(DataType::kFloat, {3}, {1, 5, 3});
  ASSERT_TRUE(TestCall().in_out(a).scalar(int64_t{3}).run(greater_equal).is_ok());
  EXPECT_EQ(a.values(), (Values{0, 1, 1}));
}

TEST(Compare, LogicAndBits) {
  HostTensor a(DataType::kInt32, {4}, {0, 1, 6, 0});
  HostTensor b(DataType::kInt32, {4}, {0, 0, 3, 2});
  EXPECT_EQ(binary(logical_and, a, b, DataType::kBool, {4}), (Values{0, 0, 1, 0}));
  EXPECT_EQ(binary(logical_or, a, b, DataType::kBool, {4}), (Values{0, 1, 1, 1}));
  EXPECT_EQ(binary(logical_xor, a, b, DataType::kBool, {4}), (Values{0, 1, 0, 1}));
  EXPECT_EQ(unary(logical_not, a, DataType::kBool), (Values{1, 0, 0, 1}));
  EXPECT_EQ(binary(bitwise_and, a, b, DataType::kInt32, {4}), (Values{0, 0, 2, 0}));
  EXPECT_EQ(binary(bitwise_or, a, b, DataType::kInt32, {4}), (Values{0, 1, 7, 2}));
  EXPECT_EQ(binary(bitwise_xor, a, b, DataType::kInt32, {4}), (Values{0, 1, 5, 2}));
  EXPECT_EQ(unary(bitwise_not, a, DataType::kInt32), (Values{-1, -2, -7, -1}));
  HostTensor flags(DataType::kBool, {2}, {0, 1});
  EXPECT_EQ(unary(bitwise_not, flags, DataType::kBool), (Values{1, 0}));
  HostTensor halves(DataType::kFloat16, {2}, {0, 1});
  HostTensor out(DataType::kFloat16, {2});
  EXPECT_EQ(TestCall().in(halves).out(out).run(bitwise_not).code(), kParameterInvalid);
  HostTensor counts(DataType::kInt32, {4}, {1, 2, 1, 40});
  EXPECT_EQ(binary(shift_left, a, counts, DataType::kInt32, {4}), (Values{0, 4, 12, 0}));
  EXPECT_EQ(binary(shift_right, a, counts, DataType::kInt32, {4}), (Values{0, 0, 3, 0}));
}

TEST(Compare, ClassifiesFloats) {
  HostTensor a(DataType::kFloat, {4}, {1, kInf, -kInf, kNan});
  EXPECT_EQ(unary(is_finite, a, DataType::kBool), (Values{1, 0, 0, 0}));
  EXPECT_EQ(unary(is_positive_infinity, a, DataType::kBool), (Values{0, 1, 0, 0}));
  EXPECT_EQ(unary(is_negative_infinity, a, DataType::kBool), (Values{0, 0, 1, 0}));
  HostTensor ints(DataType::kInt8, {1}, {5});
  EXPECT_EQ(unary(is_finite, ints, DataType::kBool), Values{1});
}

TEST(Compare, WholeTensorsAreEqualInShapeAndElements) {
  HostTensor a(DataType::kInt32, {2}, {1, 2});
  HostTensor same(DataType::kInt32, {2}, {1, 2});
  HostTensor other(DataType::kInt32, {2}, {1, 3});
  HostTensor longer(DataType::kInt32, {3}, {1, 2, 3});
  EXPECT_EQ(binary(all_equal, a, same, DataType::kBool, {1}), Values{1});
  EXPECT_EQ(binary(all_equal, a, other, DataType::kBool, {1}), Values{0});
  EXPECT_EQ(binary(all_equal, a, longer, DataType::kBool, {1}), Values{0});
}

TEST(Compare, CloseWithinTolerances) {
  HostTensor a(DataType::kFloat, {4}, {1, 1, kNan, kInf});
  HostTensor b(DataType::kFloat, {4}, {1.0005, 1.1, kNan, kInf});
  HostTensor out(DataType::kBool, {4});
  ASSERT_TRUE(TestCall().in(a).in(b).number(1e-3).number(0).boolean(true).out(out).run(is_close).is_ok());
  EXPECT_EQ(out.values(), (Values{1, 0, 1, 1}));
}

TEST(Unary, RoundsAndSigns) {
  HostTensor a(DataType::kFloat, {5}, {-1.5, -0.5, 0.5, 1.5, 2.25});
  EXPECT_EQ(unary(round, a, DataType::kFloat), (Values{-2, 0, 0, 2, 2}));
  EXPECT_EQ(unary(trunc, a, DataType::kFloat), (Values{-1, 0, 0, 1, 2}));
  EXPECT_EQ(unary(floor, a, DataType::kFloat), (Values{-2, -1, 0, 1, 2}));
  EXPECT_EQ(unary(ceil, a, DataType::kFloat), (Values{-1, 0, 1, 2, 3}));
  EXPECT_EQ(unary(sign, a, DataType::kFloat), (Values{-1, -1, 1, 1, 1}));
  EXPECT_EQ(unary(relu, a, DataType::kFloat), (Values{0, 0, 0.5, 1.5, 2.25}));
  HostTensor out(DataType::kFloat, {5});
  ASSERT_TRUE(TestCall().in(a).integer(1).out(out).run(round_decimals).is_ok());
  EXPECT_NEAR(out.values()[4], 2.2, 1e-6);
  HostTensor ints(DataType::kInt32, {2}, {-5, 5});
  EXPECT_EQ(unary(absolute, ints, DataType::kInt32), (Values{5, 5}));
  EXPECT_EQ(unary(negate, ints, DataType::kInt32), (Values{5, -5}));
  EXPECT_EQ(unary(floor, ints, DataType::kInt32), (Values{-5, 5}));
}

TEST(Unary, FloatingFunctionsTakeIntegersAsFp32) {
  HostTensor ints(DataType::kInt64, {2}, {4, 9});
  EXPECT_EQ(unary(sqrt, ints, DataType::kFloat), (Values{2, 3}));
  EXPECT_EQ(unary(reciprocal, ints, DataType::kFloat)[0], 0.25);
  HostTensor zero(DataType::kFloat16, {1}, {0});
  EXPECT_EQ(unary(sigmoid, zero, DataType::kFloat16), Values{0.5});
  EXPECT_EQ(unary(silu, zero, DataType::kFloat16), Values{0});
  EXPECT_NEAR(unary(log_sigmoid, zero, DataType::kFloat)[0], -std::log(2.0), 1e-6);
}

TEST(Unary, GeluFollowsTheFormulaOfItsOperator) {
  HostTensor one(DataType::kFloat, {1}, {1});
  HostTensor out(DataType::kFloat, {1});
  EXPECT_NEAR(unary(gelu, one, DataType::kFloat)[0], 0.8411920, 1e-6);
  ASSERT_TRUE(TestCall().in(one).integer(1).out(out).run(gelu_with_approximation).is_ok());
  EXPECT_NEAR(out.values()[0], 0.8411920, 1e-6);
  ASSERT_TRUE(TestCall().in(one).integer(0).out(out).run(gelu_with_approximation).is_ok());
  EXPECT_NEAR(out.values()[0], 0.8413447, 1e-6);
}

TEST(Select, WhereTakesFromEither) {
  HostTensor condition(DataType::kBool, {2, 1}, {1, 0});
  HostTensor a(DataType::kInt64, {2, 2}, {1, 2, 3, 4});
  HostTensor b(DataType::kInt64, {}, {-1});
  HostTensor out(DataType::kInt64, {2, 2});
  ASSERT_TRUE(TestCall().in(condition).in(a).in(b).out(out).run(where).is_ok());
  EXPECT_EQ(out.values(), (Values{1, 2, -1, -1}));
}

TEST(Select, MaskedFillBroadcastsTheMask) {
  HostTensor self(DataType::kFloat16, {2, 2}, {1, 2, 3, 4});
  HostTensor mask(DataType::kBool, {2}, {0, 1});
  ASSERT_TRUE(TestCall().in_out(self).in(mask).scalar(-kInf).run(masked_fill).is_ok());
  EXPECT_EQ(self.values(), (Values{1, -kInf, 3, -kInf}));
}

TEST(Select, ClampTakesAbsentLimits) {
  HostTensor self(DataType::kInt32, {4}, {-5, 0, 5, 10});
  HostTensor out(DataType::kInt32, {4});
  ASSERT_TRUE(TestCall().in(self).scalar(int64_t{-1}).scalar(int64_t{6}).out(out).run(clamp).is_ok());
  EXPECT_EQ(out.values(), (Values{-1, 0, 5, 6}));
  ASSERT_TRUE(TestCall().in(self).no_scalar().scalar(int64_t{6}).out(out).run(clamp).is_ok());
  EXPECT_EQ(out.values(), (Values{-5, 0, 5, 6}));
  ASSERT_TRUE(TestCall().in(self).scalar(int64_t{-1}).no_scalar().out(out).run(clamp).is_ok());
  EXPECT_EQ(out.values(), (Values{-1, 0, 5, 10}));
  ASSERT_TRUE(TestCall().in(self).scalar(int64_t{6}).out(out).run(clamp_max).is_ok());
  EXPECT_EQ(out.values(), (Values{-5, 0, 5, 6}));
}

TEST(Lists, ScalarsAndChecksOfMixedPrecision) {
  HostTensor a(DataType::kFloat, {2}, {1, 2});
  HostTensor b(DataType::kFloat16, {1}, {4});
  ASSERT_TRUE(TestCall().in_list({&a, &b}).scalar(0.5).out_list({&a, &b}).run(foreach_add_scalar).is_ok());
  EXPECT_EQ(a.values(), (Values{1.5, 2.5}));
  EXPECT_EQ(b.values(), Values{4.5});

  HostTensor found(DataType::kFloat, {1}, {0});
  HostTensor inverse(DataType::kFloat, {1}, {0.5});
  TestCall finite;
  finite.in_out_list({&a, &b}).in_out(found).in(inverse);
  ASSERT_TRUE(finite.run(foreach_non_finite_check_and_unscale).is_ok());
  EXPECT_EQ(a.values(), (Values{0.75, 1.25}));
  EXPECT_EQ(found.values(), Values{0});
  b.set({kInf});
  ASSERT_TRUE(finite.run(foreach_non_finite_check_and_unscale).is_ok());
  EXPECT_EQ(found.values(), Values{1});
}

TEST(Lists, LossScaleGrowsAndBacksOff) {
  HostTensor scale(DataType::kFloat, {1}, {1024});
  HostTensor tracker(DataType::kInt32, {1}, {1});
  HostTensor found(DataType::kFloat, {1}, {0});
  const auto update = [&] {
    return TestCall().in(scale).in(tracker).in(found).number(2).number(0.5).integer(2).out(scale).out(tracker).run(
        amp_update_scale);
  };
  ASSERT_TRUE(update().is_ok());
  EXPECT_EQ(scale.values(), Values{2048});
  EXPECT_EQ(tracker.values(), Values{0});
  ASSERT_TRUE(update().is_ok());
  EXPECT_EQ(tracker.values(), Values{1});
  found.set({1});
  ASSERT_TRUE(update().is_ok());
  EXPECT_EQ(scale.values(), Values{1024});
  EXPECT_EQ(tracker.values(), Values{0});
}

}  // namespace
}  // namespace drydock::ops::kernels
