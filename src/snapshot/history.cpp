#include "snapshot/history.h"

#include <algorithm>
#include <map>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "snapshot/walk_back.h"

namespace drydock::snapshot {
namespace {

using replay::BlockState;
using replay::Event;
using replay::EventKind;
using replay::History;
using replay::StateSegment;

std::optional<EventKind> kind_of(Action action) {
  switch (action) {
    case Action::kAlloc: return EventKind::kBlockAllocated;
    case Action::kFreeRequested: return EventKind::kBlockFreeRequested;
    case Action::kFreeCompleted: return EventKind::kBlockFreeCompleted;
    case Action::kSegmentAlloc: return EventKind::kSegmentAllocated;
    case Action::kSegmentFree: return EventKind::kSegmentFreed;
    case Action::kSegmentMap: return EventKind::kSegmentMapped;
    case Action::kSegmentUnmap: return EventKind::kSegmentUnmapped;
    case Action::kOutOfMemory: return EventKind::kOutOfMemory;
    case Action::kSnapshot: return EventKind::kSnapshotTaken;
    case Action::kOther: return std::nullopt;
  }
  return std::nullopt;
}

BlockState state_of(BlockUse use) {
  switch (use) {
    case BlockUse::kAllocated: return BlockState::kActive;
    case BlockUse::kPendingFree: return BlockState::kPendingFree;
    case BlockUse::kInactive: return BlockState::kFree;
  }
  return BlockState::kFree;
}

class Conversion {
 public:
  explicit Conversion(const Snapshot& snapshot) : snapshot_(snapshot), is_npu_(is_of_npu(snapshot)) {}
  History run();

 private:
  uint32_t stream(uint64_t name);
  uint16_t pool(std::pair<uint64_t, uint64_t> id);
  StateSegment segment(const Segment& from);
  void convert_device(size_t device);
  void say_what_is_missing();

