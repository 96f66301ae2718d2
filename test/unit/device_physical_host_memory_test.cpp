#include <cstring>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "abi/generated/entries.h"
#include "base/generated/error_codes.h"
#include "device/context.h"
#include "device/copy.h"
#include "device/device.h"
#include "device/heap.h"
#include "device/host_memory.h"
#include "device/virtual_memory.h"

// Physical memory of the host (aclrtMallocPhysical with a location on the host), mapped in reservations: what torch_npu
// makes pinned memory of with pin_memory_expandable_segments.

namespace drydock {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr uint64_t kMib = uint64_t{1} << 20;
constexpr uint64_t kPage = 2 * kMib;
constexpr uint64_t kChunk = 20 * kMib;
constexpr int32_t kHostToDevice = 1;
constexpr int32_t kDeviceToHost = 2;
constexpr int32_t kDeviceToDevice = 3;

[[maybe_unused]] const bool two_devices = [] {
  setenv("DRYDOCK_DEVICES", "2", 1);
  return true;
}();

// aclrtPhysicalMemProp as torch_npu fills it for pinned memory.
struct Properties {
  int32_t handle_type = 0;
  int32_t allocation_type = 0;
  int32_t memory_attribute = 4;
  uint32_t location_id = 0;
  int32_t location_type = 0;
  uint64_t reserved = 0;
};

struct PointerAttributes {
  uint32_t location_id;
  int32_t location_type;
  uint32_t page_bytes;
  uint32_t reserved[4];
};

class PhysicalHostMemoryTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(entries::aclrtSetDevice(0).is_ok()); }

  static char* reserve(uint64_t size) {
    void* address = nullptr;
    const Status status = entries::aclrtReserveMemAddress(&address, size, 0, nullptr, 1);
    EXPECT_TRUE(status.is_ok()) << status.message();
    return static_cast<char*>(address);
  }
  static void* create(uint64_t size, Properties properties = {}) {
    void* handle = nullptr;
    const Status status = entries::aclrtMallocPhysical(&handle, size, &properties, 0);
    EXPECT_TRUE(status.is_ok()) << status.message();
    return handle;
  }
  static Status map(char* address, uint64_t size, void* handle) {
    return entries::aclrtMapMem(address, size, 0, handle, 0);
  }
  static void give_back(char* address, void* handle) {
    ASSERT_TRUE(entries::aclrtUnmapMem(address).is_ok());
    ASSERT_TRUE(entries::aclrtFreePhysical(handle).is_ok());
  }
  static int32_t location_of(const void* pointer) {
    PointerAttributes attributes{};
    EXPECT_TRUE(entries::aclrtPointerGetAttributes(pointer, &attributes).is_ok());
    return attributes.location_type;
  }
  static size_t free_bytes() {
    size_t free = 0;
    size_t total = 0;
    EXPECT_TRUE(entries::aclrtGetMemInfo(1, &free, &total).is_ok());
    return free;
  }
};

TEST_F(PhysicalHostMemoryTest, TheProgramTouchesItAndTheDeviceHasNoneOfIt) {
  const size_t before = free_bytes();
  char* const base = reserve(8 * kChunk);
  void* const handles[] = {create(kChunk), create(kChunk)};
  EXPECT_EQ(free_bytes(), before);
  ASSERT_TRUE(map(base, kChunk, handles[0]).is_ok());
  ASSERT_TRUE(map(base + kChunk, kChunk, handles[1]).is_ok());
  EXPECT_EQ(base[kChunk - 1], 0);
  std::memset(base + kChunk - 100, 0x5a, 200);  // across the seam, as by a tensor of the program
  EXPECT_EQ(base[kChunk + 99], 0x5a);

  EXPECT_EQ(location_of(base), 0);
  EXPECT_EQ(location_of(base + 2 * kChunk - 1), 0);
  EXPECT_EQ(location_of(base + 2 * kChunk), 2);
  EXPECT_EQ(device::device_of(base + 5), -1);
  EXPECT_FALSE(device::is_allocated(base, 1));
  EXPECT_FALSE(device::extent_of(base).has_value());
  EXPECT_EQ(device::host_address(base), base);
  EXPECT_THAT(device::describe_address(base + 7), HasSubstr("physical host memory"));

  give_back(base, handles[0]);
  EXPECT_EQ(location_of(base), 2);
  EXPECT_EQ(base[kChunk + 99], 0x5a);
  give_back(base + kChunk, handles[1]);
  EXPECT_EQ(device::device_of(base), 0);
  ASSERT_TRUE(entries::aclrtReleaseMemAddress(base).is_ok());
}

