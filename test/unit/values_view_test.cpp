#include <gtest/gtest.h>

#include "values/view.h"

namespace drydock::values {
namespace {

constexpr uint64_t kBase = uint64_t{9} << 40;

class ViewTest : public ::testing::Test {
 protected:
  void TearDown() override { forget(kBase, uint64_t{1} << 32); }

  static ops::Tensor tensor(ops::Dims dims, ops::Dims strides, int64_t offset = 0) {
    ops::Tensor tensor;
    tensor.dtype = DataType::kFloat;
    tensor.dims = dims;
    tensor.strides = strides;
    tensor.offset = offset;
    tensor.storage = reinterpret_cast<void*>(kBase);
    return tensor;
  }
};

TEST_F(ViewTest, TransposedViewsAreDense) {
  EXPECT_TRUE(span_of(tensor({3, 4}, {1, 3})).dense);
  EXPECT_FALSE(span_of(tensor({3, 4}, {8, 1})).dense);
  EXPECT_EQ(span_of(tensor({3, 4}, {8, 1})).size_bytes, (2 * 8 + 4) * 4U);
  EXPECT_EQ(span_of(tensor({3, 0}, {8, 1})).size_bytes, 0U);
}

TEST_F(ViewTest, WritingAColumnLeavesTheOthersAlone) {
  set_knowledge(kBase, 3 * 4 * 4, Knowledge::kKnown);
  set_knowledge_of_view(tensor({3, 1}, {4, 1}, 1), Knowledge::kGhost);
  EXPECT_EQ(knowledge_of_view(tensor({3, 1}, {4, 1}, 0)), Knowledge::kKnown);
  EXPECT_EQ(knowledge_of_view(tensor({3, 1}, {4, 1}, 1)), Knowledge::kGhost);
  EXPECT_EQ(knowledge_of_view(tensor({3, 2}, {4, 1}, 2)), Knowledge::kKnown);
  EXPECT_EQ(knowledge_of_view(tensor({3, 4}, {4, 1})), Knowledge::kGhost);
}

TEST_F(ViewTest, GapsOfAnInputDoNotCount) {
  set_knowledge_of_view(tensor({5, 2}, {10, 1}), Knowledge::kKnown);
  EXPECT_EQ(knowledge_of_view(tensor({5, 2}, {10, 1})), Knowledge::kKnown);
  EXPECT_EQ(knowledge_of_view(tensor({5, 3}, {10, 1})), Knowledge::kGhost);
}

TEST_F(ViewTest, BroadcastAxesRepeatTheSameBytes) {
  set_knowledge_of_view(tensor({4}, {1}), Knowledge::kAssumed);
  EXPECT_EQ(knowledge_of_view(tensor({1000, 4}, {0, 1})), Knowledge::kAssumed);
}

TEST_F(ViewTest, AGhostOfManyRunsTakesItsGapsAlong) {
  constexpr int64_t kRows = 5000;
  set_knowledge(kBase, kRows * 2 * 4, Knowledge::kKnown);
  set_knowledge_of_view(tensor({kRows, 1}, {2, 1}), Knowledge::kGhost);
  EXPECT_EQ(knowledge_of(kBase + 4, 4), Knowledge::kGhost);
}

}  // namespace
}  // namespace drydock::values
