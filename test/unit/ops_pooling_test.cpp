#include <numeric>

#include "ops/generated/kernels.h"
#include "ops_call_builder.h"

// Pooling: windows at the borders, the device's mask, gradients, and shapes that do not fit.

namespace drydock::ops {
namespace {

using testing::HostTensor;
using testing::TestCall;

constexpr DataType kFloat = DataType::kFloat;
using Values = std::vector<double>;

Values counting(int64_t count) {
  Values values(static_cast<size_t>(count));
  std::iota(values.begin(), values.end(), 1.0);
  return values;
}

struct AveragePool {
  std::vector<int64_t> kernel{2, 2}, stride{}, padding{0, 0};
  bool ceil_mode = false;
  bool counts_padding = true;
  int64_t divisor = 0;

  Status forward(HostTensor& self, HostTensor& out) const {
    TestCall call;
    call.in(self).ints(kernel).ints(stride).ints(padding).boolean(ceil_mode).boolean(counts_padding);
    return call.integer(divisor).integer(0).out(out).run(kernels::avg_pool2d);
  }
  Status backward(HostTensor& grad, HostTensor& self, HostTensor& out) const {
    TestCall call;
    call.in(grad).in(self).ints(kernel).ints(stride).ints(padding).boolean(ceil_mode).boolean(counts_padding);
    return call.integer(divisor).integer(0).out(out).run(kernels::avg_pool2d_backward);
  }
};

TEST(AveragePool, CountsPaddingOrNot) {
  HostTensor self(kFloat, {1, 3, 3}, counting(9));
  HostTensor out(kFloat, {1, 2, 2});
  AveragePool pool{.padding = {1, 1}};
  ASSERT_TRUE(pool.forward(self, out).is_ok());
  EXPECT_EQ(out.values(), (Values{0.25, 1.25, 2.75, 7}));
  pool.counts_padding = false;
  ASSERT_TRUE(pool.forward(self, out).is_ok());
  EXPECT_EQ(out.values(), (Values{1, 2.5, 5.5, 7}));
  pool.divisor = 2;
  ASSERT_TRUE(pool.forward(self, out).is_ok());
  EXPECT_EQ(out.values(), (Values{0.5, 2.5, 5.5, 14}));
}

TEST(AveragePool, CeilModeHasShortWindows) {
  HostTensor self(kFloat, {1, 3, 3}, counting(9));
  HostTensor out(kFloat, {1, 2, 2});
  ASSERT_TRUE((AveragePool{.ceil_mode = true}.forward(self, out)).is_ok());
  EXPECT_EQ(out.values(), (Values{3, 4.5, 7.5, 9}));
  HostTensor grad(kFloat, {1, 2, 2}, {4, 2, 2, 1});
  HostTensor gradient(kFloat, {1, 3, 3});
  ASSERT_TRUE((AveragePool{.ceil_mode = true}.backward(grad, self, gradient)).is_ok());
  EXPECT_EQ(gradient.values(), (Values{1, 1, 1, 1, 1, 1, 1, 1, 1}));
}

TEST(AveragePool, StridedHalves) {
  HostTensor self(DataType::kFloat16, {2, 2, 2}, {1, 10, 2, 20, 3, 30, 4, 40});
  self.restrided({2, 2, 2}, {1, 4, 2});  // channels last
  HostTensor out(DataType::kFloat16, {2, 1, 1});
  ASSERT_TRUE((AveragePool{}.forward(self, out)).is_ok());
  EXPECT_EQ(out.values(), (Values{2.5, 25}));
}

TEST(AveragePool, RefusesWhatDoesNotFit) {
  HostTensor self(kFloat, {1, 3, 3}, counting(9));
  HostTensor out(kFloat, {1, 2, 2});
  EXPECT_EQ((AveragePool{}.forward(self, out)).code(), kernels::kParameterInvalid);  // one window
  EXPECT_EQ((AveragePool{.kernel = {0, 1}}.forward(self, out)).code(), kernels::kParameterInvalid);
  EXPECT_EQ((AveragePool{.kernel = {2, 2, 2}}.forward(self, out)).code(), kernels::kParameterInvalid);
  EXPECT_EQ((AveragePool{.kernel = {}}.forward(self, out)).code(), kernels::kParameterInvalid);
  EXPECT_EQ((AveragePool{.padding = {2, 2}}.forward(self, out)).code(), kernels::kParameterInvalid);
  EXPECT_EQ((AveragePool{.stride = {-1, 1}}.forward(self, out)).code(), kernels::kParameterInvalid);
  HostTensor flat(kFloat, {3}, counting(3));
  EXPECT_EQ((AveragePool{}.forward(flat, out)).code(), kernels::kParameterInvalid);
  HostTensor channels(kFloat, {2, 1, 1});
  EXPECT_EQ((AveragePool{}.forward(self, channels)).code(), kernels::kParameterInvalid);
}

TEST(AdaptiveAveragePool, OverlappingWindows) {
  HostTensor self(kFloat, {1, 1, 5}, counting(5));
  HostTensor out(kFloat, {1, 1, 3});
  ASSERT_TRUE(TestCall().in(self).ints({1, 3}).out(out).run(kernels::adaptive_avg_pool2d).is_ok());
  EXPECT_EQ(out.values(), (Values{1.5, 3, 4.5}));
  HostTensor grad(kFloat, {1, 1, 3}, {2, 3, 4});
  HostTensor gradient(kFloat, {1, 1, 5});
  ASSERT_TRUE(TestCall().in(grad).in(self).out(gradient).run(kernels::adaptive_avg_pool2d_backward).is_ok());
  EXPECT_EQ(gradient.values(), (Values{1, 2, 1, 3, 2}));
  EXPECT_EQ(TestCall().in(self).ints({1, 2}).out(out).run(kernels::adaptive_avg_pool2d).code(),
            kernels::kParameterInvalid);
}

TEST(AdaptiveAveragePool, NoPlanes) {
  HostTensor self(kFloat, {0, 1, 5});
  HostTensor out(kFloat, {0, 1, 3});
  EXPECT_TRUE(TestCall().in(self).ints({1, 3}).out(out).run(kernels::adaptive_avg_pool2d).is_ok());
}

struct MaxPool {
  std::vector<int64_t> kernel{2, 2}, stride{}, padding{0, 0}, dilation{1, 1};

