#include <cmath>

#include "ops/generated/kernels.h"
#include "ops_call_builder.h"

namespace drydock::ops::kernels {
namespace {

using testing::HostTensor;
using testing::tensor;
using testing::TestCall;

constexpr DataType kF16 = DataType::kFloat16;
constexpr DataType kF32 = DataType::kFloat;

/// aclnnFusedInferAttentionScoreV2 with what the tests vary.
struct Fused {
  HostTensor* query;
  std::vector<HostTensor*> key;
  std::vector<HostTensor*> value;
  HostTensor* out;
  HostTensor* lse = nullptr;
  HostTensor* mask = nullptr;
  HostTensor* table = nullptr;
  std::vector<int64_t> lengths = {};
  int64_t heads = 1;
  const char* layout = "BNSD";
  int64_t block_size = 0;
  int64_t mode = 0;

  Status run() {
    TestCall call("aclnnFusedInferAttentionScoreV2");
    call.in(*query).in_list(key).in_list(value).absent().tensor_or_absent(mask).other(ArgKind::kIntArray).ints(lengths);
    for (int k = 0; k < 7; ++k) call.absent();
    call.tensor_or_absent(table);
    for (int k = 0; k < 8; ++k) call.absent();
    call.other(ArgKind::kIntArray).integer(heads).number(1).integer(2147483647).integer(2147483647).text(layout);
    call.integer(0).integer(mode).integer(0).integer(block_size).integer(0).boolean(lse != nullptr).integer(0);
    call.integer(0).out(*out);
    if (lse != nullptr) {
      call.out(*lse);
    } else {
      call.absent(ArgDirection::kOut);
    }
    return call.run(infer_attention);
  }
};

class FusedInferAttention : public ::testing::Test {
 protected:
  /// Scores 0 and ln 3, values 4 and 8: weights 1/4 and 3/4.
  HostTensor query_{kF16, Dims{1, 1, 1, 1}, {1}};
  HostTensor key_{kF16, Dims{1, 1, 2, 1}, {0, std::log(3.0)}};
  HostTensor value_{kF16, Dims{1, 1, 2, 1}, {4, 8}};
  HostTensor out_{kF16, Dims{1, 1, 1, 1}};
  HostTensor lse_{kF32, Dims{1, 1, 1, 1}};
  Fused call_{&query_, {&key_}, {&value_}, &out_, &lse_};
};

TEST_F(FusedInferAttention, WeighsValuesAndGivesTheLogarithmOfTheSum) {
  ASSERT_TRUE(call_.run().is_ok());
  EXPECT_NEAR(out_.values()[0], 7, 1e-2);
  EXPECT_NEAR(lse_.values()[0], std::log(4.0), 1e-3);
  call_.lengths = {1};
  ASSERT_TRUE(call_.run().is_ok());
  EXPECT_EQ(out_.values()[0], 4);
  call_.lengths = {0};
  ASSERT_TRUE(call_.run().is_ok());
  EXPECT_EQ(out_.values()[0], 0);
  EXPECT_TRUE(std::isinf(lse_.values()[0]));
}

TEST_F(FusedInferAttention, TakesATensorForEachSequence) {
  HostTensor query(kF16, Dims{2, 1, 1, 1}, {1, 1});
  HostTensor other_key(kF16, Dims{1, 1, 1, 1}, {3});
  HostTensor other_value(kF16, Dims{1, 1, 1, 1}, {5});
  HostTensor out(kF16, Dims{2, 1, 1, 1});
  Fused call{&query, {&key_, &other_key}, {&value_, &other_value}, &out};
  ASSERT_TRUE(call.run().is_ok());
  EXPECT_NEAR(out.values()[0], 7, 1e-2);
  EXPECT_EQ(out.values()[1], 5);
}

TEST_F(FusedInferAttention, ReadsBlocksInTheOrderOfTheTable) {
  HostTensor keys(kF16, Dims{3, 1, 1}, {9, std::log(3.0), 0});
  HostTensor values(kF16, Dims{3, 1, 1}, {100, 8, 4});
  HostTensor table = tensor<int32_t>(Dims{1, 2}, {2, 1});
  call_.key = {&keys};
  call_.value = {&values};
  call_.table = &table;
  call_.block_size = 1;
  call_.lengths = {2};
  ASSERT_TRUE(call_.run().is_ok());
  EXPECT_NEAR(out_.values()[0], 7, 1e-2);
  table.set({3, 1});
  EXPECT_EQ(call_.run().code(), kDeviceFault);
  table.set({-1, 1});
  EXPECT_EQ(call_.run().code(), kDeviceFault);
  table.set({2, -1});
  call_.lengths = {1};  // the second block is not read
  EXPECT_TRUE(call_.run().is_ok());
  call_.lengths = {3};
  EXPECT_EQ(call_.run().code(), kParameterInvalid);
  call_.lengths = {};
  EXPECT_EQ(call_.run().code(), kParameterInvalid);
}

TEST_F(FusedInferAttention, RefusesWhatDoesNotFit) {
  call_.heads = 2;
  EXPECT_EQ(call_.run().code(), kParameterInvalid);
  call_.heads = 1;
  call_.layout = "BND";
  EXPECT_EQ(call_.run().code(), kParameterInvalid);
  call_.layout = "BNSD";
  call_.lengths = {3};
  EXPECT_EQ(call_.run().code(), kParameterInvalid);
  call_.lengths = {};
  HostTensor mask = tensor<bool>(Dims{1, 1}, {true});
  call_.mask = &mask;
  EXPECT_EQ(call_.run().code(), kParameterInvalid);
  call_.mask = nullptr;
  call_.value = {};
  EXPECT_EQ(call_.run().code(), kParameterInvalid);
  call_.value = {nullptr};
  EXPECT_EQ(call_.run().code(), kParameterInvalid);
  HostTensor wide(kF16, Dims{1, 1, 3, 1}, {1, 2, 3});
  call_.value = {&wide};
  EXPECT_EQ(call_.run().code(), kParameterInvalid);
}

TEST(AttentionUpdate, WeighsPartsByTheirSums) {
  HostTensor first_lse(kF32, Dims{2}, {0, 1}), second_lse(kF32, Dims{2}, {std::log(3.0), INFINITY});
  HostTensor first(kF32, Dims{2, 1}, {4, 5}), second(kF32, Dims{2, 1}, {8, 100});
  HostTensor out(kF32, Dims{2, 1}), lse(kF32, Dims{2});
  TestCall call("aclnnAttentionUpdate");
  call.in_list({&first_lse, &second_lse}).in_list({&first, &second}).integer(1).out(out).out(lse);
  ASSERT_TRUE(call.run(attention_update).is_ok());
  EXPECT_NEAR(out.values()[0], 7, 1e-5);
  EXPECT_NEAR(out.values()[1], 5, 1e-5);
  EXPECT_NEAR(lse.values()[0], std::log(4.0), 1e-6);
}

}  // namespace
}  // namespace drydock::ops::kernels
