#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "trace/reader.h"

namespace drydock::exports {

/// What the caching allocator did on one device, and what it held in the end, as torch tells it. Feed it the records of
/// the device in order, then call `finish`. Not thread-safe.
class AllocatorHistory {
 public:
  enum class Action : uint8_t {
    kAlloc,
    kFree,  ///< requested and completed at once
    kSegmentAlloc,
    kSegmentFree,
    kSegmentMap,
    kSegmentUnmap,
    kOutOfMemory,
    kNothing,  ///< it turned out to be of the workspace allocator
  };
  struct Entry {
    uint64_t address = 0;  ///< of kOutOfMemory: free bytes
    uint64_t size = 0;     ///< of blocks as asked for, where it is known
    uint64_t time_ns = 0;
    trace::LineId line = 0;
    Action action = Action::kNothing;
  };
  struct Block {
    uint64_t size = 0;
    uint64_t requested = 0;
    trace::LineId line = 0;
    size_t entry = 0;
  };
  struct Segment {
    uint64_t size = 0;
    trace::LineId line = 0;
    bool is_small = false;
    bool is_expandable = false;
  };

  void take(const trace::TraceInfo& info, const trace::Record& record);
  void finish();

  const std::vector<Entry>& entries() const { return entries_; }
  /// Blocks that are held, by address.
  const std::map<uint64_t, Block>& blocks() const { return blocks_; }
  /// Segments that are held, by address; one for each stretch of an expandable one that is mapped. After `finish`.
  const std::map<uint64_t, Segment>& segments() const { return segments_; }
  uint64_t unknown_sizes() const { return unknown_sizes_; }
  uint64_t unknown_frees() const { return unknown_frees_; }
  uint64_t workspace_bytes() const { return workspace_bytes_; }

 private:
  struct Driver {  // a malloc'ed segment, or a mapping
    uint64_t size = 0;
    trace::LineId line = 0;
    size_t entry = 0;
    bool is_workspace = false;
  };
  struct Reservation {
    uint64_t size = 0;
    bool is_small = false;
    bool has_mappings = false;
    bool is_workspace = false;
  };
  void allocate(uint64_t address, const trace::Record& record);
  void release(uint64_t address, const trace::Record& record);
  void take_driver(const trace::Record& record, uint64_t address);
  void free_driver(std::map<uint64_t, Driver>& drivers, uint64_t address, Action action, const trace::Record& record);
  void mark_workspace(uint64_t address);
  Reservation* reservation_of(uint64_t address);

  std::vector<Entry> entries_;
  std::map<uint64_t, Block> blocks_;
  std::map<uint64_t, bool> workspace_blocks_;
  std::map<uint64_t, Driver> mallocs_;
  std::map<uint64_t, Driver> mappings_;
  std::map<uint64_t, Reservation> reservations_;
  std::map<uint64_t, Segment> segments_;
  uint64_t unknown_sizes_ = 0;
  uint64_t unknown_frees_ = 0;
  uint64_t workspace_bytes_ = 0;
  bool has_blocks_ = false;
};

}  // namespace drydock::exports
