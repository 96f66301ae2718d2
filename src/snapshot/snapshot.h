#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"

// A memory snapshot of PyTorch or torch_npu (torch.cuda.memory._dump_snapshot, torch.npu.memory._dump_snapshot): the
// allocator's segments and blocks at one moment, and what it did before, as far as its ring buffer reached.

namespace drydock::snapshot {

enum class BlockUse : uint8_t { kInactive, kAllocated, kPendingFree };

struct Block {
  uint64_t address = 0;
  uint64_t size = 0;
  uint64_t requested = 0;
  BlockUse use = BlockUse::kInactive;
  uint32_t place = 0;  ///< index into Snapshot::places
};

struct Segment {
  uint64_t address = 0;
  uint64_t size = 0;
  uint64_t stream = 0;
  std::pair<uint64_t, uint64_t> pool = {};
  int32_t device = 0;
  bool is_small = false;
  bool is_expandable = false;
  uint32_t place = 0;
  std::vector<Block> blocks = {};  ///< in order of address
};

enum class Action : uint8_t {
  kAlloc,
  kFreeRequested,
  kFreeCompleted,
  kSegmentAlloc,
  kSegmentFree,
  kSegmentMap,
  kSegmentUnmap,
  kOutOfMemory,
  kSnapshot,
  kOther,  ///< none that this reader knows
};

struct Entry {
  uint64_t address = 0;  ///< of kOutOfMemory: free bytes of the device
  uint64_t size = 0;     ///< as asked for, not rounded
  uint64_t stream = 0;
  int64_t time_us = 0;  ///< 0 where the snapshot has none
  std::pair<uint64_t, uint64_t> pool = {};
  uint32_t place = 0;
  Action action = Action::kOther;
};

struct Settings {
  bool are_known = false;
  std::string text;  ///< PYTORCH_CUDA_ALLOC_CONF or PYTORCH_NPU_ALLOC_CONF as it was set
  bool is_npu = false;
  bool expandable_segments = false;
  int64_t max_split_bytes = -1;  ///< -1 = no limit
  double garbage_collection_threshold = 0;
};

struct Snapshot {
  std::vector<Segment> segments;
  std::vector<std::vector<Entry>> traces;  ///< by device
  Settings settings;
  std::vector<std::string> places = {"unknown"};  ///< "file:line (function)": the innermost frame that is the user's
  std::vector<std::string> notes;                 ///< sentences: what is missing or makes no sense
};

/// Reads a snapshot's bytes. 100006 with a sentence if they are no pickle of plain data or no snapshot. What of it
/// makes no sense is left out and said in `notes`.
Status read_snapshot(std::span<const std::byte> bytes, Snapshot& snapshot);

/// Reads the file. 100003 if it can't be read.
Status read_snapshot_file(const std::string& path, Snapshot& snapshot);

/// True if the file begins like a pickle of protocol 2 to 5.
bool looks_like_pickle(const std::string& path);

}  // namespace drydock::snapshot
