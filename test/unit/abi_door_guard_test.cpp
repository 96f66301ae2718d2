#include <new>
#include <stdexcept>
#include <string>

#include <gtest/gtest.h>

#include "abi/door_guard.h"
#include "base/generated/error_codes.h"

namespace drydock::abi {
namespace {

TEST(DoorGuard, SuccessIsZeroAndLeavesNoSentence) {
  take_recent_error();
  EXPECT_EQ(run_door(EntryId::aclrtMalloc, [] { return Status::ok(); }), 0);
  EXPECT_STREQ(peek_recent_error(), "");
}

TEST(DoorGuard, FailureGivesItsCodeAndItsSentence) {
  const auto fail = [] { return Status::error(code::ACL_ERROR_RT_MEMORY_ALLOCATION, "no room"); };
  EXPECT_EQ(run_door(EntryId::aclrtMalloc, fail), 207001);
  EXPECT_STREQ(take_recent_error(), "no room");
}

TEST(DoorGuard, AnotherResultIsPassedOn) {
  EXPECT_EQ(run_door(EntryId::aclGetCompileoptSize, [] { return size_t{256}; }), 256U);
  int called = 0;
  run_door(EntryId::aclAppLog, [&] { ++called; });
  EXPECT_EQ(called, 1);
}

TEST(DoorGuard, AnExceptionBecomesTheCodeThatCallersOfTheEntryKnow) {
  const auto defect = []() -> Status { throw std::runtime_error("odd state"); };
  EXPECT_EQ(run_door(EntryId::aclrtMalloc, defect), code::ACL_ERROR_INTERNAL_ERROR);
  EXPECT_EQ(take_recent_error(), std::string("aclrtMalloc: a defect of Drydock (odd state). Please report it."));
  EXPECT_EQ(run_door(EntryId::aclDestroyTensor, defect), code::ACLNN_ERR_INNER);
  EXPECT_EQ(run_door(EntryId::HcclSetConfig, defect), code::HCCL_E_INTERNAL);
  EXPECT_EQ(run_door(EntryId::aclrtMalloc, []() -> Status { throw 7; }), code::ACL_ERROR_INTERNAL_ERROR);
  EXPECT_EQ(run_door(EntryId::aclrtMalloc, []() -> Status { throw std::bad_alloc(); }), code::ACL_ERROR_BAD_ALLOC);
}

TEST(DoorGuard, AnExceptionBehindAnotherResultGivesZero) {
  EXPECT_EQ(run_door(EntryId::aclCreateTensor, []() -> void* { throw std::runtime_error("x"); }), nullptr);
  EXPECT_NE(std::string(take_recent_error()).find("aclCreateTensor"), std::string::npos);
  run_door(EntryId::aclAppLog, [] { throw std::runtime_error("x"); });
}

TEST(DoorGuard, RefusalSaysWhyAndNamesTheLegacyOperator) {
  EXPECT_EQ(refuse(EntryId::aclopCompileAndExecute, "NPUGetFloatStatusV2"), code::ACL_ERROR_API_NOT_SUPPORT);
  const std::string message = take_recent_error();
  EXPECT_EQ(message.find("aclopCompileAndExecute(NPUGetFloatStatusV2): not supported by the virtual device: "), 0U);
  EXPECT_EQ(refuse(EntryId::rtKernelLaunch, nullptr), code::ACL_ERROR_API_NOT_SUPPORT);
  EXPECT_EQ(std::string(take_recent_error()).find("rtKernelLaunch: not supported"), 0U);
}

// torch_npu turns any text with "Failed to allocate" or "EL0004" into an out-of-memory error.
TEST(DoorGuard, NoReasonReadsAsAnotherError) {
  for (const EntryRow& row : entry_rows()) {
    for (const char* marker : {"EL0004", "Failed to allocate", "reason=[", "E19999"}) {
      EXPECT_EQ(row.reason.find(marker), std::string_view::npos) << row.name;
    }
  }
}

TEST(DoorGuard, CodesHaveTheVendorsNames) {
  EXPECT_EQ(name_of_code(207001), "ACL_ERROR_RT_MEMORY_ALLOCATION");
  EXPECT_EQ(name_of_code(161002), "ACLNN_ERR_PARAM_INVALID");
  EXPECT_EQ(name_of_code(-12345), "");
}

}  // namespace
}  // namespace drydock::abi
