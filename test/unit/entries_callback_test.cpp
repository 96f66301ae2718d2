#include <atomic>
#include <future>
#include <pthread.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include <gtest/gtest.h>

#include "abi/generated/entries.h"
#include "device/context.h"

namespace drydock::entries {
namespace {

constexpr int32_t kNoBlock = 0;
constexpr int32_t kBlock = 1;

void count_up(void* counter) { ++*static_cast<std::atomic<int>*>(counter); }

class CallbackEntries : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(device::set_device(0).is_ok());
    ASSERT_TRUE(aclrtCreateStream(&stream_).is_ok());
  }
  void TearDown() override { ASSERT_TRUE(device::reset_device(0, true).is_ok()); }

  int32_t stream_status() {
    int32_t status = -1;
    EXPECT_TRUE(aclrtStreamQuery(stream_, &status).is_ok());
    return status;
  }
  static uint64_t this_thread() { return static_cast<uint64_t>(pthread_self()); }

  void* stream_ = nullptr;
  std::atomic<int> counter_{0};
};

TEST_F(CallbackEntries, ABlockingCallbackHoldsItsStreamUntilItsThreadRanIt) {
  ASSERT_TRUE(aclrtSubscribeReport(this_thread(), stream_).is_ok());
  ASSERT_TRUE(aclrtLaunchCallback(count_up, &counter_, kBlock, stream_).is_ok());
  EXPECT_EQ(counter_, 0);
  EXPECT_EQ(stream_status(), 1);
  ASSERT_TRUE(aclrtProcessReport(1000).is_ok());
  EXPECT_EQ(counter_, 1);
  EXPECT_EQ(stream_status(), 0);
  ASSERT_TRUE(aclrtUnSubscribeReport(this_thread(), stream_).is_ok());
}

TEST_F(CallbackEntries, ACallbackThatDoesNotBlockLetsTheStreamGoOn) {
  ASSERT_TRUE(aclrtSubscribeReport(static_cast<uint64_t>(gettid()), stream_).is_ok());
  ASSERT_TRUE(aclrtLaunchCallback(count_up, &counter_, kNoBlock, stream_).is_ok());
  EXPECT_EQ(stream_status(), 0);
  EXPECT_EQ(counter_, 0);
  ASSERT_TRUE(aclrtProcessReport(1000).is_ok());
  EXPECT_EQ(counter_, 1);
}

TEST_F(CallbackEntries, CallbacksRunInStreamOrder) {
  struct Call {
    std::vector<int>* order;
    int number;
  };
  std::vector<int> order;
  std::vector<Call> calls;
  for (int number = 0; number < 6; ++number) calls.push_back({&order, number});
  ASSERT_TRUE(aclrtSubscribeReport(this_thread(), stream_).is_ok());
  for (Call& call : calls) {
    ASSERT_TRUE(aclrtLaunchCallback(
                    [](void* argument) {
                      const Call& call = *static_cast<Call*>(argument);
                      call.order->push_back(call.number);
                    },
                    &call, call.number % 2 == 0 ? kBlock : kNoBlock, stream_)
                    .is_ok());
  }
  while (aclrtProcessReport(1).is_ok()) {}
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3, 4, 5}));
}

TEST_F(CallbackEntries, AThreadOfItsOwnLoopsAsTorchNpuDoes) {
  std::atomic<bool> stop{false};
  std::promise<uint64_t> id;
  std::thread loop([&] {
    ASSERT_TRUE(device::set_device(0).is_ok());
    id.set_value(static_cast<uint64_t>(pthread_self()));
    while (!stop) static_cast<void>(aclrtProcessReport(10));
  });
  const uint64_t thread_id = id.get_future().get();
  ASSERT_TRUE(aclrtSubscribeReport(thread_id, stream_).is_ok());
  for (int count = 0; count < 10; ++count) {
    ASSERT_TRUE(aclrtLaunchCallback(count_up, &counter_, kBlock, stream_).is_ok());
  }
  EXPECT_TRUE(aclrtSynchronizeStreamWithTimeout(stream_, 10'000).is_ok());
  EXPECT_EQ(counter_, 10);
  ASSERT_TRUE(aclrtUnSubscribeReport(thread_id, stream_).is_ok());
  stop = true;
  loop.join();
}

TEST_F(CallbackEntries, SubscriptionsAreChecked) {
  EXPECT_EQ(aclrtLaunchCallback(count_up, &counter_, kBlock, stream_).code(), 107015);
  EXPECT_EQ(aclrtProcessReport(10).code(), 107012);
  EXPECT_EQ(aclrtUnSubscribeReport(this_thread(), stream_).code(), 107011);
  ASSERT_TRUE(aclrtSubscribeReport(this_thread(), stream_).is_ok());
  EXPECT_EQ(aclrtSubscribeReport(this_thread(), stream_).code(), 107011);
  EXPECT_EQ(aclrtProcessReport(10).code(), 507012);
  EXPECT_EQ(aclrtProcessReport(0).code(), 107000);
  EXPECT_EQ(aclrtProcessReport(-2).code(), 107000);
  EXPECT_EQ(aclrtLaunchCallback(nullptr, nullptr, kBlock, stream_).code(), 100000);
  EXPECT_EQ(aclrtLaunchCallback(count_up, &counter_, 2, stream_).code(), 107000);
}

TEST_F(CallbackEntries, UnsubscribingDropsWhatWaitsAndFreesTheStream) {
  ASSERT_TRUE(aclrtSubscribeReport(this_thread(), stream_).is_ok());
  ASSERT_TRUE(aclrtLaunchCallback(count_up, &counter_, kBlock, stream_).is_ok());
  ASSERT_TRUE(aclrtUnSubscribeReport(this_thread(), stream_).is_ok());
  EXPECT_EQ(stream_status(), 0);
  EXPECT_EQ(counter_, 0);
}

TEST_F(CallbackEntries, DestroyingTheStreamEndsItsSubscription) {
  ASSERT_TRUE(aclrtSubscribeReport(this_thread(), stream_).is_ok());
  ASSERT_TRUE(aclrtLaunchCallback(count_up, &counter_, kBlock, stream_).is_ok());
  ASSERT_TRUE(aclrtDestroyStreamForce(stream_).is_ok());
  EXPECT_EQ(aclrtProcessReport(10).code(), 107012);
  EXPECT_EQ(counter_, 0);
}

TEST_F(CallbackEntries, HostFunctionsRunInOrderWithoutSubscription) {
  for (int count = 0; count < 20; ++count) {
    ASSERT_TRUE(aclrtLaunchHostFunc(stream_, count_up, &counter_).is_ok());
  }
  ASSERT_TRUE(aclrtSynchronizeStream(stream_).is_ok());
  EXPECT_EQ(counter_, 20);
  EXPECT_EQ(aclrtLaunchHostFunc(stream_, nullptr, nullptr).code(), 100000);
  EXPECT_EQ(aclrtLaunchHostFunc(&counter_, count_up, &counter_).code(), 107000);
}

}  // namespace
}  // namespace drydock::entries
