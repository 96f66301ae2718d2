#include "ops/generated/kernels.h"
#include "ops_call_builder.h"

// Gradients and bags of embeddings, and slices scaled to a largest norm.

namespace drydock::ops {
namespace {

using testing::HostTensor;
using testing::TestCall;

constexpr DataType kFloat = DataType::kFloat;
using Values = std::vector<double>;

Status backward(HostTensor& grad, HostTensor& indices, int64_t rows, int64_t padding, bool scales, HostTensor& out) {
  TestCall call;
  call.in(grad).in(indices).integer(rows).integer(padding).boolean(scales).out(out);
  return call.run(kernels::embedding_dense_backward);
}

TEST(EmbeddingGradient, SumsRowsOfOneIndex) {
  HostTensor grad(kFloat, {3, 2}, {1, 2, 3, 4, 5, 6});
  HostTensor indices(DataType::kInt64, {3}, {2, 0, 2});
  HostTensor out(kFloat, {3, 2});
  ASSERT_TRUE(backward(grad, indices, 3, -1, false, out).is_ok());
  EXPECT_EQ(out.values(), (Values{3, 4, 0, 0, 6, 8}));
  ASSERT_TRUE(backward(grad, indices, 3, 0, true, out).is_ok());
  EXPECT_EQ(out.values(), (Values{0, 0, 0, 0, 3, 4}));
}

TEST(EmbeddingGradient, RefusesWhatDoesNotFit) {
  HostTensor grad(kFloat, {3, 2}, {1, 2, 3, 4, 5, 6});
  HostTensor indices(DataType::kInt64, {3}, {2, 0, 3});
  HostTensor out(kFloat, {3, 2});
  EXPECT_EQ(backward(grad, indices, 3, -1, false, out).code(), kernels::kDeviceFault);
  EXPECT_EQ(backward(grad, indices, 4, -1, false, out).code(), kernels::kParameterInvalid);
  HostTensor few(DataType::kInt64, {2}, {0, 1});
  EXPECT_EQ(backward(grad, few, 3, -1, false, out).code(), kernels::kParameterInvalid);
}

struct Bag {
  HostTensor weight{kFloat, {3, 2}, {1, 8, 2, 7, 3, 6}};
  HostTensor indices{DataType::kInt64, {4}, {0, 1, 2, 1}};
  HostTensor offsets{DataType::kInt64, {3}, {0, 3, 3}};
  HostTensor out{kFloat, {3, 2}};
  HostTensor bag_of_index{DataType::kInt64, {4}};
  HostTensor sizes{DataType::kInt64, {3}};
  HostTensor rows{DataType::kInt64, {3}};

  Status run(int64_t mode, bool last, int64_t padding, HostTensor* samples = nullptr) {
    TestCall call;
    call.in(weight).in(indices).in(offsets).boolean(false).integer(mode).boolean(false);
    samples != nullptr ? call.in(*samples) : call.absent();
    call.boolean(last).integer(padding).out(out).out(bag_of_index).out(sizes).out(rows);
    return call.run(kernels::embedding_bag);
  }
};

TEST(EmbeddingBag, SumMeanAndMaximum) {
  Bag bag;
  ASSERT_TRUE(bag.run(0, false, -1).is_ok());
  EXPECT_EQ(bag.out.values(), (Values{6, 21, 0, 0, 2, 7}));
  EXPECT_EQ(bag.bag_of_index.values(), (Values{0, 0, 0, 2}));
  EXPECT_EQ(bag.sizes.values(), (Values{3, 0, 1}));
  ASSERT_TRUE(bag.run(1, false, 0).is_ok());
  EXPECT_EQ(bag.out.values(), (Values{2.5, 6.5, 0, 0, 2, 7}));
  EXPECT_EQ(bag.sizes.values(), (Values{2, 0, 1}));
  HostTensor samples(kFloat, {4}, {1, 2, 3, -1});
  ASSERT_TRUE(bag.run(0, false, -1, &samples).is_ok());
  EXPECT_EQ(bag.out.values(), (Values{14, 40, 0, 0, -2, -7}));
  EXPECT_EQ(bag.run(1, false, -1, &samples).code(), kernels::kParameterInvalid);
}

TEST(EmbeddingBag, LastOffsetEndsTheLastBag) {
  Bag bag;
  EXPECT_EQ(bag.run(0, true, -1).code(), kernels::kParameterInvalid);  // two bags, an output for three
  bag.out.restrided({2, 2}, {2, 1});
  bag.sizes.restrided({2}, {1});
  bag.rows.restrided({2}, {1});
  bag.offsets.set({0, 3, 4});
  ASSERT_TRUE(bag.run(0, true, -1).is_ok());
  EXPECT_EQ(bag.out.values(), (Values{6, 21, 2, 7}));
}

TEST(EmbeddingBag, ChecksOffsetsAndIndices) {
  Bag bag;
  bag.offsets.set({0, 3, 2});
  EXPECT_EQ(bag.run(0, false, -1).code(), kernels::kDeviceFault);
  bag.offsets.set({0, 3, 5});
  EXPECT_EQ(bag.run(0, false, -1).code(), kernels::kDeviceFault);
  bag.offsets.set({0, 1, 2});
  bag.indices.set({0, 1, 2, 3});
  EXPECT_EQ(bag.run(0, false, -1).code(), kernels::kDeviceFault);
}

TEST(Renorm, ScalesSlicesAboveTheLargestNorm) {
  HostTensor self(kFloat, {2, 2}, {3, 4, 0.5, 0.5});
  HostTensor out(kFloat, {2, 2});
  ASSERT_TRUE(TestCall().in(self).scalar(2.0).integer(0).scalar(1.0).out(out).run(kernels::renorm).is_ok());
  const Values values = out.values();
  EXPECT_NEAR(values[0], 0.6, 1e-6);
  EXPECT_NEAR(values[1], 0.8, 1e-6);
  EXPECT_EQ(values[2], 0.5);
  EXPECT_EQ(TestCall().in(self).scalar(-1.0).integer(0).scalar(1.0).out(out).run(kernels::renorm).code(),
            kernels::kParameterInvalid);
  HostTensor indices(DataType::kInt64, {3}, {0, 0, 0});
  ASSERT_TRUE(TestCall().in_out(self).in(indices).number(3.5).number(1.0).run(kernels::embedding_renorm).is_ok());
  EXPECT_NEAR(self.values()[0], 1.5, 1e-6);  // once, not three times
}

}  // namespace
}  // namespace drydock::ops
