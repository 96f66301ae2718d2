#include <array>

#include "ops/generated/kernels.h"
#include "ops_call_builder.h"

namespace drydock::ops::kernels {
namespace {

using testing::HostTensor;
using testing::TestCall;
using Values = std::vector<double>;

TEST(Copy, ConvertsAndBroadcastsIntoStridedTensors) {
  HostTensor target(DataType::kFloat, {2, 4}, {0, 0, 0, 0, 0, 0, 0, 0});
  HostTensor columns = target;
  columns.restrided({2, 2}, {4, 2});
  HostTensor source(DataType::kInt64, {2}, {3, 5});
  ASSERT_TRUE(TestCall().out(columns).in(source).run(copy).is_ok());
  columns.restrided({2, 4}, {4, 1});
  EXPECT_EQ(columns.values(), (Values{3, 0, 5, 0, 3, 0, 5, 0}));
  // The destination counts as an operand where the row says that it is read.
  ASSERT_TRUE(TestCall().in_out(source).scalar(int64_t{9}).run(copy).is_ok());
  EXPECT_EQ(source.values(), (Values{9, 9}));
}

TEST(Copy, ComplexMovesAsBytesAndConvertsByItsRealPart) {
  HostTensor from(DataType::kComplex64, {2});
  HostTensor to(DataType::kComplex64, {2});
  std::memset(from.bytes(), 7, 16);
  ASSERT_TRUE(TestCall().out(to).in(from).run(copy).is_ok());
  EXPECT_EQ(std::memcmp(to.bytes(), from.bytes(), 16), 0);
  const std::array<float, 4> numbers = {1.5F, 9.0F, -2.0F, 9.0F};
  std::memcpy(from.bytes(), numbers.data(), 16);
  HostTensor real(DataType::kFloat, {2});
  ASSERT_TRUE(TestCall().out(real).in(from).run(copy).is_ok());
  EXPECT_EQ(real.values(), (Values{1.5, -2}));
  HostTensor packed(DataType::kInt4, {2});
  EXPECT_EQ(TestCall().out(packed).in(from).run(copy).code(), kNotComputed);
}

TEST(Copy, ConcatenatesWithEmptyVectorsAndOtherTypes) {
  HostTensor a(DataType::kInt32, {2, 1}, {1, 2});
  HostTensor b(DataType::kInt64, {2, 2}, {3, 4, 5, 6});
  HostTensor empty(DataType::kInt64, {0});
  HostTensor out(DataType::kInt64, {2, 3});
  ASSERT_TRUE(TestCall().in_list({&a, &empty, &b}).integer(-1).out(out).run(concatenate).is_ok());
  EXPECT_EQ(out.values(), (Values{1, 3, 4, 2, 5, 6}));
  EXPECT_EQ(TestCall().in_list({&b, &b}).integer(1).out(out).run(concatenate).code(), kParameterInvalid);
  EXPECT_EQ(TestCall().in_list({&b}).integer(2).out(out).run(concatenate).code(), kParameterInvalid);
}

TEST(Copy, RankZeroCannotBeJoined) {
  HostTensor a(DataType::kInt32, {}, {1});
  HostTensor out(DataType::kInt32, {});
  EXPECT_EQ(TestCall().in_list({&a}).integer(0).out(out).run(concatenate).code(), kParameterInvalid);
}

TEST(Copy, StacksAndSplits) {
  HostTensor a(DataType::kInt8, {2}, {1, 2});
  HostTensor b(DataType::kInt8, {2}, {3, 4});
  HostTensor out(DataType::kInt8, {2, 2});
  ASSERT_TRUE(TestCall().in_list({&a, &b}).integer(1).out(out).run(stack).is_ok());
  EXPECT_EQ(out.values(), (Values{1, 3, 2, 4}));
  HostTensor left(DataType::kInt8, {2, 1});
  HostTensor right(DataType::kInt8, {2, 1});
  ASSERT_TRUE(TestCall().in(out).ints({1, 1}).integer(1).out_list({&left, &right}).run(split_with_size).is_ok());
  EXPECT_EQ(left.values(), (Values{1, 2}));
  EXPECT_EQ(right.values(), (Values{3, 4}));
  EXPECT_EQ(TestCall().in(out).ints({2, 1}).integer(1).out_list({&out, &right}).run(split_with_size).code(),
            kParameterInvalid);
}

TEST(Layout, FlipsRollsAndRepeats) {
  HostTensor a(DataType::kInt32, {2, 3}, {1, 2, 3, 4, 5, 6});
  HostTensor out(DataType::kInt32, {2, 3});
  ASSERT_TRUE(TestCall().in(a).ints({0, -1}).out(out).run(flip).is_ok());
  EXPECT_EQ(out.values(), (Values{6, 5, 4, 3, 2, 1}));
  ASSERT_TRUE(TestCall().in(a).ints({1}).ints({1}).out(out).run(roll).is_ok());
  EXPECT_EQ(out.values(), (Values{3, 1, 2, 6, 4, 5}));
  ASSERT_TRUE(TestCall().in(a).ints({-1}).ints({}).out(out).run(roll).is_ok());
  EXPECT_EQ(out.values(), (Values{2, 3, 4, 5, 6, 1}));
  HostTensor row(DataType::kInt32, {2}, {7, 8});
  HostTensor tiled(DataType::kInt32, {2, 4});
  ASSERT_TRUE(TestCall().in(row).ints({2, 2}).out(tiled).run(repeat).is_ok());
  EXPECT_EQ(tiled.values(), (Values{7, 8, 7, 8, 7, 8, 7, 8}));
  EXPECT_EQ(TestCall().in(a).ints({2}).out(tiled).run(repeat).code(), kParameterInvalid);
}

TEST(Layout, PadsAndCrops) {
  HostTensor a(DataType::kFloat, {2, 2}, {1, 2, 3, 4});
  HostTensor out(DataType::kFloat, {1, 4});
  ASSERT_TRUE(TestCall().in(a).ints({1, 1, 0, -1}).scalar(9.0).out(out).run(constant_pad).is_ok());
  EXPECT_EQ(out.values(), (Values{9, 1, 2, 9}));
  EXPECT_EQ(TestCall().in(a).ints({1, 2}).scalar(9.0).out(out).run(constant_pad).code(), kParameterInvalid);
}

TEST(Layout, SlicesWithMasksAndNegativeSteps) {
  HostTensor a(DataType::kInt16, {2, 5}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
  HostTensor out(DataType::kInt16, {2});
  // a[1, 4:0:-2]
  ASSERT_TRUE(TestCall()
                  .in(a)
                  .ints({1, 4})
                  .ints({2, 0})
                  .ints({1, -2})
                  .integer(0)
                  .integer(0)
                  .integer(0)
                  .integer(0)
                  .integer(1)
                  .out(out)
                  .run(strided_slice)
                  .is_ok());
  EXPECT_EQ(out.values(), (Values{9, 7}));
  // a[..., 3:]
  HostTensor tail(DataType::kInt16, {2, 2});
  ASSERT_TRUE(TestCall()
                  .in(a)
                  .ints({0, 3})
                  .ints({0, 0})
                  .ints({1, 1})
                  .integer(0)
                  .integer(2)
                  .integer(1)
                  .integer(0)
                  .integer(0)
                  .out(tail)
                  .run(strided_slice)
                  .is_ok());
  EXPECT_EQ(tail.values(), (Values{3, 4, 8, 9}));
}

TEST(Layout, RepeatsEachElement) {
  HostTensor a(DataType::kInt32, {2, 2}, {1, 2, 3, 4});
  HostTensor repeats(DataType::kInt64, {2}, {2, 1});
  HostTensor out(DataType::kInt32, {3, 2});
  ASSERT_TRUE(TestCall().in(a).in(repeats).integer(0).integer(3).out(out).run(repeat_interleave_with_dim).is_ok());
  EXPECT_EQ(out.values(), (Values{1, 2, 1, 2, 3, 4}));
  HostTensor flat(DataType::kInt32, {8});
  ASSERT_TRUE(TestCall().in(a).integer(2).integer(8).out(flat).run(repeat_interleave_int).is_ok());
  EXPECT_EQ(flat.values(), (Values{1, 1, 2, 2, 3, 3, 4, 4}));
  HostTensor indices(DataType::kInt64, {3});
  ASSERT_TRUE(TestCall().in(repeats).integer(3).out(indices).run(repeat_interleave_indices).is_ok());
  EXPECT_EQ(indices.values(), (Values{0, 0, 1}));
  repeats.set({2, 5});
  EXPECT_EQ(TestCall().in(repeats).integer(3).out(indices).run(repeat_interleave_indices).code(), kParameterInvalid);
}

TEST(Layout, ReshapesAndTransposesInEitherOrder) {
  HostTensor a(DataType::kInt32, {2, 3}, {1, 2, 3, 4, 5, 6});
  HostTensor out(DataType::kInt32, {6});
  ASSERT_TRUE(TestCall().in(a).ints({1, 0}).ints({6}).boolean(true).out(out).run(confusion_transpose).is_ok());
  EXPECT_EQ(out.values(), (Values{1, 4, 2, 5, 3, 6}));
  HostTensor back(DataType::kInt32, {2, 3});
  ASSERT_TRUE(TestCall().in(a).ints({1, 0}).ints({3, 2}).boolean(false).out(back).run(confusion_transpose).is_ok());
  EXPECT_EQ(back.values(), (Values{1, 3, 5, 2, 4, 6}));
}

TEST(Fill, ConstantsAndSequences) {
  HostTensor a(DataType::kBFloat16, {3});
  ASSERT_TRUE(TestCall().out(a).run(fill_one).is_ok());
  EXPECT_EQ(a.values(), (Values{1, 1, 1}));
  ASSERT_TRUE(TestCall().in_out(a).run(fill_zero).is_ok());
  EXPECT_EQ(a.values(), (Values{0, 0, 0}));
  ASSERT_TRUE(TestCall().in_out(a).scalar(2.5).run(fill).is_ok());
  EXPECT_EQ(a.values(), (Values{2.5, 2.5, 2.5}));
  EXPECT_TRUE(a.is_clean_behind());
  HostTensor ints(DataType::kInt64, {3});
  ASSERT_TRUE(TestCall().scalar(int64_t{5}).scalar(int64_t{-1}).scalar(int64_t{-2}).out(ints).run(arange).is_ok());
  EXPECT_EQ(ints.values(), (Values{5, 3, 1}));
  HostTensor floats(DataType::kFloat, {5});
  ASSERT_TRUE(TestCall().scalar(0.0).scalar(1.0).integer(5).out(floats).run(linspace).is_ok());
  EXPECT_EQ(floats.values(), (Values{0, 0.25, 0.5, 0.75, 1}));
  HostTensor matrix(DataType::kBool, {2, 3});
  ASSERT_TRUE(TestCall().integer(2).integer(3).out(matrix).run(eye).is_ok());
  EXPECT_EQ(matrix.values(), (Values{1, 0, 0, 0, 1, 0}));
}

TEST(Fill, TrianglesOfBatches) {
  HostTensor a(DataType::kInt32, {2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8});
  HostTensor out(DataType::kInt32, {2, 2, 2});
  ASSERT_TRUE(TestCall().in(a).integer(0).out(out).run(triu).is_ok());
  EXPECT_EQ(out.values(), (Values{1, 2, 0, 4, 5, 6, 0, 8}));
  ASSERT_TRUE(TestCall().in(a).integer(-1).out(out).run(tril).is_ok());
  EXPECT_EQ(out.values(), (Values{0, 0, 3, 0, 0, 0, 7, 0}));
  ASSERT_TRUE(TestCall().in_out(a).integer(1).run(triu).is_ok());
  EXPECT_EQ(a.values(), (Values{0, 2, 0, 0, 0, 6, 0, 0}));
}

TEST(Fill, DiagonalsWrapInTallMatrices) {
  HostTensor a(DataType::kInt32, {5, 2}, Values(10, 0));
  ASSERT_TRUE(TestCall().in_out(a).scalar(int64_t{1}).boolean(true).run(fill_diagonal).is_ok());
  EXPECT_EQ(a.values(), (Values{1, 0, 0, 1, 0, 0, 1, 0, 0, 1}));
  HostTensor b(DataType::kInt32, {5, 2}, Values(10, 0));
  ASSERT_TRUE(TestCall().in_out(b).scalar(int64_t{1}).boolean(false).run(fill_diagonal).is_ok());
  EXPECT_EQ(b.values(), (Values{1, 0, 0, 1, 0, 0, 0, 0, 0, 0}));
}

TEST(Fill, OneHotLeavesUnknownClassesOff) {
  HostTensor a(DataType::kInt64, {3}, {0, 2, 7});
  HostTensor on(DataType::kInt64, {1}, {1});
  HostTensor off(DataType::kInt64, {1}, {0});
  HostTensor out(DataType::kInt64, {3, 3});
  ASSERT_TRUE(TestCall().in(a).integer(3).in(on).in(off).integer(-1).out(out).run(one_hot).is_ok());
  EXPECT_EQ(out.values(), (Values{1, 0, 0, 0, 0, 1, 0, 0, 0}));
}

TEST(Random, IsInRangeSpreadAndRepeatable) {
  HostTensor a(DataType::kInt64, {1000});
  HostTensor b(DataType::kInt64, {1000});
  HostTensor c(DataType::kInt64, {1000});
  ASSERT_TRUE(TestCall().out(a).integer(-3).integer(4).integer(42).integer(0).run(random_between).is_ok());
  ASSERT_TRUE(TestCall().out(b).integer(-3).integer(4).integer(42).integer(0).run(random_between).is_ok());
  ASSERT_TRUE(TestCall().out(c).integer(-3).integer(4).integer(42).integer(8).run(random_between).is_ok());
  EXPECT_EQ(a.values(), b.values());
  EXPECT_NE(a.values(), c.values());
  std::array<int, 7> counts{};
  for (double value : a.values()) {
    ASSERT_TRUE(value >= -3 && value < 4);
    ++counts[static_cast<size_t>(value + 3)];
  }
  for (int count : counts) EXPECT_NEAR(count, 143, 60);
  EXPECT_EQ(TestCall().out(a).integer(4).integer(4).integer(0).integer(0).run(random_between).code(),
            kParameterInvalid);
  HostTensor seed(DataType::kInt64, {1}, {40});
  HostTensor offset(DataType::kInt64, {1}, {-1});
  ASSERT_TRUE(TestCall()
                  .out(c)
                  .integer(-3)
                  .integer(4)
                  .in(seed)
                  .in(offset)
                  .integer(1)
                  .run(random_between_seeded_by_tensors)
                  .is_ok());
  EXPECT_NE(a.values(), c.values());
}

TEST(Random, PermutationHoldsEveryNumberOnce) {
  HostTensor a(DataType::kInt32, {100});
  ASSERT_TRUE(TestCall().integer(100).integer(7).integer(0).out(a).run(randperm).is_ok());
  Values values = a.values();
  EXPECT_FALSE(std::is_sorted(values.begin(), values.end()));
  std::sort(values.begin(), values.end());
  for (size_t k = 0; k < values.size(); ++k) EXPECT_EQ(values[k], static_cast<double>(k));
}

TEST(Random, BernoulliFollowsItsProbability) {
  HostTensor a(DataType::kFloat, {2000});
  ASSERT_TRUE(TestCall().in_out(a).scalar(0.25).integer(1).integer(0).run(bernoulli).is_ok());
  double total = 0;
  for (double value : a.values()) total += value;
  EXPECT_NEAR(total, 500, 80);
}

TEST(Random, MultinomialDrawsPossibleClasses) {
  HostTensor weights(DataType::kFloat, {2, 3}, {0, 1, 0, 1, 0, 3});
  HostTensor out(DataType::kInt64, {2, 1});
  ASSERT_TRUE(TestCall().in(weights).integer(1).boolean(false).integer(3).integer(0).out(out).run(multinomial).is_ok());
  EXPECT_EQ(out.values()[0], 1);
  EXPECT_NE(out.values()[1], 1);
  HostTensor both(DataType::kInt64, {2, 2});
  EXPECT_EQ(TestCall().in(weights).integer(2).boolean(false).integer(3).integer(0).out(both).run(multinomial).code(),
            kParameterInvalid);
  ASSERT_TRUE(TestCall().in(weights).integer(2).boolean(true).integer(3).integer(0).out(both).run(multinomial).is_ok());
  EXPECT_EQ(both.values()[1], 1);
}

}  // namespace
}  // namespace drydock::ops::kernels
