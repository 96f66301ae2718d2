#include <atomic>
#include <cstdio>
#include <cstring>
#include <optional>
#include <random>
#include <thread>
#include <unistd.h>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include "base/generated/error_codes.h"
#include "device/heap.h"
#include "values/extents.h"

namespace drydock::device {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr uint64_t kKib = uint64_t{1} << 10;
constexpr uint64_t kMib = uint64_t{1} << 20;
constexpr uint64_t kGib = uint64_t{1} << 30;

constexpr int32_t kHugeFirst = 0;
constexpr int32_t kHugeOnly = 1;
constexpr int32_t kNormalOnly = 2;
constexpr int32_t kGiantOnly = 6;

uint64_t resident_bytes() {
  uint64_t total = 0;
  uint64_t resident = 0;
  std::FILE* const file = std::fopen("/proc/self/statm", "r");
  const int read = std::fscanf(file, "%lu %lu", &total, &resident);
  std::fclose(file);
  return read == 2 ? resident * static_cast<uint64_t>(sysconf(_SC_PAGESIZE)) : 0;
}

class HeapTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(space_.open().is_ok());
    heap_.emplace(0, space_, account_);
  }

  uint64_t allocate(uint64_t size_bytes, int32_t policy = kHugeFirst) {
    uint64_t address = 0;
    const Status status = heap_->allocate("test", size_bytes, policy, address);
    EXPECT_TRUE(status.is_ok()) << status.message();
    return address;
  }
  Status try_allocate(uint64_t size_bytes, int32_t policy = kHugeFirst) {
    uint64_t address = 0;
    return heap_->allocate("test", size_bytes, policy, address);
  }
  void free(uint64_t address) {
    const Status status = heap_->free("test", address);
    EXPECT_TRUE(status.is_ok()) << status.message();
  }
  uint64_t free_bytes() { return account_.info().free_bytes; }

  static const void* pointer(uint64_t address) { return reinterpret_cast<const void*>(address); }

  DieMemory die_{64 * kGib, 100 * kMib, 0};
  AddressSpace space_{0, false};
  MemoryAccount account_{0, die_};
  std::optional<Heap> heap_;
};

TEST_F(HeapTest, AddressesAreAlignedAndRepeat) {
  // Contract E1: clients split segments and rely on the alignment of their begin.
  const uint64_t first = allocate(100);
  const uint64_t second = allocate(20 * kMib);
  const uint64_t third = allocate(512);
  EXPECT_EQ(first % kSlotBytes, 0U);
  EXPECT_EQ(second, first + kSlotBytes);
  EXPECT_EQ(third, second + 20 * kMib);
  EXPECT_EQ(first, arena_base(0));
  free(second);
  EXPECT_EQ(allocate(8 * kMib), second);               // the lowest gap that fits
  EXPECT_EQ(allocate(14 * kMib), third + kSlotBytes);  // does not fit into the rest of it
  EXPECT_EQ(allocate(12 * kMib), second + 8 * kMib);
}

TEST_F(HeapTest, ChargesWholePagesOfThePolicy) {
  const struct {
    uint64_t size_bytes;
    int32_t policy;
    uint64_t charged;
  } rows[] = {
      {1, kHugeFirst, 4 * kKib},
      {kMib, kHugeFirst, kMib},  // normal pages up to 1 MiB
      {kMib + 1, kHugeFirst, 2 * kMib},
      {2 * kMib, kHugeFirst, 2 * kMib},
      {2 * kMib + 32, kHugeFirst, 4 * kMib},
      {1, kHugeOnly, 2 * kMib},
      {2 * kMib + 32, kNormalOnly, 2 * kMib + 4 * kKib},
      {1, kGiantOnly, kGib},
      {3 * kMib, 3, 4 * kMib},       // huge first, for peers
      {3 * kMib, 0x1000, 4 * kMib},  // high bandwidth memory, huge first
      {2 * kMib, 77, 2 * kMib},      // outside the enumeration
      {2 * kMib - 1, 77, 2 * kMib},
      {kMib + 1, 77, kMib + 4 * kKib},
  };
  for (const auto& row : rows) {
    const uint64_t before = free_bytes();
    const uint64_t address = allocate(row.size_bytes, row.policy);
    EXPECT_EQ(before - free_bytes(), row.charged) << row.size_bytes << " by policy " << row.policy;
    EXPECT_EQ(page_rounded(row.size_bytes, row.policy), row.charged);
    free(address);
    EXPECT_EQ(free_bytes(), before);
  }
}

