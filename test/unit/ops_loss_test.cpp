#include "ops/generated/kernels.h"
#include "ops_call_builder.h"

namespace drydock::ops::kernels {
namespace {

using testing::HostTensor;
using testing::TestCall;

constexpr DataType kF = DataType::kFloat;

TEST(Loss, ReducesToASumOrAMeanOrNotAtAll) {
  HostTensor x(kF, {2, 2}, {1, 2, 3, 4});
  HostTensor target(kF, {2, 2}, {1, 0, 3, 8});
  HostTensor one(kF, {});
  HostTensor all(kF, {2, 2});
  ASSERT_TRUE(TestCall().in(x).in(target).integer(1).out(one).run(mse_loss).is_ok());
  EXPECT_EQ(one.values(), std::vector<double>({5}));
  ASSERT_TRUE(TestCall().in(x).in(target).integer(2).out(one).run(l1_loss).is_ok());
  EXPECT_EQ(one.values(), std::vector<double>({6}));
  ASSERT_TRUE(TestCall().in(x).in(target).integer(0).out(all).run(l1_loss).is_ok());
  EXPECT_EQ(all.values(), std::vector<double>({0, 2, 0, 4}));
  // A view whose elements do not follow each other.
  x.restrided({2, 2}, {1, 2});
  ASSERT_TRUE(TestCall().in(x).in(target).integer(2).out(one).run(mse_loss).is_ok());
  EXPECT_EQ(one.values(), std::vector<double>({0 + 9 + 1 + 16}));
  EXPECT_EQ(TestCall().in(x).in(target).integer(3).out(one).run(mse_loss).code(), kParameterInvalid);
  EXPECT_EQ(TestCall().in(x).in(target).integer(1).out(all).run(mse_loss).code(), kParameterInvalid);
}

TEST(Loss, MeanOfNothingIsNotANumber) {
  HostTensor x(kF, {0, 3});
  HostTensor one(kF, {});
  ASSERT_TRUE(TestCall().in(x).in(x).integer(1).out(one).run(mse_loss).is_ok());
  EXPECT_TRUE(std::isnan(one.values()[0]));
}

TEST(Loss, GradientOfAMeanIsDividedByTheNumberOfElements) {
  HostTensor gradient(kF, {}, {2});
  HostTensor x(kF, {4}, {1, 2, 3, 4});
  HostTensor target(kF, {4}, {1, 0, 3, 8});
  HostTensor out(kF, {4});
  ASSERT_TRUE(TestCall().in(gradient).in(x).in(target).integer(1).out(out).run(mse_loss_backward).is_ok());
  EXPECT_EQ(out.values(), std::vector<double>({0, 2, 0, -4}));
  ASSERT_TRUE(TestCall().in(gradient).in(x).in(target).integer(2).out(out).run(l1_loss_backward).is_ok());
  EXPECT_EQ(out.values(), std::vector<double>({0, 2, 0, -2}));
}

TEST(NegativeLogLikelihood, WeightsAndIgnoredTargets) {
  HostTensor x(kF, {3, 2}, {-1, -2, -3, -4, -5, -6});
  HostTensor target(DataType::kInt64, {3}, {1, -7, 0});
  HostTensor weight(kF, {2}, {1, 3});
  HostTensor loss(kF, {});
  HostTensor total(kF, {});
  const auto run = [&](int64_t reduction, HostTensor& out) {
    return TestCall().in(x).in(target).in(weight).integer(reduction).integer(-7).out(out).out(total).run(nll_loss);
  };
  ASSERT_TRUE(run(1, loss).is_ok());
  EXPECT_EQ(loss.values(), std::vector<double>({(6.0 + 5.0) / 4}));
  EXPECT_EQ(total.values(), std::vector<double>({4}));
  HostTensor losses(kF, {3});
  ASSERT_TRUE(run(0, losses).is_ok());
  EXPECT_EQ(losses.values(), std::vector<double>({6, 0, 5}));
  HostTensor gradient(kF, {}, {2});
  HostTensor out(kF, {3, 2});
  total.set({4});
  ASSERT_TRUE(TestCall()
                  .in(gradient)
                  .in(x)
                  .in(target)
                  .in(weight)
                  .integer(1)
                  .integer(-7)
                  .in(total)
                  .out(out)
                  .run(nll_loss_backward)
                  .is_ok());
  EXPECT_EQ(out.values(), std::vector<double>({0, -1.5, 0, 0, -0.5, 0}));
  target.set({1, 2, 0});
  EXPECT_EQ(run(1, loss).code(), kDeviceFault);
  EXPECT_EQ(run(1, losses).code(), kParameterInvalid);
}

TEST(NegativeLogLikelihood, ClassesInTheMiddle) {
  HostTensor x(kF, {1, 2, 2}, {-1, -2, -3, -4});
  HostTensor target(DataType::kInt32, {1, 2}, {0, 1});
  HostTensor losses(kF, {1, 2});
  HostTensor total(kF, {});
  ASSERT_TRUE(
      TestCall().in(x).in(target).absent().integer(0).integer(-100).out(losses).out(total).run(nll_loss).is_ok());
  EXPECT_EQ(losses.values(), std::vector<double>({1, 4}));
}

TEST(ActivationGradient, PiecewiseFunctions) {
  HostTensor g(kF, {4}, {6, 6, 6, 6});
  HostTensor x(kF, {4}, {-3, 0, 1.5, 3});
  HostTensor out(kF, {4});
  ASSERT_TRUE(TestCall().in(g).in(x).out(out).run(hardsigmoid_backward).is_ok());
  EXPECT_EQ(out.values(), std::vector<double>({0, 1, 1, 0}));
  ASSERT_TRUE(TestCall().in(g).in(x).out(out).run(hardswish_backward).is_ok());
  EXPECT_EQ(out.values(), std::vector<double>({-3, 3, 6, 9}));
  ASSERT_TRUE(TestCall().in(g).in(x).out(out).run(hardswish_backward_open).is_ok());
  EXPECT_EQ(out.values(), std::vector<double>({0, 3, 6, 6}));
  ASSERT_TRUE(TestCall().in(g).in(x).scalar(0.0).out(out).run(threshold_backward).is_ok());
  EXPECT_EQ(out.values(), std::vector<double>({0, 0, 6, 6}));
  ASSERT_TRUE(TestCall().in(g).in(x).scalar(0.5).boolean(false).out(out).run(leaky_relu_backward).is_ok());
  EXPECT_EQ(out.values(), std::vector<double>({3, 3, 6, 6}));
  ASSERT_TRUE(TestCall().in(g).in(x).scalar(1.5).out(out).run(shrink_backward).is_ok());
  EXPECT_EQ(out.values(), std::vector<double>({6, 0, 0, 6}));
}

TEST(GatedActivation, HalvesOfADimension) {
  HostTensor x(kF, {1, 4}, {0, 2, 3, 5});
  HostTensor out(kF, {1, 2});
  ASSERT_TRUE(TestCall().in(x).integer(-1).out(out).run(swiglu).is_ok());
  EXPECT_NEAR(out.values()[0], 0, 1e-6);
  EXPECT_NEAR(out.values()[1], 2 / (1 + std::exp(-2.0)) * 5, 1e-5);
  HostTensor gradient(kF, {1, 2}, {1, 0});
  HostTensor of_x(kF, {1, 4});
  ASSERT_TRUE(TestCall().in(gradient).in(x).integer(1).out(of_x).run(swiglu_grad).is_ok());
  EXPECT_EQ(of_x.values(), std::vector<double>({1.5, 0, 0, 0}));
  HostTensor odd(kF, {1, 3});
  EXPECT_EQ(TestCall().in(odd).integer(1).out(out).run(swiglu).code(), kParameterInvalid);
  EXPECT_EQ(TestCall().in(x).integer(1).out(x).run(swiglu).code(), kParameterInvalid);
}

TEST(GatedActivation, ClippedAndInterleavedForTheRowsOfGroups) {
  HostTensor x(kF, {2, 2}, {9, 9, 0, 1});
  HostTensor groups(DataType::kInt64, {1}, {1});
  HostTensor out(kF, {2, 1}, {7, 7});
  ASSERT_TRUE(TestCall()
                  .in(x)
                  .in(groups)
                  .integer(-1)
                  .number(0)
                  .number(2)
                  .number(1)
                  .boolean(true)
                  .out(out)
                  .run(clipped_swiglu)
                  .is_ok());
  EXPECT_EQ(out.values(), std::vector<double>({2 * 0.5 * 3, 7}));
}

TEST(Prelu, OneWeightForEachChannel) {
  HostTensor x(kF, {1, 2, 2}, {-1, 2, -3, 4});
  HostTensor weight(kF, {2}, {10, 100});
  HostTensor out(kF, {1, 2, 2});
  ASSERT_TRUE(TestCall().in(x).in(weight).out(out).run(prelu).is_ok());
  EXPECT_EQ(out.values(), std::vector<double>({-10, 2, -300, 4}));
  HostTensor gradient(kF, {1, 2, 2}, {1, 1, 2, 1});
  HostTensor of_weight(kF, {2});
  ASSERT_TRUE(TestCall().in(gradient).in(x).in(weight).out(out).out(of_weight).run(prelu_backward).is_ok());
  EXPECT_EQ(out.values(), std::vector<double>({10, 1, 200, 1}));
  EXPECT_EQ(of_weight.values(), std::vector<double>({-1, -6}));
  HostTensor three(kF, {3});
  EXPECT_EQ(TestCall().in(x).in(three).out(out).run(prelu).code(), kParameterInvalid);
}

}  // namespace
}  // namespace drydock::ops::kernels
