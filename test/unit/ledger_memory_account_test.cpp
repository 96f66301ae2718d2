#include <gtest/gtest.h>

#include "ledger/memory_account.h"

namespace drydock::ledger {
namespace {

using trace::DriverMemory;

constexpr uint64_t kMiB = 1 << 20;
constexpr uint64_t kBase = uint64_t{1} << 40;

Segment segment(DriverMemory kind, uint64_t address, uint64_t handle, uint64_t size_bytes, uint64_t record = 1) {
  return {.kind = kind,
          .address = address,
          .handle = handle,
          .size_bytes = size_bytes,
          .line = 3,
          .allocated_record = record};
}

OutOfMemory refusal(DriverMemory kind, uint64_t requested_bytes, uint64_t free_bytes) {
  OutOfMemory event;
  event.kind = kind;
  event.requested_bytes = requested_bytes;
  event.free_bytes = free_bytes;
  event.capacity_bytes = 100 * kMiB;
  return event;
}

TEST(MemoryAccount, ABlockGivenAsWorkspaceStaysAllocatedAndCountsAsWorkspaceWhileItLives) {
  MemoryAccount memory(0);
  memory.driver_allocated(segment(DriverMemory::kMalloc, kBase, 0, 20 * kMiB));
  memory.block_allocated(kBase, 8 * kMiB, false, 1);
  memory.workspace_given(kBase);
  memory.workspace_given(kBase);         // the next operator gets the same block
  memory.workspace_given(kBase + kMiB);  // no block begins there
  EXPECT_EQ(memory.allocated_bytes(), 8 * kMiB);
  memory.block_freed(kBase);
  memory.block_allocated(kBase, 2 * kMiB, false, 1);
  memory.workspace_given(kBase);
  memory.finish();
  EXPECT_EQ(memory.allocated_bytes(), 2 * kMiB);
  EXPECT_EQ(memory.peak_workspace_bytes(), 8 * kMiB);
}

TEST(MemoryAccount, CountsAllocatedAndReservedLikeTheCachingAllocator) {
  MemoryAccount memory(0);
  memory.driver_allocated(segment(DriverMemory::kMalloc, kBase, 0, 20 * kMiB));
  memory.block_allocated(kBase, 8 * kMiB, false, 1);
  memory.block_allocated(kBase + 8 * kMiB, 4 * kMiB, false, 2);
  memory.block_freed(kBase);
  memory.driver_allocated(segment(DriverMemory::kMalloc, kBase + 64 * kMiB, 0, 2 * kMiB));
  memory.block_allocated(kBase + 64 * kMiB, kMiB, false, 1);
  EXPECT_EQ(memory.allocated_bytes(), 5 * kMiB);
  EXPECT_EQ(memory.reserved_bytes(), 22 * kMiB);
  memory.driver_freed(DriverMemory::kMalloc, kBase, 0, 9);
  memory.finish();
  EXPECT_EQ(memory.reserved_bytes(), 2 * kMiB);
  EXPECT_EQ(memory.peak_allocated_bytes(), 12 * kMiB);
  EXPECT_EQ(memory.peak_reserved_bytes(), 22 * kMiB);
  EXPECT_EQ(memory.peak_workspace_bytes(), 0U);
  EXPECT_EQ(memory.blocks(), 3U);
  EXPECT_EQ(memory.segments(), 2U);
  EXPECT_EQ(memory.distinct_block_sizes(), 3U);
  ASSERT_EQ(memory.segment_rows().size(), 2U);
  EXPECT_EQ(memory.segment_rows()[0].freed_record, 9U);
  EXPECT_EQ(memory.segment_rows()[1].freed_record, 0U);
}

TEST(MemoryAccount, WorkspaceIsNeitherAllocatedNorReservedNotEvenAtThePeak) {
  MemoryAccount memory(0);
  memory.driver_allocated(segment(DriverMemory::kMalloc, kBase, 0, 20 * kMiB));
  memory.block_allocated(kBase, 8 * kMiB, false, 1);
  memory.driver_allocated(segment(DriverMemory::kMalloc, kBase + 32 * kMiB, 0, 30 * kMiB));
  memory.block_allocated(kBase + 32 * kMiB, 30 * kMiB, true, 2);
  memory.finish();
  EXPECT_EQ(memory.allocated_bytes(), 8 * kMiB);
  EXPECT_EQ(memory.reserved_bytes(), 20 * kMiB);
  EXPECT_EQ(memory.peak_reserved_bytes(), 20 * kMiB);
  EXPECT_EQ(memory.workspace_bytes(), 30 * kMiB);
  EXPECT_EQ(memory.peak_workspace_bytes(), 30 * kMiB);
  memory.driver_freed(DriverMemory::kMalloc, kBase + 32 * kMiB, 0, 9);
  EXPECT_EQ(memory.workspace_bytes(), 0U);
  EXPECT_EQ(memory.reserved_bytes(), 20 * kMiB);
}

TEST(MemoryAccount, ExpandableSegmentsReserveWhatIsMapped) {
  MemoryAccount memory(0);
  memory.driver_allocated(segment(DriverMemory::kReservation, kBase, 0, 1024 * kMiB));
  for (uint64_t page = 0; page < 3; ++page)
    memory.driver_allocated(segment(DriverMemory::kPhysical, 0, page + 1, 20 * kMiB));
  EXPECT_EQ(memory.reserved_bytes(), 0U);
  for (uint64_t page = 0; page < 3; ++page)
    memory.driver_allocated(segment(DriverMemory::kMapping, kBase + page * 20 * kMiB, page + 1, 20 * kMiB));
  memory.block_allocated(kBase, 50 * kMiB, false, 1);
  EXPECT_EQ(memory.reserved_bytes(), 60 * kMiB);
  EXPECT_TRUE(memory.uses_virtual_memory());
  memory.block_freed(kBase);
  memory.driver_freed(DriverMemory::kMapping, kBase + 40 * kMiB, 3, 9);
  EXPECT_EQ(memory.reserved_bytes(), 40 * kMiB);
  memory.driver_freed(DriverMemory::kPhysical, 0, 3, 10);
  EXPECT_EQ(memory.reserved_bytes(), 40 * kMiB);
  memory.finish();
  EXPECT_EQ(memory.peak_reserved_bytes(), 60 * kMiB);
}

TEST(MemoryAccount, WorkspaceInExpandableSegmentsIsWorkspace) {
  MemoryAccount memory(0);
  memory.driver_allocated(segment(DriverMemory::kReservation, kBase, 0, 1024 * kMiB));
  memory.driver_allocated(segment(DriverMemory::kPhysical, 0, 1, 20 * kMiB));
  memory.driver_allocated(segment(DriverMemory::kMapping, kBase, 1, 20 * kMiB));
  memory.block_allocated(kBase, 10 * kMiB, true, 1);
  EXPECT_EQ(memory.reserved_bytes(), 0U);
  EXPECT_EQ(memory.workspace_bytes(), 20 * kMiB);
  memory.driver_allocated(segment(DriverMemory::kPhysical, 0, 2, 20 * kMiB));
  memory.driver_allocated(segment(DriverMemory::kMapping, kBase + 20 * kMiB, 2, 20 * kMiB));
  EXPECT_EQ(memory.workspace_bytes(), 40 * kMiB);
  memory.driver_freed(DriverMemory::kMapping, kBase + 20 * kMiB, 2, 9);
  memory.driver_freed(DriverMemory::kPhysical, 0, 2, 10);
  EXPECT_EQ(memory.workspace_bytes(), 20 * kMiB);
  EXPECT_EQ(memory.reserved_bytes(), 0U);
}

// torch_npu takes all pages of a wish before it maps one; those of a wish that fails go back, and are neither
// reserved nor lost.
TEST(MemoryAccount, PagesOfAFailedWishCountAsFree) {
  MemoryAccount memory(0);
  memory.driver_allocated(segment(DriverMemory::kReservation, kBase, 0, 1024 * kMiB));
  memory.driver_allocated(segment(DriverMemory::kPhysical, 0, 1, 20 * kMiB));
  memory.driver_allocated(segment(DriverMemory::kMapping, kBase, 1, 20 * kMiB));
  memory.block_allocated(kBase, 18 * kMiB, false, 1);
  memory.driver_allocated(segment(DriverMemory::kPhysical, 0, 2, 20 * kMiB));
  memory.driver_allocated(segment(DriverMemory::kPhysical, 0, 3, 20 * kMiB));
  memory.out_of_memory(refusal(DriverMemory::kPhysical, 20 * kMiB, 5 * kMiB));
  const OutOfMemory& event = memory.out_of_memories().back();
  EXPECT_EQ(event.reserved_bytes, 20 * kMiB);
  EXPECT_EQ(event.pending_bytes, 40 * kMiB);
  EXPECT_EQ(event.free_bytes, 45 * kMiB);
}

TEST(MemoryAccount, ProgramsWithoutBlocksHoldWhatTheyTookFromTheDriver) {
  MemoryAccount memory(0);
  memory.driver_allocated(segment(DriverMemory::kMalloc, kBase, 0, 20 * kMiB));
  memory.driver_allocated(segment(DriverMemory::kMalloc, kBase + 32 * kMiB, 0, 8 * kMiB));
  memory.driver_freed(DriverMemory::kMalloc, kBase, 0, 5);
  memory.out_of_memory(refusal(DriverMemory::kMalloc, 200 * kMiB, 5 * kMiB));
  memory.finish();
  EXPECT_EQ(memory.allocated_bytes(), 8 * kMiB);
  EXPECT_EQ(memory.peak_allocated_bytes(), 28 * kMiB);
  const OutOfMemory& event = memory.out_of_memories().back();
  EXPECT_EQ(event.allocated_bytes, 8 * kMiB);
  EXPECT_EQ(event.direct_bytes, 0U);
  ASSERT_EQ(event.holders.size(), 1U);
  EXPECT_EQ(event.holders[0].line, 3U);
  EXPECT_EQ(event.holders[0].bytes, 8 * kMiB);
  ASSERT_EQ(memory.holder_lines().at_peak().size(), 1U);
  EXPECT_EQ(memory.holder_lines().at_peak()[0].bytes, 28 * kMiB);
}

TEST(MemoryAccount, DriverMemoryOutsideTheAllocatorIsNotCached) {
  MemoryAccount memory(0);
  memory.driver_allocated(segment(DriverMemory::kMalloc, kBase, 0, 20 * kMiB));
  memory.block_allocated(kBase, 20 * kMiB, false, 1);
  memory.driver_allocated(segment(DriverMemory::kMalloc, kBase + 32 * kMiB, 0, 40 * kMiB));
  memory.out_of_memory(refusal(DriverMemory::kMalloc, 30 * kMiB, 5 * kMiB));
  EXPECT_EQ(memory.out_of_memories().back().direct_bytes, 40 * kMiB);
}

TEST(MemoryAccount, OnlyTheLastRefusalKeepsItsHolders) {
  MemoryAccount memory(0);
  memory.driver_allocated(segment(DriverMemory::kMalloc, kBase, 0, 20 * kMiB));
  memory.block_allocated(kBase, 20 * kMiB, false, 1);
  memory.out_of_memory(refusal(DriverMemory::kMalloc, 30 * kMiB, 5 * kMiB));
  memory.out_of_memory(refusal(DriverMemory::kMalloc, 30 * kMiB, 5 * kMiB));
  ASSERT_EQ(memory.out_of_memories().size(), 2U);
  EXPECT_TRUE(memory.out_of_memories()[0].holders.empty());
  EXPECT_EQ(memory.out_of_memories()[1].holders.size(), 1U);
}

TEST(MemoryAccount, OverheadsAreToldApart) {
  MemoryAccount memory(0);
  memory.overhead_charged("idle", 10);
  memory.overhead_charged("context", 5);
  memory.overhead_charged("HCCL group_name_0", 100);
  memory.overhead_charged("hccl", 1);
  memory.out_of_memory(refusal(DriverMemory::kMalloc, 30, 5));
  EXPECT_EQ(memory.out_of_memories().back().idle_bytes, 15U);
  EXPECT_EQ(memory.out_of_memories().back().hccl_bytes, 101U);
}

TEST(MemoryAccount, PaddingComesFromBlocksWhoseWishIsKnown) {
  MemoryAccount memory(0);
  memory.block_allocated(kBase, 1536, false, 1);
  memory.block_allocated(kBase + 4096, 512, false, 1);
  memory.block_requested(kBase, 1000);
  memory.block_requested(kBase, 600);         // a view of the same storage
  memory.block_requested(kBase + 4096, 513);  // more than the block: not this block's
  memory.block_requested(kBase + 9999, 100);  // no block
  EXPECT_EQ(memory.requested_blocks(), 1U);
  EXPECT_EQ(memory.padding_bytes(), 536U);
}

TEST(MemoryAccount, RecordsThatMakeNoSenseDoNoHarm) {
  MemoryAccount memory(0);
  memory.block_freed(kBase);
  memory.driver_freed(DriverMemory::kMalloc, kBase, 0, 1);
  memory.driver_freed(DriverMemory::kMapping, kBase, 0, 1);
  memory.driver_freed(DriverMemory::kPhysical, 0, 77, 1);
  memory.driver_freed(DriverMemory::kReservation, kBase, 0, 1);
  memory.driver_freed(DriverMemory::kHost, kBase, 0, 1);
  memory.block_allocated(kBase, 1024, false, 1);
  memory.block_allocated(kBase, 512, false, 1);  // its release is not in the trace
  memory.driver_allocated(segment(DriverMemory::kMalloc, kBase, 0, kMiB));
  memory.driver_allocated(segment(DriverMemory::kMalloc, kBase, 0, kMiB));
  memory.driver_allocated(segment(DriverMemory::kMapping, kBase, 99, kMiB));
  memory.finish();
  EXPECT_EQ(memory.unknown_frees(), 1U);
  EXPECT_EQ(memory.allocated_bytes(), 512U);
  EXPECT_EQ(memory.reserved_bytes(), kMiB);
}

TEST(MemoryAccount, PinnedHostMemoryIsCountedApart) {
  MemoryAccount memory(0);
  memory.driver_allocated(segment(DriverMemory::kHost, 1000, 0, 4096));
  memory.driver_allocated(segment(DriverMemory::kHostRegistered, 9000, 0, 100));
  memory.driver_freed(DriverMemory::kHost, 1000, 0, 3);
  memory.driver_allocated(segment(DriverMemory::kHost, 1000, 0, 1000));
  EXPECT_EQ(memory.peak_host_bytes(), 4196U);
  EXPECT_EQ(memory.reserved_bytes(), 0U);
}

}  // namespace
}  // namespace drydock::ledger