TEST_F(HeapTest, GiantPagesBeginAtTheirOwnAlignment) {
  allocate(1);
  EXPECT_EQ((allocate(1, kGiantOnly)) % kGib, 0U);
}

TEST_F(HeapTest, RefusesExactlyWhenTheDeviceIsFull) {
  const uint64_t capacity = die_.capacity_bytes();
  ASSERT_EQ(free_bytes(), capacity);
  const uint64_t most = capacity / (2 * kMib) * (2 * kMib);
  const uint64_t address = allocate(most - 2 * kMib);
  EXPECT_TRUE(try_allocate(2 * kMib, kHugeOnly).is_ok());
  const Status status = try_allocate(2 * kMib, kHugeOnly);
  EXPECT_EQ(status.code(), code::ACL_ERROR_RT_MEMORY_ALLOCATION);
  free(address);
  EXPECT_TRUE(try_allocate(2 * kMib, kHugeOnly).is_ok());
}

TEST_F(HeapTest, HugeFirstTakesNormalPagesWhereHugeOnesDoNotFit) {
  const uint64_t rest = 3 * kMib;
  allocate(die_.capacity_bytes() - rest, kNormalOnly);
  ASSERT_EQ(free_bytes(), rest);
  EXPECT_EQ(try_allocate(2 * kMib + 4 * kKib, kHugeOnly).code(), code::ACL_ERROR_RT_MEMORY_ALLOCATION);
  EXPECT_TRUE(try_allocate(2 * kMib + 4 * kKib, kHugeFirst).is_ok());
  EXPECT_EQ(free_bytes(), kMib - 4 * kKib);
}

TEST_F(HeapTest, OutOfMemorySaysTheNumbers) {
  allocate(60 * kGib);
  const uint64_t free_now = free_bytes();
  const Status status = try_allocate(5 * kGib + 1);
  EXPECT_EQ(status.code(), code::ACL_ERROR_RT_MEMORY_ALLOCATION);
  EXPECT_THAT(status.message(),
              AllOf(HasSubstr("device 0"), HasSubstr("asked 5368709121 bytes"),
                    HasSubstr("free " + std::to_string(free_now)), HasSubstr("of 68719476736 bytes (64.00 GiB)"),
                    HasSubstr("5370806272 bytes"), HasSubstr("Largest holders: 64424509440 bytes (60.00 GiB)")));
  for (const uint64_t size : {uint64_t{1} << 50, UINT64_MAX, UINT64_MAX - 31}) {
    EXPECT_EQ(try_allocate(size).code(), code::ACL_ERROR_RT_MEMORY_ALLOCATION);
  }
  EXPECT_EQ(try_allocate(0).code(), code::ACL_ERROR_INVALID_PARAM);
}

TEST_F(HeapTest, SixtyGibibytesCostNothingUntilTouched) {
  const uint64_t before = resident_bytes();
  const uint64_t address = allocate(60 * kGib);
  EXPECT_LT(resident_bytes(), before + 4 * kMib);
  *host_address(pointer(address + 59 * kGib)) = 1;  // one page, not a huge one
  EXPECT_LT(resident_bytes(), before + 5 * kMib);
  free(address);
}

