#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include "base/generated/error_codes.h"
#include "device/address_space.h"
#include "device/heap.h"
#include "device/host_room.h"
#include "device/virtual_memory.h"
#include "device_new_process.h"

namespace drydock::device {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr uint64_t kMib = uint64_t{1} << 20;
constexpr uint64_t kGib = uint64_t{1} << 30;

/// Files of a host that was made up.
class HostFiles : public testing::Test {
 protected:
  HostFiles() {
    std::string pattern = std::filesystem::temp_directory_path() / "drydock-host-XXXXXX";
    root_ = mkdtemp(pattern.data());
  }
  ~HostFiles() override { std::filesystem::remove_all(root_); }

  void write(const std::string& path, const std::string& content) const {
    std::filesystem::create_directories(std::filesystem::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << content;
  }

  std::string root_;
};

TEST_F(HostFiles, AvailableMemoryAndSwapCount) {
  write("/proc/meminfo", "MemTotal: 64 kB\nMemAvailable:    1000 kB\nSwapTotal: 90 kB\nSwapFree:  24 kB\n");
  const HostRoom room = host_room(root_);
  EXPECT_EQ(room.available_bytes, 1024U * 1024);
  EXPECT_THAT(room.source, HasSubstr("MemAvailable"));
}

TEST_F(HostFiles, TheTightestGroupAroundTheProcessCounts) {
  write("/proc/meminfo", "MemAvailable: 1000000 kB\n");
  write("/proc/self/cgroup", "0::/pod/box\n");
  write("/sys/fs/cgroup/pod/memory.max", "5000000\n");
  write("/sys/fs/cgroup/pod/memory.current", "3000000\n");
  write("/sys/fs/cgroup/pod/memory.stat", "anon 5\ninactive_file 500000\nactive_file 7\n");
  write("/sys/fs/cgroup/pod/box/memory.max", "max\n");
  write("/sys/fs/cgroup/pod/box/memory.current", "2900000\n");
  const HostRoom room = host_room(root_);
  EXPECT_EQ(room.available_bytes, 2'500'000U);
  EXPECT_THAT(room.source, HasSubstr("control group"));
}

TEST_F(HostFiles, GroupsOfTheFirstVersionCountToo) {
  write("/proc/self/cgroup", "3:cpu,cpuacct:/a\n2:memory:/a\n");
  write("/sys/fs/cgroup/memory/a/memory.limit_in_bytes", "1000\n");
  write("/sys/fs/cgroup/memory/a/memory.usage_in_bytes", "4000\n");
  EXPECT_EQ(host_room(root_).available_bytes, 0U) << "more is used than the limit: nothing wraps";
}

TEST_F(HostFiles, AHostThatSaysNothingHasRoom) { EXPECT_GT(host_room(root_).available_bytes, uint64_t{1} << 60); }

// A device that is larger than any host, in a process of `--values <values>`.
struct LargeDevice {
  explicit LargeDevice(const char* values) {
    setenv("DRYDOCK_VALUES", values, 1);
    EXPECT_TRUE(space.open().is_ok());
    heap.emplace(0, space, account);  // where the open space begins
  }
  Status allocate(uint64_t size_bytes, uint64_t& address) {
    return heap->allocate("aclrtMalloc", size_bytes, 0, address);
  }

  AddressSpace space{0, false};
  MemoryAccount account{0, {kMaxUsableBytes, 0}};
  std::optional<Heap> heap;
};

TEST(HostRoomOfARun, MoreThanTheHostHasIsRefusedWithTheNeedAndTheCure) {
  if (host_room().available_bytes > kMaxUsableBytes / 2) GTEST_SKIP() << "a host as large as the largest device";
  IN_NEW_PROCESS({
    LargeDevice device("full");
    const uint64_t asked = (host_room().available_bytes + 4 * kGib) / kGib * kGib;
    uint64_t address = 0;
    const Status status = device.allocate(asked, address);
    EXPECT_EQ(status.code(), code::ACL_ERROR_RT_MEMORY_ALLOCATION);
    EXPECT_THAT(status.message(),
                AllOf(HasSubstr("aclrtMalloc: the host has too little memory for --values full"),
                      HasSubstr(std::to_string(asked)), HasSubstr("MemAvailable"), HasSubstr("Use --values auto")));
    EXPECT_EQ(device.account.info().free_bytes, kMaxUsableBytes) << "a refused allocation takes nothing";
    VirtualMemory memory(0, device.space, device.account);
    void* handle = nullptr;
    const Status physical = memory.create_physical("aclrtMallocPhysical", asked, kSlotBytes, handle);
    EXPECT_EQ(physical.code(), code::ACL_ERROR_RT_MEMORY_ALLOCATION);
    EXPECT_THAT(physical.message(), HasSubstr("Use --values auto"));
    EXPECT_EQ(device.account.info().free_bytes, kMaxUsableBytes);
  });
}

TEST(HostRoomOfARun, WhatIsAllocatedAndNotWrittenCounts) {
  const uint64_t part = host_room().available_bytes / kGib * kGib / 3 * 2;
  if (part > kMaxUsableBytes / 2) GTEST_SKIP() << "a host as large as the largest device";
  if (part == 0) GTEST_SKIP() << "a host without memory";
  IN_NEW_PROCESS({
    LargeDevice device("full");
    uint64_t first = 0;
    uint64_t second = 0;
    EXPECT_TRUE(device.allocate(part, first).is_ok());
    const Status status = device.allocate(part, second);
    EXPECT_EQ(status.code(), code::ACL_ERROR_RT_MEMORY_ALLOCATION);
    EXPECT_THAT(status.message(), HasSubstr("allocated and not written yet"));
    EXPECT_TRUE(device.heap->free("aclrtFree", first).is_ok());
    EXPECT_TRUE(device.allocate(part, second).is_ok());
  });
}

TEST(HostRoomOfARun, GhostsTakeNoHostMemory) {
  if (device::arena_bytes() < (uint64_t{1} << 42)) GTEST_SKIP() << "a sanitizer leaves too little address space";
  IN_NEW_PROCESS({
    LargeDevice device("auto");
    uint64_t address = 0;
    EXPECT_TRUE(device.allocate(kMaxUsableBytes / 2, address).is_ok());
  });
}

TEST(HostRoomOfARun, WhatTheOperatingSystemRefusesIsAFailureToo) {
  IN_NEW_PROCESS({
    LargeDevice device("full");
    uint64_t pages = 0;
    std::ifstream statm("/proc/self/statm");
    for (int field = 0; field < 6; ++field) statm >> pages;
    const rlim_t now = pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
    const rlimit limit{now + 128 * kMib, now + 128 * kMib};
    ASSERT_EQ(setrlimit(RLIMIT_DATA, &limit), 0);
    uint64_t address = 0;
    EXPECT_TRUE(device.allocate(2 * kMib, address).is_ok());
    const Status status = device.allocate(512 * kMib, address);
    EXPECT_EQ(status.code(), code::ACL_ERROR_RT_MEMORY_ALLOCATION);
    EXPECT_THAT(status.message(), AllOf(HasSubstr("the host refused the 536870912 bytes"), HasSubstr("ulimit -d"),
                                        HasSubstr("Use --values auto")));
  });
}

}  // namespace
}  // namespace drydock::device
