#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "base/recent_error.h"

namespace drydock {
namespace {

TEST(RecentError, IsEmptyBeforeAnythingFails) {
  std::thread([] {
    EXPECT_STREQ(peek_recent_error(), "");
    EXPECT_STREQ(take_recent_error(), "");
  }).join();
}

TEST(RecentError, IsTakenOnce) {
  set_recent_error("first");
  set_recent_error("second");
  EXPECT_STREQ(peek_recent_error(), "second");
  EXPECT_STREQ(take_recent_error(), "second");
  EXPECT_STREQ(take_recent_error(), "");
  EXPECT_STREQ(peek_recent_error(), "");
}

TEST(RecentError, TakenTextOutlivesTheNextFailure) {
  set_recent_error(std::string(100, 'a'));
  const char* taken = take_recent_error();
  set_recent_error(std::string(100, 'b'));
  EXPECT_EQ(taken, std::string(100, 'a'));
}

TEST(RecentError, BelongsToItsThread) {
  set_recent_error("of the main thread");
  std::thread([] {
    EXPECT_STREQ(peek_recent_error(), "");
    set_recent_error("of the other");
  }).join();
  EXPECT_STREQ(take_recent_error(), "of the main thread");
}

}  // namespace
}  // namespace drydock
