#include "ops/generated/kernels.h"
#include "ops/quant/integer_rows.h"
#include "ops/quant/quant_product.h"
#include "ops_call_builder.h"

namespace drydock::ops::kernels {
namespace {

using testing::HostTensor;
using testing::TestCall;
using Values = std::vector<double>;

/// aclnnQuantMatmulV5 with the arguments that tests vary.
Status run_v5(HostTensor& x1, HostTensor& x2, HostTensor* row_scale, HostTensor* scale, HostTensor* offset,
              HostTensor* assist, HostTensor* bias, int64_t groups, HostTensor& out) {
  TestCall call;
  const auto optional = [&](HostTensor* tensor) { return tensor != nullptr ? &call.in(*tensor) : &call.absent(); };
  call.in(x1).in(x2);
  optional(row_scale);
  optional(scale);
  call.absent().absent();
  optional(offset);
  optional(assist);
  optional(bias);
  return call.boolean(false).boolean(false).integer(groups).out(out).run(quant_matmul);
}

TEST(QuantMatmul, SumsOfDeepProductsAreExact) {
  const int64_t depth = 3001;  // an odd sum of more than 2^24, which fp32 cannot hold
  HostTensor x(DataType::kInt8, {1, depth}, Values(depth, 127));
  HostTensor weight(DataType::kInt8, {depth, 1}, Values(depth, 127));
  HostTensor out(DataType::kInt32, {1, 1});
  HostTensor bias(DataType::kInt32, {1}, {8});
  ASSERT_TRUE(run_v5(x, weight, nullptr, nullptr, nullptr, nullptr, &bias, 0, out).is_ok());
  EXPECT_EQ(out.values(), Values{127.0 * 127 * depth + 8});
}

TEST(QuantMatmul, IntegerBiasComesBeforeTheScaleFloatingBiasBehindIt) {
  HostTensor x(DataType::kInt8, {2, 2}, {1, 2, 3, 4});
  HostTensor weight(DataType::kInt8, {2, 2}, {1, 0, 0, 1});
  HostTensor scale(DataType::kFloat, {2}, {10, 100});
  HostTensor tokens(DataType::kFloat, {2}, {1, 0.5});
  HostTensor out(DataType::kBFloat16, {2, 2});
  HostTensor whole(DataType::kInt32, {2}, {1, 1});
  ASSERT_TRUE(run_v5(x, weight, &tokens, &scale, nullptr, nullptr, &whole, 0, out).is_ok());
  EXPECT_EQ(out.values(), (Values{20, 300, 20, 250}));
  HostTensor late(DataType::kFloat, {2}, {1, 1});
  ASSERT_TRUE(run_v5(x, weight, &tokens, &scale, nullptr, nullptr, &late, 0, out).is_ok());
  EXPECT_EQ(out.values(), (Values{11, 201, 16, 201}));
}

TEST(QuantMatmul, BatchesBroadcastAndWrongSizesAreRefused) {
  HostTensor x(DataType::kInt8, {2, 1, 2}, {1, 2, 3, 4});
  HostTensor weight(DataType::kInt8, {2, 1}, {1, 1});
  HostTensor scale(DataType::kFloat, {1}, {2});
  HostTensor out(DataType::kFloat16, {2, 1, 1});
  ASSERT_TRUE(run_v5(x, weight, nullptr, &scale, nullptr, nullptr, nullptr, 0, out).is_ok());
  EXPECT_EQ(out.values(), (Values{6, 14}));
  HostTensor wide(DataType::kFloat16, {2, 1, 2});
  EXPECT_EQ(run_v5(x, weight, nullptr, &scale, nullptr, nullptr, nullptr, 0, wide).code(), kParameterInvalid);
  HostTensor three(DataType::kFloat, {3}, {1, 1, 1});
  EXPECT_EQ(run_v5(x, weight, nullptr, &three, nullptr, nullptr, nullptr, 0, out).code(), kParameterInvalid);
  EXPECT_EQ(run_v5(x, weight, nullptr, nullptr, nullptr, nullptr, nullptr, 0, out).code(), kParameterInvalid);
}

TEST(QuantMatmul, Int8ByInt4TakesEightFromXAndAddsTheAssistedSum) {
  HostTensor x(DataType::kInt8, {1, 2}, {10, -3});
  HostTensor weight(DataType::kInt4, {2, 2});
  weight.bytes()[0] = 0x21;                     // 1, 2
  weight.bytes()[1] = static_cast<char>(0xf3);  // 3, -1
  HostTensor scale(DataType::kFloat, {2}, {1, 2});
  HostTensor tokens(DataType::kFloat, {1}, {0.5});
  HostTensor assist(DataType::kFloat, {2}, {8.0 * 4, 8.0 * 2});
  HostTensor out(DataType::kFloat16, {1, 2});
  ASSERT_TRUE(run_v5(x, weight, &tokens, &scale, nullptr, &assist, nullptr, 0, out).is_ok());
  EXPECT_EQ(out.values(), (Values{0.5 * (10 - 9), 0.5 * 2 * (20 + 3)}));
}

TEST(QuantMatmul, BlocksOfTheDepthHaveScalesOfTheirOwn) {
  HostTensor x(DataType::kInt8, {1, 4}, {1, 2, 3, 4});
  HostTensor weight(DataType::kInt8, {4, 1}, {1, 1, 1, 1});
  HostTensor row_scale(DataType::kFloat, {1, 2}, {1, 10});
  HostTensor scale(DataType::kFloat, {2, 1}, {2, 3});
  HostTensor out(DataType::kFloat, {1, 1});
  const int64_t sizes = 2 | int64_t{128} << 16 | int64_t{1} << 32;
  ASSERT_TRUE(run_v5(x, weight, &row_scale, &scale, nullptr, nullptr, nullptr, sizes, out).is_ok());
  EXPECT_EQ(out.values(), Values{3 * 2 + 7 * 30});
}

TEST(QuantMatmul, WeightsAreDequantisedByGroups) {
  HostTensor x(DataType::kFloat16, {1, 4}, {1, 1, 1, 1});
  HostTensor weight(DataType::kInt8, {4, 1}, {1, 2, 3, 4});
  HostTensor scale(DataType::kFloat16, {2, 1}, {1, 10});
  HostTensor offset(DataType::kFloat16, {2, 1}, {1, 0});
  HostTensor y(DataType::kFloat16, {1, 1});
  const auto run = [&](int64_t group) {
    TestCall call;
    call.in(x).in(weight).in(scale).in(offset).absent().absent().absent().integer(group).out(y);
    return call.run(weight_quant_matmul);
  };
  ASSERT_TRUE(run(2).is_ok());
  EXPECT_EQ(y.values(), Values{2 + 3 + 30 + 40});
  EXPECT_EQ(run(1).code(), kParameterInvalid);  // four groups, two rows of scales
}

TEST(QuantConvolution, SumsAreScaledAndBiasedByChannel) {
  HostTensor image(DataType::kInt8, {1, 1, 1, 2, 3}, {1, 2, 3, 4, 5, 6});
  HostTensor filters(DataType::kInt8, {2, 1, 1, 2, 2}, {1, 1, 1, 1, -1, 0, 0, 0});
  HostTensor bias(DataType::kFloat, {2}, {0, 100});
  HostTensor scale(DataType::kFloat, {2}, {0.5, 10});
  HostTensor out(DataType::kFloat16, {1, 2, 1, 1, 2});
  const auto run = [&](std::vector<int64_t> padding) {
    TestCall call;
    call.in(image).in(filters).in(bias).in(scale).absent().ints({1, 1, 1}).ints(std::move(padding)).ints({1, 1, 1});
    call.boolean(false).ints({}).integer(1).integer(0).text(nullptr).out(out);
    return call.run(quant_convolution);
  };
  ASSERT_TRUE(run({0, 0, 0}).is_ok());
  EXPECT_EQ(out.values(), (Values{6, 8, 90, 80}));
  EXPECT_EQ(run({0, 0, 1}).code(), kParameterInvalid);
  EXPECT_EQ(run({0, 0}).code(), kParameterInvalid);
  HostTensor padded(DataType::kFloat16, {1, 2, 1, 1, 4});
  TestCall call;
  call.in(image).in(filters).in(bias).in(scale).absent().ints({1, 1, 1}).ints({0, 0, 1}).ints({1, 1, 1});
  call.boolean(false).ints({}).integer(1).integer(0).text(nullptr).out(padded);
  ASSERT_TRUE(call.run(quant_convolution).is_ok());
  EXPECT_EQ(padded.values(), (Values{2.5, 6, 8, 4.5, 100, 90, 80, 70}));
}

struct Groups {
  HostTensor x{DataType::kInt8, {3, 2}, {1, 2, 3, 4, 5, 6}};
  HostTensor weight{DataType::kInt8, {2, 2, 1}, {1, 1, 10, 10}};
  HostTensor out{DataType::kInt32, {3, 1}, {-1, -1, -1}};

