#include <atomic>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <string>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include "base/generated/error_codes.h"
#include "comm/connect.h"
#include "comm/meeting.h"
#include "comm/segment.h"

namespace drydock::comm {
namespace {

using ::testing::HasSubstr;
using namespace std::chrono_literals;

/// A segment for two ranks, of which this process is rank 0 and a child rank 1.
class MeetingTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(Segment::create("test", descriptor_, nonce_).is_ok()); }
  void TearDown() override { close(descriptor_); }

  /// The child attaches, does `what`, and waits to be killed.
  template <class What>
  pid_t start_rank_1(What what) {
    const pid_t child = fork();
    if (child != 0) return child;
    Segment segment;
    if (!segment.attach("test", descriptor_, nonce_, 2, 1).is_ok()) _exit(1);
    what(segment);
    pause();
    _exit(0);
  }
  void attach() {
    ASSERT_TRUE(segment_.attach("test", descriptor_, nonce_, 2, 0).is_ok());
    while (segment_.place(1).is_in.load() == 0) usleep(1000);
    segment_.watch_peers();
  }
  static void end(pid_t child) {
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
  }
  Status wait_for_rank_1(std::chrono::milliseconds limit) {
    Meeting meeting(segment_, "group", limit, stop_);
    Collective call;
    call.kind = Kind::kAllReduce;
    call.sequence = 1;
    meeting.begin(call);
    segment_.place(0).arrived.store(1);
    return meeting.wait([&](uint32_t rank) { return segment_.place(rank).arrived.load() < 1; });
  }

  int descriptor_ = -1;
  uint64_t nonce_ = 0;
  Segment segment_;
  std::atomic<bool> stop_{false};
};

TEST_F(MeetingTest, ARankThatComesIsSeen) {
  const pid_t child = start_rank_1([](Segment& segment) {
    usleep(50'000);
    segment.place(1).arrived.store(1);
    segment.announce();
  });
  attach();
  EXPECT_TRUE(wait_for_rank_1(10s).is_ok());
  end(child);
}

TEST_F(MeetingTest, OneThatDiesIsNoticedAtOnce) {
  const pid_t child = start_rank_1([](Segment&) { usleep(100'000), _exit(0); });
  attach();
  const auto begin = std::chrono::steady_clock::now();
  const Status status = wait_for_rank_1(60s);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 10s);
  EXPECT_EQ(status.code(), code::ACL_ERROR_RT_SUSPECT_REMOTE_ERROR);
  EXPECT_THAT(status.message(), HasSubstr("rank 1 (process " + std::to_string(child) + "), which has ended"));
  end(child);
}

TEST_F(MeetingTest, WhoArrivedBeforeItDiedHasArrived) {
  const pid_t child = start_rank_1([](Segment& segment) {
    segment.place(1).arrived.store(1);
    _exit(0);
  });
  attach();
  waitpid(child, nullptr, 0);
  EXPECT_TRUE(wait_for_rank_1(10s).is_ok());
}

TEST_F(MeetingTest, WaitsEndWithWhoIsMissing) {
  const pid_t child = start_rank_1([](Segment&) {});
  attach();
  const Status status = wait_for_rank_1(200ms);
  EXPECT_EQ(status.code(), code::ACL_ERROR_RT_TASK_TIMEOUT);
  EXPECT_THAT(status.message(),
              HasSubstr("all_reduce of 0 int8, sum #1 of group (an unknown line): rank 0 of group waited 0.2 s"));
  EXPECT_THAT(status.message(), HasSubstr("has made no call of this communicator"));
  end(child);
}

TEST_F(MeetingTest, AStoppedWaitEnds) {
  const pid_t child = start_rank_1([](Segment&) {});
  attach();
  stop_.store(true);
  EXPECT_EQ(wait_for_rank_1(60s).code(), code::ACL_ERROR_RT_STREAM_ABORT);
  end(child);
}

TEST_F(MeetingTest, WhatAnotherRankGaveUpOnIsTold) {
  const pid_t child = start_rank_1([](Segment& segment) {
    std::string("it ran out of patience").copy(segment.place(1).failure, 32);
    segment.place(1).has_failed.store(1);
  });
  attach();
  EXPECT_THAT(wait_for_rank_1(60s).message(), HasSubstr("gave up: it ran out of patience"));
  end(child);
}

TEST_F(MeetingTest, WorldsThatDoNotMatchAreRefused) {
  ASSERT_TRUE(segment_.attach("HcclCommInitRootInfo", descriptor_, nonce_, 2, 0).is_ok());
  Segment other;
  const Status size = other.attach("HcclCommInitRootInfo", descriptor_, nonce_, 3, 2);
  EXPECT_EQ(size.code(), code::HCCL_E_PARA);
  EXPECT_THAT(size.message(), HasSubstr("rank 2 says that there are 3 ranks, and another said 2"));
  const Status twice = other.attach("HcclCommInitRootInfo", descriptor_, nonce_, 2, 0);
  EXPECT_EQ(twice.code(), code::HCCL_E_PARA);
  EXPECT_THAT(twice.message(), HasSubstr("there is a rank 0 of 2 already"));
  EXPECT_EQ(other.attach("HcclCommInitRootInfo", descriptor_, nonce_ + 1, 2, 1).code(), code::HCCL_E_PARA);
}

TEST_F(MeetingTest, ABytesReadIsTheOtherProcesss) {
  static uint64_t value = 1;
  const pid_t child = start_rank_1([](Segment& segment) {
    value = 42;
    segment.place(1).arrived.store(1);
    segment.announce();
  });
  attach();
  ASSERT_TRUE(wait_for_rank_1(10s).is_ok());
  uint64_t read = 0;
  EXPECT_TRUE(segment_.read(1, &read, reinterpret_cast<uint64_t>(&value), sizeof read));
  EXPECT_EQ(read, 42U);
  EXPECT_EQ(value, 1U);
  EXPECT_FALSE(segment_.read(1, &read, 8, sizeof read));
  end(child);
}

TEST(RootInfoTest, ThatOfAProcessThatEndedIsRefused) {
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  std::string info(kRootInfoBytes, '\0');
  const pid_t child = fork();
  if (child == 0) {
    static_cast<void>(make_root_info("HcclGetRootInfo", info.data()).is_ok());
    static_cast<void>(!write(ends[1], info.data(), info.size()));
    _exit(0);
  }
  waitpid(child, nullptr, 0);
  ASSERT_EQ(read(ends[0], info.data(), info.size()), static_cast<ssize_t>(info.size()));
  std::shared_ptr<Communicator> joined;
  const Status status = join_root_info("HcclCommInitRootInfo", info.data(), {2, 1, 0}, {}, joined);
  EXPECT_EQ(status.code(), code::HCCL_E_REMOTE);
  EXPECT_THAT(status.message(), HasSubstr("can't be reached"));
  info[0] = 'x';
  EXPECT_EQ(join_root_info("HcclCommInitRootInfo", info.data(), {2, 1, 0}, {}, joined).code(), code::HCCL_E_PARA);
  EXPECT_EQ(join_root_info("HcclCommInitRootInfo", info.data(), {2, 2, 0}, {}, joined).code(), code::HCCL_E_PARA);
  close(ends[0]);
  close(ends[1]);
}

}  // namespace
}  // namespace drydock::comm
