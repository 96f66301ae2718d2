#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "replay/events.h"
#include "snapshot/snapshot.h"

namespace drydock::snapshot {

/// What the allocator makes of a request: torch_npu adds 32 bytes, both round up to 512.
uint64_t rounded(uint64_t requested, bool is_npu);

inline constexpr uint64_t kNpuPadding = 32;
inline constexpr uint64_t kLargest = uint64_t{1} << 62;  ///< no address or size of a device is above

/// One device's memory on the way back through its history.
class WalkBack {
 public:
  struct Live {
    replay::StateBlock block;
    bool is_at_end = false;  // it is in the snapshot, so its size is known
    size_t freed_at = 0;     // event that freed it
  };
  struct Stretch {  // a segment, or what is mapped of an expandable one without a gap
    uint64_t size = 0;
    uint32_t stream = 0;
    uint16_t pool = 0;
    bool is_small = false;
    bool is_expandable = false;
  };

  WalkBack(uint8_t device, bool is_npu, const Settings& settings)
      : device_(device), is_npu_(is_npu), settings_(settings) {}

  void add_final(const replay::StateSegment& segment);
  void undo(std::span<replay::Event> events);
  std::vector<replay::StateSegment> initial(std::span<const replay::Event> events);

  uint64_t unknown_frees() const { return unknown_frees_; }
  uint64_t unknown_allocations() const { return unknown_allocations_; }
  uint64_t unknown_segments() const { return unknown_segments_; }
  bool had_anything() const { return !stretches_.empty(); }

 private:
  using Stretches = std::map<uint64_t, Stretch>;

  void undo_one(replay::Event& event, size_t index);
  void undo_free(const replay::Event& event, size_t index);
  void undo_map(const replay::Event& event);
  void undo_unmap(const replay::Event& event);
  void widen(std::span<const replay::Event> events);
  Stretches::iterator containing(uint64_t address);
  bool is_splittable(const Stretch& stretch, uint64_t size) const;

  const uint8_t device_;
  const bool is_npu_;
  const Settings& settings_;
  std::map<uint64_t, Live> live_;
  Stretches stretches_;
  uint64_t unknown_frees_ = 0;
  uint64_t unknown_allocations_ = 0;
  uint64_t unknown_segments_ = 0;
};

}  // namespace drydock::snapshot