  Status run(HostTensor& list, int64_t type) {
    TestCall call;
    call.in_list({&x}).in_list({&weight}).in_list({}).in_list({}).in_list({}).in_list({}).in_list({}).in_list({});
    call.in(list).in_list({}).in_list({}).in_list({}).integer(3).integer(0).integer(type).integer(0);
    return call.out_list({&out}).out_list({}).out_list({}).run(grouped_matmul_types);
  }
};

TEST(GroupedMatmul, RowsTakeTheWeightOfTheirGroup) {
  Groups groups;
  HostTensor ends(DataType::kInt64, {2}, {1, 3});
  ASSERT_TRUE(groups.run(ends, 0).is_ok());
  EXPECT_EQ(groups.out.values(), (Values{3, 70, 110}));
  HostTensor sizes(DataType::kInt64, {2}, {2, 0});
  groups.out.set({-1, -1, -1});
  ASSERT_TRUE(groups.run(sizes, 1).is_ok());
  EXPECT_EQ(groups.out.values(), (Values{3, 7, -1}));  // rows of no group stay as they are
  HostTensor pairs(DataType::kInt64, {2, 2}, {1, 2, 0, 1});
  ASSERT_TRUE(groups.run(pairs, 2).is_ok());
  EXPECT_EQ(groups.out.values(), (Values{30, 70, 11}));
}

TEST(GroupedMatmul, RefusesGroupsThatDoNotFit) {
  Groups groups;
  HostTensor beyond(DataType::kInt64, {2}, {1, 4});
  EXPECT_EQ(groups.run(beyond, 0).code(), kDeviceFault);
  HostTensor falling(DataType::kInt64, {2}, {2, 1});
  EXPECT_EQ(groups.run(falling, 0).code(), kDeviceFault);
  HostTensor three(DataType::kInt64, {3}, {1, 2, 3});
  EXPECT_EQ(groups.run(three, 0).code(), kDeviceFault);
}

TEST(GroupedMatmul, FinalizeAddsWeighedRowsToTheirTokens) {
  HostTensor x(DataType::kInt8, {2, 1}, {2, 3});
  HostTensor weight(DataType::kInt8, {1, 1, 2}, {1, 10});
  HostTensor scale(DataType::kFloat, {1, 1, 2}, {1, 1});
  HostTensor tokens(DataType::kFloat, {2}, {1, 2});
  HostTensor list(DataType::kInt64, {1}, {2});
  HostTensor shared(DataType::kBFloat16, {1, 2}, {100, 100});
  HostTensor logit(DataType::kFloat, {2}, {1, 0.5});
  HostTensor rows(DataType::kInt64, {2}, {1, 1});
  HostTensor out(DataType::kFloat, {2, 2});
  TestCall call;
  call.in(x).in(weight).in(scale).absent().absent().absent().absent().in(tokens).in(list).in(shared).in(logit).in(rows);
  call.integer(0).number(2).integer(0).boolean(false).boolean(false).integer(1).out(out);
  ASSERT_TRUE(call.run(grouped_matmul_finalize).is_ok());
  EXPECT_EQ(out.values(), (Values{200, 200, 5, 50}));
}

TEST(GroupedMatmul, SwigluQuantisesTheGatedHalf) {
  HostTensor x(DataType::kInt8, {1, 1}, {1});
  HostTensor weight(DataType::kInt8, {1, 1, 4}, {0, 50, 3, 2});
  HostTensor scale(DataType::kFloat, {1, 4}, {1, 1, 1, 1});
  HostTensor tokens(DataType::kFloat, {1}, {1});
  HostTensor list(DataType::kInt64, {1}, {1});
  HostTensor out(DataType::kInt8, {1, 2});
  HostTensor out_scale(DataType::kFloat, {1});
  TestCall call;
  call.in(x).in_list({&weight}).in_list({&scale}).in_list({}).absent().in(tokens).absent().in(list);
  call.integer(0).integer(0).integer(0).integer(0).ints({}).out(out).out(out_scale);
  ASSERT_TRUE(call.run(grouped_matmul_swiglu_quant).is_ok());
  EXPECT_EQ(out.values(), (Values{0, 127}));
  EXPECT_FLOAT_EQ(static_cast<float>(out_scale.values()[0]), 100.0f / 127);
}

TEST(GroupedMatmul, SwigluTakesAWeightByTheSizesOfItsStorage) {
  // k = 32, n = 8 as blocks of 4 columns and 16 rows: (1, n / 4, k / 16, 16, 4).
  const int64_t depth = 32, columns = 8, block = 4;
  Values plain(static_cast<size_t>(depth * columns)), blocked(plain.size());
  for (int64_t k = 0; k < depth; ++k) {
    for (int64_t n = 0; n < columns; ++n) {
      const auto value = static_cast<double>((k * 5 + n * 3) % 11 - 5);
      plain[static_cast<size_t>(k * columns + n)] = value;
      blocked[static_cast<size_t>((n / block * depth + k) * block + n % block)] = value;
    }
  }
  Values rows(static_cast<size_t>(2 * depth));
  for (size_t k = 0; k < rows.size(); ++k) rows[k] = static_cast<double>(k % 7) - 2;
  HostTensor x(DataType::kInt8, {2, depth}, rows);
  HostTensor scale(DataType::kFloat, {1, columns}, Values(static_cast<size_t>(columns), 0.03125));
  HostTensor row_scale(DataType::kFloat, {2}, {1, 0.5});
  HostTensor groups(DataType::kInt64, {1}, {2});
  std::array<Values, 2> quantised, scales;
  for (size_t form = 0; form < 2; ++form) {
    HostTensor weight = form == 0 ? HostTensor(DataType::kInt8, {1, depth, columns}, plain)
                                  : HostTensor(DataType::kInt8, {1, columns / block, depth / 16, 16, block}, blocked);
    HostTensor out(DataType::kInt8, {2, columns / 2});
    HostTensor out_scale(DataType::kFloat, {2});
    TestCall call;
    call.in(x).in_list({&weight}).in_list({&scale}).in_list({}).absent().in(row_scale).absent().in(groups);
    call.integer(0).integer(0).integer(0).integer(0).ints({}).out(out).out(out_scale);
    ASSERT_TRUE(call.run(grouped_matmul_swiglu_quant).is_ok());
    quantised[form] = out.values();
    scales[form] = out_scale.values();
  }
  EXPECT_EQ(quantised[0], quantised[1]);
  EXPECT_EQ(scales[0], scales[1]);
  EXPECT_NE(quantised[0], Values(static_cast<size_t>(columns)));
}

}  // namespace
}  // namespace drydock::ops::kernels
