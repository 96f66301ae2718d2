#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ledger_synthetic_run.h"
#include "replay/events.h"
#include "replay/settings.h"
#include "replay/simulate.h"
#include "replay/trace_history.h"
#include "replay/verify.h"
#include "replay/workload.h"
#include "trace/format.h"

// Histories that are cut, lack their head, contradict themselves or hold nothing: what is missing is said, and what is
// left is replayed.

namespace drydock::replay {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr uint64_t kAddress = uint64_t{1} << 36;

Event event(EventKind kind, uint64_t address, uint64_t size = 0, uint64_t requested = 0) {
  Event event;
  event.kind = kind;
  event.address = address;
  event.size = size;
  event.requested = requested;
  return event;
}

History history_of(const std::vector<Event>& events) {
  History history;
  history.events = events;
  history.devices = {{1024 * kMib, 0}};
  return history;
}

void record_blocks() {
  for (uint64_t step = 0; step < 12; ++step) {
    const uint64_t segment = kAddress + step * ledger::kGiB;
    ledger::segment(segment, 20 * kMib, ledger::line(static_cast<uint32_t>(step)));
    for (uint64_t block = 0; block < 4; ++block) ledger::block(segment + block * kMib, kMib, ledger::line(7));
    trace::block_freed(0, segment);
    trace::step_ended();
  }
}

std::string bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(TraceHistory, CutAnywhereItGivesTheBeginningAndASentence) {
  ledger::SyntheticRun run;
  run.record(record_blocks);
  const std::string whole = bytes_of(run.trace());
  const std::string cut = run.path() + "/cut.ddtrace";
  History all;
  ASSERT_TRUE(read_trace(run.trace(), all).is_ok());
  EXPECT_THAT(all.missing, IsEmpty());
  size_t most = 0;
  for (size_t size = 0; size < whole.size(); size += 97) {
    { std::ofstream(cut, std::ios::binary | std::ios::trunc) << std::string_view(whole).substr(0, size); }
    History history;
    const Status status = read_trace(cut, history);
    if (!status.is_ok()) {
      EXPECT_FALSE(status.message().empty()) << size;
      continue;
    }
    ASSERT_LE(history.events.size(), all.events.size()) << size;
    most = std::max(most, history.events.size());
    if (history.events.size() < all.events.size()) {
      EXPECT_FALSE(history.missing.empty()) << size;
    }
    for (const uint8_t device : devices_of(history)) {
      const Workload load = workload_of(history, device);
      EXPECT_EQ(simulate(load, {}).operations, load.operations.size()) << size;
    }
  }
  EXPECT_GT(most, all.events.size() / 2);
}

TEST(TraceHistory, AnotherVersionIsNamedWithBothNumbers) {
  ledger::SyntheticRun run;
  run.record(record_blocks);
  std::string bytes = bytes_of(run.trace());
  const uint32_t version = 99;
  std::memcpy(bytes.data() + offsetof(trace::FileHeader, version), &version, sizeof(version));
  const std::string other = run.path() + "/other.ddtrace";
  { std::ofstream(other, std::ios::binary) << bytes; }
  History history;
  const Status status = read_trace(other, history);
  ASSERT_FALSE(status.is_ok());
  EXPECT_THAT(status.message(), HasSubstr("format version 99, and this Drydock reads"));
}

TEST(TraceHistory, WithoutBlocksThereIsNothingToReplay) {
  ledger::SyntheticRun run;
  run.record([] { trace::step_ended(); });
  History history;
  ASSERT_TRUE(read_trace(run.trace(), history).is_ok());
  EXPECT_THAT(devices_of(history), IsEmpty());
  const Workload load = workload_of(history, 0);
  EXPECT_THAT(load.operations, IsEmpty());
  const Outcome outcome = simulate(load, {});
  EXPECT_TRUE(outcome.fits);
  EXPECT_EQ(outcome.peak_reserved_bytes, 0U);
  EXPECT_TRUE(verify(history, load, {}).is_equal);
}

TEST(Workload, OfALostHeadLeavesFreesOutAndSaysSo) {
  const History history =
      history_of({event(EventKind::kBlockFreeRequested, kAddress), event(EventKind::kBlockFreeCompleted, kAddress),
                  event(EventKind::kBlockAllocated, kAddress + kMib, 512, 100)});
  const Workload load = workload_of(history, 0);
  EXPECT_EQ(load.operations.size(), 1U);
  EXPECT_THAT(load.missing, ElementsAre(HasSubstr("1 frees are of blocks whose allocation is not in the history")));
}

TEST(Workload, OfAddressesHandedOutTwiceSaysSo) {
  const History history =
      history_of({event(EventKind::kBlockAllocated, kAddress, 4 * kMib, 4 * kMib - 32),
                  event(EventKind::kBlockAllocated, kAddress, 2 * kMib, 2 * kMib - 32),
                  event(EventKind::kBlockFreeRequested, kAddress), event(EventKind::kBlockFreeCompleted, kAddress),
                  event(EventKind::kBlockFreeRequested, kAddress), event(EventKind::kBlockFreeCompleted, kAddress)});
  const Workload load = workload_of(history, 0);
  EXPECT_THAT(load.missing, ElementsAre(HasSubstr("1 frees are of blocks"), HasSubstr("handed out again")));
  EXPECT_EQ(load.operations.size(), 3U);
  EXPECT_TRUE(simulate(load, {}).fits);
}

// A block that completed at the beginning of a request is among those that the request itself gives back; one that
// completed while the request waited for the device is not.
TEST(Verification, TellsWhenABlockCompletedByTheWaits) {
  const auto of = [](bool is_late) {
    std::vector<Event> events;
    uint64_t address = kAddress;
    std::vector<uint64_t> blocks;
    for (const uint64_t size : {40 * kMib, 60 * kMib}) {
      events.push_back(event(EventKind::kSegmentAllocated, address, size));
      events.push_back(event(EventKind::kBlockAllocated, address, size, size - kMib));
      blocks.push_back(address);
      address += size;
    }
    events.push_back(event(EventKind::kBlockFreeRequested, blocks[0]));
    events.push_back(event(EventKind::kBlockFreeCompleted, blocks[0]));
    events.push_back(event(EventKind::kBlockFreeRequested, blocks[1], 1));
    const Event wait = event(EventKind::kStreamsIdle, 0);
    const Event completed = event(EventKind::kBlockFreeCompleted, blocks[1]);
    const auto gives_back = [&](size_t block, uint64_t size) {
      events.push_back(event(EventKind::kSegmentFreed, blocks[block], size));
    };
    // Of the large ones, the largest first; of whatever is cached, the smallest.
    if (is_late) {
      events.push_back(wait);
      gives_back(0, 40 * kMib);
      events.push_back(wait);
      events.push_back(completed);
      gives_back(1, 60 * kMib);
    } else {
      events.push_back(completed);
      events.push_back(wait);
      gives_back(1, 60 * kMib);
      gives_back(0, 40 * kMib);
      events.push_back(wait);
    }
    events.push_back(event(EventKind::kOutOfMemory, 0, 0, 900 * kMib));
    History history = history_of(events);
    history.events.insert(history.events.begin(), event(EventKind::kFractionSet, 0, 300 * kMib));
    return history;
  };
  Settings settings;
  ASSERT_TRUE(parse_settings("max_split_size_mb:20", Policy::kNpu, settings).is_ok());
  for (const bool is_late : {false, true}) {
    const History history = of(is_late);
    const Verification result = verify(history, workload_of(history, 0), settings);
    EXPECT_TRUE(result.is_equal) << is_late << ": " << result.difference;
    EXPECT_EQ(result.segment_calls_equal, 4U) << is_late;
    EXPECT_EQ(result.out_of_memory_equal, 1U) << is_late;
  }
}

TEST(Workload, LetsAPoolGoWhereItsMemoryGoesBack) {
  History history;
  history.devices = {{1024 * kMib, 0}};
  history.pools = {{0, 0}, {0, 1}};
  Event block = event(EventKind::kBlockAllocated, kAddress, 40 * kMib, 40 * kMib - kMib);
  block.pool = 1;
  const uint64_t other = kAddress + 40 * kMib;
  history.events = {event(EventKind::kSegmentAllocated, kAddress, 40 * kMib),
                    block,
                    event(EventKind::kSegmentAllocated, other, 60 * kMib),
                    event(EventKind::kBlockAllocated, other, 60 * kMib, 60 * kMib - kMib),
                    event(EventKind::kBlockFreeRequested, kAddress),
                    event(EventKind::kBlockFreeCompleted, kAddress),
                    event(EventKind::kBlockFreeRequested, other),
                    event(EventKind::kBlockFreeCompleted, other),
                    event(EventKind::kSegmentFreed, kAddress, 40 * kMib)};
  const Workload load = workload_of(history, 0);
  EXPECT_EQ(load.operations.back().kind, OperationKind::kReleasePool);
  EXPECT_EQ(load.operations.back().pool, 1);
  EXPECT_EQ(simulate(load, {}).end_reserved_bytes, 60 * kMib);
  const Verification result = verify(history, load, {});
  EXPECT_TRUE(result.is_equal) << result.difference;
  EXPECT_EQ(result.segment_calls_equal, 3U);
}

TEST(Workload, OfRequestsLargerThanAnyDeviceIsRefused) {
  for (const uint64_t bytes : {uint64_t{1} << 41, uint64_t{1} << 62, ~uint64_t{0}}) {
    const History history = history_of({event(EventKind::kBlockAllocated, kAddress, bytes, bytes)});
    for (const char* text : {"", "expandable_segments:True", "page_size:1g", "max_split_size_mb:64",
                             "roundup_power2_divisions:4", "per_process_memory_fraction:0.5"}) {
      Settings settings;
      ASSERT_TRUE(parse_settings(text, Policy::kNpu, settings).is_ok()) << text;
      EXPECT_FALSE(simulate(workload_of(history, 0), settings).fits) << bytes << " " << text;
    }
  }
}

}  // namespace
}  // namespace drydock::replay
