#include "ops/generated/kernels.h"
#include "ops_call_builder.h"

namespace drydock::ops::kernels {
namespace {

using testing::HostTensor;
using testing::TestCall;
using Values = std::vector<double>;

HostTensor six() { return HostTensor(DataType::kInt32, {2, 3}, {1, 2, 3, 4, 5, 6}); }

TEST(Index, SelectsSlices) {
  HostTensor a = six();
  HostTensor index_tensor(DataType::kInt64, {2}, {2, -3});
  HostTensor out(DataType::kInt32, {2, 2});
  ASSERT_TRUE(TestCall().in(a).integer(1).in(index_tensor).out(out).run(index_select).is_ok());
  EXPECT_EQ(out.values(), (Values{3, 1, 6, 4}));
  HostTensor ids(DataType::kInt32, {1, 2}, {1, 0});
  HostTensor rows(DataType::kInt32, {1, 2, 3});
  ASSERT_TRUE(TestCall().in(a).in(ids).out(rows).run(embedding).is_ok());
  EXPECT_EQ(rows.values(), (Values{4, 5, 6, 1, 2, 3}));
}

TEST(Index, OutOfRangeNamesIndexAndSize) {
  HostTensor a = six();
  HostTensor out(DataType::kInt32, {1, 3});
  for (double wrong : {2.0, -3.0, 1e18}) {
    HostTensor index_tensor(DataType::kInt64, {1}, {wrong});
    const Status status = TestCall("aclnnIndexSelect").in(a).integer(0).in(index_tensor).out(out).run(index_select);
    EXPECT_EQ(status.code(), kDeviceFault);
    EXPECT_NE(status.message().find("index " + std::to_string(static_cast<int64_t>(wrong))), std::string::npos)
        << status.message();
    EXPECT_NE(status.message().find("size 2"), std::string::npos) << status.message();
  }
}

TEST(Index, GathersAlongADimension) {
  HostTensor a = six();
  HostTensor index_tensor(DataType::kInt64, {2, 2}, {2, 0, 1, 1});
  HostTensor out(DataType::kInt32, {2, 2});
  ASSERT_TRUE(TestCall().in(a).integer(-1).in(index_tensor).out(out).run(gather).is_ok());
  EXPECT_EQ(out.values(), (Values{3, 1, 5, 5}));
  EXPECT_EQ(TestCall().in(a).integer(0).in(index_tensor).out(out).run(gather).code(), kDeviceFault);
  HostTensor flat(DataType::kInt64, {2}, {5, -6});
  HostTensor taken(DataType::kInt32, {2});
  ASSERT_TRUE(TestCall().in(a).in(flat).out(taken).run(take).is_ok());
  EXPECT_EQ(taken.values(), (Values{6, 1}));
}

TEST(Index, EmptyIndicesOfAnyRankGatherNothing) {
  HostTensor a = six();
  HostTensor none(DataType::kInt64, {0});
  HostTensor out(DataType::kInt32, {0});
  EXPECT_TRUE(TestCall().in(a).integer(0).in(none).out(out).run(gather).is_ok());
}

TEST(Index, GathersSlicesInBatches) {
  HostTensor a(DataType::kInt32, {2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8});
  HostTensor per_batch(DataType::kInt64, {2, 1}, {1, 0});
  HostTensor out(DataType::kInt32, {2, 1, 2});
  ASSERT_TRUE(TestCall().in(a).integer(1).in(per_batch).integer(1).integer(0).out(out).run(gather_slices).is_ok());
  EXPECT_EQ(out.values(), (Values{3, 4, 5, 6}));
  HostTensor common(DataType::kInt64, {3}, {1, 1, 0});
  HostTensor wide(DataType::kInt32, {2, 3, 2});
  ASSERT_TRUE(TestCall().in(a).integer(1).in(common).integer(0).integer(0).out(wide).run(gather_slices).is_ok());
  EXPECT_EQ(wide.values(), (Values{3, 4, 3, 4, 1, 2, 7, 8, 7, 8, 5, 6}));
}

TEST(Index, IndexesByTensorsMasksAndGaps) {
  HostTensor a = six();
  HostTensor rows(DataType::kInt64, {2}, {1, 0});
  HostTensor columns(DataType::kInt64, {2}, {0, 2});
  HostTensor pairs(DataType::kInt32, {2});
  ASSERT_TRUE(TestCall().in(a).in_list({&rows, &columns}).out(pairs).run(index).is_ok());
  EXPECT_EQ(pairs.values(), (Values{4, 3}));
  HostTensor chosen(DataType::kInt32, {2, 2});
  ASSERT_TRUE(TestCall().in(a).in_list({nullptr, &columns}).out(chosen).run(index).is_ok());
  EXPECT_EQ(chosen.values(), (Values{1, 3, 4, 6}));
  HostTensor empty(DataType::kInt32, {0});  // how torch_npu spells an absent index
  ASSERT_TRUE(TestCall().in(a).in_list({&empty, &columns}).out(chosen).run(index).is_ok());
  EXPECT_EQ(chosen.values(), (Values{1, 3, 4, 6}));
  HostTensor mask(DataType::kBool, {2, 3}, {0, 1, 0, 0, 0, 1});
  ASSERT_TRUE(TestCall().in(a).in_list({&mask}).out(pairs).run(index).is_ok());
  EXPECT_EQ(pairs.values(), (Values{2, 6}));
}

TEST(Index, SeparatedIndicesGoToTheFront) {
  HostTensor cube(DataType::kInt32, {2, 2, 2}, {0, 1, 2, 3, 4, 5, 6, 7});
  HostTensor first(DataType::kInt64, {3}, {0, 1, 1});
  HostTensor last(DataType::kInt64, {3}, {1, 0, 1});
  HostTensor out(DataType::kInt32, {3, 2});
  ASSERT_TRUE(TestCall().in(cube).in_list({&first, nullptr, &last}).out(out).run(index).is_ok());
  EXPECT_EQ(out.values(), (Values{1, 3, 4, 6, 5, 7}));
  // Adjacent ones stay where they are.
  HostTensor middle(DataType::kInt32, {2, 3});
  ASSERT_TRUE(TestCall().in(cube).in_list({nullptr, &first, &last}).out(middle).run(index).is_ok());
  EXPECT_EQ(middle.values(), (Values{1, 2, 3, 5, 6, 7}));
}

TEST(Index, PutsAndAccumulates) {
  HostTensor a = six();
  HostTensor rows(DataType::kInt64, {3}, {0, 0, 1});
  HostTensor columns(DataType::kInt64, {3}, {1, 1, 2});
  HostTensor value(DataType::kInt32, {1}, {10});
  ASSERT_TRUE(
      TestCall().in_out(a).in_list({&rows, &columns}).in(value).boolean(true).boolean(false).run(index_put).is_ok());
  EXPECT_EQ(a.values(), (Values{1, 22, 3, 4, 5, 16}));
  HostTensor first_row(DataType::kInt64, {1}, {0});
  HostTensor line(DataType::kInt32, {3}, {7, 8, 9});
  ASSERT_TRUE(TestCall().in_out(a).in_list({&first_row}).in(line).boolean(false).boolean(false).run(index_put).is_ok());
  EXPECT_EQ(a.values(), (Values{7, 8, 9, 4, 5, 16}));
  HostTensor wrong(DataType::kInt64, {1}, {2});
  EXPECT_EQ(TestCall().in_out(a).in_list({&wrong}).in(line).boolean(false).boolean(false).run(index_put).code(),
            kDeviceFault);
}

TEST(Scatter, ReplacesAddsAndReduces) {
  HostTensor self(DataType::kFloat, {3}, {1, 2, 3});
  HostTensor index_tensor(DataType::kInt64, {4}, {0, 0, 2, 2});
  HostTensor source(DataType::kFloat, {4}, {10, 20, 30, 40});
  HostTensor out(DataType::kFloat, {3});
  ASSERT_TRUE(TestCall().in(self).integer(0).in(index_tensor).in(source).out(out).run(scatter_add).is_ok());
  EXPECT_EQ(out.values(), (Values{31, 2, 73}));
  ASSERT_TRUE(TestCall().in(self).integer(0).in(index_tensor).in(source).integer(0).out(out).run(scatter).is_ok());
  EXPECT_EQ(out.values(), (Values{20, 2, 40}));
  ASSERT_TRUE(TestCall()
                  .in(self)
                  .integer(0)
                  .in(index_tensor)
                  .in(source)
                  .integer(5)
                  .boolean(false)
                  .out(out)
                  .run(scatter_reduce)
                  .is_ok());
  EXPECT_EQ(out.values(), (Values{15, 2, 35}));
  ASSERT_TRUE(TestCall()
                  .in(self)
                  .integer(0)
                  .in(index_tensor)
                  .in(source)
                  .integer(3)
                  .boolean(true)
                  .out(out)
                  .run(scatter_reduce)
                  .is_ok());
  EXPECT_EQ(out.values(), (Values{20, 2, 40}));
  ASSERT_TRUE(
      TestCall().in_out(self).integer(0).in(index_tensor).scalar(int64_t{9}).integer(0).run(scatter_value).is_ok());
  EXPECT_EQ(self.values(), (Values{9, 2, 9}));
  index_tensor.set({0, 1, 2, 3});
  EXPECT_EQ(TestCall().in(self).integer(0).in(index_tensor).in(source).out(out).run(scatter_add).code(), kDeviceFault);
}

TEST(Scatter, IndexMayBeSmallerThanSelf) {
  HostTensor self(DataType::kInt32, {2, 3}, Values(6, 0));
  HostTensor index_tensor(DataType::kInt64, {1, 2}, {1, 0});
  HostTensor source(DataType::kInt32, {2, 2}, {5, 6, 7, 8});
  ASSERT_TRUE(TestCall().in_out(self).integer(0).in(index_tensor).in(source).integer(0).run(scatter).is_ok());
  EXPECT_EQ(self.values(), (Values{0, 6, 0, 5, 0, 0}));
}

TEST(Scatter, SlicesAddFillAndCopy) {
  HostTensor self = six();
  HostTensor index_tensor(DataType::kInt64, {2}, {0, 2});
  HostTensor source(DataType::kInt32, {2, 2}, {1, 2, 3, 4});
  HostTensor out(DataType::kInt32, {2, 3});
  ASSERT_TRUE(
      TestCall().in(self).integer(1).in(index_tensor).in(source).scalar(int64_t{10}).out(out).run(index_add).is_ok());
  EXPECT_EQ(out.values(), (Values{11, 2, 23, 34, 5, 46}));
  ASSERT_TRUE(TestCall().in(self).integer(1).in(index_tensor).scalar(int64_t{0}).out(out).run(index_fill).is_ok());
  EXPECT_EQ(out.values(), (Values{0, 2, 0, 0, 5, 0}));
  ASSERT_TRUE(TestCall().in_out(self).integer(1).in(index_tensor).in(source).run(index_copy).is_ok());
  EXPECT_EQ(self.values(), (Values{1, 2, 2, 3, 5, 4}));
  ASSERT_TRUE(TestCall().in_out(self).integer(0).ints({1}).scalar(int64_t{8}).run(index_fill_array).is_ok());
  EXPECT_EQ(self.values(), (Values{1, 2, 2, 8, 8, 8}));
}

TEST(Scatter, MasksTuplesAndFlatPlaces) {
  HostTensor self = six();
  HostTensor mask(DataType::kBool, {3}, {1, 0, 1});
  HostTensor source(DataType::kInt32, {4}, {10, 20, 30, 40});
  ASSERT_TRUE(TestCall().in_out(self).in(mask).in(source).run(masked_scatter).is_ok());
  EXPECT_EQ(self.values(), (Values{10, 2, 20, 30, 5, 40}));
  HostTensor few(DataType::kInt32, {3}, {1, 2, 3});
  EXPECT_EQ(TestCall().in_out(self).in(mask).in(few).run(masked_scatter).code(), kParameterInvalid);
  HostTensor tuples(DataType::kInt64, {1, 2}, {1, 1});
  HostTensor update(DataType::kInt32, {1}, {-1});
  ASSERT_TRUE(TestCall().in_out(self).in(tuples).in(update).run(scatter_nd_update).is_ok());
  EXPECT_EQ(self.values(), (Values{10, 2, 20, 30, -1, 40}));
  HostTensor flat(DataType::kInt64, {2}, {0, 0});
  HostTensor addends(DataType::kInt32, {2}, {1, 2});
  ASSERT_TRUE(TestCall().in_out(self).in(flat).in(addends).boolean(true).run(put).is_ok());
  EXPECT_EQ(self.values()[0], 13);
}

TEST(Unique, SortsCountsAndInverts) {
  HostTensor a(DataType::kInt32, {2, 3}, {3, 1, 3, 2, 1, 3});
  HostTensor values(DataType::kInt32, {6});
  HostTensor inverse(DataType::kInt64, {2, 3});
  HostTensor counts(DataType::kInt64, {6});
  TestCall call;
  call.in(a).boolean(true).boolean(true).boolean(true).out(values).out(inverse).out(counts);
  ASSERT_TRUE(call.run(unique2).is_ok());
  EXPECT_EQ(call.output_dims(0), (Dims{3}));
  EXPECT_EQ(call.output_values(0), (Values{1, 2, 3}));
  EXPECT_EQ(inverse.values(), (Values{2, 0, 2, 1, 0, 2}));
  EXPECT_EQ(call.output_values(2), (Values{2, 1, 3}));
}

TEST(Unique, ConsecutiveAndByDimension) {
  HostTensor a(DataType::kInt32, {5}, {1, 1, 2, 1, 1});
  HostTensor values(DataType::kInt32, {5});
  HostTensor none(DataType::kInt64, {0});
  HostTensor counts(DataType::kInt64, {5});
  TestCall call;
  call.in(a).boolean(false).boolean(true).integer(1000).out(values).out(none).out(counts);
  ASSERT_TRUE(call.run(unique_consecutive).is_ok());
  EXPECT_EQ(call.output_values(0), (Values{1, 2, 1}));
  EXPECT_EQ(call.output_values(2), (Values{2, 1, 2}));

  HostTensor rows(DataType::kInt32, {3, 2}, {5, 6, 1, 2, 5, 6});
  HostTensor unique_rows(DataType::kInt32, {3, 2});
  HostTensor inverse(DataType::kInt64, {3});
  HostTensor row_counts(DataType::kInt64, {3});
  TestCall by_row;
  by_row.in(rows).boolean(true).boolean(true).integer(0).out(unique_rows).out(inverse).out(row_counts);
  ASSERT_TRUE(by_row.run(unique_dim).is_ok());
  EXPECT_EQ(by_row.output_dims(0), (Dims{2, 2}));
  EXPECT_EQ(by_row.output_values(0), (Values{1, 2, 5, 6}));
  EXPECT_EQ(inverse.values(), (Values{1, 0, 1}));
  EXPECT_EQ(by_row.output_values(2), (Values{1, 2}));
}

TEST(Nonzero, ByRowsAndByDimensions) {
  HostTensor a(DataType::kFloat, {2, 2}, {0, 1, -1, 0});
  HostTensor rows(DataType::kInt64, {4, 2});
  HostTensor columns(DataType::kInt64, {2, 4});
  TestCall by_row;
  by_row.in(a).out(rows);
  ASSERT_TRUE(by_row.run(nonzero_rows).is_ok());
  EXPECT_EQ(by_row.output_dims(0), (Dims{2, 2}));
  EXPECT_EQ(by_row.output_values(0), (Values{0, 1, 1, 0}));
  TestCall by_dimension;
  by_dimension.in(a).out(columns);
  ASSERT_TRUE(by_dimension.run(nonzero_columns).is_ok());
  EXPECT_EQ(by_dimension.output_dims(0), (Dims{2, 2}));
  EXPECT_EQ(by_dimension.output_values(0), (Values{0, 1, 1, 0}));
  a.set({0, 1, 1, 1});
  ASSERT_TRUE(by_dimension.run(nonzero_columns).is_ok());
  EXPECT_EQ(by_dimension.output_values(0), (Values{0, 1, 1, 1, 0, 1}));
}

TEST(Nonzero, MaskedSelectBroadcastsBothWays) {
  HostTensor a(DataType::kInt32, {2, 1}, {1, 2});
  HostTensor mask(DataType::kBool, {3}, {1, 0, 1});
  HostTensor out(DataType::kInt32, {6});
  TestCall call;
  call.in(a).in(mask).out(out);
  ASSERT_TRUE(call.run(masked_select).is_ok());
  EXPECT_EQ(call.output_dims(0), (Dims{4}));
  EXPECT_EQ(call.output_values(0), (Values{1, 1, 2, 2}));
}

TEST(ScatterList, WritesAtAStartOfEachTensor) {
  HostTensor first(DataType::kInt16, {1, 4}, {0, 0, 0, 0});
  HostTensor second(DataType::kInt16, {1, 4}, {0, 0, 0, 0});
  HostTensor starts(DataType::kInt32, {2}, {2, 1});
  HostTensor updates(DataType::kInt16, {2, 1, 2}, {1, 2, 3, 4});
  const auto write = [&](HostTensor& indices, HostTensor* mask) {
    TestCall call;
    call.in_out_list({&first, &second}).in(indices).in(updates);
    mask != nullptr ? call.in(*mask) : call.absent();
    return call.text("update").integer(-1).run(scatter_list);
  };
  ASSERT_TRUE(write(starts, nullptr).is_ok());
  EXPECT_EQ(first.values(), (Values{0, 0, 1, 2}));
  EXPECT_EQ(second.values(), (Values{0, 3, 4, 0}));
  HostTensor lengths(DataType::kInt32, {2, 2}, {0, 1, 3, 1});
  HostTensor mask(DataType::kUInt8, {2}, {1, 0});
  ASSERT_TRUE(write(lengths, &mask).is_ok());
  EXPECT_EQ(first.values(), (Values{1, 0, 1, 2}));
  EXPECT_EQ(second.values(), (Values{0, 3, 4, 0}));
  starts.set({3, 0});
  EXPECT_EQ(write(starts, nullptr).code(), kParameterInvalid);
}

TEST(RepeatedElements, GradientsAddUp) {
  HostTensor grad(DataType::kFloat, {2, 4}, {1, 2, 3, 4, 5, 6, 7, 8});
  HostTensor repeats(DataType::kInt64, {3}, {1, 0, 3});
  HostTensor out(DataType::kFloat, {2, 3});
  ASSERT_TRUE(TestCall().in(grad).in(repeats).integer(1).out(out).run(repeat_interleave_grad).is_ok());
  EXPECT_EQ(out.values(), (Values{1, 0, 9, 5, 0, 21}));
  HostTensor one(DataType::kInt64, {1}, {2});
  HostTensor flat(DataType::kFloat, {4});
  ASSERT_TRUE(TestCall().in(grad).in(one).integer(-1).out(flat).run(repeat_interleave_grad).is_ok());
  EXPECT_EQ(flat.values(), (Values{3, 7, 11, 15}));
  repeats.set({1, 0, 4});
  EXPECT_EQ(TestCall().in(grad).in(repeats).integer(1).out(out).run(repeat_interleave_grad).code(), kParameterInvalid);
}

}  // namespace
}  // namespace drydock::ops::kernels
