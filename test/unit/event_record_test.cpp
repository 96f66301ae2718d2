#include <chrono>
#include <set>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "device/context.h"
#include "device/event.h"
#include "device/notify.h"
#include "device/stream.h"

namespace drydock::device {
namespace {

class EventRecord : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(set_device(0).is_ok());
    ASSERT_TRUE(create_stream("test", 0, 0, stream_).is_ok());
    ASSERT_TRUE(create_stream("test", 0, 0, other_).is_ok());
  }
  void TearDown() override { ASSERT_TRUE(reset_device(0, true).is_ok()); }

  static Event& make(EventKind kind, uint32_t flags) {
    void* handle = nullptr;
    EXPECT_TRUE(create_event("test", kind, flags, handle).is_ok());
    Event* event = nullptr;
    EXPECT_TRUE(find_event("test", handle, event).is_ok());
    return *event;
  }

  Stream* stream_ = nullptr;
  Stream* other_ = nullptr;
};

TEST_F(EventRecord, AnEventThatWasNeverRecordedIsCompleteOnlyIfExtended) {
  EXPECT_TRUE(make(EventKind::kExtended, kEventSync).is_recorded());
  EXPECT_FALSE(make(EventKind::kWithFlag, kEventSync).is_recorded());
  EXPECT_FALSE(make(EventKind::kPlain, 0).is_recorded());
}

TEST_F(EventRecord, AWaitForAnExtendedEventThatWasNeverRecordedIsNoWait) {
  Event& event = make(EventKind::kExtended, kEventSync);
  ASSERT_TRUE(event.wait("test", *stream_).is_ok());
  EXPECT_TRUE(stream_->is_complete());
}

TEST_F(EventRecord, AWaitForAResettableEventWaitsForTheRecordToCome) {
  Event& event = make(EventKind::kWithFlag, kEventSync);
  ASSERT_TRUE(event.wait("test", *other_).is_ok());
  EXPECT_FALSE(other_->is_complete());
  EXPECT_FALSE(event.is_waited_out());
  ASSERT_TRUE(event.record(*stream_).is_ok());
  EXPECT_TRUE(other_->is_complete());
  EXPECT_TRUE(event.is_waited_out());
  EXPECT_TRUE(event.is_recorded());
}

TEST_F(EventRecord, ResetGoesBackToNeverRecorded) {
  Event& event = make(EventKind::kWithFlag, kEventSync);
  ASSERT_TRUE(event.record(*stream_).is_ok());
  ASSERT_TRUE(event.reset("test", *stream_).is_ok());
  EXPECT_FALSE(event.is_recorded());
  ASSERT_TRUE(event.wait("test", *other_).is_ok());
  EXPECT_FALSE(other_->is_complete());
  ASSERT_TRUE(event.record(*stream_).is_ok());
  EXPECT_TRUE(event.is_recorded());
  EXPECT_TRUE(other_->is_complete());
}

TEST_F(EventRecord, OnlyResettableEventsCanBeReset) {
  EXPECT_EQ(make(EventKind::kExtended, kEventSync).reset("test", *stream_).code(), 107000);
  EXPECT_EQ(make(EventKind::kPlain, 0).reset("test", *stream_).code(), 107000);
  EXPECT_EQ(make(EventKind::kWithFlag, kEventTimeLine).reset("test", *stream_).code(), 107000);
}

TEST_F(EventRecord, WaitingNeedsTheSyncFlag) {
  EXPECT_EQ(make(EventKind::kExtended, kEventCaptureProgress).wait("test", *stream_).code(), 107000);
  EXPECT_TRUE(make(EventKind::kWithFlag, kEventDefault).wait("test", *stream_).is_ok());
  EXPECT_TRUE(make(EventKind::kPlain, 0).wait("test", *stream_).is_ok());
}

TEST_F(EventRecord, DestroyingAnEventThatWillNeverBeRecordedLetsItsWaitersGo) {
  void* handle = nullptr;
  ASSERT_TRUE(create_event("test", EventKind::kWithFlag, kEventSync, handle).is_ok());
  Event* event = nullptr;
  ASSERT_TRUE(find_event("test", handle, event).is_ok());
  ASSERT_TRUE(event->wait("test", *stream_).is_ok());
  EXPECT_FALSE(stream_->is_complete());
  ASSERT_TRUE(destroy_event("test", handle).is_ok());
  EXPECT_TRUE(stream_->is_complete());
}

TEST_F(EventRecord, ElapsedTimeIsMillisecondsOfTheDevicesClock) {
  Event& start = make(EventKind::kExtended, kEventSync | kEventTimeLine);
  Event& end = make(EventKind::kExtended, kEventSync | kEventTimeLine);
  ASSERT_TRUE(start.record(*stream_).is_ok());
  const auto slept = std::chrono::milliseconds(30);
  std::this_thread::sleep_for(slept);
  ASSERT_TRUE(end.record(*stream_).is_ok());
  float elapsed = 0;
  ASSERT_TRUE(elapsed_ms("test", start, end, elapsed).is_ok());
  EXPECT_GE(elapsed, 30.0F);
  EXPECT_LT(elapsed, 3000.0F);
  const Status swapped = elapsed_ms("test", end, start, elapsed);
  EXPECT_EQ(swapped.code(), 107007);
  EXPECT_NE(swapped.message().find("swapped"), std::string::npos);
}

