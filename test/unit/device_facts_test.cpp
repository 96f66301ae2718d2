#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <unistd.h>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "abi/generated/entries.h"
#include "base/generated/error_codes.h"
#include "device_new_process.h"

// What devices say of themselves, and which reach which.

namespace drydock {
namespace {

using ::testing::HasSubstr;

[[maybe_unused]] const bool environment = [] {
  setenv("DRYDOCK_DEVICES", "4", 1);
  setenv("ASCEND_RT_VISIBLE_DEVICES", "0,2,3", 1);
  return true;
}();

TEST(DeviceFactsTest, CapabilitiesComeFromTheProfile) {
  EXPECT_STREQ(entries::aclrtGetSocName(), "Ascend910_9392");  // contract B7
  int64_t value = 0;
  ASSERT_TRUE(entries::aclGetDeviceCapability(0, 0, &value).is_ok());  // contract M1
  EXPECT_EQ(value, 24);
  ASSERT_TRUE(entries::aclGetDeviceCapability(0, 1, &value).is_ok());
  EXPECT_EQ(value, 48);
  ASSERT_TRUE(entries::aclGetDeviceCapability(0, 2, &value).is_ok());
  EXPECT_EQ(value, 201'326'592);
  EXPECT_EQ(entries::aclGetDeviceCapability(0, 3, &value).code(), code::ACL_ERROR_INVALID_PARAM);
  EXPECT_EQ(entries::aclGetDeviceCapability(5, 0, &value).code(), code::ACL_ERROR_RT_INVALID_DEVICEID);
  EXPECT_EQ(entries::aclGetDeviceCapability(UINT32_MAX, 0, &value).code(), code::ACL_ERROR_RT_INVALID_DEVICEID);
  EXPECT_EQ(entries::aclGetDeviceCapability(0, 0, nullptr).code(), code::ACL_ERROR_INVALID_PARAM);
}

TEST(DeviceFactsTest, AttributesComeFromTheProfile) {
  const std::pair<int32_t, int64_t> attributes[] = {
      {1, 6},   {101, 24},  {102, 24}, {201, 48}, {204, 196'608}, {301, 65'787'658'240}, {302, 201'326'592},
      {501, 0}, {601, 2201}};
  int64_t value = 0;
  for (const auto& [attribute, expected] : attributes) {
    ASSERT_TRUE(entries::aclrtGetDeviceInfo(0, attribute, &value).is_ok()) << attribute;
    EXPECT_EQ(value, expected) << attribute;
  }
  ASSERT_TRUE(entries::aclrtGetDeviceInfo(2, 301, &value).is_ok());
  EXPECT_EQ(value, 65'796'046'848);  // physical device 3: an odd die
  const Status status = entries::aclrtGetDeviceInfo(0, 202, &value);
  EXPECT_EQ(status.code(), code::ACL_ERROR_RT_PARAM_INVALID);
  EXPECT_THAT(status.message(), HasSubstr("attribute 202"));
  EXPECT_EQ(entries::aclrtGetDeviceInfo(3, 301, &value).code(), code::ACL_ERROR_RT_INVALID_DEVICEID);
  EXPECT_EQ(entries::aclrtGetDeviceInfo(0, 301, nullptr).code(), code::ACL_ERROR_INVALID_PARAM);
}

TEST(DeviceFactsTest, IdentitiesFollowThePhysicalDevice) {
  char one[16];
  char two[16];
  ASSERT_TRUE(entries::aclrtDeviceGetUuid(0, one).is_ok());
  ASSERT_TRUE(entries::aclrtDeviceGetUuid(1, two).is_ok());
  EXPECT_NE(std::memcmp(one, two, 16), 0);
  EXPECT_EQ(entries::aclrtDeviceGetUuid(0, nullptr).code(), code::ACL_ERROR_INVALID_PARAM);
  int32_t number = -1;
  ASSERT_TRUE(entries::aclrtGetLogicDevIdByUserDevId(1, &number).is_ok());
  EXPECT_EQ(number, 2);
  EXPECT_EQ(entries::aclrtGetLogicDevIdByUserDevId(3, &number).code(), code::ACL_ERROR_RT_INVALID_DEVICEID);
  ASSERT_TRUE(entries::aclrtDeviceGetBareTgid(&number).is_ok());
  EXPECT_EQ(number, getpid());
  ASSERT_TRUE(entries::aclrtGetRunMode(&number).is_ok());
  EXPECT_EQ(number, 1);
}

TEST(DeviceFactsTest, PeersAreEnabledOncePerOrderedPair) {
  IN_NEW_PROCESS({
    int32_t can = -1;
    ASSERT_TRUE(entries::aclrtDeviceCanAccessPeer(&can, 0, 2).is_ok());  // contract M3
    EXPECT_EQ(can, 1);
    ASSERT_TRUE(entries::aclrtDeviceCanAccessPeer(&can, 1, 1).is_ok());
    EXPECT_EQ(can, 0);
    EXPECT_FALSE(entries::aclrtDeviceCanAccessPeer(&can, 0, 3).is_ok());
    EXPECT_EQ(entries::aclrtDeviceEnablePeerAccess(1, 0).code(), code::ACL_ERROR_RT_CONTEXT_NULL);
    ASSERT_TRUE(entries::aclrtSetDevice(0).is_ok());
    EXPECT_TRUE(entries::aclrtDeviceEnablePeerAccess(1, 0).is_ok());  // contract M4
    EXPECT_FALSE(entries::aclrtDeviceEnablePeerAccess(1, 0).is_ok());
    EXPECT_FALSE(entries::aclrtDeviceEnablePeerAccess(2, 7).is_ok());
    EXPECT_FALSE(entries::aclrtDeviceEnablePeerAccess(0, 0).is_ok());
    EXPECT_FALSE(entries::aclrtDeviceEnablePeerAccess(9, 0).is_ok());
    ASSERT_TRUE(entries::aclrtSetDevice(1).is_ok());
    EXPECT_TRUE(entries::aclrtDeviceEnablePeerAccess(0, 0).is_ok());
    EXPECT_TRUE(entries::aclrtDeviceDisablePeerAccess(0).is_ok());
    EXPECT_FALSE(entries::aclrtDeviceDisablePeerAccess(0).is_ok());
  });
}

TEST(DeviceFactsTest, CoreLimitsOfADevice) {
  IN_NEW_PROCESS({
    uint32_t cores = 0;
    ASSERT_TRUE(entries::aclrtGetDeviceResLimit(0, 0, &cores).is_ok());
    EXPECT_EQ(cores, 24U);
    ASSERT_TRUE(entries::aclrtGetDeviceResLimit(0, 1, &cores).is_ok());
    EXPECT_EQ(cores, 48U);
    ASSERT_TRUE(entries::aclrtSetDeviceResLimit(0, 1, 8).is_ok());
    ASSERT_TRUE(entries::aclrtGetDeviceResLimit(0, 1, &cores).is_ok());
    EXPECT_EQ(cores, 8U);
    ASSERT_TRUE(entries::aclrtGetDeviceResLimit(1, 1, &cores).is_ok());
    EXPECT_EQ(cores, 48U);
    EXPECT_FALSE(entries::aclrtSetDeviceResLimit(0, 1, 49).is_ok());
    EXPECT_FALSE(entries::aclrtSetDeviceResLimit(0, 2, 1).is_ok());
    EXPECT_FALSE(entries::aclrtSetDeviceResLimit(7, 1, 1).is_ok());
    ASSERT_TRUE(entries::aclrtResetDeviceResLimit(0).is_ok());
    ASSERT_TRUE(entries::aclrtGetDeviceResLimit(0, 1, &cores).is_ok());
    EXPECT_EQ(cores, 48U);
    EXPECT_FALSE(entries::aclrtGetDeviceResLimit(0, 1, nullptr).is_ok());
  });
}

}  // namespace
}  // namespace drydock
