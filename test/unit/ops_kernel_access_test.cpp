#include "ops/shapes.h"
#include "ops_call_builder.h"

// Conversion between element types, type promotion, and walks over strided views.

namespace drydock::ops::kernels {
namespace {

using testing::HostTensor;
using testing::tensor;
using testing::TestCall;

constexpr double kInf = std::numeric_limits<double>::infinity();

double through(DataType type, double value) {
  round_through<double>(type, &value, 1);
  return value;
}

TEST(Conversion, Fp16RoundsToNearestEvenAndOverflowsToInfinity) {
  EXPECT_EQ(through(DataType::kFloat16, 1.0 + 1.0 / 2048), 1.0);               // half way, even is below
  EXPECT_EQ(through(DataType::kFloat16, 1.0 + 3.0 / 2048), 1.0 + 2.0 / 1024);  // half way, even is above
  EXPECT_EQ(through(DataType::kFloat16, 65504), 65504);
  EXPECT_EQ(through(DataType::kFloat16, 65519), 65504);
  EXPECT_EQ(through(DataType::kFloat16, 65520), kInf);
  EXPECT_EQ(through(DataType::kFloat16, -1e9), -kInf);
  EXPECT_EQ(through(DataType::kFloat16, 0x1p-24), 0x1p-24);  // the smallest subnormal
  EXPECT_EQ(through(DataType::kFloat16, 0x1p-25), 0);
  EXPECT_EQ(through(DataType::kFloat16, 0x1.8p-25), 0x1p-24);
  EXPECT_TRUE(std::isnan(through(DataType::kFloat16, std::nan(""))));
}

TEST(Conversion, EveryFp16AndBf16ValueSurvivesARoundTrip) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const Float16 half{static_cast<uint16_t>(bits)};
    const BFloat16 brain{static_cast<uint16_t>(bits)};
    if (!std::isnan(float_of(half))) {
      ASSERT_EQ(float16_of(float_of(half)).bits, bits);
    }
    if (!std::isnan(float_of(brain))) {
      ASSERT_EQ(bfloat16_of(float_of(brain)).bits, bits);
    }
  }
}

TEST(Conversion, Bf16RoundsToNearestEven) {
  EXPECT_EQ(through(DataType::kBFloat16, 1.0 + 1.0 / 256), 1.0);
  EXPECT_EQ(through(DataType::kBFloat16, 1.0 + 3.0 / 256), 1.0 + 2.0 / 128);
  EXPECT_EQ(through(DataType::kBFloat16, 3.4e38), kInf);
  EXPECT_TRUE(std::isnan(through(DataType::kBFloat16, std::nan(""))));
}

TEST(Conversion, FloatingToIntegerTruncatesAndSaturates) {
  HostTensor from(DataType::kFloat, {6}, {1.9, -1.9, 1e30, -1e30, std::nan(""), 300});
  HostTensor to(DataType::kInt8, {6});
  ASSERT_TRUE(copy_view(to.view(), from.view()));
  EXPECT_EQ(to.values(), (std::vector<double>{1, -1, 127, -128, 0, 127}));
  HostTensor wide(DataType::kInt64, {6});
  ASSERT_TRUE(copy_view(wide.view(), from.view()));
  EXPECT_EQ(as_int64(select(wide.view(), 0, 2)), std::numeric_limits<int64_t>::max());
  EXPECT_EQ(as_int64(select(wide.view(), 0, 3)), std::numeric_limits<int64_t>::min());
}

TEST(Conversion, IntegersWrapAndBoolIsNonZero) {
  HostTensor from = tensor<int64_t>({4}, {256, 257, -1, 0});
  HostTensor narrow(DataType::kUInt8, {4});
  HostTensor truth(DataType::kBool, {4});
  ASSERT_TRUE(copy_view(narrow.view(), from.view()));
  ASSERT_TRUE(copy_view(truth.view(), from.view()));
  EXPECT_EQ(narrow.values(), (std::vector<double>{0, 1, 255, 0}));
  EXPECT_EQ(truth.values(), (std::vector<double>{1, 1, 1, 0}));
}

TEST(Conversion, Int64KeepsEveryBit) {
  const int64_t large = (int64_t{1} << 62) + 1;
  HostTensor from = tensor<int64_t>({2}, {large, -large});
  HostTensor to(DataType::kInt64, {2});
  ASSERT_TRUE(copy_view(to.view(), from.view()));
  EXPECT_EQ(as_int64(to.view()), large);
}

TEST(Promotion, FollowsTheTable) {
  EXPECT_EQ(promote_types(DataType::kInt8, DataType::kUInt8), DataType::kInt16);
  EXPECT_EQ(promote_types(DataType::kUInt8, DataType::kInt32), DataType::kInt32);
  EXPECT_EQ(promote_types(DataType::kBool, DataType::kUInt8), DataType::kUInt8);
  EXPECT_EQ(promote_types(DataType::kFloat16, DataType::kBFloat16), DataType::kFloat);
  EXPECT_EQ(promote_types(DataType::kInt64, DataType::kFloat16), DataType::kFloat16);
  EXPECT_EQ(promote_types(DataType::kFloat, DataType::kDouble), DataType::kDouble);
}

DataType type_of(std::vector<Operand> operands) { return result_type(operands); }

