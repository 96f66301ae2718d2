#include "ops/generated/kernels.h"
#include "ops_call_builder.h"

namespace drydock::ops::testing {
namespace {

TestCall convolution_call(HostTensor& input, HostTensor& weight, HostTensor& out, std::vector<int64_t> stride,
                          std::vector<int64_t> padding, bool transposed = false, int64_t groups = 1) {
  TestCall call;
  call.in(input).in(weight).absent().ints(std::move(stride)).ints(std::move(padding)).ints({1, 1});
  call.boolean(transposed).ints({0, 0}).integer(groups).out(out).integer(0);
  return call;
}

TEST(ConvolutionKernel, SlidesAFilterOverAPaddedImage) {
  HostTensor image = tensor<float>({1, 1, 3, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9});
  HostTensor filter = tensor<float>({1, 1, 2, 2}, {1, 10, 100, 1000});
  HostTensor out(DataType::kFloat, {1, 1, 4, 4});
  ASSERT_TRUE(convolution_call(image, filter, out, {1, 1}, {1, 1}).run(kernels::convolution).is_ok());
  EXPECT_EQ(out.values(),
            (std::vector<double>{1000, 2100, 3200, 300, 4010, 5421, 6532, 603, 7040, 8754, 9865, 906, 70, 87, 98, 9}));
  EXPECT_TRUE(out.is_clean_behind());
}

TEST(ConvolutionKernel, PadsEachSideByItself) {
  HostTensor image = tensor<float>({1, 1, 1, 2}, {1, 2});
  HostTensor filter = tensor<float>({1, 1, 1, 1}, {3});
  HostTensor out(DataType::kFloat, {1, 1, 3, 4});
  ASSERT_TRUE(convolution_call(image, filter, out, {1, 1}, {0, 2, 2, 0}).run(kernels::convolution).is_ok());
  EXPECT_EQ(out.values(), (std::vector<double>{0, 0, 3, 6, 0, 0, 0, 0, 0, 0, 0, 0}));
}

TEST(ConvolutionKernel, SpreadsAnImageWhenTransposed) {
  HostTensor image = tensor<float>({1, 1, 1, 2}, {1, 2});
  HostTensor filter = tensor<float>({1, 1, 1, 3}, {1, 10, 100});
  HostTensor out(DataType::kFloat, {1, 1, 1, 5});
  ASSERT_TRUE(convolution_call(image, filter, out, {1, 2}, {0, 0}, true).run(kernels::convolution).is_ok());
  EXPECT_EQ(out.values(), (std::vector<double>{1, 10, 102, 20, 200}));
}

TEST(ConvolutionKernel, GroupsSeeTheirOwnChannels) {
  HostTensor image = tensor<float>({1, 2, 1, 2}, {1, 2, 3, 4});
  HostTensor filter = tensor<float>({4, 1, 1, 1}, {1, 2, 3, 4});
  HostTensor out(DataType::kFloat, {1, 4, 1, 2});
  ASSERT_TRUE(convolution_call(image, filter, out, {1, 1}, {0, 0}, false, 2).run(kernels::convolution).is_ok());
  EXPECT_EQ(out.values(), (std::vector<double>{1, 2, 2, 4, 9, 12, 12, 16}));
}

TEST(ConvolutionKernel, GradientsFollowTheMask) {
  HostTensor grad = tensor<float>({1, 1, 1, 2}, {1, 10});
  HostTensor image = tensor<float>({1, 1, 1, 3}, {1, 2, 3});
  HostTensor filter = tensor<float>({1, 1, 1, 2}, {5, 7});
  HostTensor grad_image(DataType::kFloat, {1, 1, 1, 3}), grad_filter(DataType::kFloat, {1, 1, 1, 2});
  HostTensor grad_bias = tensor<float>({1}, {-1});
  TestCall call;
  call.in(grad).in(image).in(filter).ints({1}).ints({1, 1}).ints({0, 0}).ints({1, 1}).boolean(false).ints({0, 0});
  call.integer(1).bools({1, 1, 0}).integer(0).out(grad_image).out(grad_filter).out(grad_bias);
  ASSERT_TRUE(call.run(kernels::convolution_backward).is_ok());
  EXPECT_EQ(grad_image.values(), (std::vector<double>{5, 57, 70}));
  EXPECT_EQ(grad_filter.values(), (std::vector<double>{21, 32}));
  EXPECT_EQ(grad_bias.values(), std::vector<double>{-1});
}

TEST(ConvolutionKernel, RefusesSizesThatDoNotFit) {
  HostTensor image(DataType::kFloat, {1, 2, 3, 3}), out(DataType::kFloat, {1, 1, 3, 3});
  HostTensor filter(DataType::kFloat, {1, 2, 2, 2}), wide(DataType::kFloat, {1, 1, 2, 2});
  HostTensor large(DataType::kFloat, {1, 2, 9, 9}), none(DataType::kFloat, {1, 2, 0, 2});
  const auto code = [&](HostTensor& weight, std::vector<int64_t> stride, std::vector<int64_t> padding, int64_t groups) {
    return convolution_call(image, weight, out, std::move(stride), std::move(padding), false, groups)
        .run(kernels::convolution)
        .code();
  };
  EXPECT_EQ(code(filter, {1, 1}, {0, 0}, 1), kernels::kParameterInvalid);  // output of another size
  EXPECT_EQ(code(wide, {1, 1}, {1, 1}, 1), kernels::kParameterInvalid);    // channels
  EXPECT_EQ(code(filter, {1, 1}, {1, 1}, 3), kernels::kParameterInvalid);  // groups
  EXPECT_EQ(code(filter, {1, 1}, {1, 1}, 0), kernels::kParameterInvalid);
  EXPECT_EQ(code(filter, {0, 1}, {1, 1}, 1), kernels::kParameterInvalid);  // stride
  EXPECT_EQ(code(filter, {1, 1, 1}, {1, 1}, 1), kernels::kParameterInvalid);
  EXPECT_EQ(code(filter, {1, 1}, {-1, 1}, 1), kernels::kParameterInvalid);
  EXPECT_EQ(code(large, {1, 1}, {0, 0}, 1), kernels::kParameterInvalid);  // larger than the image
  EXPECT_EQ(code(none, {1, 1}, {0, 0}, 1), kernels::kParameterInvalid);   // no taps
}

TEST(Im2colKernel, CopiesPatchesOfAnyType) {
  HostTensor image = tensor<int16_t>({1, 2, 2}, {1, 2, 3, 4});
  HostTensor columns(DataType::kInt16, {2, 6});
  TestCall call;
  call.in(image).ints({1, 2}).ints({1, 1}).ints({0, 1}).ints({1, 1}).out(columns);
  ASSERT_TRUE(call.run(kernels::im2col).is_ok());
  EXPECT_EQ(columns.values(), (std::vector<double>{0, 1, 2, 0, 3, 4, 1, 2, 0, 3, 4, 0}));
  HostTensor wrong(DataType::kInt16, {2, 5});
  TestCall bad;
  bad.in(image).ints({1, 2}).ints({1, 1}).ints({0, 1}).ints({1, 1}).out(wrong);
  EXPECT_EQ(bad.run(kernels::im2col).code(), kernels::kParameterInvalid);
}

TEST(UnfoldGradKernel, AddsWhereWindowsOverlap) {
  HostTensor grad = tensor<float>({2, 3}, {1, 2, 3, 10, 20, 30});
  HostTensor out(DataType::kFloat, {5});
  TestCall call;
  call.in(grad).ints({5}).integer(0).integer(3).integer(2).out(out);
  ASSERT_TRUE(call.run(kernels::unfold_grad).is_ok());
  EXPECT_EQ(out.values(), (std::vector<double>{1, 2, 13, 20, 30}));
}

}  // namespace
}  // namespace drydock::ops::testing
