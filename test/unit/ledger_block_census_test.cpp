#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ledger/memory_account.h"

namespace drydock::ledger {
namespace {

using trace::Label;
using trace::Phase;

constexpr uint64_t kMiB = 1 << 20;

uint64_t bytes(const DeviceMoment& moment, BlockKind kind) { return moment.blocks.bytes[static_cast<size_t>(kind)]; }

uint64_t requested(const DeviceMoment& moment, BlockKind kind) {
  return moment.blocks.requested_bytes[static_cast<size_t>(kind)];
}

// A parameter at 1, an activation at 2 with a temporary beside it at 3, a gradient at 4.
void train(MemoryAccount& memory) {
  memory.capacity_told(100 * kMiB);
  memory.driver_allocated({.kind = trace::DriverMemory::kMalloc, .address = 0, .size_bytes = 64 * kMiB});
  memory.block_allocated(1 * kMiB, kMiB, false, 1);
  memory.block_labelled(1 * kMiB, Label::kParameter, kMiB - 32, 7);
  memory.block_allocated(2 * kMiB, kMiB, false, 2, 5);
  memory.block_allocated(3 * kMiB, kMiB, false, 2, 6);
  memory.block_freed(3 * kMiB);
  memory.phase_began(Phase::kBackward);
  memory.block_allocated(4 * kMiB, 2 * kMiB, false, 3);
  memory.block_freed(2 * kMiB);
  memory.phase_began(Phase::kOther);
  memory.block_labelled(4 * kMiB, Label::kGradient, 2 * kMiB, 7);
}

TEST(BlockCensus, KindsFollowFromBirthAndDeathAndFromLabels) {
  MemoryAccount memory(0);
  train(memory);
  memory.finish();
  const DeviceMoment& peak = memory.at_peak();
  EXPECT_EQ(peak.allocated_bytes, 4 * kMiB);
  EXPECT_EQ(bytes(peak, BlockKind::kParameter), kMiB);
  EXPECT_EQ(requested(peak, BlockKind::kParameter), kMiB - 32);
  EXPECT_EQ(bytes(peak, BlockKind::kActivation), kMiB);
  EXPECT_EQ(bytes(peak, BlockKind::kGradient), 2 * kMiB);
  EXPECT_EQ(peak.cached_bytes, 60 * kMiB);
  EXPECT_EQ(peak.free_bytes, 36 * kMiB);
  EXPECT_EQ(bytes(memory.at_end(), BlockKind::kActivation), 0U);
  EXPECT_EQ(memory.imbalances(), std::vector<std::string>{});
}

TEST(BlockCensus, WhatIsGoneBeforeBackwardIsTemporary) {
  MemoryAccount memory(0);
  memory.block_allocated(1 * kMiB, kMiB, false, 2, 5);
  memory.block_freed(1 * kMiB);
  memory.finish();
  EXPECT_EQ(bytes(memory.at_peak(), BlockKind::kTemporary), kMiB);
  EXPECT_EQ(memory.imbalances(), std::vector<std::string>{});
}

// Blocks that live until the interpreter ends were held to the end, unless an exception kept them that long.
TEST(BlockCensus, WhatGoesAtTheEndIsAResultUnlessTheProgramRanOutOfMemory) {
  for (const bool ran_out : {false, true}) {
    MemoryAccount memory(0);
    memory.block_allocated(1 * kMiB, kMiB, false, 2, 5);
    if (ran_out) memory.out_of_memory(OutOfMemory());
    memory.phase_began(Phase::kExit);
    memory.block_freed(1 * kMiB);
    memory.finish();
    EXPECT_EQ(bytes(memory.at_peak(), ran_out ? BlockKind::kTemporary : BlockKind::kResult), kMiB) << ran_out;
  }
}

TEST(BlockCensus, WhereNothingIsToldAllIsUnexplained) {
  MemoryAccount memory(0);
  memory.block_allocated(1 * kMiB, kMiB, false, 2);
  memory.block_freed(1 * kMiB);
  memory.finish();
  EXPECT_EQ(bytes(memory.at_peak(), BlockKind::kUnexplained), kMiB);
}

TEST(BlockCensus, AtARefusalWhatOutlivesItsModuleIsKeptForBackward) {
  MemoryAccount memory(0);
  memory.capacity_told(100 * kMiB);
  memory.block_allocated(1 * kMiB, kMiB, false, 2, 5, true);
  memory.block_allocated(2 * kMiB, 2 * kMiB, false, 2, 6, false);  // autograd does not record here
  memory.block_allocated(4 * kMiB, 4 * kMiB, false, 2, 7, true);   // its module runs
  OutOfMemory event;
  event.free_bytes = 30 * kMiB;
  memory.out_of_memory(event);
  memory.block_freed(1 * kMiB);
  memory.block_freed(2 * kMiB);
  memory.block_freed(4 * kMiB);
  memory.finish();
  EXPECT_EQ(bytes(memory.at_out_of_memory(), BlockKind::kActivation), kMiB);
  EXPECT_EQ(bytes(memory.at_out_of_memory(), BlockKind::kTemporary), 6 * kMiB);
  EXPECT_EQ(memory.at_out_of_memory().free_bytes, 30 * kMiB);
}

TEST(BlockCensus, NamesTellTheirModule) {
  EXPECT_EQ(owner_of("model.layers.3.mlp.weight"), "model.layers.3.mlp");
  EXPECT_EQ(owner_of("scale"), "");
  EXPECT_EQ(owner_of(""), "");
}

TEST(BlockCensus, KeepsThePurposeOfEveryBlock) {
  BlockCensus census;
  census.keep_purposes();
  census.allocated(1 * kMiB, kMiB, {.line = 2});
  census.labelled(1 * kMiB, trace::Label::kParameter, kMiB, 9);
  census.allocated(2 * kMiB, kMiB, {.line = 2, .module = 5, .gradients_are_recorded = true});
  census.phase_began(Phase::kBackward);
  census.allocated(3 * kMiB, kMiB, {.line = 2, .module = 5});
  census.freed(2 * kMiB);
  census.freed(3 * kMiB);
  census.phase_began(Phase::kOther);
  census.step_ended();
  census.allocated(2 * kMiB, kMiB, {.line = 2, .module = 5, .gradients_are_recorded = true});
  census.allocated(4 * kMiB, kMiB, {.line = 2, .module = 6, .gradients_are_recorded = true});
  census.out_of_memory();
  census.freed(2 * kMiB);
  std::vector<BlockKind> kinds;
  for (const BlockPurpose& purpose : census.take_purposes()) kinds.push_back(purpose.kind);
  // Of those that lived when memory ran out, one outlived its module.
  EXPECT_THAT(kinds, testing::ElementsAre(BlockKind::kParameter, BlockKind::kActivation, BlockKind::kTemporary,
                                          BlockKind::kActivation, BlockKind::kTemporary));
}

TEST(BlockCensus, ABlockGivenAsWorkspaceAndOneFilledFromTheHostAreToldApart) {
  MemoryAccount memory(0);
  memory.block_allocated(1 * kMiB, kMiB, false, 2, 5);
  memory.workspace_given(1 * kMiB);
  memory.block_allocated(2 * kMiB, 2 * kMiB, false, 2);
  memory.block_filled_from_host(2 * kMiB);
  memory.finish();
  EXPECT_EQ(bytes(memory.at_end(), BlockKind::kWorkspace), kMiB);
  EXPECT_EQ(bytes(memory.at_end(), BlockKind::kInput), 2 * kMiB);
}

}  // namespace
}  // namespace drydock::ledger
