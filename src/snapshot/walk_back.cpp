#include "snapshot/walk_back.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace drydock::snapshot {

using replay::BlockState;
using replay::Event;
using replay::EventKind;
using replay::StateBlock;
using replay::StateSegment;

namespace {

constexpr uint64_t kRounding = 512;
constexpr uint64_t kSmallPage = uint64_t{2} << 20;  // segments of the pool of small blocks; pages of expandable ones
constexpr uint64_t kUnsplit = uint64_t{1} << 20;  // a remainder of the large pool that is no larger stays in the block

}  // namespace

uint64_t rounded(uint64_t requested, bool is_npu) {
  const uint64_t size = std::min(requested, kLargest) + (is_npu ? kNpuPadding : 0);
  return std::max<uint64_t>(kRounding, (size + kRounding - 1) / kRounding * kRounding);
}

void WalkBack::add_final(const StateSegment& segment) {
  stretches_[segment.address] = {.size = segment.size,
                                 .stream = segment.stream,
                                 .pool = segment.pool,
                                 .is_small = segment.is_small,
                                 .is_expandable = segment.is_expandable};
  for (const StateBlock& block : segment.blocks)
    if (block.state != BlockState::kFree) live_[block.address] = {.block = block, .is_at_end = true};
}

WalkBack::Stretches::iterator WalkBack::containing(uint64_t address) {
  auto after = stretches_.upper_bound(address);
  if (after == stretches_.begin()) return stretches_.end();
  --after;
  return address - after->first < after->second.size ? after : stretches_.end();
}

// Back over a free: the block is there again, unless another one already is.
void WalkBack::undo_free(const Event& event, size_t index) {
  auto found = live_.lower_bound(event.address);
  const uint64_t size = rounded(event.requested, is_npu_);
  if (event.kind == EventKind::kBlockFreeRequested && found != live_.end() && found->first == event.address) {
    found->second.block.state = BlockState::kActive;
    return;
  }
  const bool hits_next = found != live_.end() && found->first - event.address < size;
  const bool hits_previous =
      found != live_.begin() && event.address - std::prev(found)->first < std::prev(found)->second.block.size;
  if (hits_next || hits_previous || containing(event.address) == stretches_.end()) {
    ++unknown_frees_;
    return;
  }
  Live& live = live_[event.address];
  live.block = {.address = event.address,
                .size = size,
                .requested = event.requested,
                .place = event.place,
                .state = event.kind == EventKind::kBlockFreeRequested ? BlockState::kActive : BlockState::kPendingFree};
  live.freed_at = index;
}

// Back over a mapping: the range is not mapped. What is around it may remain on either side.
void WalkBack::undo_map(const Event& event) {
  auto found = containing(event.address);
  if (found == stretches_.end() || event.size > found->second.size - (event.address - found->first)) {
    ++unknown_segments_;
    return;
  }
  const uint64_t begin = found->first;
  const Stretch stretch = found->second;
  stretches_.erase(found);
  const uint64_t before = event.address - begin;
  const uint64_t behind = stretch.size - before - event.size;
  const auto keep = [&](uint64_t address, uint64_t size) {
    if (size == 0) return;
    stretches_[address] = stretch;
    stretches_[address].size = size;
  };
  keep(begin, before);
  keep(event.address + event.size, behind);
}

// Back over an unmapping: the range is mapped, and one with its neighbours.
void WalkBack::undo_unmap(const Event& event) {
  auto next = stretches_.lower_bound(event.address);
  if (next != stretches_.end() && next->first - event.address < event.size) {
    ++unknown_segments_;
    return;
  }
  if (next != stretches_.begin()) {
    auto previous = std::prev(next);
    if (event.address - previous->first < previous->second.size) {
      ++unknown_segments_;
      return;
    }
  }
  // Pages of the small pool are of 2 MiB, those of the large one of 20 MiB; the neighbours know better.
  Stretch stretch{.size = event.size,
                  .stream = event.stream,
                  .pool = event.pool,
                  .is_small = event.size % (10 * kSmallPage) != 0,
                  .is_expandable = true};
  uint64_t begin = event.address;
  if (next != stretches_.end() && next->first == event.address + event.size && next->second.is_expandable) {
    stretch.is_small = next->second.is_small;
    stretch.pool = next->second.pool;
    stretch.size += next->second.size;
    next = stretches_.erase(next);
  }
  if (next != stretches_.begin()) {
    auto previous = std::prev(next);
    if (previous->first + previous->second.size == event.address && previous->second.is_expandable) {
      stretch.is_small = previous->second.is_small;
      stretch.pool = previous->second.pool;
      begin = previous->first;
      stretch.size += previous->second.size;
      stretches_.erase(previous);
    }
  }
  stretches_[begin] = stretch;
}

