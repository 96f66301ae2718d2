#include "ops/generated/kernels.h"
#include "ops_call_builder.h"

// Distances of rows and overlaps of boxes.

namespace drydock::ops {
namespace {

using testing::HostTensor;
using testing::TestCall;

constexpr DataType kFloat = DataType::kFloat;
using Values = std::vector<double>;

TEST(Distance, OfTwoSets) {
  HostTensor first(kFloat, {1, 2}, {0, 0});
  HostTensor second(kFloat, {2, 2}, {3, 4, 0, -2});
  HostTensor out(kFloat, {1, 2});
  const auto distances = [&](double p) {
    const Status status = TestCall().in(first).in(second).number(p).integer(0).out(out).run(kernels::cdist);
    EXPECT_TRUE(status.is_ok()) << status.message();
    return out.values();
  };
  EXPECT_EQ(distances(2), (Values{5, 2}));
  EXPECT_EQ(distances(1), (Values{7, 2}));
  EXPECT_EQ(distances(0), (Values{2, 1}));
  EXPECT_EQ(distances(std::numeric_limits<double>::infinity()), (Values{4, 2}));
  EXPECT_EQ(TestCall().in(first).in(second).number(-2).integer(0).out(out).run(kernels::cdist).code(),
            kernels::kParameterInvalid);
  HostTensor wide(kFloat, {2, 3});
  EXPECT_EQ(TestCall().in(first).in(wide).number(2).integer(0).out(out).run(kernels::cdist).code(),
            kernels::kParameterInvalid);
}

TEST(Distance, GradientPointsAway) {
  HostTensor grad(kFloat, {1, 2}, {1, 10});
  HostTensor first(kFloat, {1, 2}, {0, 0});
  HostTensor second(kFloat, {2, 2}, {-3, 4, 0, 0});
  HostTensor distances(kFloat, {1, 2}, {5, 0});
  HostTensor out(kFloat, {1, 2});
  const auto gradient = [&](double p, double distance) {
    distances.set({distance, 0});
    TestCall call;
    call.in(grad).in(first).in(second).in(distances).number(p).out(out);
    EXPECT_TRUE(call.run(kernels::cdist_backward).is_ok());
    return out.values();
  };
  EXPECT_NEAR(gradient(2, 5)[0], 0.6, 1e-6);
  EXPECT_NEAR(gradient(2, 5)[1], -0.8, 1e-6);
  EXPECT_EQ(gradient(1, 7), (Values{1, -1}));
  EXPECT_EQ(gradient(-1, 4), (Values{0, -1}));  // how the wheel says infinity
}

TEST(Distance, OfPairsInOneSet) {
  HostTensor self(kFloat, {3, 1}, {1, 3, 7});
  HostTensor out(kFloat, {3});
  ASSERT_TRUE(TestCall().in(self).number(2).out(out).run(kernels::pdist).is_ok());
  EXPECT_EQ(out.values(), (Values{2, 6, 4}));
  HostTensor wrong(kFloat, {4});
  EXPECT_EQ(TestCall().in(self).number(2).out(wrong).run(kernels::pdist).code(), kernels::kParameterInvalid);
}

TEST(Boxes, Overlap) {
  HostTensor first(kFloat, {2, 4}, {0, 0, 2, 2, 5, 5, 6, 6});
  HostTensor second(kFloat, {2, 4}, {1, 1, 3, 3, 5, 5, 7, 6});
  HostTensor out(kFloat, {2, 2});
  const auto overlap = [&](const char* mode, bool aligned, HostTensor& result) {
    TestCall call;
    return call.in(first).in(second).text(mode).number(0).boolean(aligned).out(result).run(kernels::box_iou);
  };
  ASSERT_TRUE(overlap("iou", false, out).is_ok());
  EXPECT_FLOAT_EQ(static_cast<float>(out.values()[0]), 1.0F / 7);
  EXPECT_EQ(out.values()[1], 0);
  EXPECT_EQ(out.values()[3], 0.5);
  HostTensor aligned(kFloat, {2, 1});
  ASSERT_TRUE(overlap("iof", true, aligned).is_ok());
  EXPECT_EQ(aligned.values(), (Values{0.25, 0.5}));
  EXPECT_EQ(overlap("giou", false, out).code(), kernels::kParameterInvalid);
  EXPECT_EQ(overlap("iou", true, out).code(), kernels::kParameterInvalid);
}

TEST(Boxes, CompleteOverlapOfEqualsIsOne) {
  HostTensor first(kFloat, {4, 2}, {1, 1, 1, 1, 2, 2, 2, 2});
  HostTensor second(kFloat, {4, 2}, {1, 4, 1, 1, 2, 2, 2, 2});
  HostTensor out(kFloat, {1, 2});
  HostTensor angles(kFloat, {1, 2});
  TestCall call;
  call.in(first).in(second).boolean(true).boolean(false).text("iou").out(out).out(angles);
  ASSERT_TRUE(call.run(kernels::complete_box_iou).is_ok());
  EXPECT_EQ(out.values()[0], 1);
  EXPECT_NEAR(out.values()[1], -9.0 / (25 + 4), 1e-6);  // 3 apart in a box of 5 by 2
  EXPECT_EQ(angles.values(), (Values{0, 0}));
}

}  // namespace
}  // namespace drydock::ops
