#include <cstring>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "abi/generated/entries.h"
#include "base/generated/error_codes.h"
#include "device/context.h"
#include "device/device.h"
#include "device/heap.h"
#include "device/settings.h"
#include "device/virtual_memory.h"
#include "values/extents.h"

namespace drydock {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr uint64_t kMib = uint64_t{1} << 20;
constexpr uint64_t kGib = uint64_t{1} << 30;
constexpr uint64_t kChunk = 20 * kMib;
constexpr int32_t kHostToDevice = 1;
constexpr int32_t kDeviceToHost = 2;

[[maybe_unused]] const bool two_devices = [] {
  setenv("DRYDOCK_DEVICES", "2", 1);
  return true;
}();

// aclrtPhysicalMemProp as torch_npu fills it.
struct Properties {
  int32_t handle_type = 0;
  int32_t allocation_type = 0;
  int32_t memory_attribute = 4;
  uint32_t location_id = 0;
  int32_t location_type = 1;
  uint64_t reserved = 0;
};

class VirtualMemoryTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(entries::aclrtSetDevice(0).is_ok()); }
  void TearDown() override {
    device::Device::find(0)->virtual_memory().release_all();
    device::Device::find(0)->heap().free_all();
    ASSERT_TRUE(entries::aclrtSetDevice(0).is_ok());
  }

  char* reserve(uint64_t size) {
    void* address = nullptr;
    const Status status = entries::aclrtReserveMemAddress(&address, size, 0, nullptr, 1);
    EXPECT_TRUE(status.is_ok()) << status.message();
    return static_cast<char*>(address);
  }
  Status create(uint64_t size, void*& handle, Properties properties = {}) {
    return entries::aclrtMallocPhysical(&handle, size, &properties, 0);
  }
  void* create(uint64_t size) {
    void* handle = nullptr;
    const Status status = create(size, handle);
    EXPECT_TRUE(status.is_ok()) << status.message();
    return handle;
  }
  Status map(char* address, uint64_t size, void* handle) { return entries::aclrtMapMem(address, size, 0, handle, 0); }
  static size_t free_bytes() {
    size_t free = 0;
    size_t total = 0;
    EXPECT_TRUE(entries::aclrtGetMemInfo(1, &free, &total).is_ok());
    return free;
  }
};

