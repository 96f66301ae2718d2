#pragma once

#include <cstdint>
#include <vector>

#include "ops/kernel_access.h"
#include "ops/kernel_call.h"
#include "ops/quant/quant_product.h"

// Products by groups: rows of one matrix belong to experts, each with a weight of its own.

namespace drydock::ops::kernels {

/// Half-open range of rows (or of the depth) of one group, and whose weight it takes.
struct GroupRange {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t weight = 0;
};

/// `type` 0: where the groups end; 1: their sizes; 2: pairs of a weight and a size. Fails if they exceed `length`.
Status ranges_of_groups(const KernelCall& call, const TensorView& list, int64_t type, int64_t length,
                        std::vector<GroupRange>* ranges);

/// One group of a grouped product; undefined views are absent.
struct GroupProduct {
  TensorView x;                ///< (rows, depth)
  TensorView weight;           ///< (depth, columns)
  TensorView bias;             ///< (columns); of int8 by int4: what makes up for the 8 taken from x
  TensorView scale;            ///< of the columns, or of groups of the depth and the columns
  TensorView offset;           ///< (columns)
  TensorView antiquant_scale;  ///< of integer weights under floating x
  TensorView antiquant_offset;
  std::vector<float> row_scale;  ///< (rows) or empty
  ProductActivation activation = ProductActivation::kNone;
};

/// The sums of one group after all scales, row-major floats; false for a result of int32, which is in `whole`.
struct GroupResult {
  std::vector<float> values;
  std::vector<int32_t> whole;
  bool is_whole = false;
  int64_t rows = 0;
  int64_t columns = 0;
};

/// Computes one group. Forms: floats; floats by int8 or int4; int8 by int8; int4 by int4; int8 by int4.
Status multiply_group(const KernelCall& call, const GroupProduct& product, GroupResult* result);

/// Writes a group's result to a matrix of its size: rounded for int8.
Status store_group(const KernelCall& call, const GroupResult& result, const TensorView& out);

/// Element `group` of a parameter: of a list with one tensor for each group, or along the first axis of the only one.
TensorView parameter_of_group(const std::vector<TensorView>& list, int64_t group, int64_t groups);
TensorView parameter_of_group(const TensorView& tensor, int64_t group);

/// Elements [begin, end) of a vector of scales of rows.
Status rows_of_scale(const KernelCall& call, const TensorView& scale, int64_t begin, int64_t end,
                     std::vector<float>* values);

}  // namespace drydock::ops::kernels
