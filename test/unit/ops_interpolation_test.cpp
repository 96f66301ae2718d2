#include "ops/generated/kernels.h"
#include "ops_call_builder.h"

// Interpolation and padding: values that can be checked by hand, gradients, and shapes that do not fit.

namespace drydock::ops {
namespace {

using testing::HostTensor;
using testing::TestCall;

constexpr DataType kFloat = DataType::kFloat;
using Values = std::vector<double>;

TEST(Interpolation, NearestTakesElements) {
  HostTensor self(DataType::kUInt8, {1, 1, 4}, {1, 2, 3, 4});
  HostTensor out(DataType::kUInt8, {1, 1, 6});
  ASSERT_TRUE(TestCall().in(self).ints({6}).number(-1).out(out).run(kernels::upsample_nearest1d).is_ok());
  EXPECT_EQ(out.values(), (Values{1, 1, 2, 3, 3, 4}));
  ASSERT_TRUE(TestCall().in(self).ints({6}).number(0).out(out).run(kernels::upsample_nearest_exact1d).is_ok());
  EXPECT_EQ(out.values(), (Values{1, 2, 2, 3, 4, 4}));
  // A scale of 3, though the sizes say 1.5.
  ASSERT_TRUE(TestCall().in(self).ints({6}).number(3).out(out).run(kernels::upsample_nearest1d).is_ok());
  EXPECT_EQ(out.values(), (Values{1, 1, 1, 2, 2, 2}));
}

TEST(Interpolation, ScalesGivenAsFloatMeanTheDecimal) {
  Values numbers(20);
  for (size_t k = 0; k < numbers.size(); ++k) numbers[k] = static_cast<double>(k);
  HostTensor self(kFloat, {1, 1, 20}, numbers);
  HostTensor out(kFloat, {1, 1, 34});
  TestCall call;
  call.in(self).ints({34}).number(static_cast<double>(1.7F)).out(out);
  ASSERT_TRUE(call.run(kernels::upsample_nearest1d).is_ok());
  EXPECT_EQ(out.values()[17], 10);  // 17 / 1.7
}

TEST(Interpolation, LinearAndItsGradient) {
  HostTensor self(kFloat, {1, 1, 2}, {0, 4});
  HostTensor out(kFloat, {1, 1, 4});
  ASSERT_TRUE(TestCall().in(self).ints({4}).boolean(false).number(-1).out(out).run(kernels::upsample_linear1d).is_ok());
  EXPECT_EQ(out.values(), (Values{0, 1, 3, 4}));
  HostTensor grad(kFloat, {1, 1, 4}, {1, 4, 8, 1});
  HostTensor gradient(kFloat, {1, 1, 2});
  TestCall call;
  call.in(grad).ints({4}).ints({1, 1, 2}).boolean(false).number(-1).out(gradient);
  ASSERT_TRUE(call.run(kernels::upsample_linear1d_backward).is_ok());
  EXPECT_EQ(gradient.values(), (Values{6, 8}));
  HostTensor corners(kFloat, {1, 1, 3});
  ASSERT_TRUE(
      TestCall().in(self).ints({3}).boolean(true).number(-1).out(corners).run(kernels::upsample_linear1d).is_ok());
  EXPECT_EQ(corners.values(), (Values{0, 2, 4}));
}

TEST(Interpolation, AntialiasedHalvingWeighsItsNeighbours) {
  HostTensor self(kFloat, {1, 1, 1, 4}, {1, 1, 9, 9});
  HostTensor out(kFloat, {1, 1, 1, 2});
  TestCall call;
  call.in(self).ints({1, 2}).boolean(false).number(0).number(0).out(out);
  ASSERT_TRUE(call.run(kernels::upsample_bilinear2d_aa).is_ok());
  const Values values = out.values();
  EXPECT_NEAR(values[0], (3 * 1 + 3 * 1 + 1 * 9) / 7.0, 1e-6);
  EXPECT_NEAR(values[1], (1 * 1 + 3 * 9 + 3 * 9) / 7.0, 1e-6);
}

TEST(Interpolation, RefusesWhatDoesNotFit) {
  HostTensor self(kFloat, {1, 1, 2}, {0, 4});
  HostTensor out(kFloat, {1, 1, 4});
  const auto nearest = [&](std::vector<int64_t> size, double scale) {
    TestCall call;
    call.in(self).ints(std::move(size)).number(scale).out(out);
    return call.run(kernels::upsample_nearest1d).code();
  };
  EXPECT_EQ(nearest({3}, 0), kernels::kParameterInvalid);
  EXPECT_EQ(nearest({4, 4}, 0), kernels::kParameterInvalid);
  EXPECT_EQ(nearest({4}, 1e-300), 0);  // every output takes the last element but the first
  EXPECT_EQ(nearest({4}, std::numeric_limits<double>::quiet_NaN()), 0);
  HostTensor channels(kFloat, {1, 2, 4});
  EXPECT_EQ(TestCall().in(self).ints({4}).number(0).out(channels).run(kernels::upsample_nearest1d).code(),
            kernels::kParameterInvalid);
}

Status pad(Kernel kernel, HostTensor& self, std::vector<int64_t> padding, HostTensor& out) {
  return TestCall().in(self).ints(std::move(padding)).out(out).run(kernel);
}

TEST(Padding, ReflectsReplicatesAndCrops) {
  HostTensor self(DataType::kInt16, {1, 2, 3}, {1, 2, 3, 4, 5, 6});
  HostTensor out(DataType::kInt16, {1, 2, 6});
  ASSERT_TRUE(pad(kernels::reflection_pad1d, self, {2, 1}, out).is_ok());
  EXPECT_EQ(out.values(), (Values{3, 2, 1, 2, 3, 2, 6, 5, 4, 5, 6, 5}));
  ASSERT_TRUE(pad(kernels::replication_pad1d, self, {4, -1}, out).is_ok());
  EXPECT_EQ(out.values(), (Values{1, 1, 1, 1, 1, 2, 4, 4, 4, 4, 4, 5}));
  EXPECT_EQ(pad(kernels::reflection_pad1d, self, {3, 0}, out).code(), kernels::kParameterInvalid);
  EXPECT_EQ(pad(kernels::reflection_pad1d, self, {2, 2}, out).code(), kernels::kParameterInvalid);
  EXPECT_EQ(pad(kernels::replication_pad1d, self, {2}, out).code(), kernels::kParameterInvalid);
  EXPECT_EQ(pad(kernels::replication_pad1d, self, {INT64_MAX, INT64_MIN + 6}, out).code(), kernels::kParameterInvalid);
}

TEST(Padding, GradientSumsTheCopies) {
  HostTensor self(kFloat, {1, 1, 3});
  HostTensor grad(kFloat, {1, 1, 6}, {1, 2, 3, 4, 5, 6});
  HostTensor out(kFloat, {1, 1, 3});
  TestCall call;
  call.in(grad).in(self).ints({2, 1}).out(out);
  ASSERT_TRUE(call.run(kernels::reflection_pad1d_backward).is_ok());
  EXPECT_EQ(out.values(), (Values{3, 2 + 4 + 6, 1 + 5}));
}

TEST(Padding, GradientOfComplexNumbers) {
  HostTensor self(DataType::kComplex64, {1, 1, 2});
  HostTensor grad(DataType::kComplex64, {1, 1, 3});
  const std::array<float, 6> numbers{1, 2, 3, 4, 5, 6};
  std::memcpy(grad.bytes(), numbers.data(), sizeof numbers);
  HostTensor out(DataType::kComplex64, {1, 1, 2});
  TestCall call;
  call.in(grad).in(self).ints({1, 0}).out(out);
  ASSERT_TRUE(call.run(kernels::replication_pad1d_backward).is_ok());
  std::array<float, 4> sums{};
  std::memcpy(sums.data(), out.bytes(), sizeof sums);
  EXPECT_EQ(sums, (std::array<float, 4>{4, 6, 5, 6}));
}

TEST(Channels, AreDealtOut) {
  HostTensor self(kFloat, {1, 4, 1}, {1, 2, 3, 4});
  HostTensor out(kFloat, {1, 4, 1});
  ASSERT_TRUE(TestCall().in(self).integer(2).out(out).run(kernels::channel_shuffle).is_ok());
  EXPECT_EQ(out.values(), (Values{1, 3, 2, 4}));
  EXPECT_EQ(TestCall().in(self).integer(3).out(out).run(kernels::channel_shuffle).code(), kernels::kParameterInvalid);
  EXPECT_EQ(TestCall().in(self).integer(0).out(out).run(kernels::channel_shuffle).code(), kernels::kParameterInvalid);
}

}  // namespace
}  // namespace drydock::ops
