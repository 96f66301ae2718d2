#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "replay/repeats.h"
#include "replay/settings.h"
#include "replay/simulate.h"
#include "replay/workload.h"

// Repetitions that are not replayed: whatever the workload and the settings, the outcome is that of all operations.

namespace drydock::replay {
namespace {

Settings settings_of(const std::string& text) {
  Settings settings;
  const Status status = parse_settings(text, Policy::kNpu, settings);
  EXPECT_TRUE(status.is_ok()) << text << ": " << status.message();
  return settings;
}

// Steps of the same allocations, of which some are freed one or two steps later, in numbers of blocks that differ from
// step to step. Before and after them, and now and then between them, something else.
class PeriodicProgram {
 public:
  explicit PeriodicProgram(uint64_t seed) : random_(seed) {
    load_.streams = 2;
    load_.total_bytes = (40 + random_() % 200) * 2 * kMib;
  }

  Workload make(uint32_t steps) {
    const int bits = 14 + static_cast<int>(random_() % 13);
    // Few sizes, so that blocks can stand for each other.
    const uint64_t sizes = 1 + random_() % 8;
    for (uint64_t index = 0; index < sizes; ++index) sizes_.push_back(size(bits));
    for (uint64_t each = random_() % 20; each > 0; --each) take(size());
    const std::vector<uint32_t> permanent = held_;
    const bool waits = random_() % 3 == 0;
    const bool empties = random_() % 4 == 0;
    const bool leaks = random_() % 8 == 0;
    const bool has_crossing = random_() % 2 == 0;  // blocks that outlive their step
    const bool is_disturbed = random_() % 3 == 0;
    struct Planned {
      uint64_t bytes;
      uint16_t stream;
      size_t at;       // position of its free
      uint32_t after;  // steps later
      bool is_late;    // and complete yet later
      size_t complete_at;
      uint32_t complete_after;
    };
    std::vector<Planned> plan;
    const size_t count = 1 + random_() % 60;
    for (size_t index = 0; index < count; ++index) {
      const auto after = static_cast<uint32_t>(!has_crossing || random_() % 8 < 6 ? 0 : 1 + random_() % 2);
      const size_t at = after == 0 ? index + random_() % (count - index) : random_() % count;
      plan.push_back({size(), static_cast<uint16_t>(random_() % 2), at, after, waits && random_() % 4 == 0, 0, 0});
      Planned& planned = plan.back();
      planned.complete_after = planned.after + (random_() % 3 == 0 ? 1 : 0);
      planned.complete_at = planned.complete_after == planned.after ? at + random_() % (count - at) : random_() % count;
    }
    std::vector<std::vector<uint32_t>> slots;  // by step and planned block
    for (uint32_t step = 0; step < steps; ++step) {
      slots.emplace_back();
      for (size_t index = 0; index < count; ++index) {
        slots.back().push_back(take(plan[index].bytes, plan[index].stream));
        for (size_t other = 0; other < count; ++other) {
          const Planned& planned = plan[other];
          if (leaks && other == 0) continue;
          if (planned.at == index && planned.after <= step)
            give_back(slots[step - planned.after][other], planned.is_late);
          if (planned.is_late && planned.complete_at == index && planned.complete_after <= step)
            complete(slots[step - planned.complete_after][other]);
        }
      }
      if (empties) add(OperationKind::kEmptyCache, 0, 0, 0);
      if (is_disturbed && random_() % 16 == 0) give_back(take(size()), false);
      load_.steps.push_back(static_cast<uint32_t>(load_.operations.size()));
    }
    // What lies where matters once more.
    for (int each = 0; each < 60; ++each) {
      if (random_() % 2 == 0 || held_.empty()) {
        take(size());
      } else {
        give_back(held_[random_() % held_.size()], false);
      }
    }
    load_.events.resize(load_.operations.size(), 0);
    return load_;
  }

 private:
  uint64_t size() { return sizes_[random_() % sizes_.size()]; }
  uint64_t size(int bits) {
    const uint64_t octave = uint64_t{1} << (random_() % static_cast<uint64_t>(bits));
    return octave + random_() % octave;
  }

