#include <cmath>

#include "ops/generated/kernels.h"
#include "ops_call_builder.h"

namespace drydock::ops::kernels {
namespace {

using testing::HostTensor;
using testing::tensor;
using testing::TestCall;

constexpr DataType kF16 = DataType::kFloat16;
constexpr DataType kBF16 = DataType::kBFloat16;
constexpr DataType kF32 = DataType::kFloat;

TEST(LightningIndexer, ChoosesTheLargestVisibleKeys) {
  HostTensor query(kF16, Dims{1, 2, 1, 1}, {1, 1}), key(kF16, Dims{1, 3, 1, 1}, {5, 1, 9}),
      weights(kF16, Dims{1, 2, 1}, {1, 1});
  HostTensor indices(DataType::kInt32, Dims{1, 2, 1, 2}), values(kF16, Dims{1, 2, 1, 2});
  const auto run = [&](int64_t mode) {
    TestCall call("aclnnLightningIndexer");
    call.in(query).in(key).in(weights).absent().absent().absent().text("BSND").text("BSND").integer(2).integer(mode);
    call.integer(0).integer(0).boolean(true).out(indices).out(values);
    return call.run(lightning_indexer).code();
  };
  ASSERT_EQ(run(3), 0);
  EXPECT_EQ(indices.values(), (std::vector<double>{0, 1, 2, 0}));
  EXPECT_EQ(values.values(), (std::vector<double>{5, 1, 9, 5}));
  EXPECT_TRUE(indices.is_clean_behind());
  EXPECT_EQ(run(1), kParameterInvalid);
}

TEST(LightningIndexer, FillsUpWithMinusOne) {
  HostTensor query(kF16, Dims{1, 1, 1, 1}, {1}), key(kF16, Dims{1, 1, 1, 1}, {5}), weights(kF16, Dims{1, 1, 1}, {2});
  HostTensor indices(DataType::kInt32, Dims{1, 1, 1, 2}), values(kF16, Dims{1, 1, 1, 2});
  TestCall call("aclnnLightningIndexer");
  call.in(query).in(key).in(weights).absent().absent().absent().text("BSND").text("BSND").integer(2).integer(0);
  call.integer(0).integer(0).boolean(true).out(indices).out(values);
  ASSERT_TRUE(call.run(lightning_indexer).is_ok());
  EXPECT_EQ(indices.values(), (std::vector<double>{0, -1}));
  EXPECT_EQ(values.values()[0], 10);
  EXPECT_EQ(values.values()[1], -INFINITY);
}

TEST(GatedDeltaRule, CorrectsAndFadesItsState) {
  HostTensor query(kBF16, Dims{2, 1, 1}, {1, 1}), key(kBF16, Dims{2, 1, 1}, {1, 1}),
      value(kBF16, Dims{2, 1, 1}, {4, 4});
  HostTensor beta(kBF16, Dims{2, 1}, {0.5, 0.5}), state(kBF16, Dims{1, 1, 1, 1}, {8});
  HostTensor lengths = tensor<int32_t>(Dims{1}, {2}), decay(kF32, Dims{2, 1}, {std::log(0.5), 0});
  HostTensor out(kBF16, Dims{2, 1, 1}), final(kBF16, Dims{1, 1, 1, 1});
  TestCall call("aclnnChunkGatedDeltaRule");
  call.in(query).in(key).in(value).in(beta).in(state).in(lengths).in(decay).number(2).out(out).out(final);
  ASSERT_TRUE(call.run(chunk_gated_delta_rule).is_ok());
  // 8 fades to 4, which is what the key should give: nothing to correct.
  EXPECT_EQ(out.values(), (std::vector<double>{8, 8}));
  EXPECT_EQ(final.values()[0], 4);
}

TEST(GatedDeltaRule, StatesThatDoNotExistAreAFault) {
  HostTensor query(kBF16, Dims{1, 1, 1}, {1}), value(kBF16, Dims{1, 1, 1}, {4}), beta(kBF16, Dims{1, 1}, {0.5});
  HostTensor states(kBF16, Dims{2, 1, 1, 1}, {8, 2}), lengths = tensor<int32_t>(Dims{1}, {1});
  HostTensor places = tensor<int32_t>(Dims{1}, {1}), accepted = tensor<int32_t>(Dims{1}, {1}),
             out(kBF16, Dims{1, 1, 1});
  const auto run = [&] {
    TestCall call("aclnnRecurrentGatedDeltaRule");
    call.in(query).in(query).in(value).in(beta).in_out(states).in(lengths).in(places).absent().absent().in(accepted);
    return call.number(1).out(out).run(recurrent_gated_delta_rule).code();
  };
  ASSERT_EQ(run(), 0);
  EXPECT_EQ(states.values(), (std::vector<double>{8, 3}));
  EXPECT_EQ(out.values()[0], 3);
  places.set({2});
  EXPECT_EQ(run(), kDeviceFault);
  places.set({1});
  accepted.set({2});
  EXPECT_EQ(run(), kDeviceFault);
  lengths.set({2});
  EXPECT_EQ(run(), kParameterInvalid);
}

TEST(NsaCompress, AddsUpWindowsWithinSequences) {
  HostTensor input(kF16, Dims{5, 1, 1}, {1, 2, 3, 4, 5}), weight(kF16, Dims{2, 1}, {1, 10}), out(kF16, Dims{3, 1, 1});
  const auto run = [&](std::vector<int64_t> ends) {
    TestCall call("aclnnNsaCompress");
    call.in(input).in(weight).ints(std::move(ends)).text("TND").integer(2).integer(1).integer(0).out(out);
    return call.run(nsa_compress).code();
  };
  ASSERT_EQ(run({3, 5}), 0);
  EXPECT_EQ(out.values(), (std::vector<double>{21, 32, 54}));
  EXPECT_EQ(run({5}), kParameterInvalid);
  EXPECT_EQ(run({3, 6}), kParameterInvalid);
}

}  // namespace
}  // namespace drydock::ops::kernels
