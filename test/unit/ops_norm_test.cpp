#include "ops/generated/kernels.h"
#include "ops_call_builder.h"

namespace drydock::ops::kernels {
namespace {

using testing::HostTensor;
using testing::TestCall;

constexpr DataType kF = DataType::kFloat;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

void expect_near(const std::vector<double>& got, const std::vector<double>& expected, double tolerance = 1e-5) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t k = 0; k < got.size(); ++k) {
    if (std::isnan(expected[k])) {
      EXPECT_TRUE(std::isnan(got[k])) << k;
    } else if (got[k] != expected[k]) {
      EXPECT_NEAR(got[k], expected[k], tolerance) << k;
    }
  }
}

TEST(Softmax, AlongBothAxesWithInfinities) {
  HostTensor x(kF, {2, 3}, {0, std::log(2.0), std::log(5.0), -kInfinity, 0, 0});
  HostTensor out(kF, {2, 3});
  ASSERT_TRUE(TestCall().in(x).integer(-1).out(out).run(softmax).is_ok());
  expect_near(out.values(), {0.125, 0.25, 0.625, 0, 0.5, 0.5});
  ASSERT_TRUE(TestCall().in(x).integer(0).out(out).run(softmax).is_ok());
  expect_near(out.values(), {1, 2.0 / 3, 5.0 / 6, 0, 1.0 / 3, 1.0 / 6});
  ASSERT_TRUE(TestCall().in(x).integer(1).out(out).run(log_softmax).is_ok());
  expect_near(out.values(),
              {std::log(0.125), std::log(0.25), std::log(0.625), -kInfinity, -std::log(2.0), -std::log(2.0)});
}

TEST(Softmax, BackwardMatchesTheFormulaAndMayOverwriteTheGradient) {
  HostTensor gradient(kF, {1, 2}, {1, 3});
  HostTensor y(kF, {1, 2}, {0.25, 0.75});
  HostTensor out(kF, {1, 2});
  ASSERT_TRUE(TestCall().in(gradient).in(y).integer(1).out(out).run(softmax_backward).is_ok());
  expect_near(out.values(), {-0.375, 0.375});
  HostTensor logs(kF, {1, 2}, {std::log(0.25), std::log(0.75)});
  ASSERT_TRUE(TestCall().in(gradient).in(logs).integer(1).out(gradient).run(log_softmax_backward).is_ok());
  expect_near(gradient.values(), {0, 0});
}

TEST(Softmax, RefusesShapesAndAxesThatDoNotFit) {
  HostTensor x(kF, {2, 3});
  HostTensor out(kF, {3, 2});
  EXPECT_EQ(TestCall().in(x).integer(1).out(out).run(softmax).code(), kParameterInvalid);
  EXPECT_EQ(TestCall().in(x).integer(2).out(x).run(softmax).code(), kParameterInvalid);
  EXPECT_EQ(TestCall().in(x).in(out).integer(1).out(x).run(softmax_backward).code(), kParameterInvalid);
}

TEST(Softmax, UnderAMask) {
  HostTensor x(kF, {1, 1, 2, 2}, {0, std::log(3.0), 1, 7});
  HostTensor mask(DataType::kBool, {1, 1, 2, 2}, {0, 0, 0, 1});
  HostTensor out(kF, {1, 1, 2, 2});
  ASSERT_TRUE(TestCall().in(x).in(mask).number(1).boolean(false).out(out).run(scaled_masked_softmax).is_ok());
  expect_near(out.values(), {0.25, 0.75, 1, 0});
  ASSERT_TRUE(TestCall().in(x).absent().number(1).boolean(true).out(out).run(scaled_masked_softmax).is_ok());
  expect_near(out.values(), {1, 0, 1 / (1 + std::exp(6.0)), 1 / (1 + std::exp(-6.0))});
  EXPECT_EQ(TestCall().in(x).absent().number(1).boolean(false).out(out).run(scaled_masked_softmax).code(),
            kParameterInvalid);
  HostTensor y(kF, {1, 1, 2, 2}, {0.25, 0.75, 0.5, 0.5});
  HostTensor gradient(kF, {1, 1, 2, 2}, {1, 3, 0, 4});
  ASSERT_TRUE(TestCall()
                  .in(gradient)
                  .in(y)
                  .in(mask)
                  .number(2)
                  .boolean(false)
                  .out(out)
                  .run(scaled_masked_softmax_backward)
                  .is_ok());
  expect_near(out.values(), {-0.75, 0.75, -2, 0});
}

