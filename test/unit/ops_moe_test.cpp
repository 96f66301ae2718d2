#include "ops/generated/kernels.h"
#include "ops_call_builder.h"

namespace drydock::ops::kernels {
namespace {

using testing::HostTensor;
using testing::TestCall;
using Values = std::vector<double>;

TEST(Moe, SoftmaxGatePicksTheLargestAndMarksFinishedTokens) {
  HostTensor x(DataType::kFloat, {2, 3}, {0, 5, 5, 1, 0, 2});
  HostTensor finished(DataType::kBool, {2}, {0, 1});
  HostTensor y(DataType::kFloat, {2, 2});
  HostTensor experts(DataType::kInt32, {2, 2});
  HostTensor rows(DataType::kInt32, {2, 2});
  TestCall call;
  ASSERT_TRUE(call.in(x).in(finished).integer(2).out(y).out(experts).out(rows).run(moe_gating_softmax).is_ok());
  EXPECT_EQ(experts.values(), (Values{1, 2, 3, 3}));
  EXPECT_EQ(rows.values(), (Values{0, 2, 1, 3}));
  HostTensor small(DataType::kFloat, {2, 1});
  EXPECT_EQ(TestCall().in(x).absent().integer(2).out(small).out(experts).out(rows).run(moe_gating_softmax).code(),
            kParameterInvalid);
  EXPECT_EQ(TestCall().in(x).absent().integer(4).out(y).out(experts).out(rows).run(moe_gating_softmax).code(),
            kParameterInvalid);
}

struct Routed {
  HostTensor x{DataType::kFloat, {3, 1}, {10, 20, 30}};
  HostTensor experts{DataType::kInt32, {3, 1}, {1, 0, 1}};
  HostTensor expanded{DataType::kFloat, {3, 1}};
  HostTensor rows{DataType::kInt32, {3}};
  HostTensor counts{DataType::kInt32, {2}};
  HostTensor before{DataType::kInt32, {2}};

