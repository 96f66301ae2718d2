#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "abi/generated/entries.h"
#include "base/generated/error_codes.h"
#include "base/recent_error.h"
#include "values/extents.h"

// All ranks in one process, each with a device and a stream of its own.

namespace drydock {
namespace {

using namespace drydock::entries;
using ::testing::HasSubstr;

constexpr uint32_t kRanks = 3;
constexpr int32_t kFp32 = 4;
constexpr int32_t kSum = 0;

[[maybe_unused]] const bool environment = [] {
  setenv("DRYDOCK_DEVICES", "3", 1);
  setenv("DRYDOCK_VALUES", "full", 1);
  setenv("HCCL_EXEC_TIMEOUT", "1", 1);
  return true;
}();

class CollectiveTest : public testing::Test {
 protected:
  void SetUp() override {
    for (uint32_t rank = 0; rank < kRanks; ++rank) {
      ASSERT_TRUE(aclrtSetDevice(static_cast<int32_t>(rank)).is_ok());
      ASSERT_TRUE(aclrtCreateStream(&streams_[rank]).is_ok());
    }
    std::array<int32_t, kRanks> devices{0, 1, 2};
    const Status status = HcclCommInitAll(kRanks, devices.data(), comms_.data());
    ASSERT_TRUE(status.is_ok()) << status.message();
  }
  void TearDown() override {
    for (void* comm : comms_) static_cast<void>(HcclCommDestroy(comm).is_ok());
  }

  void on(uint32_t rank) { ASSERT_TRUE(aclrtSetDevice(static_cast<int32_t>(rank)).is_ok()); }
  void* device_floats(uint32_t rank, const std::vector<float>& values) {
    on(rank);
    void* buffer = nullptr;
    EXPECT_TRUE(aclrtMalloc(&buffer, values.size() * 4, 0).is_ok());
    EXPECT_TRUE(aclrtMemcpy(buffer, values.size() * 4, values.data(), values.size() * 4, 1).is_ok());
    return buffer;
  }
  std::vector<float> host_floats(const void* buffer, size_t count) {
    std::vector<float> values(count);
    EXPECT_TRUE(aclrtMemcpy(values.data(), count * 4, buffer, count * 4, 2).is_ok());
    return values;
  }
  Status wait(uint32_t rank) {
    on(rank);
    return aclrtSynchronizeStream(streams_[rank]);
  }
  Status all_reduce(uint32_t rank, void* buffer, uint64_t count) {
    on(rank);
    return HcclAllReduce(buffer, buffer, count, kFp32, kSum, comms_[rank], streams_[rank]);
  }