TEST_F(HeapTest, FreedPagesGoBackToTheHost) {
  const uint64_t address = allocate(256 * kMib);
  std::memset(host_address(pointer(address)), 1, 256 * kMib);
  const uint64_t touched = resident_bytes();
  free(address);
  EXPECT_LT(resident_bytes() + 200 * kMib, touched);
  ASSERT_EQ(allocate(256 * kMib), address);
  EXPECT_EQ(*host_address(pointer(address + 5)), 0);
}

TEST_F(HeapTest, FreedMemoryIsGhostWhenItIsHandedOutAgain) {
  const uint64_t address = allocate(2 * kMib);
  values::set_knowledge(address, 4096, values::Knowledge::kKnown);
  free(address);
  ASSERT_EQ(allocate(2 * kMib), address);
  EXPECT_EQ(values::knowledge_of(address, 4096), values::Knowledge::kGhost);
}

TEST_F(HeapTest, KnowsWhatIsAllocatedToTheByte) {
  const uint64_t address = allocate(3 * kMib);
  EXPECT_TRUE(is_allocated(pointer(address), 3 * kMib));
  EXPECT_TRUE(is_allocated(pointer(address + 3 * kMib - 1), 1));
  EXPECT_FALSE(is_allocated(pointer(address), 3 * kMib + 1));
  EXPECT_FALSE(is_allocated(pointer(address + 3 * kMib), 1));  // the tail of its last slot
  EXPECT_FALSE(is_allocated(pointer(address + 3 * kMib), 0));
  EXPECT_TRUE(is_allocated(pointer(address + 3 * kMib - 1), 0));
  EXPECT_FALSE(is_allocated(pointer(address - 1), 1));
  EXPECT_FALSE(is_allocated(pointer(address), UINT64_MAX));
  EXPECT_FALSE(is_allocated(pointer(UINT64_MAX - 10), 11));
  EXPECT_FALSE(is_allocated(nullptr, 1));
  EXPECT_FALSE(is_allocated(&die_, 1));
  // Neighbours are not one piece.
  const uint64_t left = allocate(2 * kMib);
  const uint64_t right = allocate(2 * kMib);
  ASSERT_EQ(right, left + 2 * kMib);
  EXPECT_FALSE(is_allocated(pointer(left), 2 * kMib + 1));

  EXPECT_EQ(device_of(pointer(address)), 0);
  EXPECT_EQ(device_of(&die_), -1);
  EXPECT_EQ(device_of(nullptr), -1);
  const auto extent = extent_of(pointer(address + kMib));
  ASSERT_TRUE(extent.has_value());
  EXPECT_EQ(extent->begin, address);
  EXPECT_EQ(extent->size_bytes, 3 * kMib);
  EXPECT_EQ(extent->device, 0);
  free(address);
  EXPECT_FALSE(is_allocated(pointer(address), 1));
  EXPECT_FALSE(extent_of(pointer(address)).has_value());
}

TEST_F(HeapTest, WrongFreesGetSentences) {
  const uint64_t address = allocate(2 * kMib);
  const Status inner = heap_->free("aclrtFree", address + 512);
  EXPECT_EQ(inner.code(), code::ACL_ERROR_RT_PARAM_INVALID);
  EXPECT_THAT(inner.message(), AllOf(HasSubstr("aclrtFree"), HasSubstr("512 bytes inside"), HasSubstr("2097152")));
  free(address);
  const Status twice = heap_->free("aclrtFree", address);
  EXPECT_EQ(twice.code(), code::ACL_ERROR_RT_PARAM_INVALID);
  EXPECT_THAT(twice.message(), AllOf(HasSubstr("was freed before"), HasSubstr("allocated at")));
  EXPECT_THAT(heap_->free("aclrtFree", 0x1234).message(), HasSubstr("never handed out"));
}

TEST_F(HeapTest, HostCodeThatTouchesFreedMemoryFaults) {
  const uint64_t address = allocate(2 * kMib);
  *host_address(pointer(address)) = 1;
  free(address);
  EXPECT_DEATH(*host_address(pointer(address)) = 2, "");
}

