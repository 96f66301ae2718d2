#include <array>
#include <cstring>
#include <vector>

#include <gtest/gtest.h>

#include "abi/generated/entries.h"
#include "base/data_type.h"
#include "base/generated/error_codes.h"

namespace drydock::entries {
namespace {

/// Floats in device memory, with the two objects that describe them.
class Described {
 public:
  explicit Described(const std::vector<float>& values) : count_(values.size()) {
    const auto size = static_cast<int64_t>(values.size());
    EXPECT_TRUE(aclrtMalloc(&data_, bytes(), 0).is_ok());
    EXPECT_TRUE(aclrtMemcpy(data_, bytes(), values.data(), bytes(), 1).is_ok());
    description = aclCreateTensorDesc(static_cast<int32_t>(DataType::kFloat), 1, &size, 2);
    buffer = aclCreateDataBuffer(data_, bytes());
  }
  Described(const Described&) = delete;
  Described& operator=(const Described&) = delete;
  ~Described() {
    aclDestroyTensorDesc(description);
    EXPECT_TRUE(aclDestroyDataBuffer(buffer).is_ok());
    EXPECT_TRUE(aclrtFree(data_).is_ok());
  }

  std::vector<float> values() const {
    std::vector<float> host(count_);
    EXPECT_TRUE(aclrtSynchronizeDevice().is_ok());
    EXPECT_TRUE(aclrtMemcpy(host.data(), bytes(), data_, bytes(), 2).is_ok());
    return host;
  }

  void* description = nullptr;
  void* buffer = nullptr;

 private:
  size_t bytes() const { return count_ * sizeof(float); }
  size_t count_;
  void* data_ = nullptr;
};

Status run(const char* op_type, const std::vector<const Described*>& inputs,
           const std::vector<const Described*>& outputs, const void* attr) {
  std::vector<const void*> input_descriptions, input_buffers, output_descriptions;
  std::vector<void*> output_buffers;
  for (const Described* input : inputs) {
    input_descriptions.push_back(input->description);
    input_buffers.push_back(input->buffer);
  }
  for (const Described* output : outputs) {
    output_descriptions.push_back(output->description);
    output_buffers.push_back(output->buffer);
  }
  return aclopCompileAndExecute(op_type, static_cast<int>(inputs.size()), input_descriptions.data(),
                                input_buffers.data(), static_cast<int>(outputs.size()), output_descriptions.data(),
                                output_buffers.data(), attr, 0, 0, nullptr, nullptr);
}

class LegacyOperator : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(aclrtSetDevice(0).is_ok()); }
};

TEST_F(LegacyOperator, IdentityCopies) {
  const Described x({1, -2, 3});
  const Described y({0, 0, 0});
  ASSERT_TRUE(run("Identity", {&x}, {&y}, nullptr).is_ok());
  EXPECT_EQ(y.values(), (std::vector<float>{1, -2, 3}));
}

TEST_F(LegacyOperator, AttributesAreFoundByName) {
  const Described x({3, -4});
  const Described sum({0});
  void* attr = aclopCreateAttr();
  ASSERT_TRUE(aclopSetAttrFloat(attr, "p", 2.0F).is_ok());
  const int64_t axis = 0;
  ASSERT_TRUE(aclopSetAttrListInt(attr, "axes", 1, &axis).is_ok());
  ASSERT_TRUE(run("LpNormReduceV2", {&x}, {&sum}, attr).is_ok());
  EXPECT_EQ(sum.values(), (std::vector<float>{25}));
  ASSERT_TRUE(run("LpNormUpdateV2", {&sum}, {&sum}, attr).is_ok());
  EXPECT_EQ(sum.values(), (std::vector<float>{5}));
  aclopDestroyAttr(attr);
}

TEST_F(LegacyOperator, FloatStatusIsClear) {
  const Described status({1, 1, 1, 1, 1, 1, 1, 1});
  ASSERT_TRUE(run("NPUClearFloatStatusV2", {}, {}, nullptr).is_ok());
  ASSERT_TRUE(run("NPUGetFloatStatusV2", {}, {&status}, nullptr).is_ok());
  EXPECT_EQ(status.values(), std::vector<float>(8, 0));
}

TEST_F(LegacyOperator, FloatStatusIsNotKnownInSaturationMode) {
  const Described status({1, 1, 1, 1, 1, 1, 1, 1});
  ASSERT_TRUE(aclrtSetDeviceSatMode(0).is_ok());
  EXPECT_TRUE(run("NPUClearFloatStatusV2", {}, {}, nullptr).is_ok());
  const Status refused = run("NPUGetFloatStatusV2", {}, {&status}, nullptr);
  EXPECT_EQ(refused.code(), code::ACL_ERROR_API_NOT_SUPPORT);
  EXPECT_NE(refused.message().find("INF_NAN_MODE_FORCE_DISABLE"), std::string::npos);
  ASSERT_TRUE(aclrtSetDeviceSatMode(1).is_ok());
  EXPECT_TRUE(run("NPUGetFloatStatusV2", {}, {&status}, nullptr).is_ok());
}

TEST_F(LegacyOperator, UnknownOnesAreRefusedByName) {
  const Described x({1});
  const Status refused = run("AnchorResponseFlags", {&x}, {&x}, nullptr);
  EXPECT_EQ(refused.code(), code::ACL_ERROR_API_NOT_SUPPORT);
  EXPECT_NE(refused.message().find("AnchorResponseFlags"), std::string::npos);
}

TEST_F(LegacyOperator, BadCallsAreRefused) {
  const Described x({1, 2});
  const Described three({0, 0, 0});
  EXPECT_FALSE(run("Identity", {&x}, {&three}, nullptr).is_ok());
  EXPECT_EQ(run("Identity", {&x}, {&x}, &x).code(), code::ACL_ERROR_INVALID_PARAM);  // no attribute object
  EXPECT_EQ(
      aclopCompileAndExecute(nullptr, 0, nullptr, nullptr, 0, nullptr, nullptr, nullptr, 0, 0, nullptr, nullptr).code(),
      code::ACL_ERROR_INVALID_PARAM);
  EXPECT_EQ(
      aclopCompileAndExecute("Identity", 1, nullptr, nullptr, 0, nullptr, nullptr, nullptr, 0, 0, nullptr, nullptr)
          .code(),
      code::ACL_ERROR_INVALID_PARAM);
  const void* dead = aclCreateDataBuffer(nullptr, 0);
  ASSERT_TRUE(aclDestroyDataBuffer(dead).is_ok());
  EXPECT_EQ(
      aclopCompileAndExecute("Identity", 1, &x.description, &dead, 0, nullptr, nullptr, nullptr, 0, 0, nullptr, nullptr)
          .code(),
      code::ACL_ERROR_INVALID_PARAM);
}

}  // namespace
}  // namespace drydock::entries
