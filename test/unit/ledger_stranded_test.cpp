#include <gtest/gtest.h>

#include "ledger/stranded.h"

namespace drydock::ledger {
namespace {

TEST(Stranded, FreeBytesBesideLiveBlocksAreStrandedAndOthersAreIdle) {
  const Stranded found = find_stranded({{1000, 100}, {2000, 50}, {3000, 40}, {4000, 10}},
                                       {{3030, 10, 7}, {1010, 20, 7}, {1060, 10, 8}, {4000, 10, 9}, {9000, 5, 9}});
  EXPECT_EQ(found.segments, 2U);
  EXPECT_EQ(found.bytes, 70U + 30U);
  EXPECT_EQ(found.largest_hole_bytes, 30U);  // 1030 to 1060, 1070 to 1100, 3000 to 3030
  EXPECT_EQ(found.idle_bytes, 50U);
  ASSERT_EQ(found.pins.size(), 2U);
  EXPECT_EQ(found.pins[0].line, 7U);
  EXPECT_EQ(found.pins[0].blocks, 2U);
  EXPECT_EQ(found.pins[0].held_bytes, 30U);
  EXPECT_EQ(found.pins[0].stranded_bytes, 46U + 30U);  // two thirds of 70, all of 30
  EXPECT_EQ(found.pins[1].line, 8U);
  EXPECT_EQ(found.pins[1].stranded_bytes, 23U);
}

TEST(Stranded, NothingIsStrandedWhereNothingIs) {
  EXPECT_EQ(find_stranded({}, {}).bytes, 0U);
  EXPECT_EQ(find_stranded({}, {{10, 5, 1}}).segments, 0U);
  EXPECT_EQ(find_stranded({{10, 5}}, {{10, 5, 1}}).segments, 0U);
  EXPECT_EQ(find_stranded({{10, 5}}, {}).idle_bytes, 5U);
}

}  // namespace
}  // namespace drydock::ledger