TEST_F(EventRecord, TimesNeedARecordAndTheTimeLineFlag) {
  Event& timed = make(EventKind::kExtended, kEventSync | kEventTimeLine);
  Event& untimed = make(EventKind::kExtended, kEventSync);
  uint64_t time_ns = 0;
  EXPECT_EQ(timed.time_ns("test", time_ns).code(), 107006);
  ASSERT_TRUE(untimed.record(*stream_).is_ok());
  EXPECT_EQ(untimed.time_ns("test", time_ns).code(), 107006);
  ASSERT_TRUE(timed.record(*stream_).is_ok());
  ASSERT_TRUE(timed.time_ns("test", time_ns).is_ok());
  EXPECT_LE(time_ns, device_now_ns());
}

TEST_F(EventRecord, ARecordOnAStreamThatRefusesItNeverWas) {
  Event& event = make(EventKind::kExtended, kEventSync | kEventTimeLine);
  ASSERT_TRUE(destroy_stream("test", other_->handle(), true).is_ok());
  EXPECT_EQ(event.record(*other_).code(), 107003);
  uint64_t time_ns = 0;
  EXPECT_EQ(event.time_ns("test", time_ns).code(), 107006);
  EXPECT_TRUE(event.synchronize(1000).is_ok()) << "nothing to wait for";
}

TEST_F(EventRecord, UnknownAndUnmodelledFlagsAreRefused) {
  void* handle = nullptr;
  EXPECT_EQ(create_event("test", EventKind::kExtended, 0x100, handle).code(), 107000);
  EXPECT_EQ(create_event("test", EventKind::kExtended, kEventIpc, handle).code(), 200001);
  EXPECT_EQ(create_event("test", EventKind::kWithFlag, kEventExternal, handle).code(), 200001);
}

TEST_F(EventRecord, HandlesAreToldApart) {
  Event* event = nullptr;
  int on_the_stack = 0;
  EXPECT_EQ(find_event("test", nullptr, event).code(), 107000);
  EXPECT_EQ(find_event("test", &on_the_stack, event).code(), 107000);
  EXPECT_EQ(find_event("test", stream_->handle(), event).code(), 107000);
  void* handle = nullptr;
  ASSERT_TRUE(create_event("test", EventKind::kExtended, kEventSync, handle).is_ok());
  EXPECT_EQ(find_event("test", static_cast<char*>(handle) + 8, event).code(), 107000);
  ASSERT_TRUE(destroy_event("test", handle).is_ok());
  const Status stale = find_event("test", handle, event);
  EXPECT_EQ(stale.code(), 107000);
  EXPECT_NE(stale.message().find("destroyed before"), std::string::npos);
}

TEST_F(EventRecord, LiveHandlesDifferAndDestroyedEventsAreReused) {
  std::set<void*> live;
  for (int count = 0; count < 1000; ++count) {
    void* handle = nullptr;
    ASSERT_TRUE(create_event("test", EventKind::kExtended, kEventSync, handle).is_ok());
    EXPECT_TRUE(live.insert(handle).second);
  }
  const size_t before = event_count();
  for (void* handle : live) ASSERT_TRUE(destroy_event("test", handle).is_ok());
  EXPECT_EQ(event_count(), before - 1000);
}

TEST_F(EventRecord, OneRecordOfANotifyFeedsOneWait) {
  void* handle = nullptr;
  ASSERT_TRUE(create_notify("test", 0, handle).is_ok());
  Notify* notify = nullptr;
  ASSERT_TRUE(find_notify("test", handle, notify).is_ok());
  ASSERT_TRUE(notify->wait_and_reset(*other_).is_ok());
  EXPECT_FALSE(other_->is_complete());
  ASSERT_TRUE(notify->record(*stream_).is_ok());
  EXPECT_TRUE(other_->is_complete());
  ASSERT_TRUE(notify->wait_and_reset(*other_).is_ok());
  EXPECT_FALSE(other_->is_complete()) << "the first wait took the flag down";
  ASSERT_TRUE(notify->record(*stream_).is_ok());
  EXPECT_TRUE(other_->is_complete());
  ASSERT_TRUE(notify->record(*stream_).is_ok());
  ASSERT_TRUE(notify->record(*stream_).is_ok());
  ASSERT_TRUE(notify->wait_and_reset(*other_).is_ok());
  EXPECT_TRUE(other_->is_complete()) << "recorded before the wait";
  ASSERT_TRUE(notify->wait_and_reset(*other_).is_ok());
  EXPECT_FALSE(other_->is_complete()) << "two records before a wait are one";
  ASSERT_TRUE(destroy_notify("test", handle).is_ok());
  EXPECT_TRUE(other_->is_complete()) << "destroying it lets its waiters go";
  EXPECT_EQ(find_notify("test", handle, notify).code(), 107000);
}

}  // namespace
}  // namespace drydock::device
