#include <cmath>
#include <cstdint>
#include <limits>

#include <gtest/gtest.h>

#include "abi/generated/entries.h"

namespace drydock::entries {
namespace {

TEST(OpDescriptionEntries, TensorDescriptionsAnswerWhatTheyWereGiven) {
  const int64_t dims[] = {2, 3, 4};
  void* desc = aclCreateTensorDesc(1, 3, dims, 2);
  ASSERT_NE(desc, nullptr);
  EXPECT_EQ(aclGetTensorDescType(desc), 1);
  EXPECT_EQ(aclGetTensorDescFormat(desc), 2);
  EXPECT_EQ(aclGetTensorDescNumDims(desc), 3U);
  int64_t size = 0;
  ASSERT_TRUE(aclGetTensorDescDimV2(desc, 2, &size).is_ok());
  EXPECT_EQ(size, 4);
  EXPECT_EQ(aclGetTensorDescDimV2(desc, 3, &size).code(), 100000);
  EXPECT_EQ(aclGetTensorDescDimV2(desc, 0, nullptr).code(), 100000);
  EXPECT_TRUE(aclSetTensorFormat(desc, 29).is_ok());
  EXPECT_TRUE(aclSetTensorShape(desc, 2, dims).is_ok());
  EXPECT_EQ(aclGetTensorDescFormat(desc), 2) << "the storage's format is another thing";
  EXPECT_EQ(aclGetTensorDescNumDims(desc), 3U);
  EXPECT_TRUE(aclSetTensorPlaceMent(desc, 1).is_ok());
  EXPECT_EQ(aclSetTensorPlaceMent(desc, 3).code(), 100000);
  aclSetTensorDescName(desc, "x");
  aclSetTensorDescName(desc, nullptr);
  aclDestroyTensorDesc(desc);
  EXPECT_EQ(aclGetTensorDescType(desc), -1);
  EXPECT_EQ(aclSetTensorFormat(desc, 2).code(), 100000);
  aclDestroyTensorDesc(desc);
  aclDestroyTensorDesc(nullptr);
}

TEST(OpDescriptionEntries, ScalarsUnknownRanksAndNonsense) {
  void* scalar = aclCreateTensorDesc(0, 0, nullptr, 2);
  ASSERT_NE(scalar, nullptr);
  EXPECT_EQ(aclGetTensorDescNumDims(scalar), 0U);
  aclDestroyTensorDesc(scalar);
  const int64_t unknown = -2;
  void* desc = aclCreateTensorDesc(0, 1, &unknown, 2);
  EXPECT_EQ(aclGetTensorDescNumDims(desc), 0xFFFFFFFFFFFFFFFEU);
  aclDestroyTensorDesc(desc);
  EXPECT_EQ(aclCreateTensorDesc(0, 2, nullptr, 2), nullptr);
  EXPECT_EQ(aclCreateTensorDesc(0, -1, &unknown, 2), nullptr);
  EXPECT_EQ(aclCreateTensorDesc(0, 1 << 30, &unknown, 2), nullptr);
  EXPECT_EQ(aclGetTensorDescNumDims(&desc), 0U);
}

TEST(OpDescriptionEntries, DataBuffers) {
  int value = 0;
  void* buffer = aclCreateDataBuffer(&value, sizeof(value));
  EXPECT_EQ(aclGetDataBufferAddr(buffer), &value);
  EXPECT_EQ(aclGetDataBufferSizeV2(buffer), sizeof(value));
  EXPECT_TRUE(aclDestroyDataBuffer(buffer).is_ok());
  EXPECT_EQ(aclDestroyDataBuffer(buffer).code(), 100000);
  EXPECT_EQ(aclDestroyDataBuffer(nullptr).code(), 100000);
  EXPECT_EQ(aclGetDataBufferAddr(buffer), nullptr);
  EXPECT_EQ(aclGetDataBufferSizeV2(&value), 0U);
}

TEST(OpDescriptionEntries, AttributesOfEveryKind) {
  void* attr = aclopCreateAttr();
  ASSERT_NE(attr, nullptr);
  const uint8_t bools[] = {1, 0};
  const float floats[] = {1.5F};
  const int64_t ints[] = {1, 2};
  const int64_t* rows[] = {ints, nullptr};
  const int counts[] = {2, 0};
  EXPECT_TRUE(aclopSetAttrBool(attr, "a", 1).is_ok());
  EXPECT_TRUE(aclopSetAttrInt(attr, "a", 7).is_ok()) << "a later value of the same name replaces it";
  EXPECT_TRUE(aclopSetAttrFloat(attr, "b", 0.5F).is_ok());
  EXPECT_TRUE(aclopSetAttrDataType(attr, "c", 1).is_ok());
  EXPECT_TRUE(aclopSetAttrString(attr, "d", "text").is_ok());
  EXPECT_TRUE(aclopSetAttrListBool(attr, "e", 2, bools).is_ok());
  EXPECT_TRUE(aclopSetAttrListFloat(attr, "f", 1, floats).is_ok());
  EXPECT_TRUE(aclopSetAttrListInt(attr, "g", 0, nullptr).is_ok());
  EXPECT_TRUE(aclopSetAttrListListInt(attr, "h", 2, counts, rows).is_ok()) << "rows may be empty";
  EXPECT_EQ(aclopSetAttrListInt(attr, "i", 1, nullptr).code(), 100000);
  EXPECT_EQ(aclopSetAttrListInt(attr, "i", -1, ints).code(), 100000);
  EXPECT_EQ(aclopSetAttrListListInt(attr, "i", 1, nullptr, rows).code(), 100000);
  EXPECT_EQ(aclopSetAttrString(attr, "i", nullptr).code(), 100000);
  EXPECT_EQ(aclopSetAttrBool(attr, nullptr, 1).code(), 100000);
  EXPECT_EQ(aclopSetAttrBool(nullptr, "a", 1).code(), 100000);
  aclopDestroyAttr(attr);
  EXPECT_EQ(aclopSetAttrBool(attr, "a", 1).code(), 100000);
  aclopDestroyAttr(nullptr);
}

TEST(OpDescriptionEntries, SizesOfDataTypes) {
  EXPECT_EQ(aclDataTypeSize(0), 4U);
  EXPECT_EQ(aclDataTypeSize(1), 2U);
  EXPECT_EQ(aclDataTypeSize(17), 16U);
  EXPECT_EQ(aclDataTypeSize(-1), 0U);
  EXPECT_EQ(aclDataTypeSize(999), 0U);
}

TEST(OpDescriptionEntries, HalfPrecision) {
  EXPECT_EQ(aclFloatToFloat16(1.0F), 0x3C00);
  EXPECT_EQ(aclFloat16ToFloat(0x3C00), 1.0F);
  EXPECT_EQ(aclFloatToFloat16(65504.0F), 0x7BFF);
  EXPECT_EQ(aclFloatToFloat16(1e6F), 0x7C00);
  EXPECT_EQ(aclFloat16ToFloat(0x0001), std::ldexp(1.0F, -24));
  EXPECT_EQ(aclFloat16ToFloat(0xFC00), -std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(aclFloat16ToFloat(aclFloatToFloat16(std::nanf("")))));
}

}  // namespace
}  // namespace drydock::entries