TEST(Promotion, DimensionsOutweighRankZeroOutweighsScalars) {
  HostTensor ints(DataType::kInt32, {2}, {1, 2});
  HostTensor halves(DataType::kFloat16, {2}, {1, 2});
  HostTensor rank_zero_double(DataType::kDouble, {}, {1});
  HostTensor rank_zero_long(DataType::kInt64, {}, {1});
  HostTensor double_scalar(DataType::kDouble, {}, {1});
  EXPECT_EQ(type_of({{&halves.view(), false}, {&rank_zero_double.view(), false}}), DataType::kFloat16);
  EXPECT_EQ(type_of({{&ints.view(), false}, {&rank_zero_long.view(), false}}), DataType::kInt32);
  EXPECT_EQ(type_of({{&ints.view(), false}, {&rank_zero_double.view(), false}}), DataType::kDouble);
  EXPECT_EQ(type_of({{&ints.view(), false}, {&double_scalar.view(), true}}), DataType::kFloat);
  EXPECT_EQ(type_of({{&rank_zero_long.view(), false}, {&double_scalar.view(), true}}), DataType::kFloat);
}

TEST(Walk, CopiesTransposedBroadcastAndReversedViews) {
  HostTensor from(DataType::kInt32, {2, 3}, {1, 2, 3, 4, 5, 6});
  HostTensor transposed = from;
  transposed.restrided({3, 2}, {1, 3});
  HostTensor to(DataType::kInt32, {3, 2});
  ASSERT_TRUE(copy_view(to.view(), transposed.view()));
  EXPECT_EQ(to.values(), (std::vector<double>{1, 4, 2, 5, 3, 6}));

  HostTensor row(DataType::kInt16, {3}, {7, 8, 9});
  HostTensor wide(DataType::kInt64, {2, 3});
  ASSERT_TRUE(copy_view(wide.view(), row.view()));
  EXPECT_EQ(wide.values(), (std::vector<double>{7, 8, 9, 7, 8, 9}));

  const TensorView reversed = narrow(row.view(), 0, 2, 3, -1);
  HostTensor flipped(DataType::kInt16, {3});
  ASSERT_TRUE(copy_view(flipped.view(), reversed));
  EXPECT_EQ(flipped.values(), (std::vector<double>{9, 8, 7}));
  EXPECT_FALSE(copy_view(flipped.view(), from.view()));
}

TEST(Walk, HandlesManyChunksAndEmptyViews) {
  std::vector<double> values(3 * kChunk + 5);
  for (size_t k = 0; k < values.size(); ++k) values[k] = static_cast<double>(k % 251);
  const Dims dims{static_cast<int64_t>(values.size())};
  HostTensor from(DataType::kInt32, dims, values);
  HostTensor to(DataType::kFloat16, dims);
  ASSERT_TRUE(copy_view(to.view(), from.view()));
  EXPECT_EQ(to.values(), values);
  EXPECT_TRUE(to.is_clean_behind());
  HostTensor empty_from(DataType::kInt32, {0, 3});
  HostTensor empty_to(DataType::kFloat, {0, 3});
  EXPECT_TRUE(copy_view(empty_to.view(), empty_from.view()));
}

TEST(Walk, RowsRunAlongAnyDimensions) {
  HostTensor cube(DataType::kInt8, {2, 2, 2}, {0, 1, 2, 3, 4, 5, 6, 7});
  const Rows rows(cube.view(), Dims{0, 2});
  ASSERT_EQ(rows.count(), 2);
  ASSERT_EQ(rows.length(), 4);
  std::array<int64_t, 4> buffer{};
  const int64_t* row = rows.read<int64_t>(1, buffer.data());
  EXPECT_EQ(std::vector<int64_t>(row, row + 4), (std::vector<int64_t>{2, 3, 6, 7}));
}

TEST(Shapes, StridesThatNoElementNeedsSayNothing) {
  HostTensor elements(DataType::kFloat, {12});
  EXPECT_TRUE(is_contiguous(elements.restrided({1, 2, 3}, {77, 3, 1}).view()));
  EXPECT_TRUE(is_contiguous(elements.restrided({2, 3, 1}, {3, 1, 0}).view()));
  EXPECT_TRUE(is_contiguous(elements.restrided({2, 0, 3}, {9, 8, 7}).view()));
  EXPECT_TRUE(is_contiguous(elements.restrided({}, {}).view()));
  EXPECT_FALSE(is_contiguous(elements.restrided({2, 3}, {4, 1}).view()));
  EXPECT_FALSE(is_contiguous(elements.restrided({2, 3}, {1, 2}).view()));
  EXPECT_FALSE(is_contiguous(elements.restrided({2, 3}, {0, 1}).view()));
}

TEST(Shapes, OfACallAreNamedInTheOrderOfItsSignature) {
  std::string text;
  static std::string* seen = &text;
  HostTensor self(DataType::kFloat, {3}), other(DataType::kFloat, {4, 3}), out(DataType::kFloat, {});
  const auto look = [](KernelCall& call) {
    *seen = shapes_of(call);
    return Status::ok();
  };
  ASSERT_TRUE(TestCall("aclnnAdd").in(self).in(other).scalar(1.0f).out(out).run(look).is_ok());
  EXPECT_EQ(text, "self [3], other [4, 3], out []");
  ASSERT_TRUE(TestCall("aclnnInplaceAdd").in_out(self).in(other).scalar(1.0f).run(look).is_ok());
  EXPECT_EQ(text, "selfRef [3], other [4, 3]");
  std::vector<HostTensor*> many(10, &self);
  ASSERT_TRUE(TestCall("aclnnCat").in_list(many).integer(0).out(out).run(look).is_ok());
  EXPECT_EQ(text, "tensors {[3], [3], [3], [3], [3], [3], [3], [3], ... 10 in all}, out []");
}

}  // namespace
}  // namespace drydock::ops::kernels
