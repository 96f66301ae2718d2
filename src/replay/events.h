#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

// What an allocator was asked for and what it answered, in order: the input of a replay. A Drydock trace and a memory
// snapshot of PyTorch are both read into a History.

namespace drydock::replay {

enum class EventKind : uint8_t {
  kBlockAllocated = 0,      ///< address, size (after rounding; 0 where unknown), requested (0 where unknown), stream
  kBlockFreeRequested = 1,  ///< address; the program gave the block back; size = streams that it waits for, where known
  kBlockFreeCompleted = 2,  ///< address; the allocator has it back: at once, or when other streams' events completed
  kSegmentAllocated = 3,    ///< address, size, stream where known: device memory got from the driver
  kSegmentFreed = 4,        ///< address, size: given back to the driver
  kSegmentMapped = 5,       ///< address, size: physical memory put into an expandable segment
  kSegmentUnmapped = 6,     ///< address, size
  kOutOfMemory = 7,         ///< requested (size of the failed allocation); size = free bytes of the device then
  kDriverRefused = 8,       ///< size: the driver had no room for a segment or a mapping of that size
  kStreamUsed = 9,          ///< address, stream: record_stream, the block is used on another stream than its own
  kCacheEmptied = 10,       ///< empty_cache was called
  kFractionSet = 11,        ///< set_per_process_memory_fraction; size = allowed bytes
  kStreamsIdle = 12,        ///< all work of the device is done: events on it complete
  kSnapshotTaken = 13,
  kStep = 14,       ///< an optimizer step ended
  kReserved = 15,   ///< address, size: address range of an expandable segment
  kUnreserved = 16  ///< address
};

inline constexpr uint32_t kUnknownPlace = 0;

/// One event. Plain data; what its kind does not use is zero.
struct Event {
  uint64_t address = 0;
  uint64_t size = 0;
  uint64_t requested = 0;
  uint32_t ordinal = 0;            ///< number of the record or trace entry that it was read from, from 0
  uint32_t place = kUnknownPlace;  ///< index into History::places
  uint32_t stream = 0;             ///< index into History::streams
  uint16_t pool = 0;               ///< 0: the default pool; otherwise a graph's or private pool (History::pools)
  uint8_t device = 0;
  EventKind kind = EventKind::kBlockAllocated;
  bool is_workspace = false;  ///< a block of torch_npu's workspace allocator, not of the caching allocator
  bool is_scratch = false;    ///< a block of the caching allocator that was given to an operator as its workspace
};

enum class BlockState : uint8_t {
  kFree = 0,        ///< cached
  kActive = 1,      ///< held by the program
  kPendingFree = 2  ///< given back by the program, still used on other streams
};

struct StateBlock {
  uint64_t address = 0;
  uint64_t size = 0;
  uint64_t requested = 0;  ///< 0 where unknown
  uint32_t place = kUnknownPlace;
  BlockState state = BlockState::kFree;
  bool operator==(const StateBlock&) const = default;
};

/// A segment with its blocks in order of address. Blocks of a native segment cover it without gaps; an expandable one
/// has gaps where nothing is mapped, and one StateSegment for each stretch that is.
struct StateSegment {
  uint64_t address = 0;
  uint64_t size = 0;
  uint32_t stream = 0;
  uint16_t pool = 0;
  uint8_t device = 0;
  bool is_small = false;  ///< of the pool of small blocks
  bool is_expandable = false;
  std::vector<StateBlock> blocks;
  bool operator==(const StateSegment&) const = default;
};

/// What was known of a device.
struct DeviceFacts {
  uint64_t total_bytes = 0;     ///< as the driver says; 0 where unknown
  uint64_t external_bytes = 0;  ///< in use when the history began and not the allocator's: context, other processes
};

enum class Source : uint8_t { kDrydockTrace = 0, kSnapshot = 1 };

struct History {
  Source source = Source::kDrydockTrace;
  /// False if the history began mid-run or lost its head: then `initial` is what is known of the state before.
  bool is_whole = true;
  std::string settings;                   ///< PYTORCH_NPU_ALLOC_CONF or PYTORCH_CUDA_ALLOC_CONF, where known
  bool settings_known = false;            ///< false: `settings` is a guess, or empty for want of one
  std::vector<Event> events;              ///< of all devices, in order
  std::vector<StateSegment> initial;      ///< before the first event
  std::vector<StateSegment> final_state;  ///< after the last event, where the source has it (snapshots)
  bool has_final_state = false;
  std::vector<DeviceFacts> devices;     ///< by device
  std::vector<uint64_t> streams = {0};  ///< the source's name of each stream; index 0 is the default stream
  std::vector<std::pair<uint64_t, uint64_t>> pools = {{0, 0}};  ///< the source's id of each pool
  std::vector<std::string> places = {"unknown"};                ///< "file:line (function)"
  std::vector<std::string> missing;  ///< sentences: what the source lacks, and what an answer still stands on
};

}  // namespace drydock::replay