TEST_F(PhysicalHostMemoryTest, ItIsHostMemoryToACopy) {
  char* const host = reserve(kPage);
  void* const handle = create(kPage);
  ASSERT_TRUE(map(host, kPage, handle).is_ok());
  void* device = nullptr;
  ASSERT_TRUE(entries::aclrtMalloc(&device, 4096, 0).is_ok());
  std::strcpy(host + 100, "by way of the device");
  ASSERT_TRUE(entries::aclrtMemcpy(device, 64, host + 100, 64, kHostToDevice).is_ok());
  ASSERT_TRUE(entries::aclrtMemcpy(host + 500, 64, device, 64, kDeviceToHost).is_ok());
  EXPECT_STREQ(host + 500, "by way of the device");
  // As with other pinned memory, the device reaches it.
  EXPECT_TRUE(entries::aclrtMemcpy(device, 64, host + 500, 64, kDeviceToDevice).is_ok());
  ASSERT_TRUE(entries::aclrtMemset(host, 64, 7, 64).is_ok());
  EXPECT_EQ(host[63], 7);
  EXPECT_TRUE(entries::aclrtFree(device).is_ok());
  give_back(host, handle);
}

TEST_F(PhysicalHostMemoryTest, ContentsStayWithTheHandleAndGoWithIt) {
  char* const base = reserve(4 * kPage);
  void* handle = create(kPage);
  ASSERT_TRUE(map(base, kPage, handle).is_ok());
  std::strcpy(base + 1000, "kept while unmapped");
  ASSERT_TRUE(entries::aclrtUnmapMem(base).is_ok());
  ASSERT_TRUE(map(base + kPage, kPage, handle).is_ok());
  EXPECT_STREQ(base + kPage + 1000, "kept while unmapped");
  give_back(base + kPage, handle);
  handle = create(kPage);
  ASSERT_TRUE(map(base, kPage, handle).is_ok());
  EXPECT_EQ(base[1000], 0);
  give_back(base, handle);
  // The address is device memory's again.
  Properties on_device;
  on_device.location_type = 1;
  handle = create(kPage, on_device);
  ASSERT_TRUE(map(base, kPage, handle).is_ok());
  EXPECT_TRUE(device::is_allocated(base, kPage));
  EXPECT_EQ(location_of(base), 1);
  give_back(base, handle);
}

TEST_F(PhysicalHostMemoryTest, AnyDevicesReservationTakesIt) {
  void* const handle = create(kPage);
  ASSERT_TRUE(entries::aclrtSetDevice(1).is_ok());
  char* const base = reserve(kPage);
  ASSERT_EQ(device::range_of(base), 1);
  ASSERT_TRUE(map(base, kPage, handle).is_ok());
  base[0] = 1;
  give_back(base, handle);
}

TEST_F(PhysicalHostMemoryTest, WhatTheLocationSaysIsChecked) {
  void* handle = nullptr;
  Properties properties;
  properties.location_id = 77;  // means nothing on the host
  EXPECT_TRUE(entries::aclrtMallocPhysical(&handle, kPage, &properties, 0).is_ok());
  EXPECT_TRUE(entries::aclrtFreePhysical(handle).is_ok());
  size_t granularity = 0;
  EXPECT_TRUE(entries::aclrtMemGetAllocationGranularity(&properties, 0, &granularity).is_ok());
  EXPECT_EQ(granularity, kPage);

  properties.location_type = 2;
  EXPECT_THAT(entries::aclrtMallocPhysical(&handle, kPage, &properties, 0).message(), HasSubstr("location type is 2"));
  properties.location_type = 0;
  properties.memory_attribute = 0;
  EXPECT_THAT(entries::aclrtMallocPhysical(&handle, kPage, &properties, 0).message(), HasSubstr("names no memory"));
  properties.memory_attribute = 4;
  EXPECT_THAT(entries::aclrtMallocPhysical(&handle, kPage + 4096, &properties, 0).message(), HasSubstr("multiple of"));
  EXPECT_EQ(entries::aclrtMallocPhysical(&handle, 0, &properties, 0).code(), code::ACL_ERROR_RT_PARAM_INVALID);
  const Status endless = entries::aclrtMallocPhysical(&handle, uint64_t{1} << 47, &properties, 0);
  EXPECT_EQ(endless.code(), code::ACL_ERROR_RT_MEMORY_ALLOCATION);
  EXPECT_THAT(endless.message(), HasSubstr("of host memory"));
}