TEST_F(HeapTest, FreeAllGivesEverythingBackAndLeavesPagesAccessible) {
  const uint64_t capacity = free_bytes();
  const uint64_t address = allocate(2 * kMib);
  allocate(5 * kGib);
  *host_address(pointer(address)) = 7;
  heap_->free_all();
  EXPECT_EQ(free_bytes(), capacity);
  EXPECT_EQ(heap_->allocation_count(), 0U);
  EXPECT_FALSE(is_allocated(pointer(address), 1));
  EXPECT_EQ(*host_address(pointer(address)), 0);  // a straggling thread does not fault
  EXPECT_THAT(heap_->free("aclrtFree", address).message(), HasSubstr("released with the device"));
}

TEST_F(HeapTest, ThreadsAllocateAndFreeAtOnce) {
  constexpr int kThreads = 4;
  const uint64_t capacity = free_bytes();
  std::atomic<int> failures{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937_64 random(static_cast<uint64_t>(t));
      std::vector<std::pair<uint64_t, uint64_t>> mine;
      for (int i = 0; i < 2000; ++i) {
        if (mine.size() < 20 && random() % 2 == 0) {
          const uint64_t size = 1 + random() % (8 * kMib);
          uint64_t address = 0;
          if (!heap_->allocate("test", size, kHugeFirst, address).is_ok()) ++failures;
          *host_address(pointer(address)) = static_cast<char>(t);
          mine.emplace_back(address, size);
        } else if (!mine.empty()) {
          const auto [address, size] = mine.back();
          mine.pop_back();
          if (*host_address(pointer(address)) != static_cast<char>(t)) ++failures;
          if (!is_allocated(pointer(address), size)) ++failures;
          if (!heap_->free("test", address).is_ok()) ++failures;
        }
      }
      for (const auto& [address, size] : mine) {
        if (!heap_->free("test", address).is_ok()) ++failures;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(failures, 0);
  EXPECT_EQ(free_bytes(), capacity);
  EXPECT_EQ(allocate(512), arena_base(0));  // all gaps were joined again
}

TEST(MemoryAccountTest, OverheadsAreNoHolders) {
  MemoryAccount account(0, DieMemory{10 * kGib, kGib, 0});
  EXPECT_TRUE(account.charge_overhead("hccl", kGib).is_ok());
  EXPECT_EQ(account.info().free_bytes, 8 * kGib);
  const Status status = account.charge_overhead("hccl", 9 * kGib);
  EXPECT_EQ(status.code(), code::ACL_ERROR_RT_MEMORY_ALLOCATION);
  EXPECT_THAT(status.message(), HasSubstr("hccl"));
  EXPECT_FALSE(account.charge(8 * kGib + 1, 0));
  EXPECT_TRUE(account.charge(8 * kGib, 0));
  account.release(8 * kGib, 0);
  account.release_overhead(kGib);
  EXPECT_EQ(account.info().free_bytes, 9 * kGib);
  EXPECT_EQ(account.info().peak_used_bytes, 10 * kGib);
}

TEST(RangeAllocatorTest, JoinsWhatIsGivenBack) {
  RangeAllocator ranges(0, 100);
  EXPECT_EQ(ranges.allocate(10, 1), 0U);
  EXPECT_EQ(ranges.allocate(10, 16), 16U);
  EXPECT_EQ(ranges.allocate(6, 1), 10U);
  EXPECT_EQ(ranges.allocate(75, 1), std::nullopt);
  ranges.release(10, 6);
  ranges.release(0, 10);
  ranges.release(16, 10);
  EXPECT_EQ(ranges.allocate(100, 1), 0U);
  EXPECT_EQ(ranges.allocate(1, 1), std::nullopt);
}

}  // namespace
}  // namespace drydock::device
