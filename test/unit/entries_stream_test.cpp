#include <cstdint>

#include <gtest/gtest.h>

#include "abi/generated/entries.h"
#include "device/context.h"
#include "device/profile.h"

namespace drydock::entries {
namespace {

class StreamEntries : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(device::set_device(0).is_ok());
    ASSERT_TRUE(aclrtCreateStreamWithConfig(&stream_, 0, 3).is_ok());
  }
  void TearDown() override { ASSERT_TRUE(device::reset_device(0, true).is_ok()); }

  void* stream_ = nullptr;
  int not_a_stream_ = 0;
};

TEST_F(StreamEntries, CreateQueryIdDestroy) {
  int32_t id = 0;
  ASSERT_TRUE(aclrtStreamGetId(stream_, &id).is_ok());
  EXPECT_GT(id, 0);
  int32_t again = 0;
  ASSERT_TRUE(aclrtStreamGetId(stream_, &again).is_ok());
  EXPECT_EQ(id, again);
  int32_t status = -1;
  ASSERT_TRUE(aclrtStreamQuery(stream_, &status).is_ok());
  EXPECT_EQ(status, 0) << "complete is 0 for streams";
  ASSERT_TRUE(aclrtSynchronizeStream(stream_).is_ok());
  ASSERT_TRUE(aclrtDestroyStream(stream_).is_ok());
  const Status stale = aclrtSynchronizeStream(stream_);
  EXPECT_EQ(stale.code(), 107000);
  EXPECT_EQ(stale.message(), "aclrtSynchronizeStream: the stream was destroyed before.");
  EXPECT_EQ(aclrtDestroyStream(stream_).code(), 107000);
}

TEST_F(StreamEntries, APendingStreamIsNotReady) {
  void* event = nullptr;
  ASSERT_TRUE(aclrtCreateEventWithFlag(&event, 1).is_ok());
  ASSERT_TRUE(aclrtStreamWaitEvent(stream_, event).is_ok());
  int32_t status = -1;
  ASSERT_TRUE(aclrtStreamQuery(stream_, &status).is_ok());
  EXPECT_EQ(status, 1);
  EXPECT_EQ(aclrtSynchronizeStreamWithTimeout(stream_, 10).code(), 507046);
  EXPECT_EQ(aclrtSynchronizeDeviceWithTimeout(10).code(), 507046);
  ASSERT_TRUE(aclrtRecordEvent(event, nullptr).is_ok());
  EXPECT_TRUE(aclrtSynchronizeStreamWithTimeout(stream_, -1).is_ok());
  EXPECT_TRUE(aclrtSynchronizeDeviceWithTimeout(-1).is_ok());
  EXPECT_TRUE(aclrtSynchronizeDevice().is_ok());
}

TEST_F(StreamEntries, NullStandsForTheDefaultStream) {
  void* handle = &not_a_stream_;
  ASSERT_TRUE(aclrtCtxGetCurrentDefaultStream(&handle).is_ok());
  int32_t by_handle = 0;
  int32_t by_null = 0;
  ASSERT_TRUE(aclrtStreamGetId(handle, &by_handle).is_ok());
  ASSERT_TRUE(aclrtStreamGetId(nullptr, &by_null).is_ok());
  EXPECT_EQ(by_handle, by_null);
  EXPECT_TRUE(aclrtSynchronizeStream(nullptr).is_ok());
  EXPECT_EQ(aclrtDestroyStream(nullptr).code(), 107000);
  EXPECT_EQ(aclrtDestroyStreamForce(nullptr).code(), 107000);
}

TEST_F(StreamEntries, BadArgumentsGetACodeAndASentence) {
  EXPECT_EQ(aclrtCreateStream(nullptr).code(), 100000);
  EXPECT_EQ(aclrtCreateStreamWithConfig(nullptr, 0, 3).code(), 100000);
  EXPECT_EQ(aclrtStreamGetId(stream_, nullptr).code(), 100000);
  EXPECT_EQ(aclrtStreamQuery(stream_, nullptr).code(), 100000);
  const Status foreign = aclrtStreamGetId(&not_a_stream_, &not_a_stream_);
  EXPECT_EQ(foreign.code(), 107000);
  EXPECT_EQ(foreign.message(), "aclrtStreamGetId: the handle is not that of a stream.");
  EXPECT_EQ(aclrtDestroyStream(&not_a_stream_).code(), 107000);
  EXPECT_EQ(aclrtSynchronizeStreamWithTimeout(stream_, 0).code(), 107000);
  EXPECT_EQ(aclrtSynchronizeStreamWithTimeout(stream_, -2).code(), 107000);
  void* refused = nullptr;
  EXPECT_EQ(aclrtCreateStreamWithConfig(&refused, 0, 4).code(), 200001);
  EXPECT_EQ(refused, nullptr);
  EXPECT_EQ(aclrtSetStreamFailureMode(stream_, 2).code(), 107000);
  EXPECT_EQ(aclrtSetStreamOverflowSwitch(stream_, 2).code(), 107000);
}

