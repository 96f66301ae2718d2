#include <algorithm>
#include <cstring>
#include <initializer_list>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "abi/generated/entries.h"
#include "abi/operator_args.h"
#include "base/generated/error_codes.h"
#include "base/recent_error.h"
#include "device/context.h"
#include "ops/executor.h"
#include "ops/phases.h"
#include "values/extents.h"

namespace drydock::ops {
namespace {

using values::Knowledge;

constexpr int32_t kHostToDevice = 1;
constexpr int32_t kDeviceToHost = 2;

uint32_t index_of(std::string_view name) {
  const auto rows = operator_rows();
  const auto row = std::find_if(rows.begin(), rows.end(), [name](const OperatorRow& row) { return row.name == name; });
  return static_cast<uint32_t>(row - rows.begin());
}

class PhasesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    static_cast<void>(entries::aclInit(nullptr));  // the second test finds it initialised
    ASSERT_EQ(entries::aclrtSetDevice(0).code(), 0);
  }
  void TearDown() override {
    for (void* memory : memory_) EXPECT_EQ(entries::aclrtFree(memory).code(), 0);
  }

  void* allocate(size_t size_bytes) {
    void* memory = nullptr;
    EXPECT_EQ(entries::aclrtMalloc(&memory, size_bytes, 0).code(), 0);
    memory_.push_back(memory);
    return memory;
  }

  template <class T>
  void* known(std::initializer_list<T> host) {
    void* memory = allocate(host.size() * sizeof(T));
    EXPECT_EQ(
        entries::aclrtMemcpy(memory, host.size() * sizeof(T), host.begin(), host.size() * sizeof(T), kHostToDevice)
            .code(),
        0);
    return memory;
  }

  template <class T>
  std::vector<T> read(const void* memory, size_t count) {
    std::vector<T> host(count);
    EXPECT_EQ(entries::aclrtMemcpy(host.data(), count * sizeof(T), memory, count * sizeof(T), kDeviceToHost).code(), 0);
    return host;
  }

  static void* tensor(void* memory, DataType dtype, std::vector<int64_t> dims) {
    int64_t numel = 1;
    for (const int64_t size : dims) numel *= size;
    return entries::aclCreateTensor(dims.data(), dims.size(), static_cast<int32_t>(dtype), nullptr, 0, 2, &numel, 1,
                                    memory);
  }

  int32_t call(std::string_view name, std::vector<Arg> args) {
    uint64_t workspace_size = 99;
    void* executor = nullptr;
    const uint32_t op = index_of(name);
    const int32_t code = phase1(op, args.data(), static_cast<uint32_t>(args.size()), &workspace_size, &executor);
    if (code != 0) {
      EXPECT_EQ(workspace_size, 0U);
      EXPECT_EQ(executor, nullptr);
      return code;
    }
    void* workspace = workspace_size == 0 ? nullptr : allocate(workspace_size);
    return phase2(op, workspace, workspace_size, executor, nullptr);
  }

  static Knowledge knowledge(const void* memory, size_t size_bytes) {
    return values::knowledge_of(reinterpret_cast<uint64_t>(memory), size_bytes);
  }

  std::vector<void*> memory_;
};

TEST_F(PhasesTest, KnownInputsGiveKnownResults) {
  void* self = tensor(known<float>({1, 2, 3}), DataType::kFloat, {3});
  void* other = tensor(known<float>({10, 20, 30}), DataType::kFloat, {3});
  double two = 2;
  void* alpha = entries::aclCreateScalar(&two, static_cast<int32_t>(DataType::kDouble));
  void* result = allocate(12);
  void* out = tensor(result, DataType::kFloat, {3});
  EXPECT_EQ(call("aclnnAdd",
                 {abi::pack_tensor(self), abi::pack_tensor(other), abi::pack_scalar(alpha), abi::pack_tensor(out)}),
            0);
  EXPECT_EQ(knowledge(result, 12), Knowledge::kKnown);
  EXPECT_EQ(read<float>(result, 3), (std::vector<float>{21, 42, 63}));
}

TEST_F(PhasesTest, GhostFloatsStayGhostsAndReadAsOnes) {
  void* ghost = tensor(allocate(12), DataType::kFloat, {3});
  void* result = allocate(12);
  EXPECT_EQ(call("aclnnExp", {abi::pack_tensor(ghost), abi::pack_tensor(tensor(result, DataType::kFloat, {3}))}), 0);
  EXPECT_EQ(knowledge(result, 12), Knowledge::kGhost);
  EXPECT_EQ(read<float>(result, 3), (std::vector<float>{1, 1, 1}));
}

TEST_F(PhasesTest, IntegersFromGhostsAreAssumedAndConsistent) {
  void* logits = tensor(allocate(5 * 4), DataType::kFloat, {5});
  void* index = allocate(8);
  EXPECT_EQ(call("aclnnArgMax", {abi::pack_tensor(logits), abi::pack_int(0), abi::pack_bool(false),
                                 abi::pack_tensor(tensor(index, DataType::kInt64, {1}))}),
            0);
  EXPECT_EQ(knowledge(index, 8), Knowledge::kAssumed);
  const int64_t chosen = read<int64_t>(index, 1)[0];
  EXPECT_GE(chosen, 0);
  EXPECT_LT(chosen, 5);
}

