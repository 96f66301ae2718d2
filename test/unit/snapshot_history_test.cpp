#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "snapshot/history.h"
#include "snapshot/snapshot.h"

// Snapshots that torch_npu dumped (test/data/snapshots/record.py). What is found by walking back must lead forward to
// the snapshot again: every block and every segment, to the byte.
//
// DRYDOCK_SNAPSHOTS: a folder of further snapshots that are walked back and forth, with their times.

namespace drydock::snapshot {
namespace {

using replay::BlockState;
using replay::Event;
using replay::EventKind;
using replay::History;
using replay::StateBlock;
using replay::StateSegment;
using testing::Contains;
using testing::HasSubstr;

const std::string kFolder = std::string(DRYDOCK_TEST_DATA) + "/snapshots/";

Snapshot read(const std::string& path) {
  Snapshot snapshot;
  const Status status = read_snapshot_file(path, snapshot);
  EXPECT_TRUE(status.is_ok()) << status.message();
  return snapshot;
}

struct Place {
  uint8_t device;
  uint64_t address;
  auto operator<=>(const Place&) const = default;
};

// What the events make of the initial state, told without any model of an allocator.
struct Forward {
  std::map<Place, StateBlock> blocks;  // that are held
  std::map<Place, uint64_t> mapped;    // by 2 MiB pages of what is there
  uint64_t strange = 0;                // events that don't fit

  static constexpr uint64_t kPage = uint64_t{2} << 20;

