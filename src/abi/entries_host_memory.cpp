#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include <fmt/format.h>

#include "abi/entry_arguments.h"
#include "abi/generated/entries.h"
#include "base/generated/error_codes.h"
#include "device/context.h"
#include "device/heap.h"
#include "device/host_memory.h"
#include "device/process.h"

// Pinned and registered host memory, and what a pointer is.

namespace drydock::entries {
namespace {

// aclrtPtrAttributes; offsets from the vendor's ABI.
struct PointerAttributes {
  uint32_t location_id;
  int32_t location_type;
  uint32_t page_bytes;
  uint32_t reserved[4];
};
static_assert(sizeof(PointerAttributes) == 28);
static_assert(offsetof(PointerAttributes, location_type) == 4);
static_assert(offsetof(PointerAttributes, page_bytes) == 8);

// aclrtMallocConfig and what it points at.
struct AllocationAttribute {
  int32_t kind;
  uint8_t value[8];
};
static_assert(sizeof(AllocationAttribute) == 12);
struct AllocationConfig {
  const AllocationAttribute* attributes;
  size_t count;
};
static_assert(sizeof(AllocationConfig) == 16);

// aclrtMemLocationType.
enum LocationType : int32_t { kHost = 0, kDevice = 1, kUnregistered = 2 };

constexpr int32_t kMostAttributeKinds = 4;  // reserved, module, device, address flag: none changes what is handed out
constexpr size_t kMostAttributes = 64;
constexpr uint32_t kHostPage = 4096;
constexpr uint32_t kDevicePage = 2U << 20;

// aclrtHostRegisterV2: mapped, IO memory, read-only, pinned.
constexpr uint32_t kRegisterFlags = 0x2 | 0x4 | 0x8 | 0x10000000;

Status allocate(std::string_view entry, void** pointer, uint64_t size_bytes) {
  device::Context* context = nullptr;
  DRYDOCK_RETURN_IF_ERROR(device::require_context(entry, context));
  return device::allocate_host(entry, size_bytes, context->device, *pointer);
}

}  // namespace

Status aclrtMallocHost(void** pointer, size_t size) {
  DRYDOCK_RETURN_IF_ERROR(require_argument("aclrtMallocHost", "hostPtr", pointer));
  return allocate("aclrtMallocHost", pointer, size);
}

Status aclrtMallocHostWithCfg(void** ptr, uint64_t size, void* cfg) {
  constexpr std::string_view kEntry = "aclrtMallocHostWithCfg";
  DRYDOCK_RETURN_IF_ERROR(require_argument(kEntry, "ptr", ptr));
  if (cfg != nullptr) {
    const auto& config = *static_cast<const AllocationConfig*>(cfg);
    if (config.count > kMostAttributes || (config.count > 0 && config.attributes == nullptr)) {
      return bad_argument(kEntry, fmt::format("the configuration claims {} attributes.", config.count));
    }
    for (size_t i = 0; i < config.count; ++i) {
      const int32_t kind = config.attributes[i].kind;
      if (kind < 0 || kind >= kMostAttributeKinds) {
        return bad_argument(kEntry, fmt::format("there is no attribute {}: 0 to 3 exist.", kind));
      }
    }
  }
  return allocate(kEntry, ptr, size);
}

Status aclrtFreeHost(void* pointer) {
  DRYDOCK_RETURN_IF_ERROR(require_argument("aclrtFreeHost", "hostPtr", pointer));
  // Allowed after aclFinalize (contract E7), but not in a child, where the tables' locks may be held for ever.
  if (device::is_forked_child()) return device::require_alive();
  return device::free_host("aclrtFreeHost", pointer);
}

Status aclrtHostRegister(void* ptr, uint64_t size, int32_t type, void** pointer) {
  constexpr std::string_view kEntry = "aclrtHostRegister";
  DRYDOCK_RETURN_IF_ERROR(require_argument(kEntry, "ptr", ptr));
  DRYDOCK_RETURN_IF_ERROR(require_argument(kEntry, "devPtr", pointer));
  if (type != 0 && type != 4 && type != 8) {
    return bad_argument(kEntry, fmt::format("there is no type {}: 0 (mapped), 4 and 8 exist.", type));
  }
  device::Context* context = nullptr;
  DRYDOCK_RETURN_IF_ERROR(device::require_context(kEntry, context));
  DRYDOCK_RETURN_IF_ERROR(device::register_host(kEntry, ptr, size, context->device));
  *pointer = ptr;  // one address space
  return Status::ok();
}

Status aclrtHostRegisterV2(void* ptr, uint64_t size, uint32_t flag) {
  constexpr std::string_view kEntry = "aclrtHostRegisterV2";
  DRYDOCK_RETURN_IF_ERROR(require_argument(kEntry, "ptr", ptr));
  if (flag == 0 || (flag & ~kRegisterFlags) != 0) {
    return bad_argument(kEntry, fmt::format("the flag is {:#x}: 2 (mapped), 4, 8 and 0x10000000 (pinned), or a sum of "
                                            "them, are defined.",
                                            flag));
  }
  device::Context* context = nullptr;
  DRYDOCK_RETURN_IF_ERROR(device::require_context(kEntry, context));
  return device::register_host(kEntry, ptr, size, context->device);
}

Status aclrtHostUnregister(void* ptr) {
  DRYDOCK_RETURN_IF_ERROR(require_argument("aclrtHostUnregister", "ptr", ptr));
  if (device::is_forked_child()) return device::require_alive();
  return device::unregister_host("aclrtHostUnregister", ptr);
}

Status aclrtPointerGetAttributes(const void* ptr, void* attributes) {
  constexpr std::string_view kEntry = "aclrtPointerGetAttributes";
  DRYDOCK_RETURN_IF_ERROR(require_argument(kEntry, "ptr", ptr));
  DRYDOCK_RETURN_IF_ERROR(require_argument(kEntry, "attributes", attributes));
  PointerAttributes answer{0, kUnregistered, 0, {}};
  if (device::is_forked_child()) {
    // Nothing is registered with this process's driver.
  } else if (const auto extent = device::extent_of(ptr)) {
    answer = {static_cast<uint32_t>(extent->device), kDevice, kDevicePage, {}};
  } else if (device::find_host_range(ptr)) {
    answer = {0, kHost, kHostPage, {}};
  }
  std::memcpy(attributes, &answer, sizeof(answer));
  return Status::ok();
}

}  // namespace drydock::entries
