#include <map>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "ledger/holder_tally.h"

namespace drydock::ledger {
namespace {

struct Block {
  uint32_t line;
  uint32_t tally;
  uint64_t bytes;
};

// The composition at the peak, against a copy of everything at each new peak.
TEST(HolderTally, KnowsWhoHeldWhatAtTheHighestMoment) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    std::mt19937_64 random(seed);
    HolderTally tally;
    std::vector<Block> live;
    std::map<uint32_t, uint64_t> now;
    std::map<uint32_t, uint64_t> at_peak;
    uint64_t total = 0;
    uint64_t peak = 0;
    for (int turn = 0; turn < 500; ++turn) {
      if (live.empty() || random() % 5 < 3) {
        const auto line = static_cast<uint32_t>(random() % 9);
        const uint64_t bytes = 512 * (1 + random() % 100);
        live.push_back({line, tally.add(line, false, bytes), bytes});
        now[line] += bytes;
        total += bytes;
        if (total > peak) {
          peak = total;
          at_peak = now;
          tally.new_peak();
        }
      } else {
        const size_t index = random() % live.size();
        tally.remove(live[index].tally, live[index].bytes);
        now[live[index].line] -= live[index].bytes;
        total -= live[index].bytes;
        live[index] = live.back();
        live.pop_back();
      }
    }
    tally.finish();
    std::map<uint32_t, uint64_t> told;
    uint64_t told_sum = 0;
    for (const Holder& holder : tally.at_peak()) {
      told[holder.line] = holder.bytes;
      told_sum += holder.bytes;
    }
    std::erase_if(at_peak, [](const auto& entry) { return entry.second == 0; });
    EXPECT_EQ(told, at_peak) << "seed " << seed;
    EXPECT_EQ(told_sum, peak) << "seed " << seed;
  }
}

TEST(HolderTally, ListsHoldersLargestFirstAndGrowthSinceTheMark) {
  HolderTally tally;
  const uint32_t first = tally.add(1, false, 1000);
  tally.add(2, false, 3000);
  tally.add(3, true, 2000);
  tally.mark();
  tally.remove(first, 1000);
  tally.add(2, false, 500);
  tally.add(4, false, 700);
  const std::vector<Holder> now = tally.now();
  ASSERT_EQ(now.size(), 3U);
  EXPECT_EQ(now[0].line, 2U);
  EXPECT_EQ(now[0].bytes, 3500U);
  EXPECT_EQ(now[0].blocks, 2U);
  EXPECT_EQ(now[1].line, 3U);
  EXPECT_TRUE(now[1].is_workspace);
  const std::vector<Holder> grown = tally.growth_since_mark();
  ASSERT_EQ(grown.size(), 2U);
  EXPECT_EQ(grown[0].line, 4U);
  EXPECT_EQ(grown[0].bytes, 700U);
  EXPECT_EQ(grown[1].bytes, 500U);
}

}  // namespace
}  // namespace drydock::ledger
