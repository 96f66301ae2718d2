#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "ops/generated/kernels.h"
#include "ops_call_builder.h"

namespace drydock::ops::kernels {
namespace {

using testing::HostTensor;
using testing::TestCall;

TEST(Special, LogitHoldsItsInputInside) {
  HostTensor input(DataType::kFloat, {3}, {0.5, 0, 2});
  HostTensor out(DataType::kFloat, {3});
  ASSERT_TRUE(TestCall().in(input).number(0.25).out(out).run(logit).is_ok());
  EXPECT_NEAR(out.values()[1], std::log(1.0 / 3), 1e-6);
  EXPECT_NEAR(out.values()[2], std::log(3.0), 1e-6);
  ASSERT_TRUE(TestCall().in(input).number(-1).out(out).run(logit).is_ok());
  EXPECT_EQ(out.values()[1], -INFINITY);
  EXPECT_TRUE(std::isnan(out.values()[2]));
}

TEST(Special, EqualPlacesAddUp) {
  HostTensor lengths(DataType::kInt32, {2}, {0, 0});
  HostTensor places(DataType::kInt32, {3}, {1, 0, 1});
  HostTensor indices(DataType::kInt32, {3, 2}, {7, 8, 1, 2, 7, 8});
  HostTensor values(DataType::kFloat, {3, 2}, {1, 2, 3, 4, 5, 6});
  HostTensor new_indices(DataType::kInt32, {2, 2});
  HostTensor new_values(DataType::kFloat, {2, 2});
  const auto run = [&] {
    TestCall call;
    call.in(lengths).in(places).in(indices).in(values).out(new_indices).out(new_values);
    return call.run(coalesce_sparse);
  };
  ASSERT_TRUE(run().is_ok());
  EXPECT_EQ(new_indices.values(), (std::vector<double>{1, 2, 7, 8}));
  EXPECT_EQ(new_values.values(), (std::vector<double>{3, 4, 6, 8}));
  places.set({0, 2, 1});
  EXPECT_EQ(run().code(), kDeviceFault);
}

}  // namespace
}  // namespace drydock::ops::kernels
