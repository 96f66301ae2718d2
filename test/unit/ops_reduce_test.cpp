#include "ops/generated/kernels.h"
#include "ops_call_builder.h"

namespace drydock::ops::kernels {
namespace {

using testing::HostTensor;
using testing::TestCall;
using Values = std::vector<double>;

constexpr double kInf = std::numeric_limits<double>::infinity();
const double kNan = std::nan("");

HostTensor six() { return HostTensor(DataType::kInt32, {2, 3}, {1, 5, 3, 4, 2, 6}); }

TEST(Reduce, SumsOverSomeNoAndAllDims) {
  HostTensor a = six();
  HostTensor columns(DataType::kInt64, {3});
  ASSERT_TRUE(TestCall().in(a).ints({0}).boolean(false).out(columns).run(reduce_sum).is_ok());
  EXPECT_EQ(columns.values(), (Values{5, 7, 9}));
  HostTensor rows(DataType::kInt64, {2, 1});
  ASSERT_TRUE(TestCall().in(a).ints({-1}).boolean(true).out(rows).run(reduce_sum).is_ok());
  EXPECT_EQ(rows.values(), (Values{9, 12}));
  HostTensor all(DataType::kFloat, {});
  ASSERT_TRUE(TestCall().in(a).ints({}).boolean(false).out(all).run(reduce_sum).is_ok());
  EXPECT_EQ(all.values(), Values{21});
  ASSERT_TRUE(TestCall().in(a).ints({0, 1}).boolean(false).out(all).run(mean).is_ok());
  EXPECT_EQ(all.values(), Values{3.5});
  EXPECT_EQ(TestCall().in(a).ints({2}).boolean(false).out(all).run(reduce_sum).code(), kParameterInvalid);
  EXPECT_EQ(TestCall().in(a).ints({0}).boolean(false).out(all).run(reduce_sum).code(), kParameterInvalid);
}

TEST(Reduce, SumsOfNothingAreZeroAndExtremaOfNothingFail) {
  HostTensor empty(DataType::kFloat, {0, 2});
  HostTensor out(DataType::kFloat, {2});
  ASSERT_TRUE(TestCall().in(empty).ints({0}).boolean(false).out(out).run(reduce_sum).is_ok());
  EXPECT_EQ(out.values(), (Values{0, 0}));
  EXPECT_EQ(TestCall().in(empty).ints({0}).boolean(false).out(out).run(amax).code(), kParameterInvalid);
}

TEST(Reduce, HalfPrecisionSumsDoNotSaturate) {
  HostTensor ones(DataType::kFloat16, {4096}, Values(4096, 1));
  HostTensor out(DataType::kFloat16, {});
  ASSERT_TRUE(TestCall().in(ones).ints({}).boolean(false).out(out).run(reduce_sum).is_ok());
  EXPECT_EQ(out.values(), Values{4096});
}

TEST(Reduce, ProductsNormsAndTruth) {
  HostTensor a(DataType::kFloat, {2, 2}, {3, -4, 0, 2});
  HostTensor out(DataType::kFloat, {});
  HostTensor rows(DataType::kFloat, {2});
  ASSERT_TRUE(TestCall().in(a).integer(1).boolean(false).out(rows).run(product_dim).is_ok());
  EXPECT_EQ(rows.values(), (Values{-12, 0}));
  ASSERT_TRUE(TestCall().in(a).scalar(2.0).ints({1}).boolean(false).out(rows).run(norm).is_ok());
  EXPECT_EQ(rows.values(), (Values{5, 2}));
  ASSERT_TRUE(TestCall().in(a).scalar(kInf).ints({}).boolean(false).out(out).run(norm).is_ok());
  EXPECT_EQ(out.values(), Values{4});
  ASSERT_TRUE(TestCall().in(a).scalar(1.0).ints({}).boolean(false).out(out).run(norm).is_ok());
  EXPECT_EQ(out.values(), Values{9});
  HostTensor truth(DataType::kBool, {2});
  ASSERT_TRUE(TestCall().in(a).ints({1}).boolean(false).out(truth).run(reduce_all).is_ok());
  EXPECT_EQ(truth.values(), (Values{1, 0}));
  ASSERT_TRUE(TestCall().in(a).ints({1}).boolean(false).out(truth).run(reduce_any).is_ok());
  EXPECT_EQ(truth.values(), (Values{1, 1}));
}

TEST(Reduce, SpreadWithCorrection) {
  HostTensor a(DataType::kFloat, {4}, {1, 2, 3, 4});
  HostTensor out(DataType::kFloat, {});
  HostTensor average(DataType::kFloat, {});
  ASSERT_TRUE(TestCall().in(a).ints({}).integer(0).boolean(false).out(out).out(average).run(variance).is_ok());
  EXPECT_EQ(out.values(), Values{1.25});
  EXPECT_EQ(average.values(), Values{2.5});
  ASSERT_TRUE(TestCall().in(a).ints({0}).integer(1).boolean(false).out(out).run(standard_deviation).is_ok());
  EXPECT_NEAR(out.values()[0], std::sqrt(5.0 / 3), 1e-6);
}

TEST(Extremum, ReportsTheFirstOfEqualsAndNan) {
  HostTensor a(DataType::kFloat, {2, 3}, {2, 7, 7, 1, kNan, 9});
  HostTensor values(DataType::kFloat, {2});
  HostTensor places(DataType::kInt64, {2});
  ASSERT_TRUE(TestCall().in(a).integer(1).boolean(false).out(values).out(places).run(max_dim).is_ok());
  EXPECT_EQ(places.values(), (Values{1, 1}));
  EXPECT_EQ(values.values()[0], 7);
  EXPECT_TRUE(std::isnan(values.values()[1]));
  HostTensor ints = six();
  ASSERT_TRUE(TestCall().in(ints).integer(1).boolean(false).out(places).run(argmin).is_ok());
  EXPECT_EQ(places.values(), (Values{0, 1}));
  HostTensor low(DataType::kInt32, {});
  HostTensor high(DataType::kInt32, {});
  ASSERT_TRUE(TestCall().in(ints).out(low).out(high).run(aminmax_all).is_ok());
  EXPECT_EQ(low.values(), Values{1});
  EXPECT_EQ(high.values(), Values{6});
  HostTensor columns(DataType::kInt32, {3});
  ASSERT_TRUE(TestCall().in(ints).ints({0}).boolean(false).out(columns).run(amax).is_ok());
  EXPECT_EQ(columns.values(), (Values{4, 5, 6}));
}

TEST(Scan, SumsProductsAndRunningExtrema) {
  HostTensor a = six();
  HostTensor out(DataType::kInt64, {2, 3});
  ASSERT_TRUE(TestCall().in(a).integer(1).out(out).run(cumsum).is_ok());
  EXPECT_EQ(out.values(), (Values{1, 6, 9, 4, 6, 12}));
  ASSERT_TRUE(TestCall().in(a).integer(0).out(out).run(cumsum).is_ok());
  EXPECT_EQ(out.values(), (Values{1, 5, 3, 5, 7, 9}));
  ASSERT_TRUE(TestCall().in(a).scalar(int64_t{-1}).out(out).run(cumprod).is_ok());
  EXPECT_EQ(out.values(), (Values{1, 5, 15, 4, 8, 48}));
  HostTensor values(DataType::kInt32, {2, 3});
  HostTensor places(DataType::kInt64, {2, 3});
  ASSERT_TRUE(TestCall().in(a).integer(1).out(values).out(places).run(cummax).is_ok());
  EXPECT_EQ(values.values(), (Values{1, 5, 5, 4, 4, 6}));
  EXPECT_EQ(places.values(), (Values{0, 1, 1, 0, 0, 2}));
}

TEST(Sort, IsStableAndPutsNanLast) {
  HostTensor a(DataType::kFloat, {5}, {2, kNan, 1, 2, -kInf});
  HostTensor values(DataType::kFloat, {5});
  HostTensor places(DataType::kInt64, {5});
  ASSERT_TRUE(TestCall().in(a).boolean(true).integer(0).boolean(false).out(values).out(places).run(sort).is_ok());
  EXPECT_EQ(places.values(), (Values{4, 2, 0, 3, 1}));
  ASSERT_TRUE(TestCall().in(a).boolean(true).integer(0).boolean(true).out(values).out(places).run(sort).is_ok());
  EXPECT_EQ(places.values(), (Values{1, 0, 3, 2, 4}));
}

TEST(Sort, SelectsTopKAndKth) {
  HostTensor a = six();
  HostTensor values(DataType::kInt32, {2, 2});
  HostTensor places(DataType::kInt64, {2, 2});
  ASSERT_TRUE(
      TestCall().in(a).integer(2).integer(1).boolean(true).boolean(true).out(values).out(places).run(topk).is_ok());
  EXPECT_EQ(values.values(), (Values{5, 3, 6, 4}));
  EXPECT_EQ(places.values(), (Values{1, 2, 2, 0}));
  EXPECT_EQ(TestCall().in(a).integer(4).integer(1).boolean(true).boolean(true).out(values).out(places).run(topk).code(),
            kParameterInvalid);
  HostTensor kth(DataType::kInt32, {2});
  HostTensor where_kth(DataType::kInt64, {2});
  ASSERT_TRUE(TestCall().in(a).integer(2).integer(1).boolean(false).out(kth).out(where_kth).run(kthvalue).is_ok());
  EXPECT_EQ(kth.values(), (Values{3, 4}));
  EXPECT_EQ(where_kth.values(), (Values{2, 0}));
  HostTensor middle(DataType::kInt32, {});
  ASSERT_TRUE(TestCall().in(a).out(middle).run(median).is_ok());
  EXPECT_EQ(middle.values(), Values{3});
}

TEST(Search, FindsInsertionPoints) {
  HostTensor sequence(DataType::kInt32, {4}, {1, 3, 3, 7});
  HostTensor values(DataType::kInt32, {2, 2}, {0, 3, 7, 8});
  HostTensor out(DataType::kInt64, {2, 2});
  ASSERT_TRUE(
      TestCall().in(sequence).in(values).boolean(false).boolean(false).absent().out(out).run(searchsorted).is_ok());
  EXPECT_EQ(out.values(), (Values{0, 1, 3, 4}));
  ASSERT_TRUE(TestCall().in(values).in(sequence).boolean(false).boolean(true).out(out).run(bucketize).is_ok());
  EXPECT_EQ(out.values(), (Values{0, 3, 4, 4}));
  HostTensor batches(DataType::kInt32, {2, 3}, {1, 2, 3, 10, 20, 30});
  HostTensor wanted(DataType::kInt32, {2, 1}, {3, 15});
  HostTensor places(DataType::kInt64, {2, 1});
  ASSERT_TRUE(
      TestCall().in(batches).in(wanted).boolean(false).boolean(false).absent().out(places).run(searchsorted).is_ok());
  EXPECT_EQ(places.values(), (Values{2, 1}));
}

TEST(Search, SetsAndBins) {
  HostTensor a(DataType::kInt64, {4}, {1, 2, 3, 2});
  HostTensor out(DataType::kBool, {4});
  ASSERT_TRUE(TestCall().in(a).scalar(int64_t{2}).boolean(false).boolean(false).out(out).run(is_in).is_ok());
  EXPECT_EQ(out.values(), (Values{0, 1, 0, 1}));
  ASSERT_TRUE(TestCall().in(a).scalar(int64_t{2}).boolean(false).boolean(true).out(out).run(is_in).is_ok());
  EXPECT_EQ(out.values(), (Values{1, 0, 1, 0}));
  HostTensor bins(DataType::kInt64, {4});
  ASSERT_TRUE(TestCall().in(a).absent().integer(0).out(bins).run(bincount).is_ok());
  EXPECT_EQ(bins.values(), (Values{0, 1, 2, 1}));
  a.set({1, 2, 3, 4});
  EXPECT_EQ(TestCall().in(a).absent().integer(0).out(bins).run(bincount).code(), kParameterInvalid);
  HostTensor floats(DataType::kFloat, {4}, {0, 0.4, 1, 2});
  HostTensor counts(DataType::kFloat, {2});
  ASSERT_TRUE(TestCall().in(floats).integer(2).scalar(0.0).scalar(1.0).out(counts).run(histc).is_ok());
  EXPECT_EQ(counts.values(), (Values{2, 1}));
}

}  // namespace
}  // namespace drydock::ops::kernels