TEST_F(StreamEntries, FailureModeAndOverflowSwitch) {
  EXPECT_TRUE(aclrtSetStreamFailureMode(stream_, 1).is_ok());
  uint32_t flag = 9;
  ASSERT_TRUE(aclrtGetStreamOverflowSwitch(stream_, &flag).is_ok());
  EXPECT_EQ(flag, 0U);
  ASSERT_TRUE(aclrtSetStreamOverflowSwitch(stream_, 1).is_ok());
  ASSERT_TRUE(aclrtGetStreamOverflowSwitch(stream_, &flag).is_ok());
  EXPECT_EQ(flag, 1U);
}

TEST_F(StreamEntries, CoreLimitsHoldForTheStreamThenTheHardware) {
  const auto cube = static_cast<uint32_t>(device::profile().cube_cores);
  const auto vector = static_cast<uint32_t>(device::profile().vector_cores);
  uint32_t value = 0;
  ASSERT_TRUE(aclrtGetResInCurrentThread(0, &value).is_ok());
  EXPECT_EQ(value, cube);
  ASSERT_TRUE(aclrtGetStreamResLimit(stream_, 1, &value).is_ok());
  EXPECT_EQ(value, vector);
  ASSERT_TRUE(aclrtSetStreamResLimit(stream_, 0, 8).is_ok());
  ASSERT_TRUE(aclrtGetStreamResLimit(stream_, 0, &value).is_ok());
  EXPECT_EQ(value, 8U);
  ASSERT_TRUE(aclrtGetResInCurrentThread(0, &value).is_ok());
  EXPECT_EQ(value, cube) << "not in use by this thread";
  ASSERT_TRUE(aclrtUseStreamResInCurrentThread(stream_).is_ok());
  ASSERT_TRUE(aclrtGetResInCurrentThread(0, &value).is_ok());
  EXPECT_EQ(value, 8U);
  ASSERT_TRUE(aclrtGetResInCurrentThread(1, &value).is_ok());
  EXPECT_EQ(value, vector);
  ASSERT_TRUE(aclrtUnuseStreamResInCurrentThread(stream_).is_ok());
  ASSERT_TRUE(aclrtGetResInCurrentThread(0, &value).is_ok());
  EXPECT_EQ(value, cube);
  ASSERT_TRUE(aclrtResetStreamResLimit(stream_).is_ok());
  ASSERT_TRUE(aclrtGetStreamResLimit(stream_, 0, &value).is_ok());
  EXPECT_EQ(value, cube);
  EXPECT_EQ(aclrtSetStreamResLimit(stream_, 2, 1).code(), 107000);
  EXPECT_EQ(aclrtSetStreamResLimit(stream_, 0, 0).code(), 107000);
  EXPECT_EQ(aclrtSetStreamResLimit(stream_, 0, cube + 1).code(), 107000);
}

TEST_F(StreamEntries, LimitsOfADestroyedStreamAreForgotten) {
  ASSERT_TRUE(aclrtSetStreamResLimit(stream_, 0, 8).is_ok());
  ASSERT_TRUE(aclrtUseStreamResInCurrentThread(stream_).is_ok());
  ASSERT_TRUE(aclrtDestroyStream(stream_).is_ok());
  void* next = nullptr;
  ASSERT_TRUE(aclrtCreateStream(&next).is_ok());
  uint32_t value = 0;
  ASSERT_TRUE(aclrtGetResInCurrentThread(0, &value).is_ok());
  EXPECT_EQ(value, static_cast<uint32_t>(device::profile().cube_cores));
}

TEST_F(StreamEntries, NotifyBetweenStreams) {
  void* notify = nullptr;
  ASSERT_TRUE(aclrtCreateNotify(&notify, 0).is_ok());
  ASSERT_TRUE(aclrtWaitAndResetNotify(notify, stream_, 0).is_ok());
  int32_t status = -1;
  ASSERT_TRUE(aclrtStreamQuery(stream_, &status).is_ok());
  EXPECT_EQ(status, 1);
  ASSERT_TRUE(aclrtRecordNotify(notify, nullptr).is_ok());
  ASSERT_TRUE(aclrtStreamQuery(stream_, &status).is_ok());
  EXPECT_EQ(status, 0);
  ASSERT_TRUE(aclrtDestroyNotify(notify).is_ok());
  EXPECT_EQ(aclrtDestroyNotify(notify).code(), 107000);
  EXPECT_EQ(aclrtCreateNotify(nullptr, 0).code(), 100000);
  EXPECT_EQ(aclrtCreateNotify(&notify, 1).code(), 200001);
  EXPECT_EQ(aclrtRecordNotify(nullptr, stream_).code(), 107000);
}

TEST(StreamEntriesWithoutContext, CreationIsRefusedUntilADeviceIsSet) {
  ASSERT_EQ(device::current_context(), nullptr);
  void* stream = nullptr;
  const Status status = aclrtCreateStream(&stream);
  EXPECT_EQ(status.code(), 107002);
  EXPECT_NE(status.message().find("aclrtCreateStream"), std::string::npos) << status.message();
  EXPECT_EQ(aclrtSynchronizeDevice().code(), 107002);
  EXPECT_EQ(aclrtSynchronizeStream(nullptr).code(), 107002);
}

}  // namespace
}  // namespace drydock::entries
