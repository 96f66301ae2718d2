#include <cstdint>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "abi/generated/entries.h"
#include "comm/hccl_config.h"
#include "device/context.h"
#include "device/options.h"

namespace drydock::entries {
namespace {

using device::SystemParameter;

class OptionEntries : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(device::set_device(0).is_ok()); }
  void TearDown() override {
    for (int32_t parameter = 0; parameter < device::kSystemParameters; ++parameter) {
      device::set_system_parameter(static_cast<SystemParameter>(parameter), 0);
    }
    ASSERT_TRUE(device::reset_device(0, true).is_ok());
  }
};

TEST_F(OptionEntries, RuntimeParametersAreZeroUntilSet) {
  for (int32_t parameter = 0; parameter < 4; ++parameter) {
    int64_t value = -1;
    ASSERT_TRUE(aclrtGetSysParamOpt(parameter, &value).is_ok());
    EXPECT_EQ(value, 0);
  }
}

TEST_F(OptionEntries, TheContextsValueWinsOverTheProcesss) {
  int64_t value = -1;
  ASSERT_TRUE(aclrtSetSysParamOpt(0, 1).is_ok());
  ASSERT_TRUE(aclrtGetSysParamOpt(0, &value).is_ok());
  EXPECT_EQ(value, 1);
  ASSERT_TRUE(aclrtCtxSetSysParamOpt(0, 0).is_ok());
  ASSERT_TRUE(aclrtGetSysParamOpt(0, &value).is_ok());
  EXPECT_EQ(value, 0);
  std::thread([] {
    int64_t elsewhere = -1;
    ASSERT_TRUE(aclrtGetSysParamOpt(0, &elsewhere).is_ok());
    EXPECT_EQ(elsewhere, 1) << "a thread without a context sees the process's";
  }).join();
  ASSERT_TRUE(device::reset_device(0, true).is_ok());
  ASSERT_TRUE(device::set_device(0).is_ok());
  ASSERT_TRUE(aclrtGetSysParamOpt(0, &value).is_ok());
  EXPECT_EQ(value, 1) << "the context's value went with it";
}

TEST_F(OptionEntries, UnknownRuntimeParametersAreRefused) {
  int64_t value = 0;
  EXPECT_EQ(aclrtSetSysParamOpt(4, 1).code(), 107000);
  EXPECT_EQ(aclrtCtxSetSysParamOpt(-1, 1).code(), 107000);
  EXPECT_EQ(aclrtGetSysParamOpt(4, &value).code(), 107000);
  EXPECT_EQ(aclrtGetSysParamOpt(0, nullptr).code(), 100000);
}

TEST_F(OptionEntries, CompileOptionsComeBackInABufferOfTheirSize) {
  ASSERT_TRUE(aclSetCompileopt(0, "allow_mix_precision").is_ok());
  const size_t size = aclGetCompileoptSize(0);
  EXPECT_EQ(size, sizeof("allow_mix_precision"));
  std::string buffer(size, 'x');
  ASSERT_TRUE(aclGetCompileopt(0, buffer.data(), size).is_ok());
  EXPECT_STREQ(buffer.c_str(), "allow_mix_precision");
  const Status small = aclGetCompileopt(0, buffer.data(), size - 1);
  EXPECT_EQ(small.code(), 100000);
  EXPECT_NE(small.message().find("20"), std::string::npos) << small.message();
  ASSERT_TRUE(aclSetCompileopt(0, "").is_ok()) << "an empty value is a value";
  EXPECT_EQ(aclGetCompileoptSize(0), 1U);
}

TEST_F(OptionEntries, CompilationAtRunTimeIsOffByDefault) {
  char value[16] = "x";
  EXPECT_EQ(aclGetCompileoptSize(10), sizeof("disable"));
  ASSERT_TRUE(aclGetCompileopt(10, value, sizeof(value)).is_ok());
  EXPECT_STREQ(value, "disable");
}

TEST_F(OptionEntries, UnknownCompileOptionsAreRefused) {
  char value[16];
  EXPECT_EQ(aclSetCompileopt(17, "x").code(), 100000);
  EXPECT_EQ(aclSetCompileopt(-1, "x").code(), 100000);
  EXPECT_EQ(aclSetCompileopt(0, nullptr).code(), 100000);
  EXPECT_EQ(aclGetCompileopt(17, value, sizeof(value)).code(), 100000);
  EXPECT_EQ(aclGetCompileopt(0, nullptr, 16).code(), 100000);
  EXPECT_EQ(aclGetCompileoptSize(17), 0U);
}

TEST_F(OptionEntries, OperatorTimeLimitsComeInStepsOfTheHardware) {
  uint64_t actual_us = 0;
  ASSERT_TRUE(aclrtSetOpExecuteTimeOutV2(547'000'000, &actual_us).is_ok());
  EXPECT_EQ(actual_us, 128 * device::kTimeoutStepUs);
  EXPECT_GE(actual_us, 547'000'000U);
  ASSERT_TRUE(aclrtSetOpExecuteTimeOutV2(0, &actual_us).is_ok());
  EXPECT_EQ(actual_us, 254 * device::kTimeoutStepUs) << "0 asks for the longest";
  ASSERT_TRUE(aclrtSetOpExecuteTimeOutV2(UINT64_MAX, &actual_us).is_ok());
  EXPECT_EQ(actual_us, 254 * device::kTimeoutStepUs);
  ASSERT_TRUE(aclrtSetOpExecuteTimeOut(5).is_ok());
  EXPECT_EQ(device::operator_timeout_us(), 2 * device::kTimeoutStepUs);
  EXPECT_EQ(aclrtSetOpExecuteTimeOutV2(1, nullptr).code(), 100000);
  ASSERT_TRUE(aclrtSetOpWaitTimeout(1866).is_ok());
  EXPECT_EQ(device::wait_timeout_s(), 1866U);
}

TEST_F(OptionEntries, OverflowMode) {
  EXPECT_EQ(device::saturation_mode(0), device::SaturationMode::kInfNan);
  ASSERT_TRUE(aclrtSetDeviceSatMode(0).is_ok());
  EXPECT_EQ(device::saturation_mode(0), device::SaturationMode::kSaturation);
  ASSERT_TRUE(aclrtSetDeviceSatMode(1).is_ok());
  EXPECT_EQ(aclrtSetDeviceSatMode(2).code(), 107000);
  EXPECT_EQ(device::saturation_mode(0), device::SaturationMode::kInfNan);
}

TEST_F(OptionEntries, CollectiveSettingsAreKept) {
  ASSERT_TRUE(HcclSetConfig(0, 1).is_ok());
  EXPECT_EQ(comm::hccl_config(comm::HcclConfig::kDeterministic), 1);
  ASSERT_TRUE(HcclSetConfig(0, 0).is_ok());
  EXPECT_EQ(comm::hccl_config(comm::HcclConfig::kDeterministic), 0);
  EXPECT_EQ(HcclSetConfig(2, 1).code(), 1);
  EXPECT_EQ(HcclSetConfig(-1, 1).code(), 1);
}

}  // namespace
}  // namespace drydock::entries
