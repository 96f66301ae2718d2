#include <gmock/gmock.h>

#include "ledger/verdict.h"

namespace drydock::ledger {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr uint64_t kGiB = uint64_t{1} << 30;

/// A device of 61 GiB with 0.4 GiB of idle use, full: what is not told otherwise is allocated.
MemoryEvidence full_device(uint64_t requested_bytes, uint64_t cached_bytes, uint64_t free_bytes) {
  MemoryEvidence evidence;
  evidence.capacity_bytes = 61 * kGiB;
  evidence.idle_bytes = 400 * kMiB;
  evidence.requested_bytes = requested_bytes;
  evidence.free_bytes = free_bytes;
  evidence.reserved_bytes = evidence.capacity_bytes - evidence.idle_bytes - free_bytes;
  evidence.allocated_bytes = evidence.reserved_bytes - cached_bytes;
  return evidence;
}

TEST(Classify, FragmentationIsIdleMemoryThatWouldHaveBeenEnough) {
  EXPECT_EQ(classify(full_device(48 * kMiB, 8 * kGiB, 12 * kMiB)), MemoryClass::kFragmentation);
  EXPECT_EQ(classify(full_device(48 * kMiB, 48 * kMiB, 0)), MemoryClass::kFragmentation);
  EXPECT_EQ(classify(full_device(48 * kMiB, 48 * kMiB - 512, 0)), MemoryClass::kCapacity);
  // Idle and free together, the larger part idle.
  EXPECT_EQ(classify(full_device(48 * kMiB, 40 * kMiB, 8 * kMiB)), MemoryClass::kFragmentation);
  EXPECT_EQ(classify(full_device(48 * kMiB, 8 * kMiB, 40 * kMiB)), MemoryClass::kCapacity);
}

TEST(Classify, DirectDriverMemoryIsNotCached) {
  MemoryEvidence evidence = full_device(48 * kMiB, kGiB, 0);
  evidence.direct_bytes = kGiB - 10 * kMiB;
  EXPECT_EQ(evidence.cached_bytes(), 10 * kMiB);
  EXPECT_EQ(classify(evidence), MemoryClass::kCapacity);
}

TEST(Classify, OversizeDoesNotFitTheEmptyDevice) {
  EXPECT_EQ(classify(full_device(61 * kGiB - 400 * kMiB, 20 * kGiB, kGiB)), MemoryClass::kCapacity);
  EXPECT_EQ(classify(full_device(61 * kGiB - 400 * kMiB + 1, 20 * kGiB, kGiB)), MemoryClass::kOversize);
  EXPECT_EQ(classify(full_device(100 * kGiB, 60 * kGiB, 0)), MemoryClass::kOversize);
}

TEST(Classify, ExternalWouldHaveFitWithoutTheOthers) {
  MemoryEvidence evidence = full_device(300 * kMiB, 0, 100 * kMiB);
  EXPECT_EQ(classify(evidence), MemoryClass::kCapacity) << "idle use alone is on every device";
  evidence.hccl_bytes = 400 * kMiB;
  evidence.reserved_bytes -= 400 * kMiB;
  evidence.allocated_bytes = evidence.reserved_bytes;
  EXPECT_EQ(evidence.foreign_bytes(), 0U);
  EXPECT_EQ(classify(evidence), MemoryClass::kExternal);
  evidence.requested_bytes = 501 * kMiB;
  EXPECT_EQ(classify(evidence), MemoryClass::kCapacity);
  // Another process: what nobody of ours holds.
  evidence = full_device(300 * kMiB, 0, 100 * kMiB);
  evidence.reserved_bytes -= 10 * kGiB;
  evidence.allocated_bytes = evidence.reserved_bytes;
  EXPECT_EQ(evidence.foreign_bytes(), 10 * kGiB);
  EXPECT_EQ(classify(evidence), MemoryClass::kExternal);
}

TEST(Classify, WorkspaceIsWhatTheFailingRequestIsForOrWhatFillsTheDevice) {
  MemoryEvidence evidence = full_device(300 * kMiB, 5 * kGiB, 100 * kMiB);
  evidence.asked_for_workspace = true;
  EXPECT_EQ(classify(evidence), MemoryClass::kWorkspace);
  evidence = full_device(300 * kMiB, 0, 100 * kMiB);
  evidence.workspace_bytes = 40 * kGiB;
  evidence.reserved_bytes -= 40 * kGiB;
  evidence.allocated_bytes = evidence.reserved_bytes;
  EXPECT_EQ(classify(evidence), MemoryClass::kWorkspace);
}

TEST(Classify, GrowthMustOutweighWhatIsCached) {
  MemoryEvidence evidence = full_device(48 * kMiB, 8 * kGiB, 0);
  evidence.grown_bytes = 9 * kGiB;
  EXPECT_EQ(classify(evidence), MemoryClass::kGrowth);
  evidence.grown_bytes = 7 * kGiB;
  EXPECT_EQ(classify(evidence), MemoryClass::kFragmentation);
  evidence = full_device(48 * kMiB, 0, 0);
  evidence.grown_bytes = 61 * kGiB / 20 - 1;
  EXPECT_EQ(classify(evidence), MemoryClass::kCapacity) << "too little to matter";
}

std::vector<StepEnd> steps_ending_at(std::initializer_list<uint64_t> allocated) {
  std::vector<StepEnd> steps;
  for (uint64_t bytes : allocated) steps.push_back({.allocated_bytes = bytes});
  return steps;
}

TEST(SteadyGrowth, IsFromTheSecondStepToTheLast) {
  EXPECT_EQ(steady_growth(steps_ending_at({10, 100, 110, 120, 130, 140})), 40U);
  EXPECT_EQ(steady_growth(steps_ending_at({10, 100, 110, 120, 130})), 0U) << "too few steps to tell";
  EXPECT_EQ(steady_growth(steps_ending_at({10, 100, 100, 100, 100, 100})), 0U);
  EXPECT_EQ(steady_growth(steps_ending_at({10, 100, 120, 110, 130, 120, 140, 130})), 0U) << "up and down";
  EXPECT_EQ(steady_growth(steps_ending_at({10, 100, 200, 210, 211, 211, 212, 213, 214, 215})), 0U)
      << "a plateau after a rise";
  EXPECT_EQ(steady_growth(steps_ending_at({50, 40, 30, 20, 10, 5, 1})), 0U);
  EXPECT_EQ(steady_growth({}), 0U);
}

TEST(Advice, ForFragmentationIsASettingThatAProgramCanApply) {
  const MemoryEvidence evidence = full_device(48 * kMiB, 8 * kGiB, 0);
  const auto advice = advise(MemoryClass::kFragmentation, evidence, false, "", {}, "");
  ASSERT_FALSE(advice.empty());
  EXPECT_EQ(advice[0].environment.at("PYTORCH_NPU_ALLOC_CONF"), "expandable_segments:True");
  EXPECT_THAT(advice[0].action, HasSubstr("PYTORCH_NPU_ALLOC_CONF=expandable_segments:True"));
  EXPECT_THAT(advice[0].reason, HasSubstr("8.00 GiB"));
}

TEST(Advice, KeepsTheUsersOtherSettingsAndDropsThoseThatConflict) {
  const MemoryEvidence evidence = full_device(48 * kMiB, 8 * kGiB, 0);
  const auto advice = advise(MemoryClass::kFragmentation, evidence, false,
                             "max_split_size_mb:128,base_addr_aligned_kb:0,garbage_collection_threshold:0.8,"
                             "expandable_segments:False",
                             {}, "");
  EXPECT_EQ(advice[0].environment.at("PYTORCH_NPU_ALLOC_CONF"), "base_addr_aligned_kb:0,expandable_segments:True");
}

TEST(Advice, DoesNotProposeWhatIsSetAlready) {
  const MemoryEvidence evidence = full_device(48 * kMiB, 8 * kGiB, 0);
  for (const Advice& advice : advise(MemoryClass::kFragmentation, evidence, true, "", {}, ""))
    EXPECT_FALSE(advice.environment.contains("PYTORCH_NPU_ALLOC_CONF"));
}

TEST(Advice, EveryClassHasSomeWithAReason) {
  MemoryEvidence evidence = full_device(48 * kMiB, 8 * kGiB, 0);
  evidence.hccl_bytes = kGiB;
  evidence.grown_bytes = kGiB;
  evidence.grown_steps = 4;
  for (MemoryClass each : {MemoryClass::kOversize, MemoryClass::kWorkspace, MemoryClass::kGrowth,
                           MemoryClass::kFragmentation, MemoryClass::kExternal, MemoryClass::kCapacity}) {
    const auto advice = advise(each, evidence, false, "", {}, "train.py:7");
    EXPECT_FALSE(advice.empty()) << name_of(each);
    for (const Advice& row : advice) {
      EXPECT_FALSE(row.action.empty()) << name_of(each);
      EXPECT_TRUE(row.reason.ends_with(".")) << row.reason;
    }
    EXPECT_TRUE(explain(each, evidence).ends_with(".")) << name_of(each);
  }
  EXPECT_EQ(advise(MemoryClass::kExternal, evidence, false, "", {}, "")[0].environment.at("HCCL_BUFFSIZE"), "100");
  EXPECT_TRUE(advise(MemoryClass::kNone, evidence, false, "", {}, "").empty());
}

}  // namespace
}  // namespace drydock::ledger