  void add_pages(uint8_t device, uint64_t address, uint64_t size, int64_t change) {
    for (uint64_t offset = 0; offset < size; offset += kPage) {
      uint64_t& count = mapped[{device, address + offset}];
      if (static_cast<int64_t>(count) + change < 0 || static_cast<int64_t>(count) + change > 1) ++strange;
      count = static_cast<uint64_t>(static_cast<int64_t>(count) + change);
    }
  }
  void add(const StateSegment& segment) {
    add_pages(segment.device, segment.address, segment.size, 1);
    uint64_t covered = 0;
    for (const StateBlock& block : segment.blocks) {
      if (block.address != segment.address + covered) ++strange;
      covered += block.size;
      if (block.state != BlockState::kFree) blocks[{segment.device, block.address}] = block;
    }
    if (covered != segment.size) ++strange;
  }
  void take(const Event& event) {
    const Place place{event.device, event.address};
    switch (event.kind) {
      case EventKind::kBlockAllocated: {
        auto next = blocks.lower_bound(place);
        if (next != blocks.end() && next->first.device == event.device &&
            next->first.address < event.address + std::max(event.size, event.requested))
          ++strange;
        blocks[place] = {
            .address = event.address, .size = event.size, .requested = event.requested, .state = BlockState::kActive};
        break;
      }
      case EventKind::kBlockFreeRequested:
        if (!blocks.contains(place)) ++strange;
        blocks[place].state = BlockState::kPendingFree;
        break;
      case EventKind::kBlockFreeCompleted:
        if (blocks.erase(place) == 0) ++strange;
        break;
      case EventKind::kSegmentAllocated:
      case EventKind::kSegmentMapped: add_pages(event.device, event.address, event.size, 1); break;
      case EventKind::kSegmentFreed:
      case EventKind::kSegmentUnmapped: add_pages(event.device, event.address, event.size, -1); break;
      default: break;
    }
  }
};

void walk_forward(const History& history) {
  Forward forward, end;
  for (const StateSegment& segment : history.initial) forward.add(segment);
  for (const Event& event : history.events) forward.take(event);
  for (const StateSegment& segment : history.final_state) end.add(segment);
  EXPECT_EQ(forward.strange, 0U);
  EXPECT_EQ(end.strange, 0U);
  std::erase_if(forward.mapped, [](const auto& entry) { return entry.second == 0; });
  EXPECT_EQ(forward.mapped, end.mapped);
  ASSERT_EQ(forward.blocks.size(), end.blocks.size());
  for (const auto& [place, block] : end.blocks) {
    ASSERT_TRUE(forward.blocks.contains(place)) << place.address;
    const StateBlock& there = forward.blocks[place];
    EXPECT_EQ(there.size, block.size) << place.address;
    EXPECT_EQ(there.requested, block.requested) << place.address;
    EXPECT_EQ(there.state, block.state) << place.address;
  }
}

uint64_t count(const History& history, EventKind kind) {
  return static_cast<uint64_t>(std::count_if(history.events.begin(), history.events.end(),
                                             [kind](const Event& event) { return event.kind == kind; }));
}

TEST(SnapshotHistory, AWholeHistoryBeginsWithNothing) {
  const Snapshot snapshot = read(kFolder + "whole.pickle");
  EXPECT_TRUE(is_of_npu(snapshot));
  const History history = history_of(snapshot);
  EXPECT_TRUE(history.is_whole);
  EXPECT_TRUE(history.initial.empty());
  EXPECT_EQ(count(history, EventKind::kBlockAllocated), 56U);
  EXPECT_EQ(count(history, EventKind::kBlockFreeRequested), 36U);
  EXPECT_EQ(count(history, EventKind::kSegmentAllocated), 9U);
  EXPECT_EQ(count(history, EventKind::kSegmentFreed), 4U);
  uint64_t allocated = 0, reserved = 0;  // as the program printed them
  for (const StateSegment& segment : history.final_state) {
    reserved += segment.size;
    for (const StateBlock& block : segment.blocks) allocated += block.state == BlockState::kActive ? block.size : 0;
  }
  EXPECT_EQ(allocated, 29'408'768U);
  EXPECT_EQ(reserved, 174'063'616U);
  EXPECT_THAT(history.places, Contains(std::string("record.py:30 (<listcomp>)")));
  walk_forward(history);
}

TEST(SnapshotHistory, ARingBufferThatWasFullHasAStateBefore) {
  const History history = history_of(read(kFolder + "ring.pickle"));
  EXPECT_FALSE(history.is_whole);
  EXPECT_EQ(history.events.size(), 60U);
  EXPECT_FALSE(history.initial.empty());
  EXPECT_THAT(history.missing, Contains(HasSubstr("began mid-run")));
  walk_forward(history);
  // It is the end of the whole history, which passes through the same state.
  const History whole = history_of(read(kFolder + "whole.pickle"));
  Forward forward, initial;
  for (const StateSegment& segment : history.initial) initial.add(segment);
  for (size_t index = 0; index + 60 < whole.events.size(); ++index) forward.take(whole.events[index]);
  ASSERT_EQ(forward.blocks.size(), initial.blocks.size());
  auto there = initial.blocks.begin();
  for (const auto& [place, block] : forward.blocks) {  // the device's addresses differ from run to run
    EXPECT_EQ(there->second.requested, block.requested);
    EXPECT_TRUE(block.size == 0 || there->second.size == block.size);
    ++there;
  }
}

TEST(SnapshotHistory, ExpandableSegmentsAreMappedAndUnmapped) {
  const Snapshot snapshot = read(kFolder + "expandable.pickle");
  const History history = history_of(snapshot);
  EXPECT_EQ(history.settings, "expandable_segments:True");
  EXPECT_FALSE(history.settings_known);
  EXPECT_EQ(count(history, EventKind::kSegmentMapped), 7U);
  EXPECT_EQ(count(history, EventKind::kSegmentUnmapped), 1U);
  EXPECT_TRUE(history.initial.empty());
  walk_forward(history);
}

TEST(SnapshotHistory, RecordingThatBeganMidRun) {
  const History history = history_of(read(kFolder + "late.pickle"));
  EXPECT_FALSE(history.is_whole);
  walk_forward(history);
}

TEST(SnapshotHistory, EventsThatContradictTheSnapshotAreCountedAndSaid) {
  Snapshot snapshot = read(kFolder + "whole.pickle");
  std::vector<Entry>& trace = snapshot.traces[0];
  const uint64_t held = trace[1].address;
  trace.push_back({.address = held + 1, .size = 100, .action = Action::kFreeCompleted});      // within a block
  trace.push_back({.address = 12'345, .size = 100, .action = Action::kFreeCompleted});        // outside of all
  trace.push_back({.address = 54'321, .size = 100, .action = Action::kAlloc});                // never freed
  trace.push_back({.address = 54'321, .size = 2 << 20, .action = Action::kSegmentAlloc});     // and not there
  trace.push_back({.address = ~uint64_t{0}, .size = 100, .action = Action::kFreeCompleted});  // no device has it
  const History history = history_of(snapshot);
  EXPECT_THAT(history.missing, Contains(HasSubstr("2 frees are of blocks")));
  EXPECT_THAT(history.missing, Contains(HasSubstr("1 allocations are of blocks")));
  EXPECT_THAT(history.missing, Contains(HasSubstr("1 segments came or went")));
  EXPECT_THAT(history.missing, Contains(HasSubstr("1 entries of the history have addresses")));
}

TEST(SnapshotHistory, ABlockKeepsARemainderThatWasTooSmallToSplit) {
  // CUDA's rule. A block of 11 MiB lies in a segment of 12 MiB: the last MiB was not split off. Freed within the
  // history.
  constexpr uint64_t kMiB = 1 << 20, kFirst = kMiB << 10, kSecond = kMiB << 11;
  Snapshot snapshot;
  snapshot.segments.push_back(
      {.address = kFirst, .size = 12 * kMiB, .blocks = {{.address = kFirst, .size = 12 * kMiB}}});
  snapshot.segments.push_back(
      {.address = kSecond, .size = 20 * kMiB, .blocks = {{.address = kSecond, .size = 20 * kMiB}}});
  snapshot.traces.resize(1);
  const auto free_of = [&](uint64_t address, uint64_t size) {
    snapshot.traces[0].push_back({.address = address, .size = size, .action = Action::kFreeRequested});
    snapshot.traces[0].push_back({.address = address, .size = size, .action = Action::kFreeCompleted});
  };
  free_of(kFirst, 11 * kMiB);
  // Here another block begins half a MiB behind the end of the first.
  const uint64_t next = (kSecond) + 5 * kMiB + kMiB / 2;
  snapshot.traces[0].push_back({.address = next, .size = 3 * kMiB, .action = Action::kAlloc});
  free_of(next, 3 * kMiB);
  free_of(kSecond, 5 * kMiB);
  const History history = history_of(snapshot);
  ASSERT_EQ(history.initial.size(), 2U);
  ASSERT_EQ(history.initial[0].blocks.size(), 1U);
  EXPECT_EQ(history.initial[0].blocks[0].size, 12 * kMiB);
  ASSERT_EQ(history.initial[1].blocks.size(), 2U);
  EXPECT_EQ(history.initial[1].blocks[0].size, 5 * kMiB + kMiB / 2);
  EXPECT_EQ(history.initial[1].blocks[1].state, BlockState::kFree);
}

TEST(SnapshotHistory, ASnapshotWithoutHistorySaysSo) {
  Snapshot snapshot = read(kFolder + "whole.pickle");
  const std::string folder = testing::TempDir();
  // {"segments": [], "device_traces": [[]]}
  const std::string path = folder + "/drydock-empty.pickle";
  FILE* file = std::fopen(path.c_str(), "wb");
  const char bytes[] =
      "\x80\x04}(\x8c\x08segments]\x8c\x0d"
      "device_traces](]eu.";
  std::fwrite(bytes, 1, sizeof(bytes) - 1, file);
  std::fclose(file);
  snapshot = read(path);
  std::filesystem::remove(path);
  EXPECT_THAT(snapshot.notes, Contains(HasSubstr("no history")));
  EXPECT_THAT(snapshot.notes, Contains(HasSubstr("no segments")));
  EXPECT_TRUE(history_of(snapshot).events.empty());
}

TEST(SnapshotHistory, PicklesThatAreNoSnapshotsAreRefused) {
  Snapshot snapshot;
  for (const std::string bytes : {"\x80\x04N.", "\x80\x04}.", "\x80\x04}\x8c\x08segmentsK\x01s."}) {
    const Status status = read_snapshot(std::as_bytes(std::span(bytes)), snapshot);
    EXPECT_FALSE(status.is_ok());
    EXPECT_THAT(status.message(), HasSubstr("no memory snapshot"));
  }
  EXPECT_THAT(read_snapshot_file("/no/such/file", snapshot).message(), HasSubstr("can't be read"));
  EXPECT_THAT(read_snapshot_file("/", snapshot).message(), HasSubstr("not a file"));
}

TEST(SnapshotHistory, CutAtAnyByteItIsRefusedWithASentence) {
  Snapshot snapshot;
  const std::string path = kFolder + "ring.pickle";
  std::vector<char> bytes(std::filesystem::file_size(path));
  FILE* file = std::fopen(path.c_str(), "rb");
  ASSERT_EQ(std::fread(bytes.data(), 1, bytes.size(), file), bytes.size());
  std::fclose(file);
  for (size_t length = 0; length < bytes.size(); length += 7) {
    const Status status = read_snapshot(std::as_bytes(std::span(bytes).first(length)), snapshot);
    ASSERT_FALSE(status.is_ok()) << length;
    ASSERT_FALSE(status.message().empty());
  }
}

TEST(SnapshotHistory, FurtherSnapshotsLeadForwardToThemselves) {
  const char* folder = std::getenv("DRYDOCK_SNAPSHOTS");
  if (folder == nullptr) GTEST_SKIP() << "DRYDOCK_SNAPSHOTS names no folder of further snapshots";
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".pickle") continue;
    SCOPED_TRACE(entry.path().string());
    const auto begin = std::chrono::steady_clock::now();
    const Snapshot snapshot = read(entry.path().string());
    const History history = history_of(snapshot);
    const double ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
    std::printf("%s: %.1f ms, %zu events, %zu segments before, %zu after\n", entry.path().filename().c_str(), ms,
                history.events.size(), history.initial.size(), history.final_state.size());
    for (const std::string& sentence : history.missing) std::printf("  %s\n", sentence.c_str());
    walk_forward(history);
  }
}

}  // namespace
}  // namespace drydock::snapshot
