#include <cstdint>
#include <thread>

#include <gtest/gtest.h>

#include "abi/generated/entries.h"
#include "device/context.h"

namespace drydock::entries {
namespace {

constexpr uint32_t kSync = 1;
constexpr uint32_t kProgress = 2;
constexpr uint32_t kTimeLine = 8;

class EventEntries : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(device::set_device(0).is_ok());
    ASSERT_TRUE(aclrtCreateStream(&stream_).is_ok());
    ASSERT_TRUE(aclrtCreateStream(&other_).is_ok());
  }
  void TearDown() override { ASSERT_TRUE(device::reset_device(0, true).is_ok()); }

  static int32_t recorded(void* event) {
    int32_t status = -1;
    EXPECT_TRUE(aclrtQueryEventStatus(event, &status).is_ok());
    return status;
  }
  static int32_t waited(void* event) {
    int32_t status = -1;
    EXPECT_TRUE(aclrtQueryEventWaitStatus(event, &status).is_ok());
    return status;
  }

  void* stream_ = nullptr;
  void* other_ = nullptr;
};

TEST_F(EventEntries, StatusConstantsDisagreeAsTheVendorsDo) {
  void* event = nullptr;
  ASSERT_TRUE(aclrtCreateEventWithFlag(&event, kSync).is_ok());
  EXPECT_EQ(recorded(event), 0) << "record status: not ready is 0";
  EXPECT_EQ(waited(event), 0) << "wait status: complete is 0";
  ASSERT_TRUE(aclrtStreamWaitEvent(other_, event).is_ok());
  EXPECT_EQ(waited(event), 1);
  ASSERT_TRUE(aclrtRecordEvent(event, stream_).is_ok());
  EXPECT_EQ(recorded(event), 1);
  EXPECT_EQ(waited(event), 0);
  ASSERT_TRUE(aclrtResetEvent(event, stream_).is_ok());
  EXPECT_EQ(recorded(event), 0);
  EXPECT_TRUE(aclrtDestroyEvent(event).is_ok());
}

TEST_F(EventEntries, ExtendedEventsAreRecordedAgainAndHaveNeitherResetNorWaitStatus) {
  void* event = nullptr;
  ASSERT_TRUE(aclrtCreateEventExWithFlag(&event, kSync | kTimeLine).is_ok());
  EXPECT_EQ(recorded(event), 1);
  ASSERT_TRUE(aclrtRecordEvent(event, stream_).is_ok());
  ASSERT_TRUE(aclrtRecordEvent(event, other_).is_ok());
  EXPECT_TRUE(aclrtSynchronizeEvent(event).is_ok());
  EXPECT_EQ(aclrtResetEvent(event, stream_).code(), 107000);
  int32_t status = -1;
  const Status refused = aclrtQueryEventWaitStatus(event, &status);
  EXPECT_EQ(refused.code(), 107000);
  EXPECT_NE(refused.message().find("aclrtCreateEventExWithFlag"), std::string::npos);
}

TEST_F(EventEntries, TheEventThatTracksProgressIsQueriedNotWaitedFor) {
  void* event = nullptr;
  ASSERT_TRUE(aclrtCreateEventExWithFlag(&event, kProgress).is_ok());
  ASSERT_TRUE(aclrtRecordEvent(event, stream_).is_ok());
  EXPECT_EQ(recorded(event), 1);
  EXPECT_EQ(aclrtStreamWaitEvent(other_, event).code(), 107000);
}

TEST_F(EventEntries, AnEventBehindPendingWorkIsNotComplete) {
  void* obstacle = nullptr;
  void* event = nullptr;
  ASSERT_TRUE(aclrtCreateEventWithFlag(&obstacle, kSync).is_ok());
  ASSERT_TRUE(aclrtCreateEventExWithFlag(&event, kProgress).is_ok());
  ASSERT_TRUE(aclrtStreamWaitEvent(stream_, obstacle).is_ok());
  ASSERT_TRUE(aclrtRecordEvent(event, stream_).is_ok());
  EXPECT_EQ(recorded(event), 0);
  EXPECT_EQ(aclrtSynchronizeEventWithTimeout(event, 10).code(), 507047);
  ASSERT_TRUE(aclrtRecordEvent(obstacle, other_).is_ok());
  EXPECT_EQ(recorded(event), 1);
}

