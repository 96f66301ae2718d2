#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "replay/driver.h"
#include "replay/settings.h"
#include "replay/simulate.h"
#include "replay/workload.h"
#include "replay_set_allocator.h"

// simulate() leaves two operations out where they leave everything where it is: a block that is given back at once, and
// one that is got again. Workloads that have many of both, operation by operation beside the plain allocator.

namespace drydock::replay {
namespace {

Workload pairs_workload(uint64_t seed) {
  std::mt19937_64 random(seed);
  Workload load;
  load.streams = 2;
  load.total_bytes = (40 + random() % 200) * 2 * kMib;
  std::vector<uint64_t> sizes;
  for (int index = 0; index < 12; ++index) {
    const int bits = static_cast<int>(random() % 26);
    sizes.push_back((uint64_t{1} << bits) + random() % (uint64_t{1} << bits));
  }
  struct Held {
    uint32_t slot;
    uint16_t stream;
    uint64_t bytes;
  };
  std::vector<Held> held;
  const auto allocate = [&](uint64_t bytes, uint16_t stream) {
    load.operations.push_back({bytes, load.slots, stream, OperationKind::kAllocate, 0});
    held.push_back({load.slots++, stream, bytes});
  };
  const auto free = [&](size_t index) {
    const Held one = held[index];
    load.operations.push_back({0, one.slot, one.stream, OperationKind::kFree, 0});
    held[index] = held.back();
    held.pop_back();
    return one;
  };
  while (load.operations.size() < 1200) {
    const uint64_t dice = random() % 100;
    const uint64_t bytes = sizes[random() % sizes.size()];
    const auto stream = static_cast<uint16_t>(random() % 8 == 0);
    if (dice < 35 || held.empty()) {
      allocate(bytes, stream);
    } else if (dice < 55) {
      allocate(bytes, stream);
      free(held.size() - 1);
    } else if (dice < 75) {
      const Held one = free(random() % held.size());
      // Mostly the same size and stream.
      const uint64_t change = random() % 8;
      allocate(change == 0 ? bytes : one.bytes, change == 1 ? stream : one.stream);
    } else {
      free(random() % held.size());
    }
  }
  load.events.resize(load.operations.size(), 0);
  return load;
}

void expect_as_plain(const Workload& load, const Settings& settings, const std::string& what) {
  SimulatedDriver driver(load.total_bytes, load.external_bytes);
  SetAllocator allocator(settings, driver);
  std::vector<SetAllocator::Block*> blocks(load.slots, nullptr);
  uint64_t allocated = 0;
  uint64_t peak_allocated = 0;
  uint64_t peak_reserved = 0;
  size_t done = 0;
  for (; done < load.operations.size(); ++done) {
    const Operation& operation = load.operations[done];
    SetAllocator::Block*& block = blocks[operation.slot];
    if (operation.kind == OperationKind::kFree) {
      allocated -= block->size;
      allocator.free(block);
      continue;
    }
    block = allocator.allocate(operation.bytes, operation.stream);
    if (block == nullptr) break;
    allocated += block->size;
    peak_allocated = std::max(peak_allocated, allocated);
    peak_reserved = std::max(peak_reserved, allocator.reserved());
  }
  const Outcome outcome = simulate(load, settings);
  ASSERT_EQ(outcome.operations, done) << what;
  EXPECT_EQ(outcome.fits, done == load.operations.size()) << what;
  EXPECT_EQ(outcome.peak_allocated_bytes, peak_allocated) << what;
  EXPECT_EQ(outcome.peak_reserved_bytes, peak_reserved) << what;
  EXPECT_EQ(outcome.end_reserved_bytes, allocator.reserved()) << what;
  EXPECT_EQ(outcome.driver_calls, driver.calls()) << what;
  EXPECT_EQ(outcome.free_bytes, driver.free_bytes()) << what;
}

TEST(Pairs, ComeToWhatThePlainAllocatorComesTo) {
  for (const Policy policy : {Policy::kNpu, Policy::kCuda})
    for (const char* text :
         {"", "expandable_segments:True", "large_segment_size_mb:34", "expandable_segments:True,base_addr_aligned_kb:4",
          "expandable_segments:True,segment_size_mb:64", "max_split_size_mb:40"}) {
      Settings settings;
      if (!parse_settings(text, policy, settings).is_ok()) continue;  // a key of the other policy
      for (uint64_t seed = 1; seed <= 60; ++seed) {
        expect_as_plain(pairs_workload(seed), settings, std::string(text) + ", seed " + std::to_string(seed));
        if (HasFatalFailure()) return;
      }
    }
}

class ExpandablePairs : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(parse_settings("expandable_segments:True", Policy::kNpu, settings).is_ok());
    load.total_bytes = 512 * kMib;
  }
  /// Bytes of the block, after padding and rounding.
  void allocate(uint32_t slot, uint64_t bytes) {
    load.slots = std::max(load.slots, slot + 1);
    load.operations.push_back({bytes - 32, slot, 0, OperationKind::kAllocate, 0});
  }
  void free(uint32_t slot) { load.operations.push_back({0, slot, 0, OperationKind::kFree, 0}); }
  uint64_t peak_reserved_bytes() {
    load.events.resize(load.operations.size(), 0);
    expect_as_plain(load, settings, "");
    return simulate(load, settings).peak_reserved_bytes;
  }

  Settings settings;
  Workload load;
};

// A block at the end of what is mapped can grow, so that one that cannot is taken in its place.
TEST_F(ExpandablePairs, LeaveBlocksThatCanGrowAlone) {
  allocate(0, 4 * kMib);
  allocate(1, 7 * kMib);
  allocate(2, 4 * kMib);
  allocate(3, 5 * kMib);
  free(1);
  free(3);
  allocate(4, 5 * kMib);
  allocate(5, 22 * kMib);
  allocate(6, 2 * kMib);
  EXPECT_EQ(peak_reserved_bytes(), 40 * kMib);
}

// A block that lay where no aligned one had room moves once there is some.
TEST_F(ExpandablePairs, LookForTheAlignmentAgain) {
  allocate(0, 3 * kMib / 2 + 512);
  allocate(1, 5 * kMib / 4);
  allocate(2, 5 * kMib / 4);
  allocate(3, 5 * kMib / 4);
  allocate(4, 5 * kMib / 4);
  allocate(5, 27 * kMib / 2 - 512);
  free(1);
  free(2);
  allocate(6, 5 * kMib / 2);
  free(3);
  free(6);
  allocate(7, 5 * kMib / 2);
  allocate(8, 5 * kMib / 4);
  EXPECT_EQ(peak_reserved_bytes(), 40 * kMib);
}

}  // namespace
}  // namespace drydock::replay
