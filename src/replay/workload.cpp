#include "replay/workload.h"

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include <fmt/format.h>

#include "replay/repeats.h"

namespace drydock::replay {
namespace {

constexpr uint64_t kPage = uint64_t{2} << 20;
constexpr uint64_t kGrain = 512;
// Of the NPU policy; one cell of 512 bytes more or less in a bound of whole pages.
constexpr uint64_t kPadding = 32;

uint64_t round_up(uint64_t bytes, uint64_t unit) { return (bytes + unit - 1) / unit * unit; }

class Builder {
 public:
  Builder(const History& history, uint8_t device, bool with_workspaces)
      : history_(history), with_workspaces_(with_workspaces) {
    load_.device = device;
  }

  Workload build() {
    rank_streams();
    take_initial();
    load_.pools = static_cast<uint32_t>(std::max<size_t>(1, history_.pools.size()));
    if (load_.device < history_.devices.size()) {
      load_.total_bytes = history_.devices[load_.device].total_bytes;
      load_.external_bytes = history_.devices[load_.device].external_bytes;
    }
    for (uint32_t index = 0; index < history_.events.size(); ++index) {
      if (history_.events[index].kind == EventKind::kStep) {
        load_.steps.push_back(static_cast<uint32_t>(load_.operations.size()));
      } else if (history_.events[index].device == load_.device) {
        take(history_.events[index], index);
      }
    }
    load_.repeats = find_repeats(load_);
    load_.lower_bound_bytes = round_up(load_.peak_live_bytes, kPage);
    tell();
    return std::move(load_);
  }

 private:
  struct Live {
    uint32_t slot = 0;
    uint64_t bytes = 0;
    bool is_pending = false;
  };

  // The allocator orders streams by handle.
  void rank_streams() {
    std::vector<uint64_t> handles = history_.streams;
    std::sort(handles.begin(), handles.end());
    handles.erase(std::unique(handles.begin(), handles.end()), handles.end());
    for (const uint64_t handle : history_.streams)
      load_.stream_ranks.push_back(
          static_cast<uint16_t>(std::lower_bound(handles.begin(), handles.end(), handle) - handles.begin()));
    load_.streams = static_cast<uint32_t>(std::max<size_t>(1, handles.size()));
  }

  uint16_t rank(uint32_t stream) const {
    return stream < load_.stream_ranks.size() ? load_.stream_ranks[stream] : uint16_t{0};
  }

  void take_initial() {
    for (const StateSegment& segment : history_.initial) {
      if (segment.device != load_.device) continue;
      load_.initial.push_back(segment);
      load_.initial.back().stream = rank(segment.stream);
      for (const StateBlock& block : segment.blocks) {
        if (block.state == BlockState::kFree) continue;
        const uint32_t slot = new_slot();
        load_.held.emplace_back(block.address, slot);
        live_[block.address] = {slot, block.size, block.state == BlockState::kPendingFree};
        grow(block.size);
      }
    }
  }

  uint32_t new_slot() {
    if (unused_.empty()) return load_.slots++;
    const uint32_t slot = unused_.back();
    unused_.pop_back();
    return slot;
  }

  void grow(uint64_t bytes) {
    live_bytes_ += bytes;
    load_.peak_live_bytes = std::max(load_.peak_live_bytes, live_bytes_);
  }

  void emit(OperationKind kind, uint64_t bytes, uint32_t slot, const Event& event, uint32_t index) {
    load_.operations.push_back(
        {bytes, slot, rank(event.stream), kind, static_cast<uint8_t>(event.pool < load_.pools ? event.pool : 0)});
    load_.events.push_back(index);
  }

  void take(const Event& event, uint32_t index) {
    switch (event.kind) {
      case EventKind::kBlockAllocated: allocate(event, index); break;
      case EventKind::kBlockFreeRequested: request_free(event, index); break;
      case EventKind::kBlockFreeCompleted: complete_free(event, index); break;
      case EventKind::kOutOfMemory: emit(OperationKind::kRefuse, event.requested, 0, event, index); break;
      case EventKind::kCacheEmptied: emit(OperationKind::kEmptyCache, 0, 0, event, index); break;
      case EventKind::kSegmentFreed:
      case EventKind::kSegmentUnmapped: give_back(event, index); break;
      case EventKind::kFractionSet: emit(OperationKind::kLimit, event.size, 0, event, index); break;
      default: break;
    }
  }

