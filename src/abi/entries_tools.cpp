#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <unistd.h>

#include "abi/entry_arguments.h"
#include "abi/generated/entries.h"
#include "device/blocks.h"
#include "device/client_allocator.h"
#include "device/context.h"
#include "device/heap.h"
#include "device/host_counter.h"
#include "device/settings.h"
#include "races/stream_check.h"
#include "trace/block_birth.h"
#include "trace/recorder.h"

// What tools call: mstx (ranges, and the blocks of torch_npu's allocator), the driver's query libraries (hal, dcmi).

namespace drydock::entries {
namespace {

using abi::EntryId;

// --- mstx: the vendor's structs, as far as they are read. Clients leave the other fields uninitialised. ---

struct VirtualRange {
  uint32_t device_id;
  const void* pointer;
  uint64_t size_bytes;
};
static_assert(sizeof(VirtualRange) == 24 && offsetof(VirtualRange, pointer) == 8);

struct HeapDescription {
  uint32_t usage;
  uint32_t type;
  const VirtualRange* range;
};
static_assert(sizeof(HeapDescription) == 16 && offsetof(HeapDescription, range) == 8);

struct RegionsToRegister {
  void* heap;
  uint32_t region_type;
  size_t count;
  const VirtualRange* ranges;
  void** handles_out;
};
static_assert(sizeof(RegionsToRegister) == 40 && offsetof(RegionsToRegister, count) == 16 &&
              offsetof(RegionsToRegister, ranges) == 24);

struct RegionReference {
  uint32_t type;
  const void* pointer;
};
static_assert(sizeof(RegionReference) == 16 && offsetof(RegionReference, pointer) == 8);

struct RegionsToUnregister {
  size_t count;
  const RegionReference* references;
};
static_assert(sizeof(RegionsToUnregister) == 16 && offsetof(RegionsToUnregister, references) == 8);

/// Who registers memory: torch_npu's caching allocator, its workspace pool, or anyone else.
enum class DomainKind : uint8_t { kCaching, kWorkspace, kOther };

struct Domain {
  std::string name;
  DomainKind kind;
};

Domain& caching_domain() {
  static Domain& domain = *new Domain{"ptaCaching", DomainKind::kCaching};
  return domain;
}

Domain& workspace_domain() {
  static Domain& domain = *new Domain{"ptaWorkspace", DomainKind::kWorkspace};
  return domain;
}

/// One object per name, for ever: torch_npu asks for its domain at every allocation.
Domain* domain_named(std::string_view name) {
  // "msleaks" is what older torch_npu calls its caching allocator.
  if (name == caching_domain().name || name == "msleaks") return &caching_domain();
  if (name == workspace_domain().name) return &workspace_domain();
  static std::mutex mutex;
  static auto& others = *new std::map<std::string, Domain, std::less<>>;
  std::lock_guard lock(mutex);
  const auto known = others.find(name);
  if (known != others.end()) return &known->second;
  return &others.emplace(name, Domain{std::string(name), DomainKind::kOther}).first->second;
}

/// The allocator's domain behind a handle, or null for any other handle: nobody else's blocks are recorded.
const Domain* find_allocator_domain(const void* handle) {
  if (handle == &caching_domain()) return &caching_domain();
  if (handle == &workspace_domain()) return &workspace_domain();
  return nullptr;
}

std::atomic<uint64_t> next_range{1};  // 0 means "not recorded" (contract L4)
std::atomic<uintptr_t> next_heap{1};

uint64_t start_range(EntryId entry) {
  const uint64_t range = next_range.fetch_add(1, std::memory_order_relaxed);
  record_call(entry, range);
  return range;
}

uint64_t address_of(const void* pointer) { return reinterpret_cast<uint64_t>(pointer); }

// --- the driver's libraries ---

constexpr int32_t kDriverInvalidDevice = 2;
constexpr int32_t kDriverInvalidValue = 3;
constexpr int32_t kDriverNotSupported = 0xfffe;

constexpr int kDcmiOk = 0;
constexpr int kDcmiInvalidParameter = -8001;
constexpr int kDcmiInvalidDevice = -8007;
constexpr int kDcmiDeviceNotExist = -8008;

/// A 910C package is a card of two dies (contract B10).
constexpr int kDiesOfCard = 2;

int installed_devices() { return device::settings().installed_devices; }
int card_count() { return (installed_devices() + kDiesOfCard - 1) / kDiesOfCard; }

int check_die(int card_id, int device_id) {
  if (card_id < 0 || device_id < 0) return kDcmiInvalidParameter;
  if (card_id >= card_count()) return kDcmiDeviceNotExist;
  if (device_id >= kDiesOfCard || card_id * kDiesOfCard + device_id >= installed_devices()) return kDcmiInvalidDevice;
  return kDcmiOk;
}

struct PcieInfo {
  uint32_t vendor_id;
  uint32_t subvendor_id;
  uint32_t device_id;
  uint32_t subdevice_id;
  int32_t domain;
  uint32_t bus_id;
  uint32_t bus_device_id;
  uint32_t function_id;
  unsigned char reserved[32];
};
static_assert(sizeof(PcieInfo) == 64 && offsetof(PcieInfo, domain) == 16 && offsetof(PcieInfo, function_id) == 28);

}  // namespace

void* mstxDomainCreateA(const char* name) { return name == nullptr ? nullptr : domain_named(name); }

// Domains are shared by name and cost nothing: they stay.
void mstxDomainDestroy(void* domain) {
  record_call(EntryId::mstxDomainDestroy, find_allocator_domain(domain) != nullptr ? 1 : 0);
}

void mstxMarkA(const char*, void*) { record_call(EntryId::mstxMarkA, 0); }

void mstxDomainMarkA(void*, const char*, void*) { record_call(EntryId::mstxDomainMarkA, 0); }

uint64_t mstxRangeStartA(const char* message, void*) {
  return message == nullptr ? 0 : start_range(EntryId::mstxRangeStartA);
}

void mstxRangeEnd(uint64_t id) { record_call(EntryId::mstxRangeEnd, id); }

uint64_t mstxDomainRangeStartA(void*, const char* message, void*) {
  return message == nullptr ? 0 : start_range(EntryId::mstxDomainRangeStartA);
}

void mstxDomainRangeEnd(void*, uint64_t id) { record_call(EntryId::mstxDomainRangeEnd, id); }

// torch_npu registers a heap at every allocation, with the bytes it has reserved so far: nothing that the driver's own
// records do not say.
void* mstxMemHeapRegister(void*, const void* desc) {
  if (desc == nullptr) return nullptr;
  return reinterpret_cast<void*>(next_heap.fetch_add(1, std::memory_order_relaxed));
}

void mstxMemHeapUnregister(void*, void*) {}

void mstxMemRegionsRegister(void* domain, const void* desc) {
  const Domain* known = find_allocator_domain(domain);
  if (desc == nullptr || known == nullptr || !trace::enabled()) return;
  const auto& regions = *static_cast<const RegionsToRegister*>(desc);
  if (regions.ranges == nullptr) return;
  const trace::LineId line = trace::current_line();
  const trace::Birth birth = trace::current_birth();
  for (size_t index = 0; index < regions.count; ++index) {
    const VirtualRange& range = regions.ranges[index];
    const int32_t owner = device::device_of(range.pointer);
    if (owner < 0) continue;
    const uint64_t address = address_of(range.pointer);
    const bool is_workspace = known->kind == DomainKind::kWorkspace;
    const trace::BlockOrigin origin = is_workspace ? trace::BlockOrigin{} : device::take_block_origin(address);
    trace::block_allocated(owner, address, range.size_bytes, is_workspace, line, origin, birth);
    if (!origin.is_known) device::block_handed_out(address);
    if (races::is_on()) [[unlikely]]
      races::block_born(address, range.size_bytes);
  }
}

void mstxMemRegionsUnregister(void* domain, const void* desc) {
  if (desc == nullptr || find_allocator_domain(domain) == nullptr || !trace::enabled()) return;
  const auto& regions = *static_cast<const RegionsToUnregister*>(desc);
  if (regions.references == nullptr) return;
  for (size_t index = 0; index < regions.count; ++index) {
    const void* pointer = regions.references[index].pointer;
    const int32_t owner = device::device_of(pointer);
    if (owner < 0) continue;
    if (races::is_on()) [[unlikely]]
      races::block_freed(address_of(pointer), trace::current_line());
    if (device::take_block_pending(address_of(pointer))) {
      trace::block_freed_pending(owner, address_of(pointer));
    } else {
      trace::block_freed(owner, address_of(pointer));
    }
  }
}

Status drvGetDevNum(uint32_t* num_dev) {
  if (num_dev == nullptr) return Status::error(kDriverInvalidValue, "drvGetDevNum: the argument `num_dev` is null.");
  // The driver's number; what ASCEND_RT_VISIBLE_DEVICES hides, Python takes off itself (contract L6).
  *num_dev = static_cast<uint32_t>(installed_devices());
  return Status::ok();
}

Status halGetAPIVersion(int* hal_api_version) {
  // The first interface that tells how fast the host's counter is (contract L3), which is the newest asked for here.
  constexpr int kVersion = 0x071905;
  if (hal_api_version == nullptr) {
    return Status::error(kDriverInvalidValue, "halGetAPIVersion: the argument `halAPIVersion` is null.");
  }
  *hal_api_version = kVersion;
  return Status::ok();
}

Status halGetDeviceInfo(uint32_t dev_id, int32_t module_type, int32_t info_type, int64_t* value) {
  constexpr int32_t kSystem = 0;
  constexpr int32_t kCubeCores = 4;
  constexpr int32_t kVectorCores = 7;
  constexpr int32_t kCount = 3;
  constexpr int32_t kHostCounterKhz = 24;
  if (value == nullptr) return Status::error(kDriverInvalidValue, "halGetDeviceInfo: the argument `value` is null.");
  if (dev_id >= static_cast<uint32_t>(installed_devices())) {
    return Status::error(kDriverInvalidDevice, "halGetDeviceInfo: there is no device " + std::to_string(dev_id) + ".");
  }
  if (module_type == kSystem && info_type == kHostCounterKhz) {
    *value = device::host_counter_khz();
    return Status::ok();
  }
  if (module_type == kCubeCores && info_type == kCount) {
    *value = device::settings().profile.cube_cores;
    return Status::ok();
  }
  if (module_type == kVectorCores && info_type == kCount) {
    *value = device::settings().profile.vector_cores;
    return Status::ok();
  }
  return Status::error(kDriverNotSupported, "halGetDeviceInfo: the virtual device does not know information " +
                                                std::to_string(info_type) + " of module " +
                                                std::to_string(module_type) + ".");
}

int dcmi_init() { return kDcmiOk; }

int dcmi_get_card_num_list(int* card_num, int* card_list, int list_len) {
  if (card_num == nullptr || card_list == nullptr || list_len <= 0) return kDcmiInvalidParameter;
  const int count = card_count() < list_len ? card_count() : list_len;
  for (int card = 0; card < count; ++card) card_list[card] = card;
  *card_num = count;
  return kDcmiOk;
}

int dcmi_get_device_id_in_card(int card_id, int* device_id_max, int* mcu_id, int* cpu_id) {
  constexpr int kNone = -1;  // neither a management controller nor a CPU shows up as a device of the card
  if (device_id_max == nullptr || mcu_id == nullptr || cpu_id == nullptr) return kDcmiInvalidParameter;
  if (const int error = check_die(card_id, 0); error != kDcmiOk) return error;
  const int left = installed_devices() - card_id * kDiesOfCard;
  *device_id_max = left < kDiesOfCard ? left : kDiesOfCard;
  *mcu_id = kNone;
  *cpu_id = kNone;
  return kDcmiOk;
}

int dcmi_get_device_pcie_info_v2(int card_id, int device_id, void* pcie_info) {
  constexpr uint32_t kVendor = 0x19e5;  // Huawei's PCI vendor number
  constexpr uint32_t kDevice = 0xd803;  // the 910C's die
  if (pcie_info == nullptr) return kDcmiInvalidParameter;
  if (const int error = check_die(card_id, device_id); error != kDcmiOk) return error;
  PcieInfo info{};
  info.vendor_id = kVendor;
  info.subvendor_id = kVendor;
  info.device_id = kDevice;
  // A bus of its own for each die, as on the server; there is nothing behind it.
  info.bus_id = 0xc0U + static_cast<uint32_t>(card_id * kDiesOfCard + device_id);
  std::memcpy(pcie_info, &info, sizeof(info));
  return kDcmiOk;
}

int dcmi_get_affinity_cpu_info_by_device_id(int card_id, int device_id, char* affinity_cpu, int* length) {
  if (affinity_cpu == nullptr || length == nullptr || *length <= 0) return kDcmiInvalidParameter;
  if (const int error = check_die(card_id, device_id); error != kDcmiOk) return error;
  // All CPUs of the host are equally near to a device that is not there.
  const long cpus = sysconf(_SC_NPROCESSORS_ONLN);
  const int written = std::snprintf(affinity_cpu, static_cast<size_t>(*length), "0-%ld", cpus < 1 ? 0 : cpus - 1);
  if (written < 0 || written >= *length) return kDcmiInvalidParameter;
  *length = written;
  return kDcmiOk;
}

uint64_t MsprofSysCycleTime() { return device::host_counter(); }

}  // namespace drydock::entries
