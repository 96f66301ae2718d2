#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "ledger/block_census.h"
#include "ledger/flat_table.h"
#include "ledger/holder_tally.h"
#include "ledger/stranded.h"
#include "trace/recorder.h"

// The memory of one device as one process used it, replayed from its trace in one pass.
//
// Terms, as torch_npu's users know them:
//   allocated   rounded sizes of the live blocks of the caching allocator (torch.npu.memory_allocated())
//   reserved    driver memory that the caching allocator holds (torch.npu.memory_reserved())
//   workspace   driver memory that holds operators' scratch memory (an allocator of its own in torch_npu)
//   cached      reserved - allocated: held, but in no block
// A program without torch_npu has no blocks: then all its driver memory counts as reserved and as allocated.

namespace drydock::ledger {

/// One piece of driver memory, from its allocation to its release.
struct Segment {
  trace::DriverMemory kind = trace::DriverMemory::kMalloc;
  uint64_t address = 0;
  uint64_t handle = 0;
  uint64_t size_bytes = 0;
  trace::LineId line = 0;
  uint64_t allocated_record = 0;
  uint64_t freed_record = 0;  ///< 0 = never
};

/// The state of the device when the driver had no room.
struct OutOfMemory {
  uint64_t record = 0;
  trace::DriverMemory kind = trace::DriverMemory::kMalloc;
  uint64_t requested_bytes = 0;  ///< of the driver: the client's own wish may be larger (pending_bytes)
  uint64_t free_bytes = 0;       ///< what the client could have: the driver's free bytes and pending_bytes
  uint64_t capacity_bytes = 0;
  uint64_t allocated_bytes = 0;
  uint64_t reserved_bytes = 0;
  uint64_t workspace_bytes = 0;
  uint64_t direct_bytes = 0;   ///< part of reserved: driver memory outside the caching allocator
  uint64_t pending_bytes = 0;  ///< pages of the same wish that had been handed out already; the client gives them back
  uint64_t idle_bytes = 0;     ///< idle use and contexts: on every device, always
  uint64_t hccl_bytes = 0;     ///< buffers of communicators
  trace::LineId line = 0;
  uint32_t steps_ended = 0;
  std::vector<Holder> holders;  ///< largest first
  Stranded stranded;
};

/// All memory of the device at one moment. What is in use is the sum of the parts:
///   allocated_bytes (the sum of its kinds) + cached_bytes + direct_bytes + workspace_bytes + unmapped_bytes
///   + idle_bytes + context_bytes + hccl_bytes; the rest of capacity_bytes is other processes' or free.
struct DeviceMoment {
  bool is_known = false;
  uint64_t capacity_bytes = 0;  ///< 0 = unknown
  uint64_t allocated_bytes = 0;
  uint64_t cached_bytes = 0;     ///< held by the caching allocator, in no block
  uint64_t direct_bytes = 0;     ///< driver memory outside the caching allocator
  uint64_t workspace_bytes = 0;  ///< driver memory of the workspace allocator
  uint64_t unmapped_bytes = 0;   ///< physical memory that is mapped nowhere
  uint64_t idle_bytes = 0;       ///< in use on every device, always
  uint64_t context_bytes = 0;
  uint64_t hccl_bytes = 0;
  uint64_t other_bytes = 0;  ///< of other processes; known only where the driver told what was free
  uint64_t free_bytes = 0;
  Composition blocks;
  uint64_t used_bytes() const {
    return allocated_bytes + cached_bytes + direct_bytes + workspace_bytes + unmapped_bytes + idle_bytes +
           context_bytes + hccl_bytes;
  }
};

/// Not thread-safe. Feed it the records of one device in the order of the trace, then call `finish`.
class MemoryAccount {
 public:
  /// Segments kept one by one; further ones are only counted.
  static constexpr size_t kMaxSegmentRows = 100'000;

  explicit MemoryAccount(int32_t device) : device_(device) {}

  void block_allocated(uint64_t address, uint64_t size_bytes, bool is_workspace, trace::LineId line,
                       uint32_t module = 0, bool gradients_are_recorded = false);
  void block_labelled(uint64_t address, trace::Label label, uint64_t storage_bytes, trace::StringId name) {
    census_.labelled(address, label, storage_bytes, name);
  }
  /// Before the first record: nobody will ask what blocks are for (DeviceMoment::blocks), which takes a third of the
  /// time.
  void leave_out_purposes() { census_.leave_out(); }
  void block_filled_from_host(uint64_t address) { census_.filled_from_host(address); }
  void phase_began(trace::Phase phase) { census_.phase_began(phase); }
  void capacity_told(uint64_t bytes) { capacity_ = bytes; }
  /// 0 if nobody asked the driver.
  uint64_t capacity_bytes() const { return capacity_; }
  void block_freed(uint64_t address);
  void block_requested(uint64_t address, uint64_t requested_bytes);
  /// An operator is given the block as its workspace. It stays counted as allocated, as torch_npu counts it.
  void workspace_given(uint64_t address);
  void driver_allocated(const Segment& segment);
  void driver_freed(trace::DriverMemory kind, uint64_t address, uint64_t handle, uint64_t record);
  /// Fills in what the driver did not say and keeps it; only the last one keeps its holders.
  void out_of_memory(OutOfMemory event);
  void overhead_charged(std::string_view what, uint64_t size_bytes);
  void step_ended();
  /// Call once after the last record.
  void finish();

