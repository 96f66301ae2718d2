#include <bit>

#include "ops/generated/kernels.h"
#include "ops/quant/integer_rows.h"
#include "ops/quant/quant_parameters.h"
#include "ops_call_builder.h"

namespace drydock::ops::kernels {
namespace {

using testing::HostTensor;
using testing::TestCall;
using Values = std::vector<double>;

Status run_ascend_quant(HostTensor& x, HostTensor& scale, HostTensor& y, const char* mode = "round") {
  return TestCall().in(x).in(scale).absent().boolean(false).text(mode).integer(2).out(y).run(ascend_quant);
}

TEST(Quant, RoundsTiesToEvenSaturatesAndTurnsNanToZero) {
  HostTensor x(DataType::kFloat, {1, 8}, {0.5, 1.5, 2.5, -0.5, 300, -300, std::nan(""), 126.6});
  HostTensor scale(DataType::kFloat, {1}, {1});
  HostTensor y(DataType::kInt8, {1, 8});
  ASSERT_TRUE(run_ascend_quant(x, scale, y).is_ok());
  EXPECT_EQ(y.values(), (Values{0, 2, 2, 0, 127, -128, 0, 127}));
  ASSERT_TRUE(run_ascend_quant(x, scale, y, "floor").is_ok());
  EXPECT_EQ(y.values(), (Values{0, 1, 2, -1, 127, -128, 0, 126}));
  EXPECT_EQ(run_ascend_quant(x, scale, y, "up").code(), kParameterInvalid);
  EXPECT_TRUE(y.is_clean_behind());
}

TEST(Quant, PacksInt4FirstValueLowest) {
  HostTensor x(DataType::kFloat, {1, 8}, {1, 2, -1, -8, 7, 9, 0, -9});
  HostTensor scale(DataType::kFloat, {1}, {1});
  HostTensor packed(DataType::kInt32, {1, 1});
  ASSERT_TRUE(run_ascend_quant(x, scale, packed).is_ok());
  EXPECT_EQ(static_cast<uint32_t>(static_cast<int64_t>(packed.values()[0])), 0x80778f21u);
  HostTensor bytes(DataType::kInt4, {1, 8});
  ASSERT_TRUE(run_ascend_quant(x, scale, bytes).is_ok());
  EXPECT_EQ(std::bit_cast<uint32_t>(
                std::array<char, 4>{bytes.bytes()[0], bytes.bytes()[1], bytes.bytes()[2], bytes.bytes()[3]}),
            0x80778f21u);
  std::vector<float> back;
  ASSERT_TRUE(read_floats(unpacked_int4(packed.view()), &back));
  EXPECT_EQ(back, (std::vector<float>{1, 2, -1, -8, 7, 7, 0, -8}));
}

TEST(Quant, RefusesScalesAndOutputsThatDoNotFit) {
  HostTensor x(DataType::kFloat, {2, 6});
  HostTensor three(DataType::kFloat, {3});
  HostTensor one(DataType::kFloat, {1}, {1});
  HostTensor y(DataType::kInt8, {2, 6});
  HostTensor packed(DataType::kInt32, {2, 1});
  HostTensor wide(DataType::kInt8, {2, 7});
  EXPECT_EQ(run_ascend_quant(x, three, y).code(), kParameterInvalid);
  EXPECT_EQ(run_ascend_quant(x, one, packed).code(), kParameterInvalid);
  EXPECT_EQ(run_ascend_quant(x, one, wide).code(), kParameterInvalid);
  HostTensor none(DataType::kFloat, {0, 6});
  HostTensor nothing(DataType::kInt8, {0, 6});
  EXPECT_TRUE(run_ascend_quant(none, one, nothing).is_ok());
}

TEST(Quant, DynamicScaleIsTheLargestMagnitudeOver127) {
  HostTensor x(DataType::kFloat16, {2, 4}, {127, -254, 0, 2, 0, 0, 0, 0});
  HostTensor y(DataType::kInt8, {2, 4});
  HostTensor scale(DataType::kFloat, {2});
  ASSERT_TRUE(TestCall().in(x).absent().out(y).out(scale).run(dynamic_quant).is_ok());
  EXPECT_EQ(scale.values(), (Values{2, 0}));
  EXPECT_EQ(y.values(), (Values{64, -127, 0, 1, 0, 0, 0, 0}));
}

TEST(Quant, AsymmetricRangeFillsAllIntegers) {
  HostTensor x(DataType::kFloat16, {1, 3}, {0, 255, 51});
  HostTensor y(DataType::kInt8, {1, 3});
  HostTensor scale(DataType::kFloat, {1});
  HostTensor offset(DataType::kFloat, {1});
  TestCall call;
  call.in(x).absent().absent().integer(2).out(y).out(scale).out(offset);
  ASSERT_TRUE(call.run(dynamic_quant_grouped).is_ok());
  EXPECT_EQ(scale.values(), Values{1});
  EXPECT_EQ(offset.values(), Values{-128});
  EXPECT_EQ(y.values(), (Values{-128, 127, -77}));
}

TEST(Quant, RowsBehindTheLastGroupStayUntouched) {
  HostTensor x(DataType::kFloat, {3, 2}, {1, 2, 3, 4, 5, 6});
  HostTensor scale(DataType::kFloat, {2, 2}, {1, 1, 10, 10});
  HostTensor ends(DataType::kInt32, {2}, {1, 2});
  HostTensor y(DataType::kInt8, {3, 2}, {9, 9, 9, 9, 9, 9});
  ASSERT_TRUE(TestCall().in(x).in(scale).in(ends).absent().integer(2).out(y).run(group_quant).is_ok());
  EXPECT_EQ(y.values(), (Values{1, 2, 30, 40, 9, 9}));
}

TEST(Quant, PackedScalesKeepTheUpper19BitsAndTheOffset) {
  HostTensor scale(DataType::kFloat, {2}, {1.5, 1.00006103515625});  // the second needs 14 bits of fraction
  HostTensor offset(DataType::kFloat, {2}, {-1, 300});
  HostTensor out(DataType::kUInt64, {2});
  ASSERT_TRUE(TestCall().in(scale).in(offset).out(out).run(trans_quant_param).is_ok());
  std::vector<float> scales;
  std::vector<float> offsets;
  ASSERT_TRUE(read_scales(out.view(), &scales, &offsets));
  EXPECT_EQ(scales, (std::vector<float>{1.5f, 1.0f}));
  EXPECT_EQ(offsets, (std::vector<float>{-1, 255}));
  HostTensor three(DataType::kUInt64, {3});
  EXPECT_EQ(TestCall().in(scale).in(offset).out(three).run(trans_quant_param).code(), kParameterInvalid);
}

TEST(Quant, FlatQuantMixesFromBothSides) {
  HostTensor x(DataType::kFloat16, {1, 2, 2}, {1, 2, 3, 7});
  HostTensor swap(DataType::kFloat16, {2, 2}, {0, 1, 1, 0});
  HostTensor y(DataType::kInt4, {1, 2, 2});
  HostTensor scale(DataType::kFloat, {1});
  TestCall call;
  ASSERT_TRUE(call.in(x).in(swap).in(swap).number(1).out(y).out(scale).run(flat_quant).is_ok());
  EXPECT_EQ(scale.values(), Values{1});
  std::vector<float> levels;
  ASSERT_TRUE(read_floats(y.view(), &levels));
  EXPECT_EQ(levels, (std::vector<float>{7, 3, 2, 1}));
}

TEST(Quant, ScatterRefusesAnIndexOutsideTheCache) {
  HostTensor cache(DataType::kInt8, {1, 2, 2}, {0, 0, 0, 0});
  HostTensor updates(DataType::kFloat16, {1, 1, 2}, {4, 8});
  HostTensor scales(DataType::kFloat, {2}, {2, 2});
  HostTensor index(DataType::kInt32, {1}, {1});
  const auto run = [&] {
    TestCall call;
    call.in_out(cache).in(index).in(updates).in(scales).absent().integer(-2).integer(-1).integer(1);
    return call.run(quant_scatter);
  };
  ASSERT_TRUE(run().is_ok());
  EXPECT_EQ(cache.values(), (Values{0, 0, 2, 4}));
  index.set({2});
  EXPECT_EQ(run().code(), kDeviceFault);
}

TEST(Quant, FakeQuantKeepsTheLevelsOfTheRange) {
  HostTensor x(DataType::kFloat, {4}, {0.26, -5, 5, 0.1});
  HostTensor scale(DataType::kFloat, {1}, {0.5});
  HostTensor zero(DataType::kInt32, {1}, {1});
  HostTensor out(DataType::kFloat, {4});
  HostTensor mask(DataType::kBool, {4});
  TestCall call;
  call.in(x).in(scale).in(zero).number(1).integer(-2).integer(3).out(out).out(mask);
  ASSERT_TRUE(call.run(fake_quant_per_tensor).is_ok());
  EXPECT_EQ(out.values(), (Values{0.5, -1.5, 1, 0}));
  EXPECT_EQ(mask.values(), (Values{1, 0, 0, 1}));
}

}  // namespace
}  // namespace drydock::ops::kernels
