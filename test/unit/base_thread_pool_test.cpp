#include <atomic>
#include <cstdlib>
#include <thread>
#include <unistd.h>
#include <vector>

#include <gtest/gtest.h>
#include <sys/wait.h>

#include "base/thread_pool.h"

namespace drydock::base {
namespace {

// Fixed at the first call of the process, so before any test.
const int forced = setenv("DRYDOCK_THREADS", "4", 1);

TEST(ThreadPool, EveryItemOnceAndNoShortRange) {
  ASSERT_EQ(thread_count(), 4);
  for (int64_t count : {0, 1, 7, 100, 1000, 12345}) {
    std::vector<std::atomic<int>> visits(static_cast<size_t>(count));
    parallel_for(count, 10, [&](int64_t begin, int64_t end) {
      EXPECT_TRUE(end - begin >= 10 || end == count);
      for (int64_t item = begin; item < end; ++item) ++visits[static_cast<size_t>(item)];
    });
    for (const auto& visit : visits) EXPECT_EQ(visit, 1);
  }
}

TEST(ThreadPool, NestedCallsRunInTheirThread) {
  std::atomic<int64_t> sum{0};
  parallel_for(64, 1, [&](int64_t begin, int64_t end) {
    for (int64_t item = begin; item < end; ++item) {
      const std::thread::id outer = std::this_thread::get_id();
      parallel_for(100, 1, [&](int64_t from, int64_t to) {
        EXPECT_EQ(std::this_thread::get_id(), outer);
        sum += to - from;
      });
    }
  });
  EXPECT_EQ(sum, 6400);
}

TEST(ThreadPool, CallersFromManyThreadsAllFinish) {
  std::vector<std::thread> callers;
  std::atomic<int64_t> sum{0};
  for (int caller = 0; caller < 4; ++caller) {
    callers.emplace_back([&] {
      for (int turn = 0; turn < 200; ++turn) {
        parallel_for(1000, 16, [&](int64_t begin, int64_t end) { sum += end - begin; });
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(sum, 4 * 200 * 1000);
}

TEST(ThreadPool, AForkedChildComputesToo) {
  parallel_for(1000, 1, [](int64_t, int64_t) {});
  const pid_t child = fork();
  if (child == 0) {
    std::atomic<int64_t> sum{0};
    parallel_for(1000, 1, [&](int64_t begin, int64_t end) { sum += end - begin; });
    _exit(sum == 1000 ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace drydock::base
