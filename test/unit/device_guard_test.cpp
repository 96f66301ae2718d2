#include <cstdlib>
#include <cstring>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "abi/generated/entries.h"
#include "device/device.h"
#include "device/heap.h"

// Guard mode: the client's addresses are inaccessible, and everything works all the same.

namespace drydock {
namespace {

[[maybe_unused]] const bool guarded = [] {
  setenv("DRYDOCK_GUARD", "1", 1);
  return true;
}();

constexpr int32_t kHostToDevice = 1;
constexpr int32_t kDeviceToHost = 2;
constexpr int32_t kDeviceToDevice = 3;

char* allocate(size_t size) {
  void* address = nullptr;
  const Status status = entries::aclrtMalloc(&address, size, 0);
  EXPECT_TRUE(status.is_ok()) << status.message();
  return static_cast<char*>(address);
}

class GuardTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(entries::aclrtSetDevice(0).is_ok()); }
};

TEST_F(GuardTest, HostCodeThatReadsADevicePointerFaults) {
  volatile char* const address = allocate(4096);
  EXPECT_DEATH((void)*address, "");
}

TEST_F(GuardTest, HostCodeThatWritesADevicePointerFaults) {
  char* const address = allocate(4096);
  EXPECT_DEATH(std::memset(address, 0, 16), "");
}

TEST_F(GuardTest, CopiesWork) {
  char* const one = allocate(1024);
  char* const two = allocate(1024);
  const char text[] = "through the second mapping";
  char back[sizeof(text)] = {};
  ASSERT_TRUE(entries::aclrtMemcpy(one, sizeof(text), text, sizeof(text), kHostToDevice).is_ok());
  ASSERT_TRUE(entries::aclrtMemcpy(two, sizeof(text), one, sizeof(text), kDeviceToDevice).is_ok());
  ASSERT_TRUE(entries::aclrtMemcpy(back, sizeof(back), two, sizeof(text), kDeviceToHost).is_ok());
  EXPECT_STREQ(back, text);
  EXPECT_NE(device::host_address(one), one);
  EXPECT_EQ(std::memcmp(device::host_address(one), text, sizeof(text)), 0);
  EXPECT_EQ(device::host_address(text), text);
}

TEST_F(GuardTest, LargeFillsWork) {
  constexpr size_t kSize = 8 << 20;
  char* const address = allocate(kSize);
  device::host_address(address)[5000] = 1;
  ASSERT_TRUE(entries::aclrtMemset(address, kSize, 0, kSize).is_ok());
  EXPECT_EQ(device::host_address(address)[5000], 0);
}

TEST_F(GuardTest, FreedMemoryFaultsForDrydockItself) {
  char* const address = allocate(4096);
  char* const inside = device::host_address(address);
  *inside = 1;
  ASSERT_TRUE(entries::aclrtFree(address).is_ok());
  EXPECT_DEATH(*inside = 2, "");
}

}  // namespace
}  // namespace drydock