  Status run(int64_t active, int64_t capacity, int64_t pads, int64_t flag) {
    TestCall call;
    call.in(x).in(experts).integer(active).integer(capacity).integer(2).integer(pads).integer(flag).boolean(true);
    return call.out(expanded).out(rows).out(counts).out(before).run(moe_init_routing_capacity);
  }
};

TEST(Moe, InitRoutingSortsTokensByExpert) {
  Routed routed;
  ASSERT_TRUE(routed.run(0, 0, 0, 1).is_ok());
  EXPECT_EQ(routed.expanded.values(), (Values{20, 10, 30}));
  EXPECT_EQ(routed.rows.values(), (Values{1, 0, 2}));
  EXPECT_EQ(routed.counts.values(), (Values{1, 3}));
  ASSERT_TRUE(routed.run(0, 0, 0, 2).is_ok());
  EXPECT_EQ(routed.counts.values(), (Values{1, 2}));
  routed.experts.set({1, 7, 1});
  EXPECT_EQ(routed.run(0, 0, 0, 1).code(), kDeviceFault);
}

TEST(Moe, InitRoutingDropsBehindTheCapacityAndPadsWithZeros) {
  Routed routed;
  routed.expanded.restrided({2, 1, 1}, {1, 1, 1});
  ASSERT_TRUE(routed.run(0, 1, 1, 0).is_ok());
  EXPECT_EQ(routed.expanded.values(), (Values{20, 10}));
  EXPECT_EQ(routed.rows.values(), (Values{1, 0, -1}));
  EXPECT_EQ(routed.before.values(), (Values{1, 2}));
  EXPECT_EQ(routed.run(0, 0, 1, 0).code(), kParameterInvalid);
}

TEST(Moe, FinalizeWeighsRowsAndBiases) {
  HostTensor expanded(DataType::kFloat, {2, 2}, {1, 2, 3, 4});
  HostTensor rows(DataType::kInt32, {2}, {1, -1});
  HostTensor shared(DataType::kFloat, {1, 2}, {100, 200});
  HostTensor bias(DataType::kFloat, {1, 2}, {10, 20});
  HostTensor scales(DataType::kFloat, {1, 2}, {2, 0.5});
  HostTensor experts(DataType::kInt32, {1, 2}, {0, 0});
  HostTensor out(DataType::kFloat, {1, 2});
  const auto run = [&](int64_t mode) {
    TestCall call;
    call.in(expanded).in(rows).in(shared).absent().in(bias).in(scales).in(experts).integer(mode).out(out);
    return call.run(moe_finalize_routing_modes);
  };
  ASSERT_TRUE(run(3).is_ok());
  EXPECT_EQ(out.values(), (Values{100 + 2 * 13 + 0.5 * 10, 200 + 2 * 24 + 0.5 * 20}));
  EXPECT_EQ(run(2).code(), kDeviceFault);  // only the drop forms know a dropped row
  experts.set({0, 1});
  EXPECT_EQ(run(3).code(), kDeviceFault);
}

TEST(Moe, PermuteAndItsGradient) {
  HostTensor tokens(DataType::kBFloat16, {2, 1}, {5, 7});
  HostTensor indices(DataType::kInt64, {2, 2}, {3, 0, 0, 1});
  HostTensor permuted(DataType::kBFloat16, {4, 1});
  HostTensor sorted(DataType::kInt32, {4});
  TestCall call;
  ASSERT_TRUE(
      call.in(tokens).in(indices).integer(0).boolean(false).out(permuted).out(sorted).run(moe_token_permute).is_ok());
  EXPECT_EQ(permuted.values(), (Values{5, 7, 7, 5}));
  EXPECT_EQ(sorted.values(), (Values{3, 0, 1, 2}));
  HostTensor grad(DataType::kBFloat16, {4, 1}, {1, 2, 4, 8});
  HostTensor out(DataType::kBFloat16, {2, 1});
  ASSERT_TRUE(TestCall().in(grad).in(sorted).integer(2).boolean(false).out(out).run(moe_token_permute_grad).is_ok());
  EXPECT_EQ(out.values(), (Values{9, 6}));
  EXPECT_EQ(TestCall().in(grad).in(sorted).integer(3).boolean(false).out(out).run(moe_token_permute_grad).code(),
            kParameterInvalid);
}

TEST(Moe, RoutingMapLeavesUnusedSlotsEmpty) {
  HostTensor tokens(DataType::kFloat, {2, 1}, {5, 7});
  HostTensor map(DataType::kBool, {2, 2}, {0, 1, 1, 1});
  HostTensor permuted(DataType::kFloat, {4, 1});
  HostTensor sorted(DataType::kInt32, {4});
  TestCall call;
  call.in(tokens).in(map).absent().integer(4).boolean(false).out(permuted).absent(ArgDirection::kOut).out(sorted);
  ASSERT_TRUE(call.run(moe_map_permute).is_ok());
  EXPECT_EQ(permuted.values(), (Values{7, 5, 7, 0}));
  EXPECT_EQ(sorted.values(), (Values{1, -1, 0, 2}));
}

TEST(Moe, EmptyTokens) {
  HostTensor tokens(DataType::kFloat, {0, 4});
  HostTensor indices(DataType::kInt32, {0, 2});
  HostTensor permuted(DataType::kFloat, {0, 4});
  HostTensor sorted(DataType::kInt32, {0});
  TestCall call;
  EXPECT_TRUE(
      call.in(tokens).in(indices).integer(0).boolean(false).out(permuted).out(sorted).run(moe_token_permute).is_ok());
}

TEST(Moe, UpdateExpertMapsToTheCopyOfTheRank) {
  HostTensor ids(DataType::kInt32, {2, 1}, {1, 1});
  HostTensor table(DataType::kInt32, {2, 3}, {1, 4, 0, 2, 5, 6});
  HostTensor out(DataType::kInt32, {2, 1});
  const auto run = [&](int64_t mode) {
    TestCall call;
    call.in(ids).in(table).absent().absent().absent().integer(0).integer(2).integer(mode).out(out);
    return call.absent(ArgDirection::kOut).run(moe_update_expert);
  };
  ASSERT_TRUE(run(0).is_ok());
  EXPECT_EQ(out.values(), (Values{5, 5}));
  ASSERT_TRUE(run(1).is_ok());
  EXPECT_EQ(out.values(), (Values{5, 6}));
  ids.set({1, 2});
  EXPECT_EQ(run(1).code(), kDeviceFault);
}

}  // namespace
}  // namespace drydock::ops::kernels
