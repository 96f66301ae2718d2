#include <atomic>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "abi/generated/entries.h"
#include "base/generated/error_codes.h"
#include "device/context.h"
#include "device/device.h"
#include "device/heap.h"
#include "device/settings.h"
#include "device_new_process.h"

namespace drydock {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr uint64_t kMib = uint64_t{1} << 20;

[[maybe_unused]] const bool environment = [] {
  setenv("DRYDOCK_DEVICES", "4", 1);
  setenv("ASCEND_RT_VISIBLE_DEVICES", "0,2,3", 1);
  return true;
}();

int32_t get_device() {
  int32_t device = -1;
  const Status status = entries::aclrtGetDevice(&device);
  return status.is_ok() ? device : -status.code();
}

void run_on_new_thread(const std::function<void()>& work) { std::thread(work).join(); }

TEST(ContextTest, DeviceCountWorksBeforeEverything) {
  // Contract C1: before aclInit, again and again, on any thread.
  IN_NEW_PROCESS({
    for (int i = 0; i < 3; ++i) {
      uint32_t count = 0;
      EXPECT_TRUE(entries::aclrtGetDeviceCount(&count).is_ok());
      EXPECT_EQ(count, 3U);
    }
    EXPECT_EQ(device::arena_base(0), 0U);  // it opened nothing
    EXPECT_EQ(entries::aclrtGetDeviceCount(nullptr).code(), code::ACL_ERROR_INVALID_PARAM);
  });
}

TEST(ContextTest, AThreadWithoutADeviceHears107002) {
  IN_NEW_PROCESS({
    EXPECT_EQ(get_device(), -107002);  // contract C3
    void* context = nullptr;
    EXPECT_EQ(entries::aclrtGetCurrentContext(&context).code(), code::ACL_ERROR_RT_CONTEXT_NULL);
    void* pointer = nullptr;
    const Status status = entries::aclrtMalloc(&pointer, 512, 0);
    EXPECT_EQ(status.code(), code::ACL_ERROR_RT_CONTEXT_NULL);
    EXPECT_THAT(status.message(), AllOf(HasSubstr("aclrtMalloc"), HasSubstr("aclrtSetDevice")));
  });
}

TEST(ContextTest, DevicesAreCurrentPerThread) {
  IN_NEW_PROCESS({
    ASSERT_TRUE(entries::aclrtSetDevice(1).is_ok());
    EXPECT_EQ(get_device(), 1);  // contract C5
    run_on_new_thread([] {
      EXPECT_EQ(get_device(), -107002);
      ASSERT_TRUE(entries::aclrtSetDevice(2).is_ok());
      EXPECT_EQ(get_device(), 2);
    });
    EXPECT_EQ(get_device(), 1);
  });
}

TEST(ContextTest, TheContextOfADeviceIsStable) {
  IN_NEW_PROCESS({
    // Contract C6: torch_npu keeps it per device and restores it on other threads.
    void* first = nullptr;
    ASSERT_TRUE(entries::aclrtSetDevice(0).is_ok());
    ASSERT_TRUE(entries::aclrtGetCurrentContext(&first).is_ok());
    ASSERT_NE(first, nullptr);
    void* other = nullptr;
    ASSERT_TRUE(entries::aclrtSetDevice(1).is_ok());
    ASSERT_TRUE(entries::aclrtGetCurrentContext(&other).is_ok());
    EXPECT_NE(other, first);
    ASSERT_TRUE(entries::aclrtSetDevice(0).is_ok());
    void* again = nullptr;
    ASSERT_TRUE(entries::aclrtGetCurrentContext(&again).is_ok());
    EXPECT_EQ(again, first);
    run_on_new_thread([&] {
      EXPECT_TRUE(entries::aclrtSetCurrentContext(other).is_ok());
      EXPECT_EQ(get_device(), 1);
    });
  });
}

TEST(ContextTest, ADeviceThatDoesNotExistGetsASentence) {
  IN_NEW_PROCESS({
    for (const int32_t device : {7, 3, -1}) {
      const Status status = entries::aclrtSetDevice(device);
      EXPECT_EQ(status.code(), code::ACL_ERROR_RT_INVALID_DEVICEID);
      EXPECT_THAT(status.message(), AllOf(HasSubstr("no device " + std::to_string(device)), HasSubstr("sees 3 devices"),
                                          HasSubstr("--devices")));
    }
  });
}

TEST(ContextTest, AFreshProcessSeesWhatARealOneSees) {
  IN_NEW_PROCESS({
    size_t free = 0;
    size_t total = 0;
    ASSERT_TRUE(entries::aclrtSetDevice(0).is_ok());
    ASSERT_TRUE(entries::aclrtGetMemInfo(1, &free, &total).is_ok());
    EXPECT_EQ(total, 65'787'658'240U);
    EXPECT_EQ(free, 65'381'130'240U);
    // Physical device 3, an odd die.
    ASSERT_TRUE(entries::aclrtSetDevice(2).is_ok());
    ASSERT_TRUE(entries::aclrtGetMemInfo(1, &free, &total).is_ok());
    EXPECT_EQ(total, 65'796'046'848U);
    EXPECT_NEAR(static_cast<double>(total - free) / kMib, 150.70, 0.005);
  });
}

TEST(ContextTest, MemoryInfoFollowsAllocations) {
  IN_NEW_PROCESS({
    size_t free = 0;
    size_t total = 0;
    size_t less = 0;
    ASSERT_TRUE(entries::aclrtSetDevice(0).is_ok());
    ASSERT_TRUE(entries::aclrtGetMemInfo(1, &free, &total).is_ok());
    void* pointer = nullptr;
    // Contract E2: aclrtMalloc adds 32 bytes, so that 2 MiB take two huge pages; aclrtMallocAlign32 does not.
    ASSERT_TRUE(entries::aclrtMalloc(&pointer, 2 * kMib, 0).is_ok());
    ASSERT_TRUE(entries::aclrtGetMemInfo(1, &less, &total).is_ok());
    EXPECT_EQ(free - less, 4 * kMib);  // contract E4: at once
    EXPECT_TRUE(device::is_allocated(pointer, 2 * kMib + 32));
    ASSERT_TRUE(entries::aclrtFree(pointer).is_ok());
    ASSERT_TRUE(entries::aclrtMallocAlign32(&pointer, 2 * kMib, 0).is_ok());
    ASSERT_TRUE(entries::aclrtGetMemInfo(1, &less, &total).is_ok());
    EXPECT_EQ(free - less, 2 * kMib);
    EXPECT_FALSE(device::is_allocated(pointer, 2 * kMib + 1));
    EXPECT_EQ(total, 65'787'658'240U);
    ASSERT_TRUE(entries::aclrtGetMemInfo(4, &less, &total).is_ok());
    EXPECT_EQ(less % (2 * kMib), 0U);
    ASSERT_TRUE(entries::aclrtGetMemInfo(0, &less, &total).is_ok());
    EXPECT_EQ(total, 0U);  // there is no DDR memory
    EXPECT_EQ(entries::aclrtGetMemInfo(18, &less, &total).code(), code::ACL_ERROR_RT_PARAM_INVALID);
    EXPECT_EQ(entries::aclrtGetMemInfo(1, nullptr, &total).code(), code::ACL_ERROR_INVALID_PARAM);
    EXPECT_EQ(entries::aclrtMalloc(nullptr, 1, 0).code(), code::ACL_ERROR_INVALID_PARAM);
    EXPECT_EQ(entries::aclrtMalloc(&pointer, 0, 0).code(), code::ACL_ERROR_INVALID_PARAM);
    EXPECT_EQ(entries::aclrtMalloc(&pointer, SIZE_MAX, 0).code(), code::ACL_ERROR_RT_MEMORY_ALLOCATION);
    EXPECT_EQ(entries::aclrtFree(nullptr).code(), code::ACL_ERROR_INVALID_PARAM);
    EXPECT_THAT(entries::aclrtFree(&free).message(), HasSubstr("never handed out"));
  });
}

TEST(ContextTest, ResettingADeviceGivesItsMemoryBackAtTheLastCall) {
  IN_NEW_PROCESS({
    ASSERT_TRUE(entries::aclrtSetDevice(0).is_ok());
    ASSERT_TRUE(entries::aclrtSetDevice(0).is_ok());
    void* pointer = nullptr;
    ASSERT_TRUE(entries::aclrtMalloc(&pointer, 512, 0).is_ok());
    ASSERT_TRUE(entries::aclrtResetDevice(0).is_ok());
    EXPECT_TRUE(device::is_allocated(pointer, 512));
    ASSERT_TRUE(entries::aclrtResetDevice(0).is_ok());
    EXPECT_FALSE(device::is_allocated(pointer, 512));
    EXPECT_EQ(get_device(), -107002);
    EXPECT_TRUE(entries::aclrtResetDevice(0).is_ok());
    EXPECT_EQ(entries::aclrtResetDevice(5).code(), code::ACL_ERROR_RT_INVALID_DEVICEID);
    const device::MemoryInfo info = device::Device::find(0)->account().info();
    EXPECT_EQ(info.total_bytes - info.free_bytes, 341 * kMib);  // the context went, what is idle stays
    ASSERT_TRUE(entries::aclrtSetDevice(0).is_ok());
    EXPECT_THAT(entries::aclrtFree(pointer).message(), HasSubstr("released with the device"));
  });
}

std::atomic<int> contexts_ended{0};
std::atomic<uint32_t> last_ended{0};

TEST(ContextTest, ContextsOfOnesOwn) {
  IN_NEW_PROCESS({
    device::on_context_destroyed([](device::Context& context) noexcept {
      ++contexts_ended;
      last_ended = context.id;
    });
    void* one = nullptr;
    void* two = nullptr;
    ASSERT_TRUE(entries::aclrtCreateContext(&one, 0).is_ok());
    EXPECT_EQ(get_device(), 0);
    ASSERT_TRUE(entries::aclrtCreateContext(&two, 2).is_ok());
    EXPECT_EQ(get_device(), 2);
    ASSERT_TRUE(entries::aclrtSetCurrentContext(one).is_ok());
    EXPECT_EQ(get_device(), 0);
    const uint32_t id = device::find_context(one)->id;
    ASSERT_TRUE(entries::aclrtDestroyContext(one).is_ok());
    EXPECT_EQ(contexts_ended, 1);
    EXPECT_EQ(last_ended, id);
    EXPECT_EQ(get_device(), -107002);
    EXPECT_THAT(entries::aclrtDestroyContext(one).message(), HasSubstr("destroyed before"));
    EXPECT_THAT(entries::aclrtSetCurrentContext(one).message(), HasSubstr("was destroyed"));
    EXPECT_FALSE(entries::aclrtSetCurrentContext(nullptr).is_ok());
    EXPECT_THAT(entries::aclrtSetCurrentContext(&two).message(), HasSubstr("is no context"));
    EXPECT_FALSE(entries::aclrtDestroyContext(nullptr).is_ok());
    // A new one in the same place is not taken for the old one.
    ASSERT_TRUE(entries::aclrtSetCurrentContext(two).is_ok());
    ASSERT_TRUE(entries::aclrtDestroyContext(two).is_ok());
    run_on_new_thread([&] { ASSERT_TRUE(entries::aclrtCreateContext(&two, 1).is_ok()); });
    EXPECT_EQ(get_device(), -107002);

    ASSERT_TRUE(entries::aclrtSetDevice(0).is_ok());
    void* primary = nullptr;
    ASSERT_TRUE(entries::aclrtGetCurrentContext(&primary).is_ok());
    EXPECT_THAT(entries::aclrtDestroyContext(primary).message(), HasSubstr("aclrtResetDevice"));
    EXPECT_EQ(entries::aclrtCreateContext(&two, 5).code(), code::ACL_ERROR_RT_INVALID_DEVICEID);
  });
}

TEST(ContextTest, PrimaryStateTakesANullFlagsPointer) {
  IN_NEW_PROCESS({
    int32_t active = -1;
    ASSERT_TRUE(entries::aclrtGetPrimaryCtxState(1, nullptr, &active).is_ok());  // contract C8
    EXPECT_EQ(active, 0);
    ASSERT_TRUE(entries::aclrtSetDevice(1).is_ok());
    uint32_t flags = 99;
    ASSERT_TRUE(entries::aclrtGetPrimaryCtxState(1, &flags, &active).is_ok());
    EXPECT_EQ(active, 1);
    EXPECT_EQ(flags, 0U);
    EXPECT_EQ(entries::aclrtGetPrimaryCtxState(1, nullptr, nullptr).code(), code::ACL_ERROR_INVALID_PARAM);
    EXPECT_EQ(entries::aclrtGetPrimaryCtxState(9, nullptr, &active).code(), code::ACL_ERROR_RT_INVALID_DEVICEID);
  });
}

TEST(ContextTest, ManyThreadsSetAndUseDevices) {
  IN_NEW_PROCESS({
    std::vector<std::thread> threads;
    for (int t = 0; t < 6; ++t) {
      threads.emplace_back([t] {
        for (int i = 0; i < 200; ++i) {
          const int32_t device = (t + i) % 3;
          ASSERT_TRUE(entries::aclrtSetDevice(device).is_ok());
          EXPECT_EQ(get_device(), device);
          void* pointer = nullptr;
          ASSERT_TRUE(entries::aclrtMalloc(&pointer, 1 << 20, 0).is_ok());
          EXPECT_EQ(device::device_of(pointer), device);
          ASSERT_TRUE(entries::aclrtFree(pointer).is_ok());
        }
      });
    }
    for (auto& thread : threads) thread.join();
  });
}

TEST(ContextTest, OverheadsOfOtherPartsCount) {
  IN_NEW_PROCESS({
    EXPECT_EQ(device::charge_overhead(0, "hccl", kMib).code(), code::ACL_ERROR_RT_CONTEXT_NULL);
    ASSERT_TRUE(entries::aclrtSetDevice(0).is_ok());
    ASSERT_TRUE(device::charge_overhead(0, "hccl", 419'467'264).is_ok());
    size_t free = 0;
    size_t total = 0;
    ASSERT_TRUE(entries::aclrtGetMemInfo(1, &free, &total).is_ok());
    EXPECT_EQ(free, 65'381'130'240U - 419'467'264U);
    device::release_overhead(0, 419'467'264);
    ASSERT_TRUE(entries::aclrtGetMemInfo(1, &free, &total).is_ok());
    EXPECT_EQ(free, 65'381'130'240U);
  });
}

}  // namespace
}  // namespace drydock