TEST_F(VirtualMemoryTest, ExpandableSegmentsWorkAsTorchNpuUsesThem) {
  // Contract E5: handles of a request first, then maps side by side; unmap takes the address, the handle goes later.
  const size_t before = free_bytes();
  char* const base = reserve(73'693'921'280);
  EXPECT_EQ(free_bytes(), before);
  std::vector<void*> handles;
  for (int i = 0; i < 3; ++i) handles.push_back(create(kChunk));
  EXPECT_EQ(before - free_bytes(), 3 * kChunk);  // at once, not when mapped
  EXPECT_FALSE(device::is_allocated(base, 1));
  for (size_t i = 0; i < 3; ++i) ASSERT_TRUE(map(base + i * kChunk, kChunk, handles[i]).is_ok());
  EXPECT_TRUE(device::is_allocated(base, 3 * kChunk));  // one piece
  EXPECT_FALSE(device::is_allocated(base, 3 * kChunk + 1));
  EXPECT_TRUE(device::is_allocated(base + kChunk - 1, 2 * kChunk));
  const auto extent = device::extent_of(base + kChunk + 5);
  ASSERT_TRUE(extent.has_value());
  EXPECT_EQ(extent->begin, reinterpret_cast<uint64_t>(base) + kChunk);

  ASSERT_TRUE(entries::aclrtUnmapMem(base + kChunk).is_ok());
  EXPECT_TRUE(device::is_allocated(base, kChunk));
  EXPECT_FALSE(device::is_allocated(base, kChunk + 1));
  EXPECT_EQ(before - free_bytes(), 3 * kChunk);
  ASSERT_TRUE(entries::aclrtFreePhysical(handles[1]).is_ok());
  EXPECT_EQ(before - free_bytes(), 2 * kChunk);
}

TEST_F(VirtualMemoryTest, EveryStreamAndPoolGetsItsReservation) {
  // torch_npu reserves 9/8 of the device for each of two pools of each stream that allocates.
  if (device::arena_bytes() < (uint64_t{1} << 42)) GTEST_SKIP() << "a sanitizer leaves too little address space";
  for (int i = 0; i < 64; ++i) ASSERT_NE(reserve(73'693'921'280), nullptr);
}

TEST_F(VirtualMemoryTest, RunningOutOfAddressSpaceIsAnAnswer) {
  void* address = nullptr;
  Status status = entries::aclrtReserveMemAddress(&address, uint64_t{1} << 60, 0, nullptr, 1);
  EXPECT_EQ(status.code(), code::ACL_ERROR_RT_MEMORY_ALLOCATION);
  EXPECT_THAT(status.message(), HasSubstr("address space"));
  status = entries::aclrtReserveMemAddress(&address, UINT64_MAX, 0, nullptr, 1);
  EXPECT_EQ(status.code(), code::ACL_ERROR_RT_MEMORY_ALLOCATION);
}

TEST_F(VirtualMemoryTest, RunningOutOfMemoryIs207001AtOnce) {
  void* handle = nullptr;
  ASSERT_TRUE(create(60 * kGib, handle).is_ok());
  void* another = nullptr;
  const Status status = create(2 * kGib, another);
  EXPECT_EQ(status.code(), code::ACL_ERROR_RT_MEMORY_ALLOCATION);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("aclrtMallocPhysical"), HasSubstr("asked 2147483648 bytes"),
                                      HasSubstr("free " + std::to_string(free_bytes()))));
  EXPECT_EQ(another, nullptr);
}

TEST_F(VirtualMemoryTest, PhysicalMemoryComesInWholePages) {
  void* handle = nullptr;
  EXPECT_EQ(create(3 * kMib, handle).code(), code::ACL_ERROR_RT_PARAM_INVALID);
  EXPECT_EQ(create(0, handle).code(), code::ACL_ERROR_RT_PARAM_INVALID);
  Properties giant;
  giant.memory_attribute = 10;
  EXPECT_EQ(create(2 * kMib, handle, giant).code(), code::ACL_ERROR_RT_PARAM_INVALID);
  EXPECT_TRUE(create(kGib, handle, giant).is_ok());

  size_t granularity = 0;
  Properties huge;
  ASSERT_TRUE(entries::aclrtMemGetAllocationGranularity(&huge, 0, &granularity).is_ok());
  EXPECT_EQ(granularity, 2 * kMib);
  ASSERT_TRUE(entries::aclrtMemGetAllocationGranularity(&giant, 1, &granularity).is_ok());
  EXPECT_EQ(granularity, kGib);
  EXPECT_FALSE(entries::aclrtMemGetAllocationGranularity(&huge, 65535, &granularity).is_ok());
}

TEST_F(VirtualMemoryTest, PropertiesThatAreNotSupportedAreRefused) {
  void* handle = nullptr;
  Properties shared;
  shared.handle_type = 2;
  EXPECT_THAT(create(2 * kMib, handle, shared).message(), HasSubstr("not shared between processes"));
  Properties host_node;
  host_node.location_type = 4;
  EXPECT_THAT(create(2 * kMib, handle, host_node).message(), HasSubstr("the location type is 4"));
  Properties ddr;
  ddr.memory_attribute = 0;
  EXPECT_EQ(create(2 * kMib, handle, ddr).code(), code::ACL_ERROR_RT_PARAM_INVALID);
  Properties nowhere;
  nowhere.location_id = 9;
  EXPECT_EQ(create(2 * kMib, handle, nowhere).code(), code::ACL_ERROR_RT_INVALID_DEVICEID);
  Properties good;
  EXPECT_EQ(entries::aclrtMallocPhysical(&handle, 2 * kMib, &good, 1).code(), code::ACL_ERROR_RT_PARAM_INVALID);
  EXPECT_EQ(entries::aclrtMallocPhysical(nullptr, 2 * kMib, &good, 0).code(), code::ACL_ERROR_INVALID_PARAM);
  EXPECT_EQ(entries::aclrtMallocPhysical(&handle, 2 * kMib, nullptr, 0).code(), code::ACL_ERROR_INVALID_PARAM);
}

TEST_F(VirtualMemoryTest, MapsKeepTheVendorsLimits) {
  char* const base = reserve(10 * kMib);
  void* const handle = create(4 * kMib);
  EXPECT_THAT(map(base, 2 * kMib, handle).message(), HasSubstr("must equal the size"));
  EXPECT_THAT(entries::aclrtMapMem(base, 4 * kMib, 2 * kMib, handle, 0).message(), HasSubstr("offset"));
  EXPECT_THAT(entries::aclrtMapMem(base, 4 * kMib, 0, handle, 3).message(), HasSubstr("flags"));
  EXPECT_THAT(map(base + 4096, 4 * kMib, handle).message(), HasSubstr("multiple of"));
  EXPECT_THAT(map(base + 8 * kMib, 4 * kMib, handle).message(), HasSubstr("behind the end"));
  EXPECT_THAT(map(base + 10 * kMib, 4 * kMib, handle).message(), HasSubstr("reservation"));
  EXPECT_EQ(map(base, 4 * kMib, base).code(), code::ACL_ERROR_RT_INVALID_HANDLE);
  char host[16];
  EXPECT_THAT(map(host, 4 * kMib, handle).message(), HasSubstr("not device memory"));

  ASSERT_TRUE(map(base + 2 * kMib, 4 * kMib, handle).is_ok());
  EXPECT_THAT(map(base + 6 * kMib, 4 * kMib, handle).message(), HasSubstr("already mapped"));
  void* const second = create(4 * kMib);
  EXPECT_THAT(map(base, 4 * kMib, second).message(), HasSubstr("reach into the mapping"));
  EXPECT_THAT(map(base + 4 * kMib, 4 * kMib, second).message(), HasSubstr("is taken by the mapping"));
  EXPECT_TRUE(map(base + 6 * kMib, 4 * kMib, second).is_ok());
}

TEST_F(VirtualMemoryTest, MemoryOfAnotherDeviceDoesNotFit) {
  char* const base = reserve(4 * kMib);
  Properties other;
  other.location_id = 1;
  void* handle = nullptr;
  ASSERT_TRUE(create(2 * kMib, handle, other).is_ok());
  EXPECT_THAT(map(base, 2 * kMib, handle).message(), HasSubstr("belongs to device 1"));
  EXPECT_TRUE(entries::aclrtFreePhysical(handle).is_ok());
}

TEST_F(VirtualMemoryTest, GivingBackKeepsTheOrder) {
  char* const base = reserve(4 * kMib);
  void* const handle = create(2 * kMib);
  ASSERT_TRUE(map(base, 2 * kMib, handle).is_ok());
  EXPECT_THAT(entries::aclrtFreePhysical(handle).message(), HasSubstr("still mapped"));
  EXPECT_THAT(entries::aclrtReleaseMemAddress(base).message(), HasSubstr("unmap it first"));
  EXPECT_THAT(entries::aclrtUnmapMem(base + 2 * kMib).message(), HasSubstr("not the begin of a mapping"));
  ASSERT_TRUE(entries::aclrtUnmapMem(base).is_ok());
  EXPECT_THAT(entries::aclrtUnmapMem(base).message(), HasSubstr("unmapped at"));
  ASSERT_TRUE(entries::aclrtFreePhysical(handle).is_ok());
  const Status twice = entries::aclrtFreePhysical(handle);
  EXPECT_EQ(twice.code(), code::ACL_ERROR_RT_INVALID_HANDLE);
  EXPECT_THAT(twice.message(), HasSubstr("was freed"));
  ASSERT_TRUE(entries::aclrtReleaseMemAddress(base).is_ok());
  EXPECT_THAT(entries::aclrtReleaseMemAddress(base).message(), HasSubstr("not the begin of a reservation"));
  EXPECT_EQ(entries::aclrtUnmapMem(nullptr).code(), code::ACL_ERROR_INVALID_PARAM);
  EXPECT_EQ(entries::aclrtFreePhysical(nullptr).code(), code::ACL_ERROR_INVALID_PARAM);
}

TEST_F(VirtualMemoryTest, ContentsStayWithTheHandle) {
  char* const base = reserve(8 * kMib);
  void* const handle = create(2 * kMib);
  ASSERT_TRUE(map(base, 2 * kMib, handle).is_ok());
  const char text[] = "kept while unmapped";
  ASSERT_TRUE(entries::aclrtMemcpy(base + 100, sizeof(text), text, sizeof(text), kHostToDevice).is_ok());
  ASSERT_TRUE(entries::aclrtUnmapMem(base).is_ok());
  ASSERT_TRUE(map(base + 4 * kMib, 2 * kMib, handle).is_ok());
  char back[sizeof(text)] = {};
  ASSERT_TRUE(entries::aclrtMemcpy(back, sizeof(back), base + 4 * kMib + 100, sizeof(text), kDeviceToHost).is_ok());
  EXPECT_STREQ(back, text);
  // Only what was known is.
  EXPECT_EQ(values::knowledge_of(reinterpret_cast<uint64_t>(base) + 4 * kMib, 200), values::Knowledge::kGhost);
}

TEST_F(VirtualMemoryTest, ContentsGoWithTheHandle) {
  char* const base = reserve(2 * kMib);
  const uint64_t before = values::extent_count();
  for (int i = 0; i < 10; ++i) {
    void* const handle = create(2 * kMib);
    ASSERT_TRUE(map(base, 2 * kMib, handle).is_ok());
    ASSERT_TRUE(entries::aclrtMemset(base, 64, 7, 64).is_ok());
    ASSERT_TRUE(entries::aclrtUnmapMem(base).is_ok());
    EXPECT_EQ(values::extent_count(), before + 1);
    ASSERT_TRUE(entries::aclrtFreePhysical(handle).is_ok());
    EXPECT_EQ(values::extent_count(), before);
  }
}

TEST_F(VirtualMemoryTest, AFreshHandleHoldsNothingOfTheLastOne) {
  char* const base = reserve(2 * kMib);
  void* handle = create(2 * kMib);
  ASSERT_TRUE(map(base, 2 * kMib, handle).is_ok());
  ASSERT_TRUE(entries::aclrtMemset(base, 64, 7, 64).is_ok());
  ASSERT_TRUE(entries::aclrtUnmapMem(base).is_ok());
  ASSERT_TRUE(entries::aclrtFreePhysical(handle).is_ok());
  handle = create(2 * kMib);
  ASSERT_TRUE(map(base, 2 * kMib, handle).is_ok());
  EXPECT_EQ(values::knowledge_of(reinterpret_cast<uint64_t>(base), 64), values::Knowledge::kGhost);
  EXPECT_EQ(*device::host_address(base), 0);
}

TEST_F(VirtualMemoryTest, ReservationsKeepTheVendorsLimits) {
  void* address = nullptr;
  EXPECT_EQ(entries::aclrtReserveMemAddress(nullptr, kMib, 0, nullptr, 1).code(), code::ACL_ERROR_INVALID_PARAM);
  EXPECT_EQ(entries::aclrtReserveMemAddress(&address, 0, 0, nullptr, 1).code(), code::ACL_ERROR_INVALID_PARAM);
  EXPECT_EQ(entries::aclrtReserveMemAddress(&address, kMib, 64, nullptr, 1).code(), code::ACL_ERROR_RT_PARAM_INVALID);
  EXPECT_EQ(entries::aclrtReserveMemAddress(&address, kMib, 0, &address, 1).code(), code::ACL_ERROR_RT_PARAM_INVALID);
  EXPECT_EQ(entries::aclrtReserveMemAddress(&address, kMib, 0, nullptr, 2).code(), code::ACL_ERROR_RT_PARAM_INVALID);
  EXPECT_TRUE(entries::aclrtReserveMemAddress(&address, kMib, 0, nullptr, 0).is_ok());  // vllm-ascend's flags
  // Neighbouring reservations are never one piece.
  void* next = nullptr;
  ASSERT_TRUE(entries::aclrtReserveMemAddress(&next, kMib, 0, nullptr, 0).is_ok());
  EXPECT_GT(static_cast<char*>(next), static_cast<char*>(address) + 2 * kMib);
}

TEST_F(VirtualMemoryTest, UseAfterUnmapNamesIt) {
  char* const base = reserve(2 * kMib);
  void* const handle = create(2 * kMib);
  ASSERT_TRUE(map(base, 2 * kMib, handle).is_ok());
  ASSERT_TRUE(entries::aclrtUnmapMem(base).is_ok());
  char back[4];
  EXPECT_THAT(entries::aclrtMemcpy(back, 4, base, 4, kDeviceToHost).message(), HasSubstr("unmapped at"));
  char* const other = reserve(2 * kMib);
  EXPECT_THAT(entries::aclrtMemcpy(back, 4, other, 4, kDeviceToHost).message(), HasSubstr("nothing mapped there"));
}

TEST_F(VirtualMemoryTest, ResettingTheDeviceTakesEverythingBack) {
  const size_t before = free_bytes();
  char* const base = reserve(4 * kMib);
  void* const handle = create(2 * kMib);
  ASSERT_TRUE(map(base, 2 * kMib, handle).is_ok());
  ASSERT_TRUE(device::reset_device(0, true).is_ok());
  ASSERT_TRUE(entries::aclrtSetDevice(0).is_ok());
  EXPECT_EQ(free_bytes(), before);
  EXPECT_FALSE(device::is_allocated(base, 1));
  EXPECT_EQ(entries::aclrtFreePhysical(handle).code(), code::ACL_ERROR_RT_INVALID_HANDLE);
}

}  // namespace
}  // namespace drydock
