#include <cmath>

#include "ops/generated/kernels.h"
#include "ops_call_builder.h"

namespace drydock::ops::kernels {
namespace {

using testing::HostTensor;
using testing::tensor;
using testing::TestCall;

constexpr DataType kF32 = DataType::kFloat;

/// aclnnFlashAttentionScore with what the tests vary.
struct Forward {
  HostTensor* query;
  HostTensor* key;
  HostTensor* value;
  HostTensor* maximum;
  HostTensor* sum;
  HostTensor* out;
  HostTensor* mask = nullptr;
  HostTensor* drop_mask = nullptr;
  int64_t heads = 1;
  const char* layout = "BNSD";
  double keep = 1;
  int64_t mode = 0;

  Status run() {
    TestCall call("aclnnFlashAttentionScore");
    call.in(*query).in(*key).in(*value).absent();
    call.tensor_or_absent(drop_mask).absent().tensor_or_absent(mask).other(ArgKind::kIntArray);
    call.number(1).number(keep).integer(2147483647).integer(2147483647).integer(heads).text(layout);
    call.integer(0).integer(mode).out(*maximum).out(*sum).absent(ArgDirection::kOut).out(*out);
    return call.run(flash_attention);
  }
};

class Attention : public ::testing::Test {
 protected:
  /// Scores 0 and ln 3, values 4 and 8: weights 1/4 and 3/4.
  HostTensor query_{kF32, Dims{1, 1, 1, 2}, {1, 0}};
  HostTensor key_{kF32, Dims{1, 1, 2, 2}, {0, 5, std::log(3.0), 5}};
  HostTensor value_{kF32, Dims{1, 1, 2, 1}, {4, 8}};
  HostTensor maximum_{kF32, Dims{1, 1, 1, 8}};
  HostTensor sum_{kF32, Dims{1, 1, 1, 8}};
  HostTensor out_{kF32, Dims{1, 1, 1, 1}};
  Forward call_{&query_, &key_, &value_, &maximum_, &sum_, &out_};
};

TEST_F(Attention, WeighsValues) {
  ASSERT_TRUE(call_.run().is_ok());
  EXPECT_NEAR(out_.values()[0], 7, 1e-5);
  EXPECT_NEAR(maximum_.values()[7], std::log(3.0), 1e-6);
  EXPECT_NEAR(sum_.values()[0], 4.0 / 3, 1e-6);
  EXPECT_TRUE(out_.is_clean_behind());
  EXPECT_TRUE(sum_.is_clean_behind());
}

TEST_F(Attention, MasksWhereTheMaskIsTrue) {
  HostTensor mask = tensor<bool>(Dims{1, 2}, {false, true});
  call_.mask = &mask;
  ASSERT_TRUE(call_.run().is_ok());
  EXPECT_FLOAT_EQ(out_.values()[0], 4);
  mask.set({1, 1});
  ASSERT_TRUE(call_.run().is_ok());
  EXPECT_EQ(out_.values()[0], 0);
  EXPECT_FLOAT_EQ(maximum_.values()[0], -3.402823466e38f);
  EXPECT_FLOAT_EQ(sum_.values()[0], 3.402823466e38f);
}

TEST_F(Attention, DropsWhatTheBitsLeaveOut) {
  HostTensor bits = tensor<uint8_t>(Dims{1}, {0b01});
  call_.drop_mask = &bits;
  call_.keep = 0.5;
  ASSERT_TRUE(call_.run().is_ok());
  EXPECT_FLOAT_EQ(out_.values()[0], 4 * 0.25 / 0.5);
}

TEST_F(Attention, ReadsStridedTensorsInEveryLayout) {
  // One row, two heads: BSND with the heads' elements interleaved in memory.
  HostTensor query(kF32, Dims{1, 1, 2, 1}, {0, 0});
  HostTensor key(kF32, Dims{1, 2, 2, 1}, {1, 2, 3, 4});
  HostTensor value(kF32, Dims{1, 2, 2, 1}, {1, 10, 3, 30});
  HostTensor maximum(kF32, Dims{1, 2, 1, 8});
  HostTensor sum(kF32, Dims{1, 2, 1, 8});
  HostTensor out(kF32, Dims{1, 1, 2, 1});
  Forward call{&query, &key, &value, &maximum, &sum, &out};
  call.heads = 2;
  call.layout = "BSND";
  ASSERT_TRUE(call.run().is_ok());
  EXPECT_EQ(out.values(), (std::vector<double>{2, 20}));
  call.layout = "BNSD";
  query.restrided(Dims{1, 2, 1, 1}, Dims{2, 1, 2, 1});
  key.restrided(Dims{1, 2, 2, 1}, Dims{4, 1, 2, 1});
  value.restrided(Dims{1, 2, 2, 1}, Dims{4, 1, 2, 1});
  out.restrided(Dims{1, 2, 1, 1}, Dims{2, 1, 2, 1});
  ASSERT_TRUE(call.run().is_ok());
  EXPECT_EQ(out.values(), (std::vector<double>{2, 20}));
}

TEST_F(Attention, RefusesWhatDoesNotFit) {
  call_.heads = 2;
  EXPECT_EQ(call_.run().code(), kParameterInvalid);
  call_.heads = 1;
  call_.layout = "NSDB";
  EXPECT_EQ(call_.run().code(), kParameterInvalid);
  call_.layout = "BNSD";
  HostTensor mask = tensor<bool>(Dims{1, 3}, {false, true, true});
  call_.mask = &mask;
  EXPECT_EQ(call_.run().code(), kParameterInvalid);
  call_.mode = 3;
  EXPECT_EQ(call_.run().code(), kParameterInvalid);
  call_.mask = nullptr;
  call_.keep = 0;
  EXPECT_EQ(call_.run().code(), kParameterInvalid);
  call_.keep = 0.5;
  HostTensor bits = tensor<uint8_t>(Dims{0}, {});
  HostTensor statistics(kF32, Dims{1, 1, 1, 4});
  call_.sum = &statistics;
  EXPECT_EQ(call_.run().code(), kParameterInvalid);
}

TEST_F(Attention, OfNoKeysIsZero) {
  HostTensor none(kF32, Dims{1, 1, 0, 2});
  HostTensor no_values(kF32, Dims{1, 1, 0, 1});
  call_.key = &none;
  call_.value = &no_values;
  ASSERT_TRUE(call_.run().is_ok());
  EXPECT_EQ(out_.values()[0], 0);
}

TEST_F(Attention, GradientsOfTwoWeights) {
  ASSERT_TRUE(call_.run().is_ok());
  HostTensor gradient(kF32, Dims{1, 1, 1, 1}, {2});
  HostTensor d_query(kF32, Dims{1, 1, 1, 2}), d_key(kF32, Dims{1, 1, 2, 2}), d_value(kF32, Dims{1, 1, 2, 1});
  TestCall call("aclnnFlashAttentionScoreGrad");
  call.in(query_).in(key_).in(value_).in(gradient).absent().absent().absent().absent();
  call.in(maximum_).in(sum_).absent().in(out_).other(ArgKind::kIntArray);
  call.number(1).number(1).integer(2147483647).integer(2147483647).integer(1).text("BNSD").integer(0).integer(0);
  call.out(d_query).out(d_key).out(d_value).absent(ArgDirection::kOut);
  ASSERT_TRUE(call.run(flash_attention_grad).is_ok());
  EXPECT_NEAR(d_value.values()[0], 0.5, 1e-5);
  EXPECT_NEAR(d_value.values()[1], 1.5, 1e-5);
  // Scores' gradients: weight * (2 * value - 2 * 7).
  EXPECT_NEAR(d_key.values()[0], 0.25 * -6, 1e-5);
  EXPECT_NEAR(d_key.values()[2], 0.75 * 2, 1e-5);
  EXPECT_NEAR(d_query.values()[0], 1.5 * std::log(3.0), 1e-5);
  EXPECT_NEAR(d_query.values()[1], 0, 1e-5);
}

}  // namespace
}  // namespace drydock::ops::kernels