TEST(LayerNorm, ForwardAndBackward) {
  HostTensor x(kF, {2, 2}, {1, 3, 0, 8});
  HostTensor weight(kF, {2}, {2, 3});
  HostTensor bias(kF, {2}, {0, 1});
  HostTensor y(kF, {2, 2});
  HostTensor mean(kF, {2, 1});
  HostTensor rstd(kF, {2, 1});
  ASSERT_TRUE(
      TestCall().in(x).ints({2}).in(weight).in(bias).number(0).out(y).out(mean).out(rstd).run(layer_norm).is_ok());
  expect_near(y.values(), {-2, 4, -2, 4});
  expect_near(mean.values(), {2, 4});
  expect_near(rstd.values(), {1, 0.25});
  HostTensor gradient(kF, {2, 2}, {1, 2, 0, 1});
  HostTensor dx(kF, {2, 2});
  HostTensor dweight(kF, {2});
  HostTensor dbias(kF, {2});
  const auto backward = [&](HostTensor* gradient_of_x) {
    TestCall call;
    call.in(gradient).in(x).ints({2}).in(mean).in(rstd).in(weight).in(bias).other(ArgKind::kBoolArray);
    if (gradient_of_x != nullptr) {
      call.out(*gradient_of_x);
    } else {
      call.absent(ArgDirection::kOut);
    }
    return call.out(dweight).out(dbias).run(layer_norm_backward);
  };
  ASSERT_TRUE(backward(&dx).is_ok());
  // Two elements with a symmetric row: every gradient is projected away.
  expect_near(dx.values(), {0, 0, 0, 0});
  expect_near(dweight.values(), {-1, 3});
  expect_near(dbias.values(), {1, 3});
  dweight.set({0, 0});
  ASSERT_TRUE(backward(nullptr).is_ok());
  expect_near(dweight.values(), {-1, 3});
}

TEST(LayerNorm, NoRowsGiveZeroGradientsOfTheParameters) {
  HostTensor x(kF, {0, 2});
  HostTensor statistics(kF, {0, 1});
  HostTensor weight(kF, {2}, {1, 1});
  HostTensor dweight(kF, {2}, {5, 5});
  HostTensor dbias(kF, {2}, {5, 5});
  ASSERT_TRUE(TestCall()
                  .in(x)
                  .in(x)
                  .ints({2})
                  .in(statistics)
                  .in(statistics)
                  .in(weight)
                  .absent()
                  .other(ArgKind::kBoolArray)
                  .absent(ArgDirection::kOut)
                  .out(dweight)
                  .out(dbias)
                  .run(layer_norm_backward)
                  .is_ok());
  expect_near(dweight.values(), {0, 0});
  expect_near(dbias.values(), {0, 0});
}

TEST(LayerNorm, RefusesShapesThatDoNotFit) {
  HostTensor x(kF, {2, 3});
  HostTensor weight(kF, {2});
  HostTensor y(kF, {2, 3});
  const auto run = [&](std::vector<int64_t> shape, HostTensor& out) {
    return TestCall()
        .in(x)
        .ints(std::move(shape))
        .in(weight)
        .absent()
        .number(0)
        .out(out)
        .absent(ArgDirection::kOut)
        .absent(ArgDirection::kOut)
        .run(layer_norm)
        .code();
  };
  EXPECT_EQ(run({3}, y), kParameterInvalid);
  EXPECT_EQ(run({2}, y), kParameterInvalid);
  EXPECT_EQ(run({}, y), kParameterInvalid);
  EXPECT_EQ(run({2, 2, 3}, y), kParameterInvalid);
}

TEST(RmsNorm, AddsAndNormalisesInPlace) {
  HostTensor x1(kF, {1, 2}, {1, 5});
  HostTensor x2(kF, {1, 2}, {0, 2});
  HostTensor gamma(kF, {2}, {5, 10});
  HostTensor rstd(kF, {1, 1});
  ASSERT_TRUE(TestCall().in_out(x1).in_out(x2).in(gamma).number(0).out(rstd).run(inplace_add_rms_norm).is_ok());
  expect_near(x1.values(), {1, 14});
  expect_near(x2.values(), {1, 7});
  expect_near(rstd.values(), {0.2});
  HostTensor y(kF, {1, 2});
  HostTensor x(kF, {1, 2}, {1, 7});
  gamma.set({4, 9});
  ASSERT_TRUE(TestCall().in(x).in(gamma).number(0).out(y).out(rstd).run(gemma_rms_norm).is_ok());
  expect_near(y.values(), {1, 14});
}

