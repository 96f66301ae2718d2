#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "abi/door_guard.h"
#include "abi/generated/entries.h"
#include "base/recent_error.h"
#include "device/context.h"
#include "device/last_error.h"
#include "device/stream.h"

namespace drydock::entries {
namespace {

using abi::EntryId;
using abi::run_door;

int32_t peek() {
  return run_door(EntryId::aclrtPeekAtLastError, [] { return aclrtPeekAtLastError(0); });
}
int32_t take() {
  return run_door(EntryId::aclrtGetLastError, [] { return aclrtGetLastError(0); });
}
int32_t fail_by_argument() {
  return run_door(EntryId::aclrtCreateStream, [] { return aclrtCreateStream(nullptr); });
}

class ErrorEntries : public testing::Test {
 protected:
  void SetUp() override {
    device::set_last_error(0);
    static_cast<void>(aclGetRecentErrMsg());
  }
};

TEST_F(ErrorEntries, TheSentenceOfAFailureIsTakenOnce) {
  EXPECT_STREQ(aclGetRecentErrMsg(), "");
  EXPECT_EQ(fail_by_argument(), 100000);
  EXPECT_STREQ(aclGetRecentErrMsg(), "aclrtCreateStream: the argument `stream` is null.");
  EXPECT_STREQ(aclGetRecentErrMsg(), "");
}

TEST_F(ErrorEntries, SentencesAreTheThreadsOwn) {
  EXPECT_EQ(fail_by_argument(), 100000);
  std::thread([] { EXPECT_STREQ(aclGetRecentErrMsg(), ""); }).join();
  EXPECT_STRNE(aclGetRecentErrMsg(), "");
}

TEST_F(ErrorEntries, ArgumentErrorsLeaveNoLastError) {
  EXPECT_EQ(fail_by_argument(), 100000);
  EXPECT_EQ(peek(), 0);
  EXPECT_EQ(take(), 0);
}

TEST_F(ErrorEntries, AFaultOfTheDeviceIsPendingUntilItIsTaken) {
  ASSERT_TRUE(device::set_device(0).is_ok());
  void* handle = nullptr;
  ASSERT_TRUE(aclrtCreateStream(&handle).is_ok());
  device::Stream* stream = nullptr;
  ASSERT_TRUE(device::find_stream("test", handle, stream).is_ok());
  ASSERT_TRUE(stream->submit([] { return Status::error(507035, "vector core read out of range"); }).is_ok());
  EXPECT_EQ(run_door(EntryId::aclrtSynchronizeStream, [&] { return aclrtSynchronizeStream(handle); }), 507035);
  EXPECT_EQ(peek(), 507035);
  EXPECT_EQ(peek(), 507035) << "reading does not clear it";
  std::thread([] { EXPECT_EQ(peek(), 0); }).join();
  EXPECT_STREQ(aclGetRecentErrMsg(), "vector core read out of range") << "asking for the code keeps the sentence";
  EXPECT_EQ(take(), 507035);
  EXPECT_EQ(peek(), 0);
  ASSERT_TRUE(device::reset_device(0, true).is_ok());
}

TEST_F(ErrorEntries, OnlyTheThreadLevelExists) {
  EXPECT_EQ(aclrtPeekAtLastError(1).code(), 107000);
  EXPECT_EQ(aclrtGetLastError(-1).code(), 107000);
}

// torch_npu reads causes out of sentences (contract D2): no plain argument error may look like one.
TEST_F(ErrorEntries, SentencesHoldNoneOfTheWordsThatTorchNpuParses) {
  ASSERT_TRUE(device::set_device(0).is_ok());
  int local = 0;
  int32_t number = 0;
  void* event = nullptr;
  void* stream = nullptr;
  ASSERT_TRUE(aclrtCreateEventExWithFlag(&event, 2).is_ok());
  ASSERT_TRUE(aclrtCreateStream(&stream).is_ok());
  std::vector<Status> failures;
  failures.push_back(aclrtCreateStream(nullptr));
  failures.push_back(aclrtSynchronizeStream(&local));
  failures.push_back(aclrtSynchronizeStreamWithTimeout(stream, 0));
  failures.push_back(aclrtStreamWaitEvent(stream, event));
  failures.push_back(aclrtResetEvent(event, stream));
  failures.push_back(aclrtDestroyEvent(&local));
  failures.push_back(aclrtLaunchCallback([](void*) {}, nullptr, 1, stream));
  failures.push_back(aclrtProcessReport(1));
  failures.push_back(aclGetCannAttribute(77, &number));
  failures.push_back(aclSetCompileopt(77, ""));
  failures.push_back(aclrtSetSysParamOpt(77, 0));
  failures.push_back(aclrtSetStreamResLimit(stream, 0, 0));
  for (const Status& failure : failures) {
    ASSERT_FALSE(failure.is_ok());
    for (const char* word : {"EL0004", "Failed to allocate", "device task abort", "device mem error",
                             "hbm Multi-bit ECC error", "suspect device mem error", "link error",
                             "hccl op retry failed", "suspect remote error", "E19999", "EZ9999"}) {
      EXPECT_EQ(failure.message().find(word), std::string::npos) << failure.message();
    }
    EXPECT_NE(failure.code(), 207000) << "torch_npu goes on as if a call that answers this had worked";
    EXPECT_NE(failure.code(), 207001) << "torch_npu takes this for a full device";
    EXPECT_GT(failure.message().size(), 20U);
  }
  ASSERT_TRUE(device::reset_device(0, true).is_ok());
}

}  // namespace
}  // namespace drydock::entries