TEST_F(PhasesTest, FloatsNeverRestOnAssumptions) {
  void* ghost = tensor(allocate(16), DataType::kFloat, {4});
  void* mask = allocate(4);
  void* mask_tensor = tensor(mask, DataType::kBool, {4});
  double zero = 0;
  void* bound = entries::aclCreateScalar(&zero, static_cast<int32_t>(DataType::kDouble));
  EXPECT_EQ(call("aclnnGtScalar", {abi::pack_tensor(ghost), abi::pack_scalar(bound), abi::pack_tensor(mask_tensor)}),
            0);
  EXPECT_EQ(knowledge(mask, 4), Knowledge::kAssumed);
  void* cast = allocate(16);
  EXPECT_EQ(
      call("aclnnInplaceCopy", {abi::pack_tensor(tensor(cast, DataType::kFloat, {4})), abi::pack_tensor(mask_tensor)}),
      0);
  EXPECT_EQ(knowledge(cast, 16), Knowledge::kGhost);
}

TEST_F(PhasesTest, OverwritingForgetsWhatTheTensorWas) {
  void* memory = allocate(16);
  void* self = tensor(memory, DataType::kFloat, {4});
  EXPECT_EQ(call("aclnnInplaceOne", {abi::pack_tensor(self)}), 0);
  EXPECT_EQ(knowledge(memory, 16), Knowledge::kKnown);
  EXPECT_EQ(read<float>(memory, 4), (std::vector<float>{1, 1, 1, 1}));
}

TEST_F(PhasesTest, TheShapeOfAMaskedSelectIsTrueEvenOfGhosts) {
  void* values = tensor(allocate(16), DataType::kFloat, {4});
  void* mask = tensor(known<uint8_t>({1, 0, 1, 1}), DataType::kBool, {4});
  void* out = tensor(allocate(16), DataType::kFloat, {4});
  EXPECT_EQ(call("aclnnMaskedSelect", {abi::pack_tensor(values), abi::pack_tensor(mask), abi::pack_tensor(out)}), 0);
  int64_t* dims = nullptr;
  uint64_t count = 0;
  ASSERT_EQ(entries::aclGetViewShape(out, &dims, &count).code(), 0);
  ASSERT_EQ(count, 1U);
  EXPECT_EQ(dims[0], 3);
  delete[] dims;
}

TEST_F(PhasesTest, LargeKnownFloatsBecomeGhostsInAuto) {
  constexpr size_t kBytes = size_t{2} << 20;
  void* memory = allocate(kBytes);
  void* self = tensor(memory, DataType::kFloat, {static_cast<int64_t>(kBytes / 4)});
  EXPECT_EQ(call("aclnnInplaceOne", {abi::pack_tensor(self)}), 0);
  EXPECT_EQ(knowledge(memory, kBytes), Knowledge::kGhost);
}

TEST_F(PhasesTest, AnOperatorWithoutAKernelLeavesGhosts) {
  void* memory = known<float>({1, 2, 3, 4});
  EXPECT_EQ(call("aclnnDistributeBarrier",
                 {abi::pack_tensor(tensor(memory, DataType::kFloat, {4})), abi::pack_text("group"), abi::pack_int(1)}),
            0);
  EXPECT_EQ(knowledge(memory, 16), Knowledge::kGhost);
}

TEST_F(PhasesTest, NullsAreRefusedWithTheVendorsCode) {
  void* out = tensor(allocate(4), DataType::kFloat, {1});
  EXPECT_EQ(call("aclnnAbs", {abi::pack_tensor(nullptr), abi::pack_tensor(out)}), code::ACLNN_ERR_PARAM_NULLPTR);
  EXPECT_NE(std::string(peek_recent_error()).find("aclnnAbs"), std::string::npos);
  uint64_t workspace_size = 0;
  std::vector<Arg> args = {abi::pack_tensor(out), abi::pack_tensor(out)};
  EXPECT_EQ(phase1(index_of("aclnnAbs"), args.data(), 2, &workspace_size, nullptr), code::ACLNN_ERR_PARAM_NULLPTR);
  EXPECT_EQ(phase2(index_of("aclnnAbs"), nullptr, 0, nullptr, nullptr), code::ACLNN_ERR_PARAM_NULLPTR);
}

TEST_F(PhasesTest, ForeignAndDestroyedHandlesAreNoCrash) {
  int not_a_tensor = 0;
  void* out = tensor(allocate(4), DataType::kFloat, {1});
  EXPECT_EQ(call("aclnnAbs", {abi::pack_tensor(&not_a_tensor), abi::pack_tensor(out)}), code::ACLNN_ERR_PARAM_INVALID);
  void* gone = tensor(allocate(4), DataType::kFloat, {1});
  ASSERT_EQ(entries::aclDestroyTensor(gone).code(), 0);
  EXPECT_EQ(call("aclnnAbs", {abi::pack_tensor(gone), abi::pack_tensor(out)}), code::ACLNN_ERR_PARAM_INVALID);
  EXPECT_EQ(entries::aclDestroyTensor(gone).code(), code::ACLNN_ERR_PARAM_INVALID);
  EXPECT_EQ(entries::aclDestroyTensor(nullptr).code(), 0);
}

