#include "ops/generated/kernels.h"
#include "ops_call_builder.h"

// Sampling grids and regions of interest.

namespace drydock::ops {
namespace {

using testing::HostTensor;
using testing::TestCall;

constexpr DataType kFloat = DataType::kFloat;
using Values = std::vector<double>;

Status sample(HostTensor& input, HostTensor& grid, int64_t interpolation, int64_t padding, HostTensor& out) {
  TestCall call;
  call.in(input).in(grid).integer(interpolation).integer(padding).boolean(true).out(out);
  return call.run(kernels::grid_sampler_2d);
}

TEST(GridSampler, ReadsBetweenElementsAndOutside) {
  HostTensor input(kFloat, {1, 1, 2, 3}, {0, 1, 2, 10, 11, 12});
  HostTensor grid(kFloat, {1, 1, 3, 2}, {-1, -1, 0.5, 0, 2, 1});
  HostTensor out(kFloat, {1, 1, 1, 3});
  ASSERT_TRUE(sample(input, grid, 0, 0, out).is_ok());
  EXPECT_EQ(out.values(), (Values{0, 6.5, 0}));
  ASSERT_TRUE(sample(input, grid, 0, 1, out).is_ok());
  EXPECT_EQ(out.values(), (Values{0, 6.5, 12}));
  ASSERT_TRUE(sample(input, grid, 0, 2, out).is_ok());
  EXPECT_EQ(out.values(), (Values{0, 6.5, 11}));
  ASSERT_TRUE(sample(input, grid, 1, 0, out).is_ok());
  EXPECT_EQ(out.values(), (Values{0, 2, 0}));  // 1.5 and 0.5 go to the even neighbours
}

TEST(GridSampler, SurvivesWhatIsNoPlace) {
  HostTensor input(kFloat, {1, 1, 1, 2}, {3, 5});
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  HostTensor grid(kFloat, {1, 1, 3, 2}, {nan, nan, infinity, 0, -1e30, 1e30});
  HostTensor out(kFloat, {1, 1, 1, 3});
  for (int64_t interpolation : {0, 1, 2}) {
    ASSERT_TRUE(sample(input, grid, interpolation, 0, out).is_ok());
    EXPECT_EQ(out.values(), (Values{0, 0, 0}));
    EXPECT_TRUE(sample(input, grid, interpolation, 1, out).is_ok());
    EXPECT_TRUE(sample(input, grid, interpolation, 2, out).is_ok());
  }
  EXPECT_EQ(sample(input, grid, 3, 0, out).code(), kernels::kParameterInvalid);
  EXPECT_EQ(sample(input, grid, 0, 3, out).code(), kernels::kParameterInvalid);
  HostTensor short_out(kFloat, {1, 1, 1, 2});
  EXPECT_EQ(sample(input, grid, 0, 0, short_out).code(), kernels::kParameterInvalid);
}

TEST(GridSampler, GradientsOfOnePoint) {
  HostTensor grad(kFloat, {1, 1, 1, 1}, {2});
  HostTensor input(kFloat, {1, 1, 1, 3}, {1, 4, 9});
  HostTensor grid(kFloat, {1, 1, 1, 2}, {0.25, 0});
  HostTensor by_input(kFloat, {1, 1, 1, 3});
  HostTensor by_grid(kFloat, {1, 1, 1, 2});
  TestCall call;
  call.in(grad).in(input).in(grid).integer(0).integer(1).boolean(true).other(ArgKind::kBoolArray);
  ASSERT_TRUE(call.out(by_input).out(by_grid).run(kernels::grid_sampler_2d_backward).is_ok());
  EXPECT_EQ(by_input.values(), (Values{0, 1.5, 0.5}));
  EXPECT_EQ(by_grid.values(), (Values{10, 0}));
  TestCall without;
  without.in(grad).in(input).in(grid).integer(0).integer(1).boolean(true).other(ArgKind::kBoolArray);
  EXPECT_TRUE(without.absent(ArgDirection::kOut).out(by_grid).run(kernels::grid_sampler_2d_backward).is_ok());
}

TEST(AffineGrid, PlacesOfAnImage) {
  HostTensor theta(kFloat, {1, 2, 3}, {1, 0, 0.5, 0, 2, 0});
  HostTensor out(kFloat, {1, 2, 2, 2});
  ASSERT_TRUE(TestCall().in(theta).ints({1, 1, 2, 2}).boolean(true).out(out).run(kernels::affine_grid).is_ok());
  EXPECT_EQ(out.values(), (Values{-0.5, -2, 1.5, -2, -0.5, 2, 1.5, 2}));
  EXPECT_EQ(TestCall().in(theta).ints({1, 1, 2}).boolean(true).out(out).run(kernels::affine_grid).code(),
            kernels::kParameterInvalid);
  EXPECT_EQ(TestCall().in(theta).ints({1, 1, 2, 3}).boolean(true).out(out).run(kernels::affine_grid).code(),
            kernels::kParameterInvalid);
}

TEST(RoiAlign, AveragesSamples) {
  HostTensor image(kFloat, {1, 1, 2, 2}, {0, 1, 2, 3});
  HostTensor rois(kFloat, {1, 5}, {0, 0, 0, 1, 1});
  HostTensor out(kFloat, {1, 1, 1, 1});
  const auto pool = [&](int64_t samples, int64_t end) {
    TestCall call;
    call.in(image).in(rois).number(1).integer(1).integer(1).integer(samples).integer(end).out(out);
    return call.run(kernels::roi_align);
  };
  ASSERT_TRUE(pool(1, 0).is_ok());
  EXPECT_EQ(out.values(), (Values{1.5}));
  ASSERT_TRUE(pool(0, 2).is_ok());
  EXPECT_EQ(out.values(), (Values{0}));
  EXPECT_EQ(pool(1, 4).code(), kernels::kParameterInvalid);
  EXPECT_EQ(pool(-1, 0).code(), kernels::kParameterInvalid);
  rois.set({1, 0, 0, 1, 1});
  EXPECT_EQ(pool(1, 0).code(), kernels::kDeviceFault);
  rois.set({0, 0, 0, 1, 1});
  HostTensor grad(kFloat, {1, 1, 1, 1}, {4});
  HostTensor gradient(kFloat, {1, 1, 2, 2});
  TestCall call;
  call.in(grad).in(rois).ints({1, 1, 2, 2}).integer(1).integer(1).number(1).integer(1).integer(0).out(gradient);
  ASSERT_TRUE(call.run(kernels::roi_align_backward).is_ok());
  EXPECT_EQ(gradient.values(), (Values{1, 1, 1, 1}));
}

}  // namespace
}  // namespace drydock::ops