  std::array<void*, kRanks> comms_{};
  std::array<void*, kRanks> streams_{};
};

TEST_F(CollectiveTest, SumsSmallAndLarge) {
  for (const size_t count : {size_t{1}, size_t{2048}, size_t{2049}, size_t{100'003}}) {
    std::array<void*, kRanks> buffers{};
    std::vector<float> expected(count);
    for (uint32_t rank = 0; rank < kRanks; ++rank) {
      std::vector<float> values(count);
      std::iota(values.begin(), values.end(), static_cast<float>(rank));
      for (size_t i = 0; i < count; ++i) expected[i] += values[i];
      buffers[rank] = device_floats(rank, values);
    }
    for (uint32_t rank = 0; rank < kRanks; ++rank) ASSERT_TRUE(all_reduce(rank, buffers[rank], count).is_ok());
    for (uint32_t rank = 0; rank < kRanks; ++rank) {
      ASSERT_TRUE(wait(rank).is_ok());
      EXPECT_EQ(host_floats(buffers[rank], count), expected) << count;
    }
  }
}

// Each rank's result lies upon the part of its send buffer that rank 0 still has to read.
TEST_F(CollectiveTest, AScatteredSumMayLieUponWhatOthersRead) {
  constexpr size_t kCount = 300'007;
  for (int round = 0; round < 5; ++round) {
    std::array<void*, kRanks> buffers{};
    for (uint32_t rank = 0; rank < kRanks; ++rank) {
      std::vector<float> values(kCount * kRanks);
      for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>((i % 1000) * (rank + 1));
      buffers[rank] = device_floats(rank, values);
    }
    for (uint32_t rank = kRanks; rank-- > 0;) {
      on(rank);
      ASSERT_TRUE(
          HcclReduceScatter(buffers[rank], buffers[rank], kCount, kFp32, kSum, comms_[rank], streams_[rank]).is_ok());
    }
    for (uint32_t rank = 0; rank < kRanks; ++rank) {
      ASSERT_TRUE(wait(rank).is_ok());
      const std::vector<float> result = host_floats(buffers[rank], kCount);
      size_t wrong = 0;
      for (size_t i = 0; i < kCount; ++i)
        wrong += result[i] == static_cast<float>((rank * kCount + i) % 1000 * 6) ? 0 : 1;
      EXPECT_EQ(wrong, 0U) << "rank " << rank << ", round " << round;
      EXPECT_TRUE(aclrtFree(buffers[rank]).is_ok());
    }
  }
}

TEST_F(CollectiveTest, GhostsStayGhosts) {
  std::array<void*, kRanks> buffers{};
  for (uint32_t rank = 0; rank < kRanks; ++rank) {
    buffers[rank] = device_floats(rank, {1.0F, 2.0F});
    if (rank == 1) values::set_knowledge(reinterpret_cast<uint64_t>(buffers[rank]), 8, values::Knowledge::kGhost);
  }
  for (uint32_t rank = 0; rank < kRanks; ++rank) ASSERT_TRUE(all_reduce(rank, buffers[rank], 2).is_ok());
  for (uint32_t rank = 0; rank < kRanks; ++rank) {
    ASSERT_TRUE(wait(rank).is_ok());
    EXPECT_EQ(values::knowledge_of(reinterpret_cast<uint64_t>(buffers[rank]), 8), values::Knowledge::kGhost);
  }
}

TEST_F(CollectiveTest, DifferentCallsAreNamedWithBothSides) {
  std::array<void*, kRanks> buffers{};
  for (uint32_t rank = 0; rank < kRanks; ++rank) buffers[rank] = device_floats(rank, {1.0F, 2.0F, 3.0F, 4.0F});
  ASSERT_TRUE(all_reduce(0, buffers[0], 4).is_ok());
  ASSERT_TRUE(all_reduce(1, buffers[1], 2).is_ok());
  on(2);
  ASSERT_TRUE(HcclBroadcast(buffers[2], 4, kFp32, 0, comms_[2], streams_[2]).is_ok());
  const Status first = wait(0);
  EXPECT_EQ(first.code(), code::ACL_ERROR_RT_AICPU_EXCEPTION);
  EXPECT_THAT(first.message(), HasSubstr("rank 0 all_reduce of 4 fp32, sum"));
  EXPECT_THAT(first.message(), HasSubstr("rank 1 all_reduce of 2 fp32, sum"));
  EXPECT_THAT(wait(2).message(), HasSubstr("rank 2 broadcast of 4 fp32 from rank 0"));
  EXPECT_FALSE(wait(1).is_ok());
  // The communicator has ended with it.
  ASSERT_TRUE(all_reduce(0, buffers[0], 4).is_ok());
  EXPECT_THAT(wait(0).message(), HasSubstr("failed before"));
}

TEST_F(CollectiveTest, ARankThatDoesNotCallIsNamed) {
  void* buffer = device_floats(0, {1.0F});
  void* other = device_floats(1, {1.0F});
  ASSERT_TRUE(all_reduce(0, buffer, 1).is_ok());
  ASSERT_TRUE(all_reduce(1, other, 1).is_ok());
  const Status status = wait(0);
  // One of the two runs out of time first, and the other may be told that it did.
  EXPECT_THAT(status.message(),
              testing::AnyOf(HasSubstr("waited 1 s (HCCL_EXEC_TIMEOUT) for rank 2"), HasSubstr("gave up")));
  EXPECT_FALSE(wait(1).is_ok());
}

TEST_F(CollectiveTest, SendsAndReceivesInNestedGroups) {
  std::array<void*, kRanks> from{};
  std::array<void*, kRanks> to{};
  for (uint32_t rank = 0; rank < kRanks; ++rank) {
    from[rank] = device_floats(rank, std::vector<float>(5000, static_cast<float>(rank)));
    to[rank] = device_floats(rank, std::vector<float>(5000));
    ASSERT_TRUE(HcclGroupStart().is_ok());
    ASSERT_TRUE(HcclGroupStart().is_ok());
    ASSERT_TRUE(HcclSend(from[rank], 5000, kFp32, (rank + 1) % kRanks, comms_[rank], streams_[rank]).is_ok());
    ASSERT_TRUE(HcclGroupEnd().is_ok());
    ASSERT_TRUE(HcclRecv(to[rank], 5000, kFp32, (rank + 2) % kRanks, comms_[rank], streams_[rank]).is_ok());
    ASSERT_TRUE(HcclGroupEnd().is_ok());
  }
  for (uint32_t rank = 0; rank < kRanks; ++rank) {
    ASSERT_TRUE(wait(rank).is_ok());
    EXPECT_EQ(host_floats(to[rank], 5000), std::vector<float>(5000, static_cast<float>((rank + 2) % kRanks)));
  }
  EXPECT_EQ(HcclGroupEnd().code(), code::HCCL_E_PARA);
}

TEST_F(CollectiveTest, AReceiveOfAnotherSizeIsNamed) {
  void* from = device_floats(0, {1.0F, 2.0F});
  void* to = device_floats(1, {1.0F, 2.0F});
  on(0);
  ASSERT_TRUE(HcclSend(from, 2, kFp32, 1, comms_[0], streams_[0]).is_ok());
  on(1);
  ASSERT_TRUE(HcclRecv(to, 1, kFp32, 0, comms_[1], streams_[1]).is_ok());
  EXPECT_THAT(wait(1).message(), HasSubstr("rank 1 receives 1 fp32, and rank 0"));
  EXPECT_THAT(wait(0).message(), testing::AnyOf(HasSubstr("another size or type"), HasSubstr("gave up")));
}

TEST_F(CollectiveTest, BuffersAreChargedAndGivenBack) {
  on(0);
  size_t free_with = 0;
  size_t total = 0;
  ASSERT_TRUE(aclrtGetMemInfo(1, &free_with, &total).is_ok());
  for (void*& comm : comms_) {
    ASSERT_TRUE(HcclCommDestroy(comm).is_ok());
    EXPECT_EQ(HcclCommDestroy(comm).code(), code::HCCL_E_PARA);
  }
  size_t free_without = 0;
  ASSERT_TRUE(aclrtGetMemInfo(1, &free_without, &total).is_ok());
  EXPECT_EQ(free_without - free_with, (uint64_t{2} * 200 << 20) + 36'864);
}

TEST_F(CollectiveTest, WrongArgumentsGetSentences) {
  void* buffer = device_floats(0, {1.0F});
  on(0);
  EXPECT_EQ(HcclAllReduce(buffer, buffer, 1, kFp32, kSum, nullptr, streams_[0]).code(), code::HCCL_E_PTR);
  EXPECT_EQ(HcclAllReduce(buffer, buffer, 1, kFp32, kSum, buffer, streams_[0]).code(), code::HCCL_E_PARA);
  EXPECT_EQ(HcclAllReduce(nullptr, buffer, 1, kFp32, kSum, comms_[0], streams_[0]).code(), code::HCCL_E_PTR);
  EXPECT_EQ(HcclAllReduce(buffer, buffer, uint64_t{1} << 40, kFp32, kSum, comms_[0], streams_[0]).code(),
            code::HCCL_E_PARA);
  EXPECT_EQ(HcclAllReduce(buffer, buffer, 1, kFp32, kSum, comms_[0], streams_[1]).code(), code::HCCL_E_PARA);
  EXPECT_EQ(HcclAllReduce(buffer, buffer, 1, kFp32, kSum, comms_[1], streams_[1]).code(), code::HCCL_E_PARA);
  EXPECT_EQ(HcclBroadcast(buffer, 1, kFp32, 3, comms_[0], streams_[0]).code(), code::HCCL_E_PARA);
  EXPECT_EQ(HcclSend(buffer, 1, kFp32, 3, comms_[0], streams_[0]).code(), code::HCCL_E_PARA);
  uint32_t number = 9;
  EXPECT_TRUE(HcclGetRankSize(comms_[2], &number).is_ok());
  EXPECT_EQ(number, kRanks);
  EXPECT_TRUE(HcclGetRankId(comms_[2], &number).is_ok());
  EXPECT_EQ(number, 2U);
  int32_t error = 9;
  EXPECT_TRUE(HcclGetCommAsyncError(comms_[2], &error).is_ok());
  EXPECT_EQ(error, 0);
}

TEST(CommunicatorSettingsTest, NonsenseInTheEnvironmentIsNamed) {
  ASSERT_TRUE(aclrtSetDevice(0).is_ok());
  std::vector<char> info(4108);
  ASSERT_TRUE(HcclGetRootInfo(info.data()).is_ok());
  void* comm = nullptr;
  for (const auto& [variable, value] :
       {std::pair{"HCCL_BUFFSIZE", "0"}, {"HCCL_CONNECT_TIMEOUT", "5"}, {"HCCL_BUFFSIZE", "big"}}) {
    setenv(variable, value, 1);
    const Status status = HcclCommInitRootInfo(1, info.data(), 0, &comm);
    EXPECT_EQ(status.code(), code::HCCL_E_PARA);
    EXPECT_THAT(status.message(), HasSubstr(variable));
    unsetenv(variable);
  }
  std::vector<char> config(2240);
  const Status status = HcclCommInitRootInfoConfig(1, info.data(), 0, config.data(), &comm);
  EXPECT_EQ(status.code(), code::HCCL_E_PARA);
  EXPECT_THAT(status.message(), HasSubstr("no HcclCommConfig"));
  ASSERT_TRUE(HcclCommInitRootInfo(1, info.data(), 0, &comm).is_ok());
  EXPECT_TRUE(HcclCommDestroy(comm).is_ok());
}

}  // namespace
}  // namespace drydock