TEST_F(EventEntries, SynchronizeWorksFromAnotherThread) {
  void* event = nullptr;
  ASSERT_TRUE(aclrtCreateEventExWithFlag(&event, kSync).is_ok());
  ASSERT_TRUE(aclrtRecordEvent(event, stream_).is_ok());
  std::thread([&] { EXPECT_TRUE(aclrtSynchronizeEvent(event).is_ok()); }).join();
}

TEST_F(EventEntries, TimesComeInMillisecondsAndMicroseconds) {
  void* start = nullptr;
  void* end = nullptr;
  ASSERT_TRUE(aclrtCreateEventExWithFlag(&start, kSync | kTimeLine).is_ok());
  ASSERT_TRUE(aclrtCreateEvent(&end).is_ok());
  ASSERT_TRUE(aclrtRecordEvent(start, stream_).is_ok());
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  ASSERT_TRUE(aclrtRecordEvent(end, stream_).is_ok());
  float elapsed = 0;
  ASSERT_TRUE(aclrtEventElapsedTime(&elapsed, start, end).is_ok());
  uint64_t start_us = 0;
  uint64_t end_us = 0;
  ASSERT_TRUE(aclrtEventGetTimestamp(start, &start_us).is_ok());
  ASSERT_TRUE(aclrtEventGetTimestamp(end, &end_us).is_ok());
  EXPECT_GE(elapsed, 20.0F);
  EXPECT_NEAR(static_cast<double>(end_us - start_us), elapsed * 1000.0, 2.0);
  EXPECT_EQ(aclrtEventElapsedTime(&elapsed, end, start).code(), 107007);
}

TEST_F(EventEntries, BadArgumentsGetACodeAndASentence) {
  int local = 0;
  void* event = nullptr;
  ASSERT_TRUE(aclrtCreateEventExWithFlag(&event, kSync).is_ok());
  EXPECT_EQ(aclrtCreateEvent(nullptr).code(), 100000);
  EXPECT_EQ(aclrtCreateEventExWithFlag(nullptr, kSync).code(), 100000);
  EXPECT_EQ(aclrtRecordEvent(nullptr, stream_).code(), 107000);
  EXPECT_EQ(aclrtRecordEvent(stream_, stream_).message(), "aclrtRecordEvent: the handle is not that of an event.");
  EXPECT_EQ(aclrtRecordEvent(event, event).message(), "aclrtRecordEvent: the handle is not that of a stream.");
  EXPECT_EQ(aclrtStreamWaitEvent(&local, event).code(), 107000);
  EXPECT_EQ(aclrtQueryEventStatus(event, nullptr).code(), 100000);
  EXPECT_EQ(aclrtEventElapsedTime(nullptr, event, event).code(), 100000);
  float elapsed = 0;
  EXPECT_EQ(aclrtEventElapsedTime(&elapsed, event, event).code(), 107006);
  EXPECT_EQ(aclrtEventGetTimestamp(event, nullptr).code(), 100000);
  EXPECT_EQ(aclrtSynchronizeEventWithTimeout(event, 0).code(), 107000);
  ASSERT_TRUE(aclrtDestroyEvent(event).is_ok());
  EXPECT_EQ(aclrtDestroyEvent(event).message(), "aclrtDestroyEvent: the event was destroyed before.");
  EXPECT_EQ(aclrtSynchronizeEvent(event).code(), 107000);
}

TEST(EventEntriesWithoutContext, CreationIsRefusedUntilADeviceIsSet) {
  void* event = nullptr;
  EXPECT_EQ(aclrtCreateEventExWithFlag(&event, kSync).code(), 107002);
}

}  // namespace
}  // namespace drydock::entries
