#include <random>
#include <unordered_map>

#include <gtest/gtest.h>

#include "ledger/flat_table.h"

namespace drydock::ledger {
namespace {

TEST(FlatTable, AgreesWithTheStandardMapOverRandomInsertionsAndRemovals) {
  FlatTable<uint32_t> table;
  std::unordered_map<uint64_t, uint32_t> expected;
  std::mt19937_64 random(7);
  for (uint32_t turn = 0; turn < 200'000; ++turn) {
    // Few keys, so that removals hit, in steps of 512 like addresses of blocks.
    const uint64_t key = random() % 3000 * 512;
    if (random() % 2 == 0) {
      table[key] = turn;
      expected[key] = turn;
    } else {
      EXPECT_EQ(table.erase(key), expected.erase(key) == 1);
    }
    ASSERT_EQ(table.size(), expected.size());
  }
  for (uint64_t key = 0; key < 3000 * 512; key += 512) {
    const uint32_t* value = table.find(key);
    const auto found = expected.find(key);
    ASSERT_EQ(value != nullptr, found != expected.end()) << key;
    if (value != nullptr) {
      EXPECT_EQ(*value, found->second);
    }
  }
  size_t visited = 0;
  table.for_each([&](uint64_t key, uint32_t value) {
    ++visited;
    EXPECT_EQ(expected.at(key), value);
  });
  EXPECT_EQ(visited, expected.size());
}

TEST(FlatTable, AnEmptyTableFindsAndErasesNothing) {
  FlatTable<int> table;
  EXPECT_EQ(table.find(1), nullptr);
  EXPECT_FALSE(table.erase(1));
  table[1] = 5;
  table.clear();
  EXPECT_EQ(table.find(1), nullptr);
  EXPECT_TRUE(table.empty());
}

}  // namespace
}  // namespace drydock::ledger
