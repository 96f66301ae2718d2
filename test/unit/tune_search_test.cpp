#include <algorithm>
#include <atomic>
#include <new>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "replay/settings.h"
#include "tune/grid.h"
#include "tune/search.h"

namespace drydock::tune {
namespace {

using replay::kMib;
using replay::Operation;
using replay::OperationKind;
using replay::Workload;

constexpr uint64_t kGib = 1024 * kMib;

const std::atomic<bool> kGoOn{false};
void quiet(size_t /*done*/, size_t /*all*/) {}

class Requests {
 public:
  explicit Requests(uint64_t total_bytes) { workload_.total_bytes = total_bytes; }
  void allocate_workspace(uint64_t bytes) { add({.bytes = bytes, .kind = OperationKind::kAllocateWorkspace}); }
  uint32_t allocate(uint64_t bytes) {
    add({.bytes = bytes, .slot = workload_.slots, .kind = OperationKind::kAllocate});
    return workload_.slots++;
  }
  void free(uint32_t slot) { add({.slot = slot, .kind = OperationKind::kFree}); }
  void refuse(uint64_t bytes) { add({.bytes = bytes, .kind = OperationKind::kRefuse}); }
  Workload take() { return std::move(workload_); }

 private:
  void add(const Operation& operation) {
    workload_.operations.push_back(operation);
    workload_.events.push_back(static_cast<uint32_t>(workload_.events.size()));
  }
  Workload workload_;
};

// Twenty times a tensor of 30 MiB comes and goes and one of 16 MiB moves into its segment and stays. Then 500 MiB are
// wanted of a device of 1 GiB: 600 MiB are taken by segments that the small tensors pin, unless segments can grow.
Workload pinned_segments() {
  Requests requests(kGib);
  for (int index = 0; index < 20; ++index) {
    requests.free(requests.allocate(30 * kMib));
    requests.allocate(16 * kMib);
  }
  requests.refuse(500 * kMib);
  Workload workload = requests.take();
  demand_last_request(workload);
  return workload;
}

TEST(Grid, HasTheDefaultsFirstAndNothingTwiceAndNothingIllegal) {
  const Grid grid = make_grid("", false);
  ASSERT_FALSE(grid.candidates.empty());
  EXPECT_EQ(grid.candidates.front().text, "");
  EXPECT_GT(grid.illegal, 0U);
  std::set<std::string> seen;
  for (const Candidate& candidate : grid.candidates) {
    EXPECT_TRUE(seen.insert(candidate.text).second) << candidate.text;
    replay::Settings settings;
    EXPECT_TRUE(replay::parse_settings(candidate.text, replay::Policy::kNpu, settings).is_ok()) << candidate.text;
    const bool expandable = candidate.text.find("expandable_segments:True") != std::string::npos;
    const bool split = candidate.text.find("max_split_size_mb") != std::string::npos;
    EXPECT_FALSE(expandable && split) << candidate.text;
    EXPECT_EQ(candidate.text.find("lazy"), std::string::npos) << "there is one stream only";
  }
}

TEST(Grid, KeepsTheKeysThatItDoesNotVary) {
  const Grid grid = make_grid("per_process_memory_fraction:0.5,max_split_size_mb:64", true);
  for (const Candidate& candidate : grid.candidates)
    EXPECT_THAT(candidate.text, ::testing::HasSubstr("per_process_memory_fraction:0.5"));
  EXPECT_EQ(grid.candidates.front().text, "per_process_memory_fraction:0.5");
}

TEST(Search, FindsTheCureOfFragmentation) {
  const std::vector<Workload> workloads = {pinned_segments()};
  const Grid grid = make_grid("", false);
  std::vector<Trial> trials = try_all(workloads, grid, 2, kGoOn, quiet);
  ASSERT_EQ(trials.size(), grid.candidates.size());
  EXPECT_FALSE(trials.front().fits) << "the defaults do not";
  mark_front(trials);
  rank(trials, grid);
  EXPECT_TRUE(trials.front().fits);
  EXPECT_EQ(grid.candidates[trials.front().candidate].text, "expandable_segments:True");
  EXPECT_GE(trials.front().margin_bytes, 0);
  EXPECT_FALSE(lower_bound_of(workloads).is_impossible);
  // Nothing on the front is worse in both than anything that fits.
  for (const Trial& trial : trials) {
    if (!trial.is_on_front) continue;
    for (const Trial& other : trials)
      EXPECT_FALSE(other.fits && other.peak_reserved_bytes < trial.peak_reserved_bytes &&
                   other.driver_calls < trial.driver_calls);
  }
}

TEST(Search, GivesTheSameOnEveryNumberOfThreads) {
  const std::vector<Workload> workloads = {pinned_segments()};
  const Grid grid = make_grid("", false);
  const std::vector<Trial> one = try_all(workloads, grid, 1, kGoOn, quiet);
  const std::vector<Trial> four = try_all(workloads, grid, 4, kGoOn, quiet);
  ASSERT_EQ(one.size(), four.size());
  for (size_t index = 0; index < one.size(); ++index) {
    EXPECT_EQ(one[index].peak_reserved_bytes, four[index].peak_reserved_bytes);
    EXPECT_EQ(one[index].driver_calls, four[index].driver_calls);
    EXPECT_EQ(one[index].fits, four[index].fits);
  }
}

// Sanitizers end the process where an allocation this large would throw.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST(Search, PassesOnWhatACandidateThrowsOnAThread) {
  Workload workload = pinned_segments();
  workload.streams = workload.pools = 65535;  // lists of free blocks for each: more than an address space holds
  EXPECT_THROW(static_cast<void>(try_all({workload}, make_grid("", false), 2, kGoOn, quiet)), std::bad_alloc);
}
#endif

TEST(Search, ProvesThatNothingCanFit) {
  Requests requests(kGib);
  requests.allocate(600 * kMib);
  requests.refuse(500 * kMib);
  Workload workload = requests.take();
  demand_last_request(workload);
  const Bound bound = lower_bound_of({workload});
  EXPECT_TRUE(bound.is_impossible);
  EXPECT_EQ(bound.room_bytes, kGib);
  EXPECT_EQ(bound.needed_bytes, 1102 * kMib);  // 512 bytes more than 1100 MiB, in pages
  const Grid grid = make_grid("", false);
  for (const Trial& trial : try_all({workload}, grid, 2, kGoOn, quiet))
    EXPECT_FALSE(trial.fits) << grid.candidates[trial.candidate].text;
}

TEST(Search, WhatADyingProgramGivesBackComesTooLate) {
  Requests requests(kGib);
  const uint32_t slot = requests.allocate(600 * kMib);
  requests.refuse(500 * kMib);
  requests.free(slot);
  Workload workload = requests.take();
  demand_last_request(workload);
  EXPECT_EQ(workload.operations.size(), 2U);
  EXPECT_TRUE(lower_bound_of({workload}).is_impossible);
  Workload survivor = Requests(kGib).take();
  demand_last_request(survivor);
  EXPECT_TRUE(survivor.operations.empty());
}

TEST(Search, RefusalsThatTheProgramCopedWithAndWorkspacesProveNothing) {
  Requests requests(kGib);
  requests.allocate(100 * kMib);
  for (int index = 0; index < 20; ++index) requests.allocate_workspace(90 * kMib);
  requests.refuse(2 * kGib);
  requests.allocate(100 * kMib);
  const Bound bound = lower_bound_of({requests.take()});
  EXPECT_FALSE(bound.is_impossible);
  EXPECT_EQ(bound.needed_bytes, 202 * kMib);  // 1024 bytes more than 200 MiB, in pages
}

TEST(Search, AStopLeavesOutWhatHasNotBegun) {
  const std::atomic<bool> stop{true};
  EXPECT_TRUE(try_all({pinned_segments()}, make_grid("", false), 2, stop, quiet).empty());
}

}  // namespace
}  // namespace drydock::tune
