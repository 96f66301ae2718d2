#include "ops/generated/kernels.h"
#include "ops_call_builder.h"

namespace drydock::ops::kernels {
namespace {

using testing::HostTensor;
using testing::TestCall;
using Values = std::vector<double>;

constexpr DataType kF = DataType::kFloat;

TEST(Foreach, EachTensorHasItsOwnShapeAndScalar) {
  HostTensor a(kF, {2}, {1, 2});
  HostTensor b(kF, {2, 2}, {1, 2, 3, 4});
  HostTensor scalar(kF, {1}, {10});
  HostTensor scalars(kF, {2}, {10, 100});
  ASSERT_TRUE(TestCall().in_list({&a, &b}).in(scalar).out_list({&a, &b}).run(foreach_mul_scalar).is_ok());
  EXPECT_EQ(a.values(), (Values{10, 20}));
  EXPECT_EQ(b.values(), (Values{10, 20, 30, 40}));
  const std::vector<HostTensor*> both = {&a, &b};
  ASSERT_TRUE(TestCall()
                  .in_list(both)
                  .in_list(both)
                  .in_list(both)
                  .in(scalars)
                  .out_list(both)
                  .run(foreach_addcdiv_scalar_list)
                  .is_ok());
  EXPECT_EQ(a.values(), (Values{20, 30}));
  EXPECT_EQ(b.values(), (Values{110, 120, 130, 140}));
  EXPECT_EQ(TestCall()
                .in_list(both)
                .in_list(both)
                .in_list(both)
                .in(scalar)
                .out_list(both)
                .run(foreach_addcdiv_scalar_list)
                .code(),
            kParameterInvalid);
}

TEST(Foreach, ManySmallTensorsAreSplitOverThreads) {
  std::vector<HostTensor> tensors(40, HostTensor(kF, {1000}, Values(1000, 3)));
  std::vector<HostTensor*> list;
  for (HostTensor& tensor : tensors) list.push_back(&tensor);
  ASSERT_TRUE(TestCall().in_list(list).scalar(2.0).out_list(list).run(foreach_pow_scalar).is_ok());
  for (const HostTensor& tensor : tensors) EXPECT_EQ(tensor.values(), Values(1000, 9));
}

TEST(Foreach, RefusesListsThatDoNotFit) {
  HostTensor a(kF, {2});
  HostTensor b(kF, {3});
  EXPECT_EQ(TestCall().in_list({&a, &b}).out_list({&a}).run(foreach_exp).code(), kParameterInvalid);
  EXPECT_EQ(TestCall().in_list({&a}).in_list({&b}).out_list({&a}).run(foreach_mul_list).code(), kParameterInvalid);
  EXPECT_EQ(TestCall().in_list({&a}).scalar(2.0).out_list({&b}).run(foreach_norm).code(), kParameterInvalid);
}

TEST(Foreach, RoundsByMode) {
  HostTensor x(kF, {4}, {-2.5, 0.5, 1.5, 2.7});
  HostTensor out(kF, {4});
  const auto rounded = [&](int64_t mode) {
    EXPECT_TRUE(TestCall().in_list({&x}).scalar(mode).out_list({&out}).run(foreach_round_off_number).is_ok());
    return out.values();
  };
  EXPECT_EQ(rounded(1), (Values{-2, 0, 2, 3}));
  EXPECT_EQ(rounded(2), (Values{-3, 0, 1, 2}));
  EXPECT_EQ(rounded(3), (Values{-2, 1, 2, 3}));
  EXPECT_EQ(rounded(4), (Values{-3, 1, 2, 3}));
  EXPECT_EQ(rounded(5), (Values{-2, 0, 1, 2}));
  EXPECT_EQ(rounded(6), (Values{-3, 1, 1, 3}));
}

TEST(Foreach, NormsOfOrders) {
  HostTensor x(kF, {2}, {3, -4});
  HostTensor out(kF, {});
  const auto norm = [&](double order) {
    EXPECT_TRUE(TestCall().in_list({&x}).scalar(order).out_list({&out}).run(foreach_norm).is_ok());
    return out.values()[0];
  };
  EXPECT_EQ(norm(2), 5);
  EXPECT_EQ(norm(1), 7);
  EXPECT_EQ(norm(std::numeric_limits<double>::infinity()), 4);
  EXPECT_NEAR(norm(3), std::cbrt(91.0), 1e-6);
}

TEST(Foreach, UnscaleFindsWhatIsNotFinite) {
  HostTensor a(kF, {2}, {4, 8});
  HostTensor b(kF, {2}, {4, std::numeric_limits<double>::infinity()});
  HostTensor found(kF, {1}, {0});
  HostTensor inverse(kF, {1}, {0.25});
  ASSERT_TRUE(TestCall().in_out_list({&a}).in_out(found).in(inverse).run(foreach_non_finite_check_and_unscale).is_ok());
  EXPECT_EQ(found.values(), Values{0});
  EXPECT_EQ(a.values(), (Values{1, 2}));
  ASSERT_TRUE(
      TestCall().in_out_list({&a, &b}).in_out(found).in(inverse).run(foreach_non_finite_check_and_unscale).is_ok());
  EXPECT_EQ(found.values(), Values{1});
}

TEST(Optimizer, FirstStepOfAdamMovesByTheRate) {
  HostTensor parameter(kF, {2}, {1, 1});
  HostTensor first(kF, {2}, {0, 0});
  HostTensor second(kF, {2}, {0, 0});
  HostTensor gradient(kF, {2}, {3, -5});
  HostTensor step(kF, {1}, {0});
  ASSERT_TRUE(TestCall()
                  .in_out(parameter)
                  .in_out(first)
                  .in_out(second)
                  .absent(ArgDirection::kInOut)
                  .in(gradient)
                  .in(step)
                  .number(0.125)
                  .number(0.5)
                  .number(0.75)
                  .number(0)
                  .number(0)
                  .boolean(false)
                  .boolean(false)
                  .run(apply_adam_w)
                  .is_ok());
  EXPECT_EQ(parameter.values(), (Values{0.875, 1.125}));
  EXPECT_EQ(first.values(), (Values{1.5, -2.5}));
  EXPECT_EQ(second.values(), (Values{2.25, 6.25}));
}

TEST(Optimizer, SgdWithMomentumOfAStridedParameter) {
  HostTensor parameter(kF, {2, 2}, {1, 2, 3, 4});
  parameter.restrided({2, 2}, {1, 2});
  HostTensor gradient(kF, {2, 2}, {8, 8, 8, 8});
  HostTensor buffer(kF, {2, 2}, {2, 2, 2, 2});
  HostTensor scale(kF, {}, {4});
  ASSERT_TRUE(TestCall()
                  .in_out_list({&parameter})
                  .in_out_list({&gradient})
                  .in_out_list({&buffer})
                  .in(scale)
                  .number(0)
                  .number(0.5)
                  .number(0.25)
                  .number(0)
                  .boolean(false)
                  .boolean(false)
                  .boolean(false)
                  .run(fused_sgd)
                  .is_ok());
  EXPECT_EQ(gradient.values(), (Values{2, 2, 2, 2}));
  EXPECT_EQ(buffer.values(), (Values{3, 3, 3, 3}));
  EXPECT_EQ(parameter.values(), (Values{0.25, 2.25, 1.25, 3.25}));
}

TEST(Dropout, MaskKeepsAboutAsManyAsAskedAndDecides) {
  constexpr int64_t kElements = 10000;
  constexpr int64_t kBytes = (kElements + 127) / 128 * 16;
  HostTensor mask(DataType::kUInt8, {kBytes});
  const auto generate = [&](double probability) {
    return TestCall().ints({100, 100}).number(probability).integer(7).integer(0).out(mask).run(dropout_gen_mask);
  };
  ASSERT_TRUE(generate(0.25).is_ok());
  HostTensor x(kF, {kElements}, Values(kElements, 3));
  HostTensor out(kF, {kElements});
  ASSERT_TRUE(TestCall().in(x).in(mask).number(0.25).out(out).run(dropout_do_mask).is_ok());
  int64_t kept = 0;
  for (double value : out.values()) {
    ASSERT_TRUE(value == 0 || value == 4);
    kept += value != 0;
  }
  EXPECT_NEAR(static_cast<double>(kept), 7500, 200);
  ASSERT_TRUE(generate(0).is_ok());
  EXPECT_EQ(mask.values(), Values(kBytes, 255));
  ASSERT_TRUE(generate(1).is_ok());
  EXPECT_EQ(mask.values(), Values(kBytes, 0));
  EXPECT_EQ(generate(1.5).code(), kParameterInvalid);
  HostTensor small(DataType::kUInt8, {4});
  EXPECT_EQ(TestCall().in(x).in(small).number(0.25).out(out).run(dropout_do_mask).code(), kParameterInvalid);
}

}  // namespace
}  // namespace drydock::ops::kernels
