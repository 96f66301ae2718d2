#include "ops/generated/kernels.h"
#include "ops_call_builder.h"

namespace drydock::ops::kernels {
namespace {

using testing::HostTensor;
using testing::tensor;
using testing::TestCall;

int32_t scatter(HostTensor& key, HostTensor& cache, HostTensor& slots, const char* cache_mode, const char* mode) {
  TestCall call("aclnnScatterPaKvCache");
  call.in(key).in_out(cache).in(slots).absent().absent(ArgDirection::kInOut).absent().absent().absent();
  call.text(cache_mode).text(mode).other(ArgKind::kIntArray).other(ArgKind::kIntArray);
  return call.run(scatter_paged_cache).code();
}

TEST(PagedCache, RowsGoToTheirSlots) {
  HostTensor key = tensor<int8_t>(Dims{3, 1, 2}, {1, 2, 3, 4, 5, 6});
  HostTensor slots = tensor<int32_t>(Dims{3}, {3, -1, 0});
  HostTensor cache = tensor<int8_t>(Dims{2, 2, 1, 2}, std::vector<int8_t>(8, 0));
  ASSERT_EQ(scatter(key, cache, slots, "Norm", "None"), 0);
  EXPECT_EQ(cache.values(), (std::vector<double>{5, 6, 0, 0, 0, 0, 1, 2}));
  HostTensor chunks = tensor<int8_t>(Dims{2, 2, 2, 1}, std::vector<int8_t>(8, 0));
  ASSERT_EQ(scatter(key, chunks, slots, "PA_NZ", nullptr), 0);
  EXPECT_EQ(chunks.values(), (std::vector<double>{5, 0, 6, 0, 0, 1, 0, 2}));
  EXPECT_TRUE(chunks.is_clean_behind());
}

TEST(PagedCache, SlotsBeyondTheCacheAreAFault) {
  HostTensor key = tensor<int8_t>(Dims{1, 1, 2}, {1, 2});
  HostTensor slots = tensor<int32_t>(Dims{1}, {4});
  HostTensor cache = tensor<int8_t>(Dims{2, 2, 1, 2}, std::vector<int8_t>(8, 0));
  EXPECT_EQ(scatter(key, cache, slots, "Norm", "None"), kDeviceFault);
  HostTensor two = tensor<int32_t>(Dims{2}, {0, 1});
  EXPECT_EQ(scatter(key, cache, two, "Norm", "None"), kParameterInvalid);
  EXPECT_EQ(scatter(key, cache, slots, "Other", "None"), kParameterInvalid);
  EXPECT_EQ(scatter(key, cache, slots, "Norm", "Alibi"), kNotComputed);
  HostTensor narrow = tensor<int8_t>(Dims{2, 2, 1, 1}, std::vector<int8_t>(4, 0));
  EXPECT_EQ(scatter(key, narrow, slots, "Norm", "None"), kParameterInvalid);
}

TEST(PagedCache, GatherFollowsTheTable) {
  HostTensor keys = tensor<int8_t>(Dims{3, 2, 1, 1}, {1, 2, 3, 4, 5, 6});
  HostTensor table = tensor<int32_t>(Dims{1, 2}, {2, 0});
  HostTensor lengths = tensor<int32_t>(Dims{1}, {3});
  HostTensor out = tensor<int8_t>(Dims{3, 1, 1}, {0, 0, 0}), values_out = tensor<int8_t>(Dims{3, 1, 1}, {0, 0, 0});
  const auto run = [&] {
    TestCall call("aclnnGatherPaKvCache");
    call.in(keys).in(keys).in(table).in(lengths).in_out(out).in_out(values_out).absent().text("Norm").boolean(false);
    return call.run(gather_paged_cache).code();
  };
  ASSERT_EQ(run(), 0);
  EXPECT_EQ(out.values(), (std::vector<double>{5, 6, 1}));
  lengths.set({5});
  EXPECT_EQ(run(), kParameterInvalid);
  lengths.set({3});
  table.set({2, 3});
  EXPECT_EQ(run(), kDeviceFault);
}

TEST(RingAttentionUpdate, MergesTwoPasses) {
  const DataType f32 = DataType::kFloat;
  const std::vector<double> zeros(8, 0.0), ones(8, 1.0), threes(8, 3.0);
  HostTensor first(f32, Dims{1, 1, 1}, {4}), second(f32, Dims{1, 1, 1}, {8}), out(f32, Dims{1, 1, 1});
  HostTensor maxima(f32, Dims{1, 1, 1, 8}, zeros), first_sum(f32, Dims{1, 1, 1, 8}, ones),
      second_sum(f32, Dims{1, 1, 1, 8}, threes), maximum(f32, Dims{1, 1, 1, 8}), sum(f32, Dims{1, 1, 1, 8});
  TestCall call("aclnnRingAttentionUpdateV2");
  call.in(first).in(maxima).in(first_sum).in(second).in(maxima).in(second_sum).absent().text("SBH").text("");
  ASSERT_TRUE(call.out(out).out(maximum).out(sum).run(ring_attention_update).is_ok());
  EXPECT_NEAR(out.values()[0], 7, 1e-6);
  EXPECT_EQ(sum.values()[7], 4);
}

}  // namespace
}  // namespace drydock::ops::kernels