  void add(OperationKind kind, uint64_t bytes, uint32_t slot, uint16_t stream) {
    load_.operations.push_back({bytes, slot, stream, kind, 0});
  }

  uint32_t take(uint64_t bytes) { return take(bytes, static_cast<uint16_t>(random_() % 2)); }
  uint32_t take(uint64_t bytes, uint16_t stream) {
    uint32_t slot = 0;
    if (unused_.empty()) {
      slot = load_.slots++;
    } else {
      const size_t index = random_() % unused_.size();
      slot = unused_[index];
      unused_.erase(unused_.begin() + static_cast<std::ptrdiff_t>(index));
    }
    add(OperationKind::kAllocate, bytes, slot, stream);
    held_.push_back(slot);
    return slot;
  }

  void give_back(uint32_t slot, bool is_late) {
    std::erase(held_, slot);
    add(is_late ? OperationKind::kFreeLater : OperationKind::kFree, is_late ? 1 : 0, slot, 0);
    if (!is_late) unused_.push_back(slot);
  }

  void complete(uint32_t slot) {
    add(OperationKind::kComplete, 0, slot, 0);
    unused_.push_back(slot);
  }

  std::mt19937_64 random_;
  Workload load_;
  std::vector<uint64_t> sizes_;
  std::vector<uint32_t> held_;
  std::vector<uint32_t> unused_;
};

TEST(Repeats, GiveTheOutcomeOfAllOperations) {
  const std::vector<std::string> texts = {
      "",
      "expandable_segments:True",
      "expandable_segments:True,segment_size_mb:64",
      "max_split_size_mb:20",
      "max_split_size_mb:40,garbage_collection_threshold:0.6,per_process_memory_fraction:0.9",
      "garbage_collection_threshold:0.3,per_process_memory_fraction:0.5",
      "garbage_collection_threshold:0.8,per_process_memory_fraction:0.9,multi_stream_lazy_reclaim:True",
      "multi_stream_lazy_reclaim:True",
      "per_process_memory_fraction:0.5",
      "throw_on_npumalloc_oom:True,per_process_memory_fraction:0.4",
      "roundup_power2_divisions:4",
      "large_segment_size_mb:11"};
  uint64_t operations = 0;
  uint64_t skipped_in_all = 0;
  std::vector<uint64_t> skipped_by_setting(texts.size(), 0);
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    Workload load = PeriodicProgram(seed).make(static_cast<uint32_t>(4 + seed % 40));
    const Workload plain = load;
    load.repeats = find_repeats(load);
    for (size_t index = 0; index < texts.size(); ++index) {
      const Settings settings = settings_of(texts[index]);
      uint64_t skipped = 0;
      const Outcome outcome = simulate(load, settings, &skipped);
      uint64_t skipped_without = 0;
      ASSERT_EQ(outcome, simulate(plain, settings, &skipped_without)) << "seed " << seed << ", " << texts[index];
      EXPECT_EQ(skipped_without, 0U);
      operations += outcome.operations;
      skipped_in_all += skipped;
      skipped_by_setting[index] += skipped;
    }
  }
  EXPECT_GT(skipped_in_all, operations / 5);
  for (size_t index = 0; index < texts.size(); ++index) EXPECT_GT(skipped_by_setting[index], 0U) << texts[index];
  RecordProperty("operations", std::to_string(operations));
  RecordProperty("skipped", std::to_string(skipped_in_all));
}

void add(Workload& load, OperationKind kind, uint64_t bytes, uint32_t slot) {
  load.operations.push_back({bytes, slot, 0, kind, 0});
  load.slots = std::max(load.slots, slot + 1);
}

void end_step(Workload& load) { load.steps.push_back(static_cast<uint32_t>(load.operations.size())); }

void expect_the_same(Workload load, const std::string& text) {
  load.repeats = find_repeats(load);
  ASSERT_FALSE(load.repeats.empty());
  const Outcome outcome = simulate(load, settings_of(text));
  load.repeats.clear();
  EXPECT_EQ(outcome, simulate(load, settings_of(text))) << text;
}

// Two blocks of a size change places in each step. Which is where decides what a later request finds.
TEST(Repeats, TellBlocksThatChangedPlaces) {
  for (uint32_t steps = 4; steps < 12; ++steps) {
    Workload load;
    load.total_bytes = 1024 * kMib;
    constexpr uint64_t kSize = 3 * kMib - 512;
    std::vector<uint32_t> free = {4, 5};
    uint32_t first = 0;
    uint32_t second = 1;
    add(load, OperationKind::kAllocate, kSize, first);
    add(load, OperationKind::kAllocate, kSize, second);
    add(load, OperationKind::kAllocate, 2 * kMib, 2);
    add(load, OperationKind::kAllocate, 9 * kMib, 3);
    end_step(load);
    for (uint32_t step = 0; step < steps; ++step) {
      add(load, OperationKind::kFree, 0, first);
      add(load, OperationKind::kAllocate, kSize, free[0]);
      add(load, OperationKind::kFree, 0, second);
      add(load, OperationKind::kAllocate, kSize, free[1]);
      end_step(load);
      const std::vector<uint32_t> freed = {first, second};
      second = free[0];
      first = free[1];
      free = freed;
    }
    add(load, OperationKind::kFree, 0, 2);
    add(load, OperationKind::kFree, 0, first);
    add(load, OperationKind::kAllocate, 4 * kMib, 2);
    load.events.resize(load.operations.size(), 0);
    expect_the_same(load, "");
  }
}

// A cached block that nobody wants grows older in each step, and one day older than the mean.
TEST(Repeats, TellBlocksByTheirAgeWhereGarbageIsCollected) {
  for (uint32_t steps = 4; steps < 120; steps += 5) {
    Workload load;
    load.total_bytes = 1000 * kMib;
    const auto use = [&](uint64_t mebibytes) {
      add(load, OperationKind::kAllocate, mebibytes * kMib - 64, 0);
      add(load, OperationKind::kFree, 0, 0);
    };
    use(24);
    for (int each = 0; each < 60; ++each) use(28);
    add(load, OperationKind::kAllocate, 28 * kMib - 64, 1);
    use(26);
    add(load, OperationKind::kFree, 0, 1);
    end_step(load);
    for (uint32_t step = 0; step < steps; ++step) {
      use(28);
      end_step(load);
    }
    add(load, OperationKind::kAllocate, 40 * kMib, 1);
    load.events.resize(load.operations.size(), 0);
    expect_the_same(load, "garbage_collection_threshold:0.0778,per_process_memory_fraction:0.9");
  }
}

TEST(Repeats, AreFoundWhereStepsDoTheSame) {
  Workload load;
  add(load, OperationKind::kAllocate, 700, 0);
  load.steps.push_back(1);
  for (uint32_t step = 0; step < 5; ++step) {
    const uint32_t slot = 1 + step % 2;  // the number says nothing
    add(load, OperationKind::kAllocate, step == 4 ? 901 : 900, slot);
    add(load, OperationKind::kFree, 0, slot);
    load.steps.push_back(static_cast<uint32_t>(load.operations.size()));
  }
  const std::vector<Repeat> repeats = find_repeats(load);
  ASSERT_EQ(repeats.size(), 1U);
  EXPECT_EQ(repeats[0].begin, 1U);
  EXPECT_EQ(repeats[0].length, 2U);
  EXPECT_EQ(repeats[0].count, 4U);
}

TEST(Repeats, AreNoneWhereOtherBlocksAreMeant) {
  Workload load;
  for (uint32_t slot = 0; slot < 6; ++slot) add(load, OperationKind::kAllocate, 700, slot);
  load.steps.push_back(6);
  // The same requests in each step, but ever another of the first blocks goes.
  for (uint32_t step = 0; step < 6; ++step) {
    add(load, OperationKind::kAllocate, 900, 6 + step);
    add(load, OperationKind::kFree, 0, step % 2 == 0 ? step : 6 + step);
    load.steps.push_back(static_cast<uint32_t>(load.operations.size()));
  }
  EXPECT_TRUE(find_repeats(load).empty());
}

}  // namespace
}  // namespace drydock::replay
