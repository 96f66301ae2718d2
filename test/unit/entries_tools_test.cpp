#include <chrono>
#include <cstdint>
#include <cstring>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "abi/generated/entries.h"
#include "device/context.h"
#include "device/settings.h"
#include "trace_child_process.h"

namespace drydock::entries {
namespace {

using trace::Kind;
using trace::Record;

struct VirtualRange {
  uint32_t device_id;
  const void* pointer;
  uint64_t size_bytes;
};
struct RegionsToRegister {
  void* heap;
  uint32_t region_type;
  size_t count;
  const VirtualRange* ranges;
  void** handles_out;
};
struct RegionReference {
  uint32_t type;
  const void* pointer;
};
struct RegionsToUnregister {
  size_t count;
  const RegionReference* references;
};

/// As torch_npu does: what is not read is left uninitialised.
void register_block(void* domain, const void* address, uint64_t size_bytes) {
  VirtualRange range;
  std::memset(&range, 0xEE, sizeof(range));
  range.pointer = address;
  range.size_bytes = size_bytes;
  RegionsToRegister regions;
  std::memset(&regions, 0xEE, sizeof(regions));
  regions.count = 1;
  regions.ranges = &range;
  mstxMemRegionsRegister(domain, &regions);
}

void unregister_block(void* domain, const void* address) {
  RegionReference reference;
  std::memset(&reference, 0xEE, sizeof(reference));
  reference.pointer = address;
  const RegionsToUnregister regions{1, &reference};
  mstxMemRegionsUnregister(domain, &regions);
}

TEST(MstxEntries, BlocksOfTheAllocatorAreRecordedInOrderWithTheirRoundedSize) {
  trace::RunFolder folder;
  ASSERT_EQ(trace::run_child(folder.path(),
                             [] {
                               const auto* base = reinterpret_cast<const char*>(trace::open_arena());
                               void* caching = mstxDomainCreateA("ptaCaching");
                               void* workspace = mstxDomainCreateA("ptaWorkspace");
                               void* user = mstxDomainCreateA("a user's own");
                               int on_the_host = 0;
                               register_block(caching, base + 512, 1536);
                               register_block(workspace, base + 2048, 4096);
                               register_block(user, base + 8192, 512);
                               register_block(nullptr, base + 8192, 512);
                               register_block(caching, &on_the_host, 512);
                               unregister_block(user, base + 512);
                               unregister_block(caching, &on_the_host);
                               unregister_block(caching, base + 512);
                               mstxMemRegionsRegister(caching, nullptr);
                               mstxMemRegionsUnregister(caching, nullptr);
                             }),
            0);
  const trace::ReadTrace read = trace::read_all(folder.trace());
  std::vector<Record> blocks;
  for (const Record& record : read.records) {
    if (record.kind == Kind::kBlockAllocated || record.kind == Kind::kBlockFreed) blocks.push_back(record);
  }
  ASSERT_EQ(blocks.size(), 3U);
  EXPECT_EQ(blocks[0].kind, Kind::kBlockAllocated);
  EXPECT_EQ(blocks[0].address.bits, 512U);
  EXPECT_EQ(blocks[0].size_bytes, 1536U);
  EXPECT_FALSE(blocks[0].is_workspace);
  EXPECT_EQ(blocks[1].size_bytes, 4096U);
  EXPECT_TRUE(blocks[1].is_workspace);
  EXPECT_EQ(blocks[2].kind, Kind::kBlockFreed);
  EXPECT_EQ(blocks[2].address.bits, 512U);
}

TEST(MstxEntries, DomainsAreOnePerNameAndRangesAreNumbered) {
  void* domain = mstxDomainCreateA("ptaCaching");
  ASSERT_NE(domain, nullptr);
  EXPECT_EQ(mstxDomainCreateA("ptaCaching"), domain);
  EXPECT_EQ(mstxDomainCreateA("msleaks"), domain) << "the caching allocator's older name";
  EXPECT_NE(mstxDomainCreateA("ptaWorkspace"), domain);
  EXPECT_EQ(mstxDomainCreateA("mine"), mstxDomainCreateA("mine"));
  EXPECT_EQ(mstxDomainCreateA(nullptr), nullptr);
  const uint64_t range = mstxRangeStartA("step", nullptr);
  EXPECT_NE(range, 0U) << "0 means not recorded";
  EXPECT_NE(mstxDomainRangeStartA(domain, "step", nullptr), range);
  EXPECT_EQ(mstxRangeStartA(nullptr, nullptr), 0U);
  mstxRangeEnd(range);
  mstxRangeEnd(12345);
  mstxDomainRangeEnd(nullptr, range);
  mstxMarkA(nullptr, nullptr);
  mstxDomainMarkA(nullptr, nullptr, nullptr);
  int description = 0;
  void* heap = mstxMemHeapRegister(domain, &description);
  EXPECT_NE(heap, nullptr);
  EXPECT_EQ(mstxMemHeapRegister(domain, nullptr), nullptr);
  mstxMemHeapUnregister(domain, heap);
  mstxDomainDestroy(nullptr);
}

TEST(DriverEntries, DevicesAndCounters) {
  uint32_t count = 0;
  ASSERT_TRUE(drvGetDevNum(&count).is_ok());
  EXPECT_EQ(count, static_cast<uint32_t>(device::settings().installed_devices));
  EXPECT_EQ(drvGetDevNum(nullptr).code(), 3);
  int version = 0;
  ASSERT_TRUE(halGetAPIVersion(&version).is_ok());
  EXPECT_GE(version, 0x071905);
  EXPECT_EQ(halGetAPIVersion(nullptr).code(), 3);
  int64_t value = 0;
  ASSERT_TRUE(halGetDeviceInfo(0, 4, 3, &value).is_ok());
  EXPECT_EQ(value, device::profile().cube_cores);
  EXPECT_EQ(halGetDeviceInfo(count, 0, 24, &value).code(), 2);
  EXPECT_EQ(halGetDeviceInfo(0, 0, 999, &value).code(), 0xfffe);
  EXPECT_EQ(halGetDeviceInfo(0, 0, 24, nullptr).code(), 3);
}

TEST(DriverEntries, TheCounterRunsAsFastAsItIsSaidTo) {
  int64_t khz = 0;
  ASSERT_TRUE(halGetDeviceInfo(0, 0, 24, &khz).is_ok());
  ASSERT_GT(khz, 0);
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now();
  const uint64_t start_count = MsprofSysCycleTime();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  const uint64_t counted = MsprofSysCycleTime() - start_count;
  const double elapsed_ms = std::chrono::duration<double, std::milli>(Clock::now() - start).count();
  EXPECT_NEAR(static_cast<double>(counted) / static_cast<double>(khz), elapsed_ms, elapsed_ms * 0.05);
}

TEST(DcmiEntries, CardsOfTwoDies) {
  const int devices = device::settings().installed_devices;
  EXPECT_EQ(dcmi_init(), 0);
  int cards = 0;
  int list[16];
  ASSERT_EQ(dcmi_get_card_num_list(&cards, list, 16), 0);
  EXPECT_EQ(cards, (devices + 1) / 2);
  EXPECT_EQ(list[0], 0);
  EXPECT_EQ(dcmi_get_card_num_list(nullptr, list, 16), -8001);
  EXPECT_EQ(dcmi_get_card_num_list(&cards, list, 0), -8001);
  int dies = 0;
  int controller = 0;
  int cpu = 0;
  ASSERT_EQ(dcmi_get_device_id_in_card(0, &dies, &controller, &cpu), 0);
  EXPECT_EQ(dies, devices == 1 ? 1 : 2);
  EXPECT_EQ(controller, -1);
  EXPECT_EQ(dcmi_get_device_id_in_card(cards, &dies, &controller, &cpu), -8008);
  EXPECT_EQ(dcmi_get_device_id_in_card(-1, &dies, &controller, &cpu), -8001);
  unsigned char pcie[72];
  std::memset(pcie, 0x55, sizeof(pcie));
  ASSERT_EQ(dcmi_get_device_pcie_info_v2(0, 0, pcie), 0);
  EXPECT_EQ(pcie[64], 0x55) << "no byte beyond the struct";
  EXPECT_EQ(dcmi_get_device_pcie_info_v2(0, 2, pcie), -8007);
  EXPECT_EQ(dcmi_get_device_pcie_info_v2(0, 0, nullptr), -8001);
  char cpus[32];
  int length = sizeof(cpus);
  ASSERT_EQ(dcmi_get_affinity_cpu_info_by_device_id(0, 0, cpus, &length), 0);
  EXPECT_EQ(std::string(cpus).substr(0, 2), "0-");
  EXPECT_EQ(static_cast<size_t>(length), std::strlen(cpus));
  length = 2;
  EXPECT_EQ(dcmi_get_affinity_cpu_info_by_device_id(0, 0, cpus, &length), -8001) << "too small a buffer";
}

TEST(ProfilerEntries, ObjectsAndFeatures) {
  uint32_t devices[] = {0};
  void* config = aclprofCreateConfig(devices, 1, 255, nullptr, 0x1801);
  ASSERT_NE(config, nullptr);
  EXPECT_TRUE(aclprofDestroyConfig(config).is_ok());
  EXPECT_EQ(aclprofDestroyConfig(config).code(), 100000);
  EXPECT_EQ(aclprofDestroyConfig(nullptr).code(), 100000);
  EXPECT_EQ(aclprofCreateConfig(nullptr, 1, 255, nullptr, 0), nullptr);
  void* step = aclprofCreateStepInfo();
  EXPECT_NE(step, nullptr);
  aclprofDestroyStepInfo(step);
  aclprofDestroyStepInfo(nullptr);
  size_t size = 9;
  void* data = &size;
  ASSERT_TRUE(aclprofGetSupportedFeaturesV2(&size, &data).is_ok());
  EXPECT_EQ(size, 0U);
  EXPECT_EQ(data, nullptr);
  EXPECT_EQ(aclprofGetSupportedFeatures(nullptr, &data).code(), 100000);
}

}  // namespace
}  // namespace drydock::entries
