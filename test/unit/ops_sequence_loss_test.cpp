#include "ops/generated/kernels.h"
#include "ops_call_builder.h"

namespace drydock::ops::kernels {
namespace {

using testing::HostTensor;
using testing::TestCall;
using Values = std::vector<double>;

constexpr DataType kF = DataType::kFloat;

void expect_near(const Values& got, const Values& expected, double tolerance = 1e-5) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t k = 0; k < got.size(); ++k) EXPECT_NEAR(got[k], expected[k], tolerance) << k;
}

TEST(CrossEntropy, SmoothsAndIgnores) {
  HostTensor x(kF, {2, 2}, {0, std::log(3.0), 5, 5});
  HostTensor target(DataType::kInt64, {2}, {1, -100});
  HostTensor loss(kF, {1});
  HostTensor log_probabilities(kF, {2, 2});
  HostTensor unused(kF, {0});
  const auto run = [&](double smoothing, double z_scale) {
    return TestCall()
        .in(x)
        .in(target)
        .absent()
        .other(ArgKind::kString)
        .integer(-100)
        .number(smoothing)
        .number(z_scale)
        .boolean(false)
        .out(loss)
        .out(log_probabilities)
        .out(unused)
        .absent(ArgDirection::kOut)
        .run(cross_entropy_loss);
  };
  ASSERT_TRUE(run(0, 0).is_ok());
  expect_near(loss.values(), {-std::log(0.75)});
  expect_near(log_probabilities.values(), {std::log(0.25), std::log(0.75), std::log(0.5), std::log(0.5)});
  ASSERT_TRUE(run(0.5, 0).is_ok());
  expect_near(loss.values(), {-0.5 * std::log(0.75) - 0.25 * (std::log(0.25) + std::log(0.75))});
  EXPECT_EQ(run(0, 1).code(), kParameterInvalid);
  HostTensor gradient(kF, {1}, {2});
  HostTensor out(kF, {2, 2});
  ASSERT_TRUE(TestCall()
                  .in(gradient)
                  .in(log_probabilities)
                  .in(target)
                  .absent()
                  .absent()
                  .absent()
                  .other(ArgKind::kString)
                  .integer(-100)
                  .number(0)
                  .number(0)
                  .out(out)
                  .run(cross_entropy_loss_grad)
                  .is_ok());
  expect_near(out.values(), {0.5, -0.5, 0, 0});
  target.set({2, -100});
  EXPECT_EQ(run(0, 0).code(), kDeviceFault);
}

TEST(MultilabelMargin, LabelsEndAtTheFirstMinusOne) {
  HostTensor x(kF, {3}, {1, 0.5, 0});
  HostTensor target(DataType::kInt64, {3}, {0, -1, 2});
  HostTensor loss(kF, {});
  HostTensor is_label(kF, {3});
  ASSERT_TRUE(TestCall().in(x).in(target).integer(1).out(loss).out(is_label).run(multilabel_margin_loss).is_ok());
  expect_near(loss.values(), {0.5 / 3});
  EXPECT_EQ(is_label.values(), (Values{1, 0, 0}));
  target.set({3, -1, 0});
  EXPECT_EQ(TestCall().in(x).in(target).integer(1).out(loss).out(is_label).run(multilabel_margin_loss).code(),
            kDeviceFault);
}

TEST(Ctc, CountsThePathsThatReadAsTheLabels) {
  // Two steps, classes blank and 1, each with probability one half: "1" is read from 1-, -1 and 11.
  const double half = std::log(0.5);
  HostTensor x(kF, {2, 1, 2}, {half, half, half, half});
  HostTensor target(DataType::kInt64, {1, 1}, {1});
  HostTensor loss(kF, {1});
  HostTensor paths(kF, {1, 2, 8});
  const auto run = [&](std::vector<int64_t> steps, std::vector<int64_t> labels) {
    return TestCall()
        .in(x)
        .in(target)
        .ints(std::move(steps))
        .ints(std::move(labels))
        .integer(0)
        .boolean(false)
        .out(loss)
        .out(paths)
        .run(ctc_loss);
  };
  ASSERT_TRUE(run({2}, {1}).is_ok());
  expect_near(loss.values(), {-std::log(0.75)});
  HostTensor gradient(kF, {1}, {1});
  HostTensor out(kF, {2, 1, 2});
  ASSERT_TRUE(TestCall()
                  .in(gradient)
                  .in(x)
                  .in(target)
                  .ints({2})
                  .ints({1})
                  .in(loss)
                  .in(paths)
                  .integer(0)
                  .boolean(false)
                  .out(out)
                  .run(ctc_loss_backward)
                  .is_ok());
  // One of three paths has a blank at each step, two have the label.
  expect_near(out.values(), {0.5 - 1.0 / 3, 0.5 - 2.0 / 3, 0.5 - 1.0 / 3, 0.5 - 2.0 / 3});
  ASSERT_TRUE(run({0}, {1}).is_ok());
  EXPECT_TRUE(std::isinf(loss.values()[0]));
  EXPECT_EQ(run({3}, {1}).code(), kParameterInvalid);
  EXPECT_EQ(run({2}, {2}).code(), kParameterInvalid);
  EXPECT_EQ(run({2, 2}, {1}).code(), kParameterInvalid);
  target.set({2});
  EXPECT_EQ(run({2}, {1}).code(), kDeviceFault);
}