  int32_t device() const { return device_; }
  uint64_t allocated_bytes() const { return has_blocks() ? allocated_ : reserved_bytes(); }
  uint64_t reserved_bytes() const { return driver_ - workspace_segments_ - unmapped_; }
  uint64_t workspace_bytes() const { return workspace_segments_; }
  uint64_t peak_allocated_bytes() const { return has_blocks() ? peak_allocated_ : peak_reserved_; }
  uint64_t peak_reserved_bytes() const { return peak_reserved_; }
  uint64_t peak_workspace_bytes() const { return peak_workspace_; }
  uint64_t peak_host_bytes() const { return peak_host_; }
  uint64_t blocks() const { return block_count_; }
  uint64_t segments() const { return segment_count_; }
  /// Frees of blocks whose allocation is not in the trace.
  uint64_t unknown_frees() const { return unknown_frees_; }
  /// Rounded minus requested size over all blocks whose requested size is known, and how many those are.
  uint64_t padding_bytes() const { return padding_; }
  uint64_t requested_blocks() const { return requested_blocks_; }
  uint64_t distinct_block_sizes() const { return block_sizes_.size(); }
  /// Highest allocated bytes since the last `step_ended`.
  uint64_t step_peak_allocated_bytes() const { return has_blocks() ? step_peak_ : reserved_bytes(); }
  /// True if physical handles were used: expandable segments are on.
  bool uses_virtual_memory() const { return uses_virtual_memory_; }
  bool has_blocks() const { return block_count_ > 0; }

  /// By source line: of blocks, and of driver memory.
  const HolderTally& block_lines() const { return block_lines_; }
  const HolderTally& driver_lines() const { return driver_lines_; }
  /// Blocks by line where there are blocks, else driver memory by line.
  const HolderTally& holder_lines() const { return has_blocks() ? block_lines_ : driver_lines_; }

  // After `finish`: all memory of the device when allocated bytes were highest, at the last refusal, and at the end.
  const DeviceMoment& at_peak() const { return at_peak_; }
  const DeviceMoment& at_out_of_memory() const { return at_out_of_memory_; }
  const DeviceMoment& at_end() const { return at_end_; }
  /// Sentences about sums that should be equal and are not.
  std::vector<std::string> imbalances() const;

  const std::vector<Segment>& segment_rows() const { return segment_rows_; }
  const std::vector<OutOfMemory>& out_of_memories() const { return out_of_memories_; }
  const std::map<std::string, uint64_t>& overheads() const { return overheads_; }

 private:
  struct LiveBlock {
    uint64_t size_bytes = 0;
    uint64_t requested_bytes = 0;
    uint32_t tally = 0;
    bool is_workspace = false;  ///< of the workspace allocator of its own
    bool is_scratch = false;    ///< of the caching allocator, given to an operator as workspace
  };
  struct LiveSegment {  // malloc'ed, physical (has no blocks of its own) or a reservation
    uint64_t size_bytes = 0;
    uint32_t tally = 0;
    size_t row = SIZE_MAX;
    uint32_t mappings = 0;
    bool has_blocks = false;
    bool is_workspace = false;
  };
  struct Mapping {
    uint64_t size_bytes = 0;
    uint64_t handle = 0;
  };
  using Segments = std::map<uint64_t, LiveSegment>;

  static LiveSegment* containing(Segments& segments, uint64_t address);
  static bool is_device_memory(trace::DriverMemory kind);
  void place(uint64_t address, bool is_workspace);
  void enter_workspace(LiveSegment& segment);
  void map(const Segment& segment);
  void unmap(uint64_t address);
  void release(LiveSegment& segment, uint64_t record);
  void settle();
  uint64_t direct_bytes();
  Stranded stranded() const;
  DeviceMoment moment_now();

  int32_t device_;
  uint64_t allocated_ = 0;
  uint64_t driver_ = 0;              // malloc'ed and physical
  uint64_t scratch_ = 0;             // blocks of the caching allocator that serve as workspace
  uint64_t workspace_segments_ = 0;  // the part of it that holds workspace blocks
  uint64_t unmapped_ = 0;            // the part of it that is physical and mapped nowhere
  uint64_t host_ = 0;
  uint64_t peak_allocated_ = 0;
  uint64_t peak_reserved_ = 0;
  uint64_t peak_workspace_ = 0;
  uint64_t peak_host_ = 0;
  uint64_t step_peak_ = 0;
  uint64_t block_count_ = 0;
  uint64_t segment_count_ = 0;
  uint64_t unknown_frees_ = 0;
  uint64_t padding_ = 0;
  uint64_t requested_blocks_ = 0;
  uint64_t blockless_ = 0;  // live malloc'ed segments and reservations without a block
  uint32_t steps_ended_ = 0;
  bool uses_virtual_memory_ = false;
  bool unsettled_ = false;
  uint64_t capacity_ = 0;
  uint64_t idle_ = 0;
  uint64_t context_ = 0;
  uint64_t hccl_ = 0;
  BlockCensus census_;
  DeviceMoment at_peak_;
  DeviceMoment at_out_of_memory_;
  DeviceMoment at_end_;

  FlatTable<LiveBlock> live_blocks_;
  FlatTable<uint8_t> block_sizes_;
  Segments mallocs_;       // by address
  Segments reservations_;  // by address
  Segments physical_;      // by handle
  std::map<uint64_t, Mapping> mappings_;
  FlatTable<uint64_t> host_sizes_;
  HolderTally block_lines_;
  HolderTally driver_lines_;
  std::vector<Segment> segment_rows_;
  std::vector<OutOfMemory> out_of_memories_;
  std::map<std::string, uint64_t> overheads_;
};

}  // namespace drydock::ledger