  void allocate(const Event& event, uint32_t index) {
    if (!with_workspaces_ && (event.is_workspace || event.is_scratch)) {
      if (event.is_scratch) left_out_.insert(event.address);
      return;
    }
    if (event.is_workspace) {
      emit(OperationKind::kAllocateWorkspace, event.size, 0, event, index);
      return;
    }
    if (const auto twice = live_.find(event.address); twice != live_.end()) {
      ++twice_;
      live_bytes_ -= twice->second.bytes;
      live_.erase(twice);
    }
    uint64_t bytes = event.requested;
    if (bytes == 0) {
      ++without_request_;
      bytes = event.size > kPadding ? event.size - kPadding : 1;
    }
    if (event.pool != 0) pool_of_[event.address] = event.pool;
    const uint32_t slot = new_slot();
    const uint64_t rounded = round_up(std::max<uint64_t>(1, bytes), kGrain);
    live_[event.address] = {slot, rounded, false};
    grow(rounded);
    emit(OperationKind::kAllocate, bytes, slot, event, index);
  }

  // Nothing says that a graph's or private pool was let go but that its memory goes back.
  void give_back(const Event& event, uint32_t index) {
    const auto first = pool_of_.lower_bound(event.address);
    if (first == pool_of_.end() || first->first - event.address >= event.size) return;
    const uint16_t pool = first->second;
    pool_of_.erase(first, pool_of_.lower_bound(event.address + event.size));
    if (!load_.operations.empty() && load_.operations.back().kind == OperationKind::kReleasePool &&
        load_.operations.back().pool == pool)
      return;
    Event released = event;
    released.pool = pool;
    emit(OperationKind::kReleasePool, 0, 0, released, index);
  }

  void request_free(const Event& event, uint32_t index) {
    if (event.is_workspace) return;
    if (left_out_.contains(event.address)) return;
    const auto found = live_.find(event.address);
    if (found == live_.end()) {
      ++unknown_frees_;
      return;
    }
    live_bytes_ -= found->second.bytes;
    found->second.bytes = 0;
    found->second.is_pending = true;
    emit(OperationKind::kFreeLater, event.size, found->second.slot, event, index);
  }

  void complete_free(const Event& event, uint32_t index) {
    if (left_out_.erase(event.address) > 0) return;
    const auto found = live_.find(event.address);
    if (found == live_.end()) return;  // counted when it was asked for, or by address twice
    if (!load_.operations.empty() && load_.operations.back().kind == OperationKind::kFreeLater &&
        load_.operations.back().slot == found->second.slot && load_.operations.back().bytes == 0) {
      load_.operations.back().kind = OperationKind::kFree;
    } else {
      live_bytes_ -= found->second.bytes;
      emit(OperationKind::kComplete, 0, found->second.slot, event, index);
    }
    unused_.push_back(found->second.slot);
    live_.erase(found);
  }

  void tell() {
    if (without_request_ > 0)
      load_.missing.push_back(fmt::format(
          "{} allocations do not say how much was asked for: they count as having asked for the whole block, which may "
          "be up to 1 MiB too much for each where blocks were not split.",
          without_request_));
    if (unknown_frees_ > 0)
      load_.missing.push_back(fmt::format(
          "{} frees are of blocks whose allocation is not in the history: they are left out.", unknown_frees_));
    if (twice_ > 0)
      load_.missing.push_back(fmt::format(
          "{} addresses were handed out again without having been given back: their frees are missing, and memory that "
          "was really free counts as held.",
          twice_));
  }

  const History& history_;
  const bool with_workspaces_;
  Workload load_;
  std::unordered_set<uint64_t> left_out_;  // addresses of live blocks that are no part of the workload
  std::unordered_map<uint64_t, Live> live_;
  std::map<uint64_t, uint16_t> pool_of_;  // of addresses in graphs' and private pools that were handed out
  std::vector<uint32_t> unused_;
  uint64_t live_bytes_ = 0;
  uint64_t without_request_ = 0;
  uint64_t unknown_frees_ = 0;
  uint64_t twice_ = 0;
};

}  // namespace

std::vector<uint8_t> devices_of(const History& history) {
  std::set<uint8_t> devices;
  for (const Event& event : history.events)
    if (event.kind == EventKind::kBlockAllocated || event.kind == EventKind::kOutOfMemory) devices.insert(event.device);
  return {devices.begin(), devices.end()};
}

Workload workload_of(const History& history, uint8_t device, bool with_workspaces) {
  return Builder(history, device, with_workspaces).build();
}

}  // namespace drydock::replay
