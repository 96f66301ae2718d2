#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tune/fit.h"

namespace drydock::tune {
namespace {

using ::testing::ElementsAre;

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
  for (const char* wrong : {"", "1", "..", "1..", "..4", "4..1", "0..4", "-1..4", "1..x", "1...4", "1..4 "})
    EXPECT_FALSE(parse_range(wrong)) << wrong;
}

TEST(FitSearch, PutsValuesWhereTheProgramLooks) {
  const std::vector<std::string> placeholder = {"python", "train.py", "--size", "{batch}", "--name=b{batch}-{batch}"};
  EXPECT_EQ(channel_of(placeholder, "batch"), Channel::kPlaceholder);
  EXPECT_THAT(with_value(placeholder, "batch", 16), ElementsAre("python", "train.py", "--size", "16", "--name=b16-16"));
  const std::vector<std::string> option = {"python", "train.py", "--batch_size", "4", "--batch-size=2"};
  EXPECT_EQ(channel_of(option, "batch_size"), Channel::kOption);
  EXPECT_THAT(with_value(option, "batch_size", 16),
              ElementsAre("python", "train.py", "--batch_size", "16", "--batch-size=16"));
  EXPECT_EQ(channel_of(option, "batch"), Channel::kVariable) << "the beginning of a name is another name";
  EXPECT_EQ(with_value(option, "batch", 16), option);
}

}  // namespace
}  // namespace drydock::tune