TEST_F(PhasesTest, AnExecutorIsUsedUp) {
  void* self = tensor(known<float>({-1}), DataType::kFloat, {1});
  std::vector<Arg> args = {abi::pack_tensor(self), abi::pack_tensor(self)};
  uint64_t workspace_size = 0;
  void* executor = nullptr;
  const uint32_t op = index_of("aclnnAbs");
  ASSERT_EQ(phase1(op, args.data(), 2, &workspace_size, &executor), 0);
  EXPECT_EQ(phase2(index_of("aclnnExp"), nullptr, 0, executor, nullptr), code::ACLNN_ERR_PARAM_NULLPTR);
  EXPECT_EQ(phase2(op, nullptr, 0, executor, nullptr), 0);
  EXPECT_EQ(phase2(op, nullptr, 0, executor, nullptr), code::ACLNN_ERR_PARAM_NULLPTR);
}

TEST_F(PhasesTest, AMissingWorkspaceUsesTheExecutorUp) {
  void* self = tensor(known<float>({-1}), DataType::kFloat, {1});
  std::vector<Arg> args = {abi::pack_tensor(self), abi::pack_tensor(self)};
  uint64_t workspace_size = 0;
  void* executor = nullptr;
  const uint32_t op = index_of("aclnnAbs");
  ASSERT_EQ(phase1(op, args.data(), 2, &workspace_size, &executor), 0);
  EXPECT_EQ(phase2(op, nullptr, 512, executor, nullptr), code::ACLNN_ERR_PARAM_NULLPTR);
  EXPECT_EQ(executors().find(executor), nullptr);
}

TEST_F(PhasesTest, FreedMemoryIsFoundByTheStream) {
  void* memory = nullptr;
  ASSERT_EQ(entries::aclrtMalloc(&memory, 64, 0).code(), 0);
  void* self = tensor(memory, DataType::kFloat, {16});
  ASSERT_EQ(entries::aclrtFree(memory).code(), 0);
  // The launch itself succeeds, as on hardware; the stream carries the failure.
  void* stream = nullptr;
  ASSERT_EQ(entries::aclrtCreateStream(&stream).code(), 0);
  std::vector<Arg> args = {abi::pack_tensor(self), abi::pack_tensor(self)};
  uint64_t workspace_size = 0;
  void* executor = nullptr;
  const uint32_t op = index_of("aclnnAbs");
  ASSERT_EQ(phase1(op, args.data(), 2, &workspace_size, &executor), 0);
  EXPECT_EQ(phase2(op, nullptr, 0, executor, stream), 0);
  const Status status = entries::aclrtSynchronizeStream(stream);
  EXPECT_EQ(status.code(), code::ACL_ERROR_RT_VECTOR_CORE_EXCEPTION);
  EXPECT_NE(status.message().find("aclnnAbs"), std::string::npos) << status.message();
  EXPECT_EQ(entries::aclrtDestroyStreamForce(stream).code(), 0);
}

TEST_F(PhasesTest, NonsenseTensorsAreNull) {
  const int64_t negative = -1;
  const int64_t huge[] = {int64_t{1} << 40, int64_t{1} << 40};
  const int64_t one = 1;
  EXPECT_EQ(entries::aclCreateTensor(&negative, 1, 0, nullptr, 0, 2, &one, 1, nullptr), nullptr);
  EXPECT_EQ(entries::aclCreateTensor(huge, 2, 0, nullptr, 0, 2, &one, 1, nullptr), nullptr);
  EXPECT_EQ(entries::aclCreateTensor(nullptr, 3, 0, nullptr, 0, 2, &one, 1, nullptr), nullptr);
  EXPECT_EQ(entries::aclCreateTensor(&one, 1, 999, nullptr, 0, 2, &one, 1, nullptr), nullptr);
  EXPECT_EQ(entries::aclCreateTensor(&one, 26, 0, nullptr, 0, 2, &one, 1, nullptr), nullptr);
  EXPECT_EQ(entries::aclCreateScalar(nullptr, 0), nullptr);
  EXPECT_EQ(entries::aclCreateIntArray(nullptr, 2), nullptr);
  int not_a_tensor = 0;
  const void* elements[] = {&not_a_tensor};
  EXPECT_EQ(entries::aclCreateTensorList(elements, 1), nullptr);
}

TEST_F(PhasesTest, AListTakesItsElementsAlong) {
  const void* elements[] = {tensor(nullptr, DataType::kFloat, {0}), nullptr};
  const void* list = entries::aclCreateTensorList(elements, 2);
  ASSERT_NE(list, nullptr);
  EXPECT_EQ(entries::aclDestroyTensorList(list).code(), 0);
  EXPECT_EQ(entries::aclDestroyTensor(elements[0]).code(), code::ACLNN_ERR_PARAM_INVALID);
}

}  // namespace
}  // namespace drydock::ops
