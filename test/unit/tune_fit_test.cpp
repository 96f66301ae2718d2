#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tune/fit.h"

namespace drydock::tune {
namespace {

TEST(FitSearch, FindsEveryLimitOfEveryRangeAndTriesNoValueTwice) {
  for (int64_t last = 1; last <= 40; ++last) {
    for (int64_t limit = 0; limit <= last; ++limit) {
      FitSearch search(1, last);
      std::map<int64_t, int> tried;
      while (const auto value = search.next()) {
        ASSERT_GE(*value, 1);
        ASSERT_LE(*value, last);
        ASSERT_EQ(tried[*value]++, 0) << *value << " of 1.." << last << " with limit " << limit;
        const int left = search.most_left();
        ASSERT_GE(left, 1);
        search.tell(*value, *value <= limit);
        ASSERT_LT(search.most_left(), left) << "a bound that does not fall is none";
      }
      if (limit == 0)
        EXPECT_FALSE(search.best());
      else
        EXPECT_EQ(search.best(), limit);
    }
  }
}

TEST(FitSearch, TakesFewRunsForALargeRange) {
  FitSearch search(1, 128);
  int runs = 0;
  for (; const auto value = search.next(); ++runs) search.tell(*value, *value <= 37);
  EXPECT_EQ(search.best(), 37);
  EXPECT_EQ(search.too_large(), 38);
  EXPECT_LE(runs, 12);
}

TEST(FitSearch, ReadsRanges) {
  EXPECT_EQ(parse_range("1..128"), std::pair(int64_t{1}, int64_t{128}));
  EXPECT_EQ(parse_range("8..8"), std::pair(int64_t{8}, int64_t{8}));
  for (const char* wrong : {"", "1", "..", "1..99999999999999999999", "1..4294967296", "1..", "..4", "4..1", "0..4",
                            "-1..4", "1..x", "1...4", "1..4 "})
    EXPECT_FALSE(parse_range(wrong)) << wrong;
}

// Memory is what the weights take and so much for each unit of the value.
TEST(FitSearch, GuessesFromMarginsWhereMemoryGrowsEvenly) {
  for (int64_t limit = 3; limit <= 128; ++limit) {
    FitSearch search(1, 128);
    constexpr int64_t kEach = 1000;
    const int64_t room = limit * kEach + kEach / 2;
    int runs = 0;
    for (; const auto value = search.next(); ++runs) search.tell(*value, *value <= limit, room - *value * kEach);
    EXPECT_EQ(search.best(), limit);
    EXPECT_LE(runs, 4) << "the first two, the guess, and the one above it; limit " << limit;
  }
}

TEST(FitSearch, FindsTheLimitWhateverTheMarginsSay) {
  uint64_t chance = 1;
  for (int round = 0; round < 20000; ++round) {
    const auto random = [&] { return chance = chance * 6364136223846793005U + 1442695040888963407U, chance >> 33; };
    const int64_t last = 1 + static_cast<int64_t>(random() % 300);
    const int64_t limit = 1 + static_cast<int64_t>(random() % static_cast<uint64_t>(last));
    FitSearch search(1, last);
    std::map<int64_t, int> tried;
    std::vector<int> foretold;
    while (const auto value = search.next()) {
      ASSERT_EQ(tried[*value]++, 0);
      ASSERT_LE(*value, last);
      foretold.push_back(search.most_left());
      search.tell(*value, *value <= limit, static_cast<int64_t>(random() % 1000) - 100);
    }
    for (size_t run = 0; run < foretold.size(); ++run)
      ASSERT_LE(foretold.size() - run, static_cast<size_t>(foretold[run])) << "more runs than were foretold";
    ASSERT_EQ(search.best(), limit);
  }
}

TEST(FitSearch, ChecksLargerValuesAndSaysWhereOneFits) {
  FitSearch search(1, 128);
  while (const auto value = search.next()) search.tell(*value, *value <= 5);
  ASSERT_EQ(search.next_check(), 128);
  search.tell(128, false);
  ASSERT_EQ(search.next_check(), 27) << "between 6 and 128, as factors go";
  EXPECT_TRUE(search.is_monotone());
  search.tell(27, true);
  EXPECT_FALSE(search.is_monotone());
  EXPECT_EQ(search.best(), 27);
  EXPECT_EQ(search.too_large(), 6);
  EXPECT_FALSE(search.next());
  EXPECT_FALSE(search.next_check());

  FitSearch all_fit(1, 8);
  while (const auto value = all_fit.next()) all_fit.tell(*value, true);
  EXPECT_FALSE(all_fit.next_check());
}

}  // namespace
}  // namespace drydock::tune