TEST(RmsNorm, Gradient) {
  HostTensor dy(kF, {1, 2}, {1, 0});
  HostTensor x(kF, {1, 2}, {1, 7});
  HostTensor rstd(kF, {1}, {0.2});
  HostTensor gamma(kF, {2}, {1, 1});
  HostTensor dx(kF, {1, 2});
  HostTensor dgamma(kF, {2});
  ASSERT_TRUE(TestCall().in(dy).in(x).in(rstd).in(gamma).out(dx).out(dgamma).run(rms_norm_grad).is_ok());
  // rstd * (dy - normalised * mean(dy * normalised)), normalised = (0.2, 1.4)
  expect_near(dx.values(), {0.2 * (1 - 0.2 * 0.1), 0.2 * (-1.4 * 0.1)});
  expect_near(dgamma.values(), {0.2, 0});
}

TEST(DeepNorm, ScalesTheFirstInput) {
  HostTensor x(kF, {1, 2}, {1, 2});
  HostTensor gx(kF, {1, 2}, {-1, -1});
  HostTensor beta(kF, {2}, {0, 0});
  HostTensor gamma(kF, {2}, {1, 1});
  HostTensor mean(kF, {1, 1});
  HostTensor rstd(kF, {1, 1});
  HostTensor y(kF, {1, 2});
  ASSERT_TRUE(
      TestCall().in(x).in(gx).in(beta).in(gamma).number(2).number(0).out(mean).out(rstd).out(y).run(deep_norm).is_ok());
  expect_near(mean.values(), {2});
  expect_near(rstd.values(), {1});
  expect_near(y.values(), {-1, 1});
}

TEST(BatchNorm, TrainsAndUpdatesTheRunningStatistics) {
  HostTensor x(kF, {2, 2}, {1, 10, 3, 30});
  HostTensor weight(kF, {2}, {1, 2});
  HostTensor bias(kF, {2}, {0, 1});
  HostTensor mean(kF, {2}, {0, 0});
  HostTensor variance(kF, {2}, {1, 1});
  HostTensor y(kF, {2, 2});
  HostTensor saved_mean(kF, {2});
  HostTensor saved_deviation(kF, {2});
  const auto run = [&](bool training) {
    return TestCall()
        .in(x)
        .in(weight)
        .in(bias)
        .in_out(mean)
        .in_out(variance)
        .boolean(training)
        .number(0.5)
        .number(0)
        .out(y)
        .out(saved_mean)
        .out(saved_deviation)
        .run(batch_norm);
  };
  ASSERT_TRUE(run(true).is_ok());
  expect_near(y.values(), {-1, -1, 1, 3});
  expect_near(saved_mean.values(), {2, 20});
  expect_near(saved_deviation.values(), {1, 0.1});
  expect_near(mean.values(), {1, 10});
  expect_near(variance.values(), {1.5, 100.5});
  mean.set({1, 10});
  variance.set({4, 100});
  ASSERT_TRUE(run(false).is_ok());
  expect_near(y.values(), {0, 1, 1, 5});
  HostTensor vector(kF, {4});
  EXPECT_EQ(TestCall().in(vector).number(0).out(mean).out(variance).run(batch_norm_stats).code(), kParameterInvalid);
}

TEST(BatchNorm, PlanesOfSeveralElements) {
  HostTensor x(kF, {2, 1, 2}, {1, 2, 3, 6});
  HostTensor sum(kF, {1});
  HostTensor squares(kF, {1});
  ASSERT_TRUE(TestCall().in(x).out(sum).out(squares).run(batch_norm_reduce).is_ok());
  expect_near(sum.values(), {12});
  expect_near(squares.values(), {50});
}

TEST(GroupNorm, NormalisesGroupsOfChannels) {
  HostTensor x(kF, {1, 4}, {1, 3, 10, 30});
  HostTensor gamma(kF, {4}, {1, 2, 1, 1});
  HostTensor y(kF, {1, 4});
  HostTensor mean(kF, {1, 2});
  HostTensor rstd(kF, {1, 2});
  const auto run = [&](int64_t channels, int64_t groups) {
    return TestCall()
        .in(x)
        .in(gamma)
        .absent()
        .integer(1)
        .integer(channels)
        .integer(1)
        .integer(groups)
        .number(0)
        .out(y)
        .out(mean)
        .out(rstd)
        .run(group_norm);
  };
  ASSERT_TRUE(run(4, 2).is_ok());
  expect_near(y.values(), {-1, 2, -1, 1});
  expect_near(mean.values(), {2, 20});
  expect_near(rstd.values(), {1, 0.1});
  EXPECT_EQ(run(4, 3).code(), kParameterInvalid);
  EXPECT_EQ(run(8, 2).code(), kParameterInvalid);
  EXPECT_EQ(run(std::numeric_limits<int64_t>::max(), 1).code(), kParameterInvalid);
}

}  // namespace
}  // namespace drydock::ops::kernels
