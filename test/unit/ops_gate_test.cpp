#include <gtest/gtest.h>

#include "base/generated/error_codes.h"
#include "ops/gate.h"

namespace drydock::ops {
namespace {

const OperatorRow& row_of(std::string_view name) {
  for (const OperatorRow& row : operator_rows()) {
    if (row.name == name) return row;
  }
  ADD_FAILURE() << "no operator " << name;
  return operator_rows().front();
}

Tensor tensor_of(DataType dtype, std::initializer_list<int64_t> dims) {
  Tensor tensor;
  tensor.dtype = dtype;
  tensor.dims = dims;
  tensor.strides = dims;
  return tensor;
}

Arg arg_of(Tensor& tensor) {
  Arg arg;
  arg.kind = ArgKind::kTensor;
  arg.tensor = &tensor;
  return arg;
}

TEST(Gate, TypesOutsideTheTableAreRefusedByName) {
  Tensor wide = tensor_of(DataType::kDouble, {2});
  const std::array args = {arg_of(wide), arg_of(wide)};
  const Status refused = check_gates(row_of("aclnnExpm1"), args);
  EXPECT_EQ(refused.code(), code::ACLNN_ERR_PARAM_INVALID);
  EXPECT_EQ(refused.message().find("aclnnExpm1: argument self is fp64, which the vendor's table for Atlas A3"), 0U)
      << refused.message();
  EXPECT_TRUE(check_gates(row_of("aclnnAbs"), args).is_ok());
}

TEST(Gate, MoreThanEightDimensionsAreRefused) {
  Tensor deep = tensor_of(DataType::kFloat, {1, 1, 1, 1, 1, 1, 1, 1, 1});
  const std::array args = {arg_of(deep), arg_of(deep)};
  EXPECT_EQ(check_gates(row_of("aclnnAbs"), args).code(), code::ACLNN_ERR_PARAM_INVALID);
}

TEST(Gate, NullsAndEmptyListElementsPass) {
  Tensor empty = tensor_of(DataType::kBFloat16, {0});
  TensorList list{{nullptr, &empty}};
  Tensor self = tensor_of(DataType::kFloat, {2});
  Arg indices;
  indices.kind = ArgKind::kTensorList;
  indices.tensors = &list;
  const std::array args = {arg_of(self), indices, arg_of(self)};
  EXPECT_TRUE(check_gates(row_of("aclnnIndex"), args).is_ok());
  Arg none;
  none.kind = ArgKind::kTensor;
  const std::array nothing = {none, none};
  EXPECT_TRUE(check_gates(row_of("aclnnAbs"), nothing).is_ok());
}

}  // namespace
}  // namespace drydock::ops
