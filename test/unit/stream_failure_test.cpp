#include <future>

#include <gtest/gtest.h>

#include "device/callback.h"
#include "device/context.h"
#include "device/last_error.h"
#include "device/stream.h"

namespace drydock::device {
namespace {

constexpr int32_t kVectorCoreException = 507035;

Status fail() { return Status::error(kVectorCoreException, "the kernel read past its tensor"); }

class StreamFailure : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(set_device(0).is_ok());
    ASSERT_TRUE(create_stream("test", 0, 0, stream_).is_ok());
    set_last_error(0);
  }
  void TearDown() override {
    ASSERT_TRUE(reset_device(0, true).is_ok());
    set_last_error(0);
  }

  Stream* stream_ = nullptr;
};

TEST_F(StreamFailure, TheLaunchSucceedsAndSynchronizeTells) {
  EXPECT_TRUE(stream_->submit(fail).is_ok());
  EXPECT_EQ(last_error(), 0);
  const Status status = stream_->synchronize();
  EXPECT_EQ(status.code(), kVectorCoreException);
  EXPECT_EQ(status.message(), "the kernel read past its tensor");
  EXPECT_EQ(last_error(), kVectorCoreException) << "a fault of the device is pending on the thread that saw it";
}

TEST_F(StreamFailure, AStreamThatContinuesRunsWhatComesAfterAndTellsOnce) {
  bool ran = false;
  EXPECT_TRUE(stream_->submit(fail).is_ok());
  EXPECT_TRUE(stream_
                  ->submit([&] {
                    ran = true;
                    return Status::ok();
                  })
                  .is_ok());
  EXPECT_TRUE(ran);
  EXPECT_EQ(stream_->synchronize().code(), kVectorCoreException);
  EXPECT_TRUE(stream_->synchronize().is_ok());
}

TEST_F(StreamFailure, AStreamThatStopsRunsNothingMoreUntilItIsAborted) {
  bool ran = false;
  const auto work = [&] {
    ran = true;
    return Status::ok();
  };
  set_failure_mode(*stream_, FailureMode::kStop);
  EXPECT_TRUE(stream_->submit(fail).is_ok());
  const Status refused = stream_->submit(work);
  EXPECT_EQ(refused.code(), kVectorCoreException);
  EXPECT_NE(refused.message().find("the kernel read past its tensor"), std::string::npos) << refused.message();
  EXPECT_EQ(stream_->synchronize().code(), kVectorCoreException);
  EXPECT_EQ(stream_->synchronize().code(), kVectorCoreException);
  EXPECT_FALSE(ran);
  stream_->abort();
  EXPECT_TRUE(stream_->synchronize().is_ok());
  EXPECT_TRUE(stream_->submit(work).is_ok());
  EXPECT_TRUE(ran);
}

TEST_F(StreamFailure, WhatIsPendingBehindAFailureIsDropped) {
  set_failure_mode(*stream_, FailureMode::kStop);
  std::promise<void> open;
  std::shared_future<void> opened{open.get_future()};
  ASSERT_TRUE(launch_host_function(
                  "test", *stream_, [](void* gate) { static_cast<std::shared_future<void>*>(gate)->wait(); }, &opened)
                  .is_ok());
  bool ran = false;
  ASSERT_TRUE(stream_->submit(fail).is_ok());
  ASSERT_TRUE(stream_
                  ->submit([&] {
                    ran = true;
                    return Status::ok();
                  })
                  .is_ok());
  open.set_value();
  EXPECT_EQ(stream_->synchronize(10'000).code(), kVectorCoreException);
  EXPECT_FALSE(ran);
  EXPECT_TRUE(stream_->is_complete());
}

TEST_F(StreamFailure, StoppingHoldsForTheWholeContextAndForLaterStreams) {
  Stream* second = nullptr;
  ASSERT_TRUE(create_stream("test", 0, 0, second).is_ok());
  set_failure_mode(*stream_, FailureMode::kStop);
  EXPECT_EQ(second->failure_mode(), FailureMode::kStop);
  Stream* third = nullptr;
  ASSERT_TRUE(create_stream("test", 0, 0, third).is_ok());
  EXPECT_EQ(third->failure_mode(), FailureMode::kStop);
  Context* context = nullptr;
  ASSERT_TRUE(create_context(0, context).is_ok());
  ASSERT_TRUE(set_current_context(context).is_ok());
  Stream* elsewhere = nullptr;
  ASSERT_TRUE(create_stream("test", 0, 0, elsewhere).is_ok());
  EXPECT_EQ(elsewhere->failure_mode(), FailureMode::kContinue);
  ASSERT_TRUE(destroy_context(context).is_ok());
}

TEST_F(StreamFailure, TheFirstFailureIsTheOneThatIsTold) {
  EXPECT_TRUE(stream_->submit(fail).is_ok());
  EXPECT_TRUE(stream_->submit([] { return Status::error(507015, "a consequence"); }).is_ok());
  EXPECT_EQ(stream_->synchronize().code(), kVectorCoreException);
}

TEST_F(StreamFailure, DeviceSynchronizationTellsTheFailureOfAnyStream) {
  Stream* second = nullptr;
  ASSERT_TRUE(create_stream("test", 0, 0, second).is_ok());
  EXPECT_TRUE(second->submit(fail).is_ok());
  EXPECT_EQ(synchronize_device(0).code(), kVectorCoreException);
}

}  // namespace
}  // namespace drydock::device