TEST(SplitVocabulary, StatisticsOfOnePart) {
  HostTensor input(kF, {2, 1}, {1, 2});
  HostTensor weight(kF, {2, 1}, {1, 3});
  HostTensor target(DataType::kInt64, {2}, {11, 5});
  HostTensor top(kF, {2});
  HostTensor sum(kF, {2});
  HostTensor chosen(kF, {2});
  HostTensor mask(DataType::kUInt8, {1});
  HostTensor local(DataType::kInt64, {2});
  HostTensor logits(kF, {2, 2});
  ASSERT_TRUE(TestCall()
                  .in(input)
                  .in(weight)
                  .in(target)
                  .integer(10)
                  .integer(11)
                  .out(top)
                  .out(sum)
                  .out(chosen)
                  .out(mask)
                  .out(local)
                  .out(logits)
                  .run(fused_linear_online_max_sum)
                  .is_ok());
  expect_near(logits.values(), {1, 3, 2, 6});
  expect_near(top.values(), {3, 6});
  expect_near(sum.values(), {1 + std::exp(-2.0), 1 + std::exp(-4.0)});
  expect_near(chosen.values(), {0, 0});
  EXPECT_EQ(mask.values(), Values{0xfe});  // bit 0: the target is here; bits behind the rows are set
  EXPECT_EQ(local.values(), (Values{1, 0}));
}

/// The sum that the gradients of "pre" belong to: all results of the forward formulas, each times a weight.
struct PreForward {
  static constexpr size_t kStreams = 2, kFeatures = 2, kRow = 4, kOutputs = 8;
  Values x, phi, alpha, bias, gamma;  // of one token
  Values weights_of_input{0.3, -0.7}, weights_of_gates{0.9, 0.2}, weights_of_matrix{0.4, -0.1, 0.8, 0.5};
  double epsilon = 1e-3;

  Values mixed() const {
    Values result(kOutputs);
    for (size_t k = 0; k < kOutputs; ++k) {
      for (size_t e = 0; e < kRow; ++e) result[k] += x[e] * gamma[e] * phi[k * kRow + e];
    }
    return result;
  }
  double inverse_rms() const {
    double squares = 0;
    for (double value : x) squares += value * value;
    return 1 / std::sqrt(squares / kRow);
  }
  /// before, after: the two kinds of gates.
  Values gates(size_t part) const {
    Values result(kStreams);
    for (size_t i = 0; i < kStreams; ++i) {
      const size_t k = part * kStreams + i;
      const double sigmoid = 1 / (1 + std::exp(-(mixed()[k] * inverse_rms() * alpha[part] + bias[k])));
      result[i] = part == 0 ? sigmoid + epsilon : 2 * sigmoid;
    }
    return result;
  }
  double total() const {
    double sum = 0;
    for (size_t d = 0; d < kFeatures; ++d) {
      for (size_t i = 0; i < kStreams; ++i) sum += weights_of_input[d] * gates(0)[i] * x[i * kFeatures + d];
    }
    for (size_t i = 0; i < kStreams; ++i) sum += weights_of_gates[i] * gates(1)[i];
    for (size_t k = 0; k < 4; ++k) {
      sum += weights_of_matrix[k] * (mixed()[4 + k] * inverse_rms() * alpha[2] + bias[4 + k]);
    }
    return sum;
  }
  /// By differences.
  Values gradient(Values PreForward::*of) const {
    Values result;
    for (size_t k = 0; k < (this->*of).size(); ++k) {
      PreForward up = *this, down = *this;
      (up.*of)[k] += 1e-5;
      (down.*of)[k] -= 1e-5;
      result.push_back((up.total() - down.total()) / 2e-5);
    }
    return result;
  }
};

TEST(HyperConnection, GradientOfPreMatchesDifferences) {
  PreForward f;
  f.x = {0.5, -1, 0.25, 2};
  f.gamma = {1, 0.5, 2, 1.5};
  f.alpha = {0.7, 1.3, -0.4};
  for (size_t k = 0; k < 32; ++k) f.phi.push_back(0.1 * static_cast<double>(k % 7) - 0.25);
  for (size_t k = 0; k < 8; ++k) f.bias.push_back(0.05 * static_cast<double>(k) - 0.1);
  HostTensor x(kF, {1, 2, 2}, f.x), phi(kF, {8, 4}, f.phi), alpha(kF, {3}, f.alpha), gamma(kF, {2, 2}, f.gamma);
  HostTensor of_input(kF, {1, 2}, f.weights_of_input), of_gates(kF, {1, 2}, f.weights_of_gates);
  HostTensor of_matrix(kF, {1, 2, 2}, f.weights_of_matrix), rms(kF, {1, 1}, {f.inverse_rms()});
  HostTensor mixed(kF, {1, 8}, f.mixed()), before(kF, {1, 2}, f.gates(0)), after(kF, {1, 2}, f.gates(1));
  HostTensor dx(kF, {1, 2, 2}), dphi(kF, {8, 4}), dalpha(kF, {3}), dbias(kF, {8}), dgamma(kF, {2, 2});
  ASSERT_TRUE(TestCall()
                  .in(x)
                  .in(phi)
                  .in(alpha)
                  .in(of_input)
                  .in(of_gates)
                  .in(of_matrix)
                  .in(rms)
                  .in(mixed)
                  .in(before)
                  .in(after)
                  .in(gamma)
                  .absent()
                  .number(f.epsilon)
                  .integer(0)
                  .out(dx)
                  .out(dphi)
                  .out(dalpha)
                  .out(dbias)
                  .out(dgamma)
                  .run(mhc_pre_backward)
                  .is_ok());
  expect_near(dx.values(), f.gradient(&PreForward::x), 1e-4);
  expect_near(dphi.values(), f.gradient(&PreForward::phi), 1e-4);
  expect_near(dalpha.values(), f.gradient(&PreForward::alpha), 1e-4);
  expect_near(dbias.values(), f.gradient(&PreForward::bias), 1e-4);
  expect_near(dgamma.values(), f.gradient(&PreForward::gamma), 1e-4);
}

}  // namespace
}  // namespace drydock::ops::kernels