  Status forward(Kernel kernel_function, HostTensor& self, HostTensor& out, HostTensor& places) const {
    TestCall call;
    call.in(self).ints(kernel).ints(stride).ints(padding).ints(dilation).boolean(false);
    return call.out(out).out(places).run(kernel_function);
  }
  Status backward(Kernel kernel_function, HostTensor& grad, HostTensor& self, HostTensor& places,
                  HostTensor& out) const {
    TestCall call;
    call.in(grad).in(self).in(places).ints(kernel).ints(stride).ints(padding).ints(dilation).boolean(false);
    return call.out(out).run(kernel_function);
  }
};

TEST(MaxPool, PlacesAndGradient) {
  HostTensor self(kFloat, {1, 2, 4}, {1, 5, 5, 2, 0, 4, 3, 9});
  HostTensor out(kFloat, {1, 1, 3});
  HostTensor places(DataType::kInt32, {1, 1, 3});
  const MaxPool pool{.stride = {1, 1}};
  ASSERT_TRUE(pool.forward(kernels::max_pool2d_with_indices, self, out, places).is_ok());
  EXPECT_EQ(out.values(), (Values{5, 5, 9}));
  EXPECT_EQ(places.values(), (Values{1, 1, 7}));  // the first of two that are equal
  HostTensor grad(kFloat, {1, 1, 3}, {1, 2, 3});
  HostTensor gradient(kFloat, {1, 2, 4});
  ASSERT_TRUE(pool.backward(kernels::max_pool2d_backward, grad, self, places, gradient).is_ok());
  EXPECT_EQ(gradient.values(), (Values{0, 3, 0, 0, 0, 0, 0, 3}));
  places.set({0, 8, 1});
  EXPECT_EQ(pool.backward(kernels::max_pool2d_backward, grad, self, places, gradient).code(), kernels::kDeviceFault);
}

TEST(MaxPool, MaskIsReadBackByTheGradient) {
  HostTensor self(kFloat, {1, 3, 3}, {9, 1, 2, 3, 4, 5, 6, 7, 8});
  HostTensor out(kFloat, {1, 2, 2});
  HostTensor mask(DataType::kInt8, {1, 4, 64});
  const MaxPool pool{.padding = {1, 1}};
  ASSERT_TRUE(pool.forward(kernels::max_pool2d_with_mask, self, out, mask).is_ok());
  EXPECT_EQ(out.values(), (Values{9, 2, 6, 8}));
  const Values bits = mask.values();
  EXPECT_EQ(bits[3 * 64], 1 + 2 + 4 + 8);  // all four maxima are the last element of their windows
  EXPECT_EQ(std::accumulate(bits.begin(), bits.end(), 0.0), 15);
  HostTensor grad(kFloat, {1, 2, 2}, {1, 2, 3, 4});
  HostTensor gradient(kFloat, {1, 3, 3});
  ASSERT_TRUE(pool.backward(kernels::max_pool2d_with_mask_backward, grad, self, mask, gradient).is_ok());
  EXPECT_EQ(gradient.values(), (Values{1, 0, 2, 0, 0, 0, 3, 0, 4}));
  HostTensor small(DataType::kInt8, {1, 3, 64});
  EXPECT_EQ(pool.forward(kernels::max_pool2d_with_mask, self, out, small).code(), kernels::kParameterInvalid);
}

TEST(MaxPool, DilatedWindowsStartInside) {
  HostTensor self(kFloat, {1, 1, 5}, {5, 4, 3, 2, 1});
  HostTensor out(kFloat, {1, 1, 2});
  HostTensor places(DataType::kInt64, {1, 1, 2});
  const MaxPool pool{.kernel = {1, 3}, .stride = {1, 2}, .padding = {0, 1}, .dilation = {1, 2}};
  ASSERT_TRUE(pool.forward(kernels::max_pool2d_with_indices, self, out, places).is_ok());
  EXPECT_EQ(out.values(), (Values{4, 4}));
  EXPECT_EQ(places.values(), (Values{1, 1}));
}

TEST(MaxUnpool, PutsBackAndChecksPlaces) {
  HostTensor self(DataType::kInt32, {1, 1, 2}, {7, 8});
  HostTensor places(DataType::kInt64, {1, 1, 2}, {3, 0});
  HostTensor out(DataType::kInt32, {1, 2, 2});
  ASSERT_TRUE(TestCall().in(self).in(places).ints({2, 2}).out(out).run(kernels::max_unpool2d).is_ok());
  EXPECT_EQ(out.values(), (Values{8, 0, 0, 7}));
  places.set({4, 0});
  EXPECT_EQ(TestCall().in(self).in(places).ints({2, 2}).out(out).run(kernels::max_unpool2d).code(),
            kernels::kDeviceFault);
}

}  // namespace
}  // namespace drydock::ops