void WalkBack::undo_one(Event& event, size_t index) {
  switch (event.kind) {
    case EventKind::kBlockAllocated: {
      auto found = live_.find(event.address);
      if (found == live_.end()) {
        ++unknown_allocations_;
        return;
      }
      // A block that is in the snapshot, or that lay between borders, has a size that is known.
      if (found->second.is_at_end) event.size = found->second.block.size;
      event.pool = containing(event.address) == stretches_.end() ? event.pool : containing(event.address)->second.pool;
      live_.erase(found);
      return;
    }
    case EventKind::kBlockFreeRequested:
    case EventKind::kBlockFreeCompleted: undo_free(event, index); return;
    case EventKind::kSegmentAllocated: {
      auto found = stretches_.find(event.address);
      if (found == stretches_.end() || found->second.size != event.size) {
        ++unknown_segments_;
        return;
      }
      event.pool = found->second.pool;
      stretches_.erase(found);
      return;
    }
    case EventKind::kSegmentFreed:
      if (containing(event.address) != stretches_.end()) {
        ++unknown_segments_;
        return;
      }
      stretches_[event.address] = {.size = event.size,
                                   .stream = event.stream,
                                   .pool = event.pool,
                                   .is_small = event.size == kSmallPage,
                                   .is_expandable = false};
      return;
    case EventKind::kSegmentMapped: undo_map(event); return;
    case EventKind::kSegmentUnmapped: undo_unmap(event); return;
    default: return;
  }
}

void WalkBack::undo(std::span<Event> events) {
  for (size_t index = events.size(); index-- > 0;) undo_one(events[index], index);
}

bool WalkBack::is_splittable(const Stretch& stretch, uint64_t size) const {
  if (stretch.is_small || stretch.is_expandable || settings_.expandable_segments) return true;
  return settings_.max_split_bytes < 0 || size < static_cast<uint64_t>(settings_.max_split_bytes);
}

// Gives blocks of unknown size the remainder that the allocator could not have split off. The first allocation that is
// put into the gap behind a block, while the block is there, begins where the gap did.
void WalkBack::widen(std::span<const Event> events) {
  std::multimap<uint64_t, size_t> allocations;
  for (size_t index = 0; index < events.size(); ++index)
    if (events[index].kind == EventKind::kBlockAllocated) allocations.emplace(events[index].address, index);
  for (auto current = live_.begin(); current != live_.end(); ++current) {
    Live& live = current->second;
    if (live.is_at_end) continue;
    const auto stretch = containing(live.block.address);
    if (stretch == stretches_.end() || stretch->second.is_small || stretch->second.is_expandable) continue;
    const uint64_t begin = live.block.address + live.block.size;
    const auto next = std::next(current);
    uint64_t end = stretch->first + stretch->second.size;
    if (next != live_.end()) end = std::min(end, next->first);
    if (end <= begin) continue;
    size_t first = live.freed_at;
    uint64_t border = 0;
    for (auto found = allocations.lower_bound(begin); found != allocations.end() && found->first < end; ++found)
      if (found->second < first) {
        first = found->second;
        border = found->first;
      }
    if (border == 0 && (end - begin <= kUnsplit || !is_splittable(stretch->second, live.block.size))) border = end;
    if (border > begin && (border - begin <= kUnsplit || !is_splittable(stretch->second, live.block.size)))
      live.block.size = border - live.block.address;
  }
}

std::vector<StateSegment> WalkBack::initial(std::span<const Event> events) {
  widen(events);
  std::vector<StateSegment> segments;
  for (const auto& [address, stretch] : stretches_) {
    StateSegment segment{.address = address,
                         .size = stretch.size,
                         .stream = stretch.stream,
                         .pool = stretch.pool,
                         .device = device_,
                         .is_small = stretch.is_small,
                         .is_expandable = stretch.is_expandable,
                         .blocks = {}};
    uint64_t next = address;
    const uint64_t end = address + stretch.size;
    for (auto found = live_.lower_bound(address); found != live_.end() && found->first < end; ++found) {
      StateBlock block = found->second.block;
      if (block.address < next) continue;
      block.size = std::min(block.size, end - block.address);
      if (block.address > next) segment.blocks.push_back({.address = next, .size = block.address - next});
      segment.blocks.push_back(block);
      next = block.address + block.size;
    }
    if (next < end) segment.blocks.push_back({.address = next, .size = end - next});
    segments.push_back(std::move(segment));
  }
  return segments;
}

}  // namespace drydock::snapshot
