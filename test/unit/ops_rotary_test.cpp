#include "ops/generated/kernels.h"
#include "ops_call_builder.h"

namespace drydock::ops::kernels {
namespace {

using testing::HostTensor;
using testing::tensor;
using testing::TestCall;

constexpr DataType kF32 = DataType::kFloat;

std::vector<double> embed(int64_t mode) {
  HostTensor x(kF32, Dims{1, 1, 4}, {1, 2, 3, 4});
  HostTensor cos(kF32, Dims{1, 1, 4}, {1, 1, 1, 1}), sin(kF32, Dims{1, 1, 4}, {10, 10, 10, 10});
  HostTensor out(kF32, Dims{1, 1, 4});
  TestCall call("aclnnRotaryPositionEmbedding");
  EXPECT_TRUE(call.in(x).in(cos).in(sin).integer(mode).out(out).run(rotary_position_embedding).is_ok());
  EXPECT_TRUE(out.is_clean_behind());
  return out.values();
}

TEST(Rotary, ModesPairElements) {
  EXPECT_EQ(embed(0), (std::vector<double>{1 - 30, 2 - 40, 3 + 10, 4 + 20}));
  EXPECT_EQ(embed(1), (std::vector<double>{1 - 20, 2 + 10, 3 - 40, 4 + 30}));
  EXPECT_EQ(embed(2), (std::vector<double>{1 - 20, 2 + 10, 3 - 40, 4 + 30}));
  EXPECT_EQ(embed(3), (std::vector<double>{1 - 20, 3 - 40, 2 + 10, 4 + 30}));
}

TEST(Rotary, RefusesWhatDoesNotFit) {
  HostTensor x(kF32, Dims{2, 1, 4}), cos(kF32, Dims{3, 1, 4}), odd(kF32, Dims{2, 1, 3}), out(kF32, Dims{2, 1, 4});
  HostTensor flat(kF32, Dims{4}), none(kF32, Dims{0, 1, 4}), no_out(kF32, Dims{0, 1, 4}), fitting(kF32, Dims{1, 1, 4});
  const auto code = [&](HostTensor& given, HostTensor& angles, HostTensor& result, int64_t mode) {
    TestCall call("aclnnRotaryPositionEmbedding");
    return call.in(given).in(angles).in(angles).integer(mode).out(result).run(rotary_position_embedding).code();
  };
  EXPECT_EQ(code(x, cos, out, 0), kParameterInvalid);
  EXPECT_EQ(code(x, odd, out, 0), kParameterInvalid);
  EXPECT_EQ(code(x, flat, out, 0), kParameterInvalid);
  EXPECT_EQ(code(x, fitting, out, 4), kParameterInvalid);
  EXPECT_EQ(code(x, fitting, no_out, 0), kParameterInvalid);
  EXPECT_EQ(code(none, fitting, no_out, 0), 0);
}

TEST(Rotary, GradientsAddUpWhereAnglesWereBroadcast) {
  HostTensor dy(kF32, Dims{2, 1, 2}, {1, 2, 3, 4}), x(kF32, Dims{2, 1, 2}, {5, 6, 7, 8});
  HostTensor cos(kF32, Dims{1, 1, 2}, {1, 2}), sin(kF32, Dims{1, 1, 2}, {3, 4});
  HostTensor dx(kF32, Dims{2, 1, 2}), dcos(kF32, Dims{1, 1, 2}), dsin(kF32, Dims{1, 1, 2});
  TestCall call("aclnnRotaryPositionEmbeddingGrad");
  call.in(dy).in(cos).in(sin).in(x).integer(0).out(dx).out(dcos).out(dsin);
  ASSERT_TRUE(call.run(rotary_position_embedding_grad).is_ok());
  EXPECT_EQ(dx.values(), (std::vector<double>{1 + 8, 4 - 3, 3 + 16, 8 - 9}));
  EXPECT_EQ(dcos.values(), (std::vector<double>{5 + 21, 12 + 32}));
  EXPECT_EQ(dsin.values(), (std::vector<double>{-6 - 24, 10 + 28}));
}

TEST(RopeWithSinCosCache, PositionsBeyondTheCacheAreAFault) {
  HostTensor positions = tensor<int64_t>(Dims{1}, {1});
  HostTensor query(kF32, Dims{1, 2}, {1, 2}), key(kF32, Dims{1, 2}, {3, 4});
  HostTensor cache(kF32, Dims{2, 2}, {0, 0, 1, 10}), query_out(kF32, Dims{1, 2}), key_out(kF32, Dims{1, 2});
  const auto run = [&] {
    TestCall call("aclnnRopeWithSinCosCache");
    call.in(positions).in(query).in(key).in(cache).other(ArgKind::kIntArray).integer(2).boolean(true);
    return call.out(query_out).out(key_out).run(rope_with_sin_cos_cache).code();
  };
  ASSERT_EQ(run(), 0);
  EXPECT_EQ(query_out.values(), (std::vector<double>{1 - 20, 2 + 10}));
  EXPECT_EQ(key_out.values(), (std::vector<double>{3 - 40, 4 + 30}));
  positions.set({2});
  EXPECT_EQ(run(), kDeviceFault);
  positions.set({-1});
  EXPECT_EQ(run(), kDeviceFault);
}

}  // namespace
}  // namespace drydock::ops::kernels
