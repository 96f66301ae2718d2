#include <cstring>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "abi/generated/entries.h"
#include "base/generated/error_codes.h"
#include "device/host_memory.h"

namespace drydock {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

struct Attributes {
  uint32_t id;
  int32_t type;
  uint32_t page_bytes;
  uint32_t reserved[4];
};
constexpr int32_t kHost = 0;
constexpr int32_t kDevice = 1;
constexpr int32_t kUnregistered = 2;

Attributes attributes_of(const void* pointer) {
  Attributes attributes;
  std::memset(&attributes, 0xAB, sizeof(attributes));
  EXPECT_TRUE(entries::aclrtPointerGetAttributes(pointer, &attributes).is_ok());
  return attributes;
}

class HostMemoryTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(entries::aclrtSetDevice(0).is_ok()); }
  char* allocate(size_t size) {
    void* address = nullptr;
    EXPECT_TRUE(entries::aclrtMallocHost(&address, size).is_ok());
    return static_cast<char*>(address);
  }
};

TEST_F(HostMemoryTest, PinnedMemoryIsOrdinaryMemoryOnAPage) {
  // Contract E7.
  char* const address = allocate(100'000);
  EXPECT_EQ(reinterpret_cast<uint64_t>(address) % 4096, 0U);
  std::memset(address, 5, 100'000);
  EXPECT_EQ(device::pinned_bytes(), 100'000U);
  EXPECT_TRUE(entries::aclrtFreeHost(address).is_ok());
  EXPECT_EQ(device::pinned_bytes(), 0U);
}

TEST_F(HostMemoryTest, EveryAddressOfAPinnedRangeIsHostMemory) {
  // Contract E8: with "unregistered" torch_npu would block the stream and DDP would stop in is_pinned().
  char* const address = allocate(10'000);
  for (const size_t offset : {size_t{0}, size_t{1}, size_t{4096}, size_t{9'999}}) {
    EXPECT_EQ(attributes_of(address + offset).type, kHost) << offset;
  }
  EXPECT_EQ(attributes_of(address + 10'000).type, kUnregistered);
  EXPECT_TRUE(entries::aclrtFreeHost(address).is_ok());
  EXPECT_EQ(attributes_of(address).type, kUnregistered);
}

TEST_F(HostMemoryTest, DeviceAndForeignPointersAreToldApart) {
  void* device_pointer = nullptr;
  ASSERT_TRUE(entries::aclrtMalloc(&device_pointer, 1000, 0).is_ok());
  const Attributes attributes = attributes_of(static_cast<char*>(device_pointer) + 7);
  EXPECT_EQ(attributes.type, kDevice);
  EXPECT_EQ(attributes.id, 0U);
  EXPECT_EQ(attributes_of(&attributes).type, kUnregistered);
  ASSERT_TRUE(entries::aclrtFree(device_pointer).is_ok());
  EXPECT_EQ(attributes_of(device_pointer).type, kUnregistered);
  Attributes out;
  EXPECT_EQ(entries::aclrtPointerGetAttributes(nullptr, &out).code(), code::ACL_ERROR_INVALID_PARAM);
  EXPECT_EQ(entries::aclrtPointerGetAttributes(&out, nullptr).code(), code::ACL_ERROR_INVALID_PARAM);
}

TEST_F(HostMemoryTest, RegisteredMemoryIsHostMemoryUntilItIsNot) {
  std::vector<char> bytes(8192);
  void* device_pointer = nullptr;
  ASSERT_TRUE(entries::aclrtHostRegister(bytes.data(), bytes.size(), 0, &device_pointer).is_ok());
  EXPECT_EQ(device_pointer, bytes.data());
  EXPECT_EQ(attributes_of(bytes.data() + 8191).type, kHost);
  EXPECT_EQ(device::registered_bytes(), 8192U);
  const Status overlap = entries::aclrtHostRegisterV2(bytes.data() + 100, 10, 2);
  EXPECT_EQ(overlap.code(), code::ACL_ERROR_RT_PARAM_INVALID);
  EXPECT_THAT(overlap.message(), HasSubstr("registered already"));
  EXPECT_THAT(entries::aclrtFreeHost(bytes.data()).message(), HasSubstr("unregister"));
  EXPECT_TRUE(entries::aclrtHostUnregister(bytes.data()).is_ok());
  EXPECT_EQ(attributes_of(bytes.data()).type, kUnregistered);
  EXPECT_THAT(entries::aclrtHostUnregister(bytes.data()).message(), HasSubstr("was unregistered before"));
  ASSERT_TRUE(entries::aclrtHostRegisterV2(bytes.data(), 100, 0x10000000).is_ok());
  EXPECT_TRUE(entries::aclrtHostUnregister(bytes.data()).is_ok());
}

TEST_F(HostMemoryTest, WrongUseGetsASentence) {
  void* address = nullptr;
  EXPECT_EQ(entries::aclrtMallocHost(&address, 0).code(), code::ACL_ERROR_INVALID_PARAM);
  EXPECT_EQ(entries::aclrtMallocHost(nullptr, 1).code(), code::ACL_ERROR_INVALID_PARAM);
  EXPECT_EQ(entries::aclrtFreeHost(nullptr).code(), code::ACL_ERROR_INVALID_PARAM);
  EXPECT_EQ(entries::aclrtMallocHost(&address, SIZE_MAX).code(), code::ACL_ERROR_RT_MEMORY_ALLOCATION);
  EXPECT_EQ(entries::aclrtMallocHost(&address, size_t{1} << 45).code(), code::ACL_ERROR_RT_MEMORY_ALLOCATION);
  EXPECT_THAT(entries::aclrtFreeHost(&address).message(), HasSubstr("never returned it"));
  char* const pinned = allocate(5000);
  EXPECT_THAT(entries::aclrtFreeHost(pinned + 1).message(), HasSubstr("by its first address"));
  EXPECT_THAT(entries::aclrtHostUnregister(pinned).message(), HasSubstr("is pinned"));
  ASSERT_TRUE(entries::aclrtFreeHost(pinned).is_ok());
  EXPECT_THAT(entries::aclrtFreeHost(pinned).message(), AllOf(HasSubstr("was freed before"), HasSubstr("5000 bytes")));
  void* device_pointer = nullptr;
  ASSERT_TRUE(entries::aclrtMalloc(&device_pointer, 1000, 0).is_ok());
  EXPECT_THAT(entries::aclrtFreeHost(device_pointer).message(), HasSubstr("use aclrtFree"));
  EXPECT_THAT(entries::aclrtFree(pinned).message(), HasSubstr("never handed out"));
  EXPECT_THAT(entries::aclrtHostRegisterV2(device_pointer, 10, 2).message(), HasSubstr("is device memory"));
  EXPECT_EQ(entries::aclrtHostRegisterV2(&address, 8, 0).code(), code::ACL_ERROR_INVALID_PARAM);
  EXPECT_EQ(entries::aclrtHostRegisterV2(&address, UINT64_MAX, 2).code(), code::ACL_ERROR_INVALID_PARAM);
  EXPECT_EQ(entries::aclrtHostRegister(&address, 8, 3, &device_pointer).code(), code::ACL_ERROR_INVALID_PARAM);
}

TEST_F(HostMemoryTest, ConfigurationsAreRead) {
  struct Attribute {
    int32_t kind;
    uint8_t value[8];
  } attributes[] = {{1, {3}}, {3, {1}}};
  struct {
    const Attribute* attributes;
    size_t count;
  } config{attributes, 2};
  void* address = nullptr;
  ASSERT_TRUE(entries::aclrtMallocHostWithCfg(&address, 16, &config).is_ok());
  EXPECT_TRUE(entries::aclrtFreeHost(address).is_ok());
  ASSERT_TRUE(entries::aclrtMallocHostWithCfg(&address, 16, nullptr).is_ok());
  EXPECT_TRUE(entries::aclrtFreeHost(address).is_ok());
  attributes[1].kind = 9;
  EXPECT_EQ(entries::aclrtMallocHostWithCfg(&address, 16, &config).code(), code::ACL_ERROR_INVALID_PARAM);
  config = {nullptr, 1};
  EXPECT_EQ(entries::aclrtMallocHostWithCfg(&address, 16, &config).code(), code::ACL_ERROR_INVALID_PARAM);
}

TEST_F(HostMemoryTest, AnyThreadFrees) {
  std::vector<char*> blocks;
  for (int i = 0; i < 200; ++i) blocks.push_back(allocate(1000));
  std::vector<std::thread> threads;
  for (size_t t = 0; t < 4; ++t) {
    threads.emplace_back([&blocks, t] {
      for (size_t i = t; i < blocks.size(); i += 4) EXPECT_TRUE(entries::aclrtFreeHost(blocks[i]).is_ok());
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(device::pinned_bytes(), 0U);
}

}  // namespace
}  // namespace drydock