  const Snapshot& snapshot_;
  const bool is_npu_;
  History history_;
  std::unordered_map<uint64_t, uint32_t> streams_ = {{0, 0}};
  std::map<std::pair<uint64_t, uint64_t>, uint16_t> pools_ = {{{0, 0}, 0}};
  uint64_t unknown_frees_ = 0;
  uint64_t unknown_allocations_ = 0;
  uint64_t unknown_segments_ = 0;
  uint64_t impossible_ = 0;
};

uint32_t Conversion::stream(uint64_t name) {
  const auto [entry, is_new] = streams_.try_emplace(name, static_cast<uint32_t>(history_.streams.size()));
  if (is_new) history_.streams.push_back(name);
  return entry->second;
}

uint16_t Conversion::pool(std::pair<uint64_t, uint64_t> id) {
  if (pools_.size() > UINT16_MAX) return 0;
  const auto [entry, is_new] = pools_.try_emplace(id, static_cast<uint16_t>(history_.pools.size()));
  if (is_new) history_.pools.push_back(id);
  return entry->second;
}

StateSegment Conversion::segment(const Segment& from) {
  StateSegment to{.address = from.address,
                  .size = from.size,
                  .stream = stream(from.stream),
                  .pool = pool(from.pool),
                  .device = static_cast<uint8_t>(from.device),
                  .is_small = from.is_small,
                  .is_expandable = from.is_expandable,
                  .blocks = {}};
  for (const Block& block : from.blocks) {
    const BlockState state = state_of(block.use);
    to.blocks.push_back({.address = block.address,
                         .size = block.size,
                         .requested = state == BlockState::kFree ? 0 : block.requested,
                         .place = block.place,
                         .state = state});
  }
  return to;
}

void Conversion::convert_device(size_t device) {
  WalkBack walk(static_cast<uint8_t>(device), is_npu_, snapshot_.settings);
  for (const StateSegment& each : history_.final_state)
    if (each.device == device) walk.add_final(each);
  const size_t first = history_.events.size();
  if (device < snapshot_.traces.size()) {
    const std::vector<Entry>& trace = snapshot_.traces[device];
    for (size_t index = 0; index < trace.size(); ++index) {
      const Entry& entry = trace[index];
      const std::optional<EventKind> kind = kind_of(entry.action);
      if (!kind) continue;
      if (entry.address > kLargest || entry.size > kLargest) {
        ++impossible_;
        continue;
      }
      Event event{.address = entry.address,
                  .size = entry.size,
                  .ordinal = static_cast<uint32_t>(index),
                  .place = entry.place,
                  .stream = stream(entry.stream),
                  .pool = pool(entry.pool),
                  .device = static_cast<uint8_t>(device),
                  .kind = *kind};
      switch (*kind) {
        case EventKind::kBlockAllocated:
        case EventKind::kBlockFreeRequested:
        case EventKind::kBlockFreeCompleted:
          event.requested = entry.size;
          event.size = 0;
          break;
        case EventKind::kOutOfMemory:
          event.requested = entry.size;
          event.size = entry.address;
          event.address = 0;
          break;
        default: break;
      }
      history_.events.push_back(event);
    }
  }
  const std::span<Event> events = std::span(history_.events).subspan(first);
  walk.undo(events);
  std::vector<StateSegment> initial = walk.initial(events);
  if (!initial.empty()) history_.is_whole = false;
  history_.initial.insert(history_.initial.end(), std::make_move_iterator(initial.begin()),
                          std::make_move_iterator(initial.end()));
  unknown_frees_ += walk.unknown_frees();
  unknown_allocations_ += walk.unknown_allocations();
  unknown_segments_ += walk.unknown_segments();
}

void Conversion::say_what_is_missing() {
  std::vector<std::string>& missing = history_.missing;
  missing = snapshot_.notes;
  const bool has_history = std::any_of(history_.events.begin(), history_.events.end(),
                                       [](const Event& event) { return event.kind != EventKind::kSnapshotTaken; });
  if (!history_.is_whole && has_history)
    missing.push_back(fmt::format(
        "The history began mid-run: {} segments were there before its first event. Their blocks are found by walking "
        "back from the snapshot.",
        history_.initial.size()));
  if (unknown_frees_ > 0)
    missing.push_back(fmt::format("{} frees are of blocks that could not have been there: they are left to the replay.",
                                  unknown_frees_));
  if (unknown_allocations_ > 0)
    missing.push_back(fmt::format(
        "{} allocations are of blocks that are neither freed nor in the snapshot: events between are missing.",
        unknown_allocations_));
  if (unknown_segments_ > 0)
    missing.push_back(
        fmt::format("{} segments came or went in a way that the snapshot contradicts.", unknown_segments_));
  if (impossible_ > 0)
    missing.push_back(fmt::format(
        "{} entries of the history have addresses or sizes that no device has: they are left out.", impossible_));
  if (!snapshot_.settings.are_known && has_history)
    missing.emplace_back(
        "The snapshot does not tell the allocator's settings: defaults are taken, with expandable "
        "segments where the snapshot has such.");
}

History Conversion::run() {
  history_.source = replay::Source::kSnapshot;
  history_.places = snapshot_.places;
  history_.settings = snapshot_.settings.text;
  history_.settings_known = snapshot_.settings.are_known;
  size_t devices = snapshot_.traces.size();
  bool is_expandable = false;
  for (const Segment& each : snapshot_.segments) {
    devices = std::max(devices, static_cast<size_t>(each.device) + 1);
    is_expandable = is_expandable || each.is_expandable;
    history_.final_state.push_back(segment(each));
  }
  if (!history_.settings_known && is_expandable) history_.settings = "expandable_segments:True";
  history_.has_final_state = true;
  history_.devices.resize(devices);
  for (size_t device = 0; device < devices; ++device) convert_device(device);
  say_what_is_missing();
  return std::move(history_);
}

}  // namespace

bool is_of_npu(const Snapshot& snapshot) {
  if (snapshot.settings.are_known && !snapshot.settings.text.empty()) return snapshot.settings.is_npu;
  bool is_padded = false;
  for (const Segment& segment : snapshot.segments)
    for (const Block& block : segment.blocks) {
      if (block.use == BlockUse::kInactive || block.requested == 0) continue;
      if (block.requested > block.size || block.size - block.requested < kNpuPadding) return false;
      is_padded = is_padded || (rounded(block.requested, true) != rounded(block.requested, false) &&
                                block.size == rounded(block.requested, true));
    }
  return snapshot.settings.is_npu || is_padded;
}

History history_of(const Snapshot& snapshot) { return Conversion(snapshot).run(); }

}  // namespace drydock::snapshot
