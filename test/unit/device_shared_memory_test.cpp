#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <vector>

#include <gtest/gtest.h>
#include <sys/mman.h>

#include "abi/generated/entries.h"
#include "device/device.h"
#include "device/heap.h"

// Device memory that other processes can map.

namespace drydock {
namespace {

constexpr size_t kMib = size_t{1} << 20;

class SharedMemoryTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(entries::aclrtSetDevice(0).is_ok()); }

  static uint64_t allocate(size_t size) {
    void* address = nullptr;
    EXPECT_TRUE(entries::aclrtMalloc(&address, size, 0).is_ok());
    return reinterpret_cast<uint64_t>(address);
  }
  static void set(uint64_t address, const std::vector<uint8_t>& bytes) {
    EXPECT_TRUE(
        entries::aclrtMemcpy(reinterpret_cast<void*>(address), bytes.size(), bytes.data(), bytes.size(), 1).is_ok());
  }
  static std::vector<uint8_t> get(uint64_t address, size_t size) {
    std::vector<uint8_t> bytes(size, 0xEE);
    EXPECT_TRUE(entries::aclrtMemcpy(bytes.data(), size, reinterpret_cast<void*>(address), size, 2).is_ok());
    return bytes;
  }
};

TEST_F(SharedMemoryTest, AnotherViewHasTheSameBytes) {
  const uint64_t address = allocate(5 * kMib);
  const std::vector<uint8_t> head(100, 7);
  const std::vector<uint8_t> tail(4096, 9);
  set(address + 2 * kMib - 50, head);  // over the boundary of two slots
  set(address + 4 * kMib, tail);
  EXPECT_FALSE(device::shared_place_of(reinterpret_cast<void*>(address), 5 * kMib).has_value());
  const auto place = device::share_memory(address, 5 * kMib);
  ASSERT_TRUE(place.has_value());
  EXPECT_EQ(get(address + 2 * kMib - 50, 100), head);
  EXPECT_EQ(get(address + 4 * kMib, 4096), tail);

  void* view =
      mmap(nullptr, 5 * kMib, PROT_READ | PROT_WRITE, MAP_SHARED, place->file, static_cast<off_t>(place->offset));
  ASSERT_NE(view, MAP_FAILED);
  auto* bytes = static_cast<unsigned char*>(view);
  EXPECT_EQ(std::memcmp(bytes + 2 * kMib - 50, head.data(), head.size()), 0);
  EXPECT_EQ(bytes[0], 0);
  bytes[4 * kMib] = 11;
  EXPECT_EQ(get(address + 4 * kMib, 1).front(), 11);
  // Zeros by giving pages back, as for private memory.
  ASSERT_TRUE(entries::aclrtMemset(reinterpret_cast<void*>(address), 5 * kMib, 0, 5 * kMib).is_ok());
  EXPECT_EQ(bytes[4 * kMib], 0);
  EXPECT_EQ(bytes[2 * kMib - 50], 0);
  bytes[4 * kMib] = 13;
  // The next owner of the addresses finds nothing of this one's.
  ASSERT_TRUE(entries::aclrtFree(reinterpret_cast<void*>(address)).is_ok());
  EXPECT_EQ(bytes[4 * kMib], 0);
  const uint64_t next = allocate(6 * kMib);
  EXPECT_EQ(next, address);
  EXPECT_TRUE(device::shared_place_of(reinterpret_cast<void*>(next), 5 * kMib).has_value());
  EXPECT_FALSE(device::shared_place_of(reinterpret_cast<void*>(next), 7 * kMib).has_value());
  set(next, {1, 2, 3});
  EXPECT_EQ(bytes[2], 3);
  munmap(view, 5 * kMib);
}

TEST_F(SharedMemoryTest, WhatIsNotAllocatedIsNotShared) {
  const uint64_t address = allocate(kMib);
  EXPECT_FALSE(device::share_memory(address, 2 * kMib).has_value());
  EXPECT_FALSE(device::share_memory(reinterpret_cast<uint64_t>(&address), 8).has_value());
}

}  // namespace
}  // namespace drydock
