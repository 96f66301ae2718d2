#include <vector>

#include <gtest/gtest.h>

#include "base/element_types.h"
#include "ops/matmul/bf16_tiles.h"

namespace drydock::ops::testing {
namespace {

using kernels::Bf16Lines;

class DenseSums final : public kernels::Product<float> {
 public:
  DenseSums(int64_t rows, int64_t columns) : columns_(columns), sums_(static_cast<size_t>(rows * columns), -1.0F) {}
  void store(int64_t row, int64_t rows, int64_t column, int64_t columns, const float* values,
             int64_t stride) const override {
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < columns; ++j) {
        sums_[static_cast<size_t>((row + i) * columns_ + column + j)] = values[i * stride + j];
      }
    }
  }
  float at(int64_t row, int64_t column) const { return sums_[static_cast<size_t>(row * columns_ + column)]; }

 private:
  int64_t columns_;
  mutable std::vector<float> sums_;
};

/// How the elements of a line lie: dense along the depth, dense across lines, or neither.
enum class Layout { kDepth, kLines, kApart };

struct Factor {
  std::vector<uint16_t> elements;
  int64_t line_step, depth_step;

  Factor(int64_t lines, int64_t depth, Layout layout) {
    const int64_t apart = layout == Layout::kApart ? 3 : 1;
    line_step = layout == Layout::kLines ? 1 : depth * apart;
    depth_step = layout == Layout::kLines ? lines : apart;
    // What is not an element is a NaN, to be found in any sum that reads it.
    elements.assign(static_cast<size_t>(lines * depth * apart), 0x7fc0);
    for (int64_t i = 0; i < lines; ++i) {
      for (int64_t p = 0; p < depth; ++p) at(i, p) = bfloat16_of(static_cast<float>((i * 5 + p * 7 + 3) % 11 - 5)).bits;
    }
  }
  uint16_t& at(int64_t line, int64_t p) { return elements[static_cast<size_t>(line * line_step + p * depth_step)]; }
  Bf16Lines view(int64_t lines) const {
    return {reinterpret_cast<const char*>(elements.data()), lines, 2 * line_step, 2 * depth_step};
  }
};

// Small integers: sums are exact in any order.
void expect_product(int64_t rows, int64_t columns, int64_t depth, Layout left, Layout right) {
  Factor a(rows, depth, left), b(columns, depth, right);
  const DenseSums sums(rows, columns);
  kernels::multiply_bf16(depth, a.view(rows), b.view(columns), sums);
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) {
      float expected = 0;
      for (int64_t p = 0; p < depth; ++p) expected += float_of(BFloat16{a.at(i, p)}) * float_of(BFloat16{b.at(j, p)});
      ASSERT_EQ(sums.at(i, j), expected) << rows << "x" << columns << "x" << depth << " at " << i << ", " << j;
    }
  }
}

TEST(Bf16Tiles, ComputeAllShapesAndLayouts) {
  if (!kernels::has_bf16_tiles()) GTEST_SKIP() << "this processor has no tiles for bf16";
  for (Layout left : {Layout::kDepth, Layout::kLines, Layout::kApart}) {
    for (Layout right : {Layout::kDepth, Layout::kLines, Layout::kApart}) {
      for (int64_t depth : {1, 31, 32, 70}) {
        expect_product(1, 1, depth, left, right);
        expect_product(17, 65, depth, left, right);
        expect_product(130, 33, depth, left, right);
      }
    }
  }
  // Several blocks of either side, and a depth that is worked on in parts.
  expect_product(1100, 40, 33, Layout::kDepth, Layout::kLines);
  expect_product(20, 1100, 1100, Layout::kLines, Layout::kDepth);
}

}  // namespace
}  // namespace drydock::ops::testing