TEST_F(PhysicalHostMemoryTest, WrongUseNamesWhatIsThere) {
  char* const base = reserve(4 * kPage);
  void* const handle = create(kPage);
  ASSERT_TRUE(map(base, kPage, handle).is_ok());
  EXPECT_THAT(map(base + kPage, kPage, handle).message(), HasSubstr("a handle is mapped once"));
  void* const second = create(kPage);
  EXPECT_THAT(map(base, kPage, second).message(), HasSubstr("reach into the mapping"));
  Properties on_device;
  on_device.location_type = 1;
  void* const of_device = create(kPage, on_device);
  EXPECT_THAT(map(base, kPage, of_device).message(), HasSubstr("reach into the mapping"));
  EXPECT_THAT(map(base + kPage, 2 * kPage, second).message(), HasSubstr("must equal the size"));

  char own[16];
  EXPECT_THAT(map(own, kPage, of_device).message(), HasSubstr("not device memory"));
  void* pinned = nullptr;
  ASSERT_TRUE(entries::aclrtMallocHost(&pinned, kPage).is_ok());
  EXPECT_THAT(map(static_cast<char*>(pinned), kPage, of_device).message(), HasSubstr("pinned host memory"));
  EXPECT_THAT(map(static_cast<char*>(pinned), kPage, second).message(), HasSubstr("pinned host memory"));
  EXPECT_TRUE(entries::aclrtFreeHost(pinned).is_ok());
  EXPECT_TRUE(entries::aclrtFreePhysical(of_device).is_ok());
  EXPECT_TRUE(entries::aclrtFreePhysical(second).is_ok());

  EXPECT_THAT(entries::aclrtFreePhysical(handle).message(), HasSubstr("still mapped"));
  EXPECT_THAT(entries::aclrtReleaseMemAddress(base).message(), HasSubstr("unmap it first"));
  EXPECT_THAT(entries::aclrtFreeHost(base).message(), HasSubstr("aclrtUnmapMem"));
  EXPECT_THAT(entries::aclrtFree(base).message(), HasSubstr("physical host memory"));
  EXPECT_THAT(entries::aclrtHostUnregister(base).message(), HasSubstr("aclrtUnmapMem"));
  EXPECT_THAT(entries::aclrtHostRegisterV2(base + 4096, 4096, 2).message(), HasSubstr("physical already"));
  EXPECT_THAT(entries::aclrtUnmapMem(base + 4096).message(),
              AllOf(HasSubstr("not the begin of a mapping"), HasSubstr("physical host memory")));

  ASSERT_TRUE(entries::aclrtUnmapMem(base).is_ok());
  EXPECT_THAT(entries::aclrtUnmapMem(base).message(), HasSubstr("unmapped at"));
  ASSERT_TRUE(entries::aclrtFreePhysical(handle).is_ok());
  const Status twice = entries::aclrtFreePhysical(handle);
  EXPECT_EQ(twice.code(), code::ACL_ERROR_RT_INVALID_HANDLE);
  EXPECT_THAT(twice.message(), HasSubstr("was freed"));
  EXPECT_EQ(map(base, kPage, handle).code(), code::ACL_ERROR_RT_INVALID_HANDLE);
  ASSERT_TRUE(entries::aclrtReleaseMemAddress(base).is_ok());
}

TEST_F(PhysicalHostMemoryTest, ACopyWhosePagesWentAwayIsRefused) {
  char* const host = reserve(kPage);
  void* const handle = create(kPage);
  ASSERT_TRUE(map(host, kPage, handle).is_ok());
  void* device = nullptr;
  ASSERT_TRUE(entries::aclrtMalloc(&device, 4096, 0).is_ok());
  device::Copy in;
  device::Copy out;
  device::Fill fill;
  ASSERT_TRUE(device::prepare_copy("in", device, 64, host, 64, kHostToDevice, in).is_ok());
  ASSERT_TRUE(device::prepare_copy("out", host, 64, device, 64, kDeviceToHost, out).is_ok());
  ASSERT_TRUE(device::prepare_fill("fill", host, 64, 1, 64, fill).is_ok());
  give_back(host, handle);
  EXPECT_THAT(device::run_copy("in", in, true, 0).message(), HasSubstr("the source"));
  EXPECT_THAT(device::run_copy("out", out, true, 0).message(), HasSubstr("went away before it ran"));
  EXPECT_THAT(device::run_fill("fill", fill, true, 0).message(), HasSubstr("went away before it ran"));
  EXPECT_TRUE(entries::aclrtFree(device).is_ok());
}

TEST_F(PhysicalHostMemoryTest, LikeOtherPinnedMemoryItOutlivesItsDevice) {
  char* const base = reserve(kPage);
  void* const handle = create(kPage);
  ASSERT_TRUE(map(base, kPage, handle).is_ok());
  base[0] = 42;
  ASSERT_TRUE(device::reset_device(0, true).is_ok());
  EXPECT_EQ(base[0], 42);
  ASSERT_TRUE(entries::aclrtSetDevice(0).is_ok());
  EXPECT_NE(reserve(kPage), base);
  give_back(base, handle);
  EXPECT_TRUE(entries::aclrtReleaseMemAddress(base).is_ok());
}

TEST_F(PhysicalHostMemoryTest, ThreadsMapAndUnmapAtOnce) {
  std::vector<std::thread> threads;
  for (int number = 0; number < 4; ++number) {
    threads.emplace_back([number] {
      ASSERT_TRUE(entries::aclrtSetDevice(number % 2).is_ok());
      char* const base = reserve(kPage);
      for (int round = 0; round < 50; ++round) {
        void* const handle = create(kPage);
        ASSERT_TRUE(map(base, kPage, handle).is_ok());
        ASSERT_EQ(base[number], 0);
        base[number] = 1;
        give_back(base, handle);
      }
      ASSERT_TRUE(entries::aclrtReleaseMemAddress(base).is_ok());
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace drydock
