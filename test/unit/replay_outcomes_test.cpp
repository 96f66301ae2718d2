#include <algorithm>
#include <cstddef>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "replay/settings.h"
#include "replay/simulate.h"
#include "replay/workload.h"

namespace drydock::replay {
namespace {

Settings settings_of(const std::string& text, Policy policy) {
  Settings settings;
  const Status status = parse_settings(text, policy, settings);
  EXPECT_TRUE(status.is_ok()) << text << ": " << status.message();
  return settings;
}

Outcome outcome_of(Outcomes& outcomes, const Settings& settings) {
  bool was_replayed = false;
  return outcomes.of(settings, was_replayed);
}

// Blocks of all sizes on a device that they nearly fill, given back in any order.
Workload random_workload(uint64_t seed, bool waits) {
  std::mt19937_64 random(seed);
  Workload load;
  load.streams = 2;
  load.total_bytes = (100 + random() % 300) * 2 * kMib;
  std::vector<uint32_t> held;
  std::vector<uint32_t> waiting;
  std::vector<uint16_t> streams;
  for (uint32_t step = 0; step < 800; ++step) {
    const uint64_t dice = random() % 100;
    if (dice < 50 || held.empty()) {
      const int bits = static_cast<int>(random() % 27);
      streams.push_back(static_cast<uint16_t>(random() % 2));
      load.operations.push_back({(uint64_t{1} << bits) + random() % (uint64_t{1} << bits), load.slots, streams.back(),
                                 OperationKind::kAllocate, 0});
      held.push_back(load.slots++);
    } else if (dice < 98 || !waits) {
      const size_t index = random() % held.size();
      load.operations.push_back({0, held[index], streams[held[index]], OperationKind::kFree, 0});
      held[index] = held.back();
      held.pop_back();
    } else {
      load.operations.push_back({0, held.back(), streams[held.back()], OperationKind::kFreeLater, 0});
      waiting.push_back(held.back());
      held.pop_back();
    }
    if (!waiting.empty() && dice % 8 == 0) {
      load.operations.push_back({0, waiting.back(), 0, OperationKind::kComplete, 0});
      waiting.pop_back();
    }
    load.events.resize(load.operations.size(), 0);
  }
  return load;
}

TEST(Outcomes, AreThoseOfAReplayOfTheirOwn) {
  std::vector<std::string> texts = {"",
                                    "segment_size_mb:64",
                                    "base_addr_aligned_kb:0",
                                    "multi_stream_lazy_reclaim:True",
                                    "expandable_segments:True",
                                    "expandable_segments:True,segment_size_mb:64",
                                    "throw_on_npumalloc_oom:True",
                                    "max_non_split_rounding_mb:64"};
  for (const int size : {20, 24, 30, 40, 52, 64, 90, 128, 200, 512}) {
    texts.push_back("max_split_size_mb:" + std::to_string(size));
    texts.push_back("max_split_size_mb:" + std::to_string(size) + ",max_non_split_rounding_mb:40");
    texts.push_back("max_split_size_mb:" + std::to_string(size) +
                    ",garbage_collection_threshold:0.6,per_process_memory_fraction:0.9");
  }
  for (const char* fraction : {"0.05", "0.2", "0.4", "0.6", "0.8", "0.9", "0.99", "1"}) {
    texts.push_back(std::string("per_process_memory_fraction:") + fraction);
    texts.push_back(std::string("throw_on_npumalloc_oom:True,per_process_memory_fraction:") + fraction);
    for (const char* threshold : {"0.1", "0.3", "0.5", "0.7", "0.9"}) {
      const std::string collected =
          std::string("garbage_collection_threshold:") + threshold + ",per_process_memory_fraction:" + fraction;
      texts.push_back(collected);
      texts.push_back(collected + ",multi_stream_lazy_reclaim:True");
    }
  }
  size_t replays = 0;
  for (uint64_t seed = 1; seed <= 24; ++seed) {
    const Workload load = random_workload(seed, seed % 2 == 0);
    Outcomes outcomes(load);
    std::mt19937_64 random(seed);
    std::shuffle(texts.begin(), texts.end(), random);
    for (const std::string& text : texts) {
      const Settings settings = settings_of(text, Policy::kNpu);
      ASSERT_EQ(outcome_of(outcomes, settings), simulate(load, settings)) << "seed " << seed << ", " << text;
    }
    EXPECT_LT(outcomes.replays(), texts.size());
    replays += outcomes.replays();
  }
  RecordProperty("replays", static_cast<int>(replays));
  RecordProperty("settings", static_cast<int>(24 * texts.size()));
}

TEST(Outcomes, TellLargeThresholdsFromSmallOnes) {
  Workload load;
  load.total_bytes = 1024 * kMib;
  load.slots = 2;
  load.operations = {{100 * kMib, 0, 0, OperationKind::kAllocate, 0},
                     {0, 0, 0, OperationKind::kFree, 0},
                     {30 * kMib, 1, 0, OperationKind::kAllocate, 0}};
  load.events = {0, 1, 2};
  Outcomes outcomes(load);
  const uint64_t shared = outcome_of(outcomes, settings_of("", Policy::kNpu)).peak_reserved_bytes;
  EXPECT_EQ(shared, 102 * kMib);
  EXPECT_EQ(outcome_of(outcomes, settings_of("max_split_size_mb:103", Policy::kNpu)).peak_reserved_bytes, shared);
  EXPECT_EQ(outcome_of(outcomes, settings_of("max_split_size_mb:512", Policy::kNpu)).peak_reserved_bytes, shared);
  EXPECT_EQ(outcome_of(outcomes, settings_of("segment_size_mb:512", Policy::kNpu)).peak_reserved_bytes, shared);
  EXPECT_EQ(outcomes.replays(), 1U);
  EXPECT_EQ(outcome_of(outcomes, settings_of("max_split_size_mb:102", Policy::kNpu)).peak_reserved_bytes, 134 * kMib);
  EXPECT_EQ(outcomes.replays(), 2U);
}

}  // namespace
}  // namespace drydock::replay
