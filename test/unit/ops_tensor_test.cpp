#include <cstring>
#include <limits>

#include <gtest/gtest.h>

#include "ops/tensor.h"

namespace drydock::ops {
namespace {

template <class T>
Scalar scalar(DataType dtype, T value) {
  Scalar scalar;
  scalar.dtype = dtype;
  std::memcpy(scalar.bytes.data(), &value, sizeof value);
  return scalar;
}

TEST(ScalarTest, EveryTypeHasAValue) {
  for (int32_t number = -1; number < 64; ++number) {
    const Scalar zero = scalar(static_cast<DataType>(number), uint64_t{0});
    EXPECT_EQ(zero.as_double(), 0.0) << number;
    EXPECT_EQ(zero.as_int64(), 0) << number;
  }
}

TEST(ScalarTest, RealPartsAndConversions) {
  EXPECT_EQ(scalar(DataType::kComplex32, uint32_t{0x00004000}).as_double(), 2.0);
  EXPECT_EQ(scalar(DataType::kFloat16, uint16_t{0xC100}).as_double(), -2.5);
  EXPECT_EQ(scalar(DataType::kBFloat16, uint16_t{0x3FC0}).as_double(), 1.5);
  EXPECT_EQ(scalar(DataType::kDouble, -2.9).as_int64(), -2) << "truncates toward zero";
  EXPECT_EQ(scalar(DataType::kBool, uint8_t{7}).as_int64(), 1);
  EXPECT_EQ(scalar(DataType::kUInt64, std::numeric_limits<uint64_t>::max()).as_double(), 18446744073709551616.0);
}

TEST(ScalarTest, FloatsOutsideTheIntegersSaturate) {
  EXPECT_EQ(scalar(DataType::kDouble, 1e300).as_int64(), std::numeric_limits<int64_t>::max());
  EXPECT_EQ(scalar(DataType::kDouble, -1e300).as_int64(), std::numeric_limits<int64_t>::min());
  EXPECT_EQ(scalar(DataType::kDouble, std::numeric_limits<double>::quiet_NaN()).as_int64(), 0);
}

TEST(TensorTest, SizesOfOneDoNotBreakContiguity) {
  Tensor tensor;
  tensor.dims = {2, 1, 3};
  tensor.strides = {3, 99, 1};
  EXPECT_TRUE(tensor.is_contiguous());
  tensor.strides = {1, 1, 2};
  EXPECT_FALSE(tensor.is_contiguous());
}

TEST(DimsTest, ValuesBeyondTheLargestRankAreNotKept) {
  Dims dims;
  for (int64_t value = 0; value < 30; ++value) dims.push_back(value);
  EXPECT_EQ(dims.size(), kMaxRank);
}

}  // namespace
}  // namespace drydock::ops
