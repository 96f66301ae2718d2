#include "ops/generated/kernels.h"
#include "ops_call_builder.h"

namespace drydock::ops::kernels {
namespace {

using testing::HostTensor;
using testing::TestCall;
using Values = std::vector<double>;

constexpr double kInf = std::numeric_limits<double>::infinity();

TEST(Sampling, TopKKeepsTiesOfTheLeastAndTopPTheLargest) {
  HostTensor logits(DataType::kFloat, {1, 4}, {1, 3, 3, 2});
  HostTensor p(DataType::kFloat, {1}, {1});
  HostTensor k(DataType::kInt32, {1}, {1});
  HostTensor out(DataType::kFloat, {1, 4});
  ASSERT_TRUE(TestCall().in(logits).in(p).in(k).out(out).run(apply_top_k_top_p).is_ok());
  EXPECT_EQ(out.values(), (Values{-kInf, 3, 3, -kInf}));
  p.set({0});
  k.set({0});
  ASSERT_TRUE(TestCall().in(logits).in(p).in(k).out(out).run(apply_top_k_top_p).is_ok());
  EXPECT_EQ(out.values(), (Values{-kInf, -kInf, 3, -kInf}));  // the last of the sorted ones always stays
  HostTensor two(DataType::kInt32, {2}, {1, 1});
  EXPECT_EQ(TestCall().in(logits).in(p).in(two).out(out).run(apply_top_k_top_p).code(), kParameterInvalid);
}

TEST(Sampling, CandidatesOfMinP) {
  HostTensor logits(DataType::kFloat, {1, 4}, {0.1, 0.5, 0.3, 0.1});  // probabilities, not logits
  HostTensor k(DataType::kInt32, {1}, {3});
  HostTensor p(DataType::kFloat, {1}, {1});
  HostTensor min_p(DataType::kFloat, {1}, {0.5});
  HostTensor chosen(DataType::kInt64, {1});
  HostTensor selected(DataType::kFloat, {1, 4});
  HostTensor places(DataType::kInt64, {1, 4});
  HostTensor sorted(DataType::kFloat, {1, 4});
  TestCall call;
  call.in(logits).in(k).in(p).absent().in(min_p).number(1e-8).boolean(true).integer(32).integer(8).boolean(false);
  call.boolean(true).out(chosen).out(selected).out(places).out(sorted);
  ASSERT_TRUE(call.run(top_k_top_p_sample_candidates).is_ok());
  EXPECT_EQ(places.values(), (Values{1, 2, 0, 0}));
  EXPECT_EQ(selected.values()[0], 0);
  EXPECT_FLOAT_EQ(static_cast<float>(selected.values()[1]), 0.5f);
  EXPECT_EQ(sorted.values()[2], 0);
}

TEST(Sampling, AdvanceStepRefusesAPositionBehindTheTables) {
  HostTensor tokens(DataType::kInt64, {1}, {0});
  HostTensor sampled(DataType::kInt64, {1, 1}, {9});
  HostTensor positions(DataType::kInt64, {1}, {0});
  HostTensor lengths(DataType::kInt64, {1}, {8});
  HostTensor slots(DataType::kInt64, {1}, {0});
  HostTensor tables(DataType::kInt64, {1, 2}, {3, 4});
  TestCall call;
  call.in_out(tokens).in(sampled).in_out(positions).in_out(lengths).in_out(slots).in(tables);
  EXPECT_EQ(call.integer(1).integer(1).integer(4).run(advance_step).code(), kDeviceFault);
}

}  // namespace
}  // namespace drydock::ops::kernels
