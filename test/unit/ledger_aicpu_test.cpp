#include <gtest/gtest.h>

#include "ledger/aicpu.h"

namespace drydock::ledger {
namespace {

using trace::Call;
using trace::CallArgument;
using trace::CallTensor;
using trace::Signature;

CallArgument tensor(DataType dtype, bool defined = true) {
  CallArgument argument;
  argument.kind = ops::ArgKind::kTensor;
  argument.present = defined;
  CallTensor& tensor = argument.tensors.emplace_back();
  tensor.defined = defined;
  tensor.dtype = dtype;
  return argument;
}

const Signature kBinary{
    "aclnnAdd",
    {{"self", ops::ArgDirection::kIn}, {"other", ops::ArgDirection::kIn}, {"out", ops::ArgDirection::kOut}}};

bool binary_runs_there(DataType self, DataType other, DataType out) {
  Call call;
  call.arguments = {tensor(self), tensor(other), tensor(out)};
  return runs_on_aicpu("aclnnAdd", call, kBinary);
}

TEST(Aicpu, TypesWithoutAKernelForTheCores) {
  EXPECT_FALSE(binary_runs_there(DataType::kFloat, DataType::kFloat, DataType::kFloat));
  EXPECT_TRUE(binary_runs_there(DataType::kDouble, DataType::kDouble, DataType::kDouble));
  // The promoted type decides.
  EXPECT_TRUE(binary_runs_there(DataType::kFloat, DataType::kDouble, DataType::kDouble));
  EXPECT_TRUE(binary_runs_there(DataType::kInt16, DataType::kInt16, DataType::kInt16));
  EXPECT_FALSE(binary_runs_there(DataType::kInt16, DataType::kFloat, DataType::kFloat));
  // What is written decides nothing.
  EXPECT_FALSE(binary_runs_there(DataType::kFloat, DataType::kFloat, DataType::kDouble));
}

TEST(Aicpu, OperatorsWithoutAnyKernelForTheCores) {
  Call call;
  call.arguments = {tensor(DataType::kFloat), tensor(DataType::kFloat)};
  const Signature signature{"aclnnCumprod", {{"input", ops::ArgDirection::kIn}, {"out", ops::ArgDirection::kOut}}};
  EXPECT_TRUE(runs_on_aicpu("aclnnCumprod", call, signature));
}

TEST(Aicpu, UnknownOperatorsAndOddCallsDoNot) {
  Call call;
  EXPECT_FALSE(runs_on_aicpu("aclnnAdd", call, kBinary));
  EXPECT_FALSE(runs_on_aicpu("", call, {}));
  EXPECT_FALSE(runs_on_aicpu("aclnnZzz", call, kBinary));
  call.arguments = {tensor(DataType::kUndefined), tensor(DataType::kDouble, false), tensor(static_cast<DataType>(99))};
  EXPECT_FALSE(runs_on_aicpu("aclnnAdd", call, kBinary));
}

}  // namespace
}  // namespace drydock::ledger
