#include <array>
#include <cstdlib>
#include <cstring>
#include <string>

#include <gtest/gtest.h>

#include "abi/generated/entries.h"
#include "device/version.h"

namespace drydock {
namespace {

using device::parse_cann_version;
using device::parse_driver_version;
using device::Version;

TEST(Versions, FormsThatTorchNpuReads) {
  Version version;
  for (const char* text : {"9.1.0", "8.5.0", "8.5.0.alpha003", "8.5.1", "9.0.0-beta.2", "9.0.0.beta2", "9.0.0-rc1",
                           "9.0.0-alpha", "8.3.RC1", "8.1.RC1.alpha002", "8.0.0", "8.0.T3", "8.0.0.alpha001"}) {
    EXPECT_TRUE(parse_cann_version(text, version).is_ok()) << text;
    EXPECT_EQ(version.text, text);
  }
  ASSERT_TRUE(parse_cann_version("8.1.RC1.alpha002", version).is_ok());
  EXPECT_EQ(version.major, "8");
  EXPECT_EQ(version.minor, "1");
  EXPECT_EQ(version.release, "RC1");
  EXPECT_EQ(version.patch, "alpha002");
  for (const char* text : {"26.0.0", "25.5.0", "25.0.RC1", "25.0.RC1.1", "24.1.0.b050", "25.0.RC1.alpha001"}) {
    EXPECT_TRUE(parse_driver_version(text, version).is_ok()) << text;
  }
}

TEST(Versions, FormsThatWouldCountAsZeroAreRefused) {
  Version version;
  version.text = "untouched";
  for (const char* text :
       {"", "9", "9.1", "9.1.", "9.1.RC1", "v9.1.0", "9.1.0.", "9.1.0-", "9.1.0-gamma", "8.3.RC", "8.3.RC1-alpha1",
        "8.3.RC1.beta1", "8.5.RC1", "latest", "9.-1.0", "9.1.0 ", "99999999999.1.0"}) {
    const Status status = parse_cann_version(text, version);
    EXPECT_EQ(status.code(), 107000) << text;
    EXPECT_NE(status.message().find("version 0"), std::string::npos);
  }
  for (const char* text : {"", "26", "26.0", "26.0.0-rc1", "26.0.T1", "26.0.0.gamma1"}) {
    EXPECT_EQ(parse_driver_version(text, version).code(), 107000) << text;
  }
  EXPECT_EQ(parse_cann_version(std::string(200, '1'), version).code(), 107000);
  EXPECT_EQ(version.text, "untouched");
}

TEST(Versions, SettingsWinOverTheProfileAndTheDriverFollowsCann) {
  const device::ClaimedVersions by_default = device::read_versions(nullptr, nullptr);
  EXPECT_TRUE(by_default.status.is_ok());
  EXPECT_EQ(by_default.cann.text, "9.1.0");
  EXPECT_EQ(by_default.driver.text, "26.0.0");
  const device::ClaimedVersions older = device::read_versions("8.3.RC1", nullptr);
  EXPECT_EQ(older.cann.text, "8.3.RC1");
  EXPECT_EQ(older.driver.text, "25.3.RC1");
  const device::ClaimedVersions both = device::read_versions("8.5.0", "25.0.RC1");
  EXPECT_EQ(both.driver.text, "25.0.RC1");
  EXPECT_EQ(device::read_versions("", "").cann.text, "9.1.0") << "set to nothing is not set";
  const device::ClaimedVersions nonsense = device::read_versions("newest", nullptr);
  EXPECT_EQ(nonsense.status.code(), 107000);
  EXPECT_NE(nonsense.status.message().find("newest"), std::string::npos);
  EXPECT_EQ(device::read_versions(nullptr, "newest").status.code(), 107000);
}

TEST(Versions, EveryCannHasADriver) {
  Version cann;
  for (const auto& [text, driver] : {std::pair{"9.2.0", "26.0.0"}, std::pair{"9.0.0", "26.0.RC1"},
                                     std::pair{"8.4.0", "25.3.RC1"}, std::pair{"6.3.RC1", "23.0.0"}}) {
    ASSERT_TRUE(parse_cann_version(text, cann).is_ok());
    EXPECT_EQ(device::driver_of_cann(cann), driver) << text;
  }
}

struct PackageVersion {
  char version[128];
  char parts[256];
  char reserved[128];
};
static_assert(sizeof(PackageVersion) == 512);

TEST(VersionEntries, PackagesAnswerBeforeAnythingIsInitialized) {
  for (int32_t package = 0; package < 8; ++package) {
    PackageVersion answer;
    std::memset(&answer, 0x55, sizeof(answer));
    ASSERT_TRUE(entries::aclsysGetCANNVersion(package, &answer).is_ok());
    EXPECT_STREQ(answer.version, package == 7 ? "26.0.0" : "9.1.0");
    EXPECT_EQ(answer.version[127], '\0');
    EXPECT_STREQ(answer.parts, package == 7 ? "26" : "9");
    EXPECT_STREQ(answer.parts + 64, package == 7 ? "0" : "1");
  }
}

TEST(VersionEntries, WritesNoByteBeyondTheStruct) {
  std::array<char, 520> buffer;
  buffer.fill('x');
  ASSERT_TRUE(entries::aclsysGetCANNVersion(0, buffer.data()).is_ok());
  EXPECT_EQ(std::string(buffer.data() + 512, 8), "xxxxxxxx");
}

TEST(VersionEntries, BadPackages) {
  PackageVersion answer;
  EXPECT_EQ(entries::aclsysGetCANNVersion(8, &answer).code(), 100000);
  EXPECT_EQ(entries::aclsysGetCANNVersion(-1, &answer).code(), 100000);
  EXPECT_EQ(entries::aclsysGetCANNVersion(0, nullptr).code(), 100000);
}

TEST(VersionEntries, OperatorPackagesByName) {
  for (const char* name : {"ops_math", "ops_nn", "ops_transformer", "ops_cv", "ops_legacy", "runtime"}) {
    char name_buffer[128];
    std::strcpy(name_buffer, name);
    std::array<char, 136> version;
    version.fill('x');
    ASSERT_TRUE(entries::aclsysGetVersionStr(name_buffer, version.data()).is_ok()) << name;
    EXPECT_STREQ(version.data(), "9.1.0");
    EXPECT_STREQ(name_buffer, name) << "the name must not be written";
    EXPECT_EQ(std::string(version.data() + 128, 8), "xxxxxxxx");
  }
  char unknown[] = "ops_unknown";
  char version[128];
  EXPECT_EQ(entries::aclsysGetVersionStr(unknown, version).code(), 100000);
  EXPECT_EQ(entries::aclsysGetVersionStr(nullptr, version).code(), 100000);
  EXPECT_EQ(entries::aclsysGetVersionStr(unknown, nullptr).code(), 100000);
}

TEST(VersionEntries, AttributesOfTheDevice) {
  int32_t value = -1;
  ASSERT_TRUE(entries::aclGetCannAttribute(0, &value).is_ok());
  EXPECT_EQ(value, 1) << "results in inf and nan";
  ASSERT_TRUE(entries::aclGetCannAttribute(1, &value).is_ok());
  EXPECT_EQ(value, 1) << "bf16";
  EXPECT_EQ(entries::aclGetCannAttribute(3, &value).code(), 100000);
  EXPECT_EQ(entries::aclGetCannAttribute(-1, &value).code(), 100000);
  EXPECT_EQ(entries::aclGetCannAttribute(0, nullptr).code(), 100000);
  const int32_t* list = nullptr;
  size_t count = 0;
  ASSERT_TRUE(entries::aclGetCannAttributeList(&list, &count).is_ok());
  for (size_t index = 0; index < count; ++index) {
    ASSERT_TRUE(entries::aclGetCannAttribute(list[index], &value).is_ok());
    EXPECT_EQ(value, 1) << "the list holds what the device can do";
  }
  EXPECT_GT(count, 0U);
}

}  // namespace
}  // namespace drydock
