#include <cstddef>
#include <cstdint>
#include <string>

#include <fmt/format.h>

#include "abi/entry_arguments.h"
#include "abi/generated/entries.h"
#include "base/generated/error_codes.h"
#include "device/context.h"
#include "device/device.h"
#include "device/virtual_memory.h"

// Reservations, physical handles, mappings.

namespace drydock::entries {
namespace {

// aclrtPhysicalMemProp; offsets from the vendor's ABI, 64-bit.
struct PhysicalProperties {
  int32_t handle_type;
  int32_t allocation_type;
  int32_t memory_attribute;
  uint32_t location_id;
  int32_t location_type;
  uint64_t reserved;
};
static_assert(sizeof(PhysicalProperties) == 32);
static_assert(offsetof(PhysicalProperties, memory_attribute) == 8);
static_assert(offsetof(PhysicalProperties, location_id) == 12);
static_assert(offsetof(PhysicalProperties, location_type) == 16);
static_assert(offsetof(PhysicalProperties, reserved) == 24);

constexpr int32_t kHandleNotShared = 0;  // ACL_MEM_HANDLE_TYPE_NONE
constexpr int32_t kPinnedAllocation = 0;
constexpr int32_t kLocationHost = 0;
constexpr int32_t kLocationDevice = 1;
constexpr uint64_t kHugePage = uint64_t{2} << 20;
constexpr uint64_t kGiantPage = uint64_t{1} << 30;

Status refuse(std::string_view entry, const std::string& why) {
  return Status::error(code::ACL_ERROR_RT_PARAM_INVALID, fmt::format("{}: {}", entry, why));
}

// Page of an aclrtMemAttr that names device memory, which torch_npu asks for on the host, too; 0 for the others.
uint64_t page_of(int32_t attribute) {
  switch (attribute) {
    case 1:  // HBM
    case 4:  // HBM, huge pages
    case 5:  // HBM, normal pages: handles are multiples of 2 MiB all the same
    case 8:  // and with access for peers
    case 9:
    case 12:  // memory of any kind
    case 13:
    case 15:
    case 16: return kHugePage;
    case 10:
    case 11:
    case 14:
    case 17: return kGiantPage;
    default: return 0;
  }
}

Status check_properties(std::string_view entry, const PhysicalProperties& properties) {
  if (properties.handle_type != kHandleNotShared) {
    return refuse(entry, fmt::format("the handle type is {}: only 0 is supported, device memory is not shared between "
                                     "processes yet.",
                                     properties.handle_type));
  }
  if (properties.allocation_type != kPinnedAllocation) {
    return refuse(entry,
                  fmt::format("the allocation type is {}: only 0 (pinned) is defined.", properties.allocation_type));
  }
  const bool on_host = properties.location_type == kLocationHost;
  if (!on_host && properties.location_type != kLocationDevice) {
    return refuse(entry, fmt::format("the location type is {}: physical memory of the host (0) and of a device (1) is "
                                     "supported.",
                                     properties.location_type));
  }
  if (page_of(properties.memory_attribute) == 0) {
    return refuse(entry,
                  fmt::format("memory attribute {} names no memory of this device or its host: 4 (HBM, huge pages) "
                              "is the usual one.",
                              properties.memory_attribute));
  }
  // The id of a location on the host means nothing.
  return on_host ? Status::ok() : device::check_device(entry, properties.location_id);
}

// The device that owns the address range of `address`.
Status owner_of(std::string_view entry, const void* address, device::Device*& owner) {
  DRYDOCK_RETURN_IF_ERROR(require_argument(entry, "virPtr", address));
  DRYDOCK_RETURN_IF_ERROR(device::require_alive());
  owner = device::Device::find(device::range_of(address));
  if (owner != nullptr) return Status::ok();
  return refuse(entry, fmt::format("{} does not lie in a reservation: it is {}", fmt::ptr(address),
                                   device::describe_address(address)));
}

Status find_handle(std::string_view entry, void* handle, device::PhysicalMemory*& memory) {
  DRYDOCK_RETURN_IF_ERROR(require_argument(entry, "handle", handle));
  DRYDOCK_RETURN_IF_ERROR(device::require_alive());
  memory = device::physical_memory().find(handle);
  if (memory != nullptr) return Status::ok();
  return Status::error(code::ACL_ERROR_RT_INVALID_HANDLE,
                       fmt::format("{}: {} {}", entry, fmt::ptr(handle),
                                   device::physical_memory().was_destroyed(handle)
                                       ? "is a handle of physical memory that was freed"
                                       : "is no handle of physical memory (aclrtMallocPhysical makes them)"));
}

}  // namespace

Status aclrtReserveMemAddress(void** pointer, size_t size, size_t alignment, void* expected, uint64_t flags) {
  constexpr std::string_view kEntry = "aclrtReserveMemAddress";
  DRYDOCK_RETURN_IF_ERROR(require_argument(kEntry, "virPtr", pointer));
  if (alignment != 0) return refuse(kEntry, fmt::format("the alignment is {}: only 0 is defined.", alignment));
  if (expected != nullptr) {
    return refuse(kEntry, fmt::format("an address is expected ({}): only null is supported.", fmt::ptr(expected)));
  }
  if (flags > 1) return refuse(kEntry, fmt::format("the flags are {}: 0 and 1 (huge pages) are defined.", flags));
  device::Context* context = nullptr;
  DRYDOCK_RETURN_IF_ERROR(device::require_context(kEntry, context));
  uint64_t address = 0;
  DRYDOCK_RETURN_IF_ERROR(device::Device::find(context->device)->virtual_memory().reserve(kEntry, size, address));
  *pointer = reinterpret_cast<void*>(address);
  return Status::ok();
}

Status aclrtReleaseMemAddress(void* address) {
  constexpr std::string_view kEntry = "aclrtReleaseMemAddress";
  device::Device* owner = nullptr;
  DRYDOCK_RETURN_IF_ERROR(owner_of(kEntry, address, owner));
  return owner->virtual_memory().release(kEntry, reinterpret_cast<uint64_t>(address));
}

Status aclrtMallocPhysical(void** handle, size_t size, const void* prop, uint64_t flags) {
  constexpr std::string_view kEntry = "aclrtMallocPhysical";
  DRYDOCK_RETURN_IF_ERROR(require_argument(kEntry, "handle", handle));
  DRYDOCK_RETURN_IF_ERROR(require_argument(kEntry, "prop", prop));
  const auto& properties = *static_cast<const PhysicalProperties*>(prop);
  DRYDOCK_RETURN_IF_ERROR(check_properties(kEntry, properties));
  if (flags != 0) return refuse(kEntry, fmt::format("the flags are {}: only 0 is defined.", flags));
  device::Context* context = nullptr;
  DRYDOCK_RETURN_IF_ERROR(device::require_context(kEntry, context));
  if (properties.location_type == kLocationHost) {
    return device::create_physical_host(kEntry, size, page_of(properties.memory_attribute), context->device, *handle);
  }
  device::Device* owner = nullptr;
  DRYDOCK_RETURN_IF_ERROR(device::Device::open(kEntry, static_cast<int32_t>(properties.location_id), owner));
  return owner->virtual_memory().create_physical(kEntry, size, page_of(properties.memory_attribute), *handle);
}

Status aclrtFreePhysical(void* handle) {
  constexpr std::string_view kEntry = "aclrtFreePhysical";
  device::PhysicalMemory* memory = nullptr;
  DRYDOCK_RETURN_IF_ERROR(find_handle(kEntry, handle, memory));
  if (memory->on_host) return device::destroy_physical_host(kEntry, *memory);
  return device::Device::find(memory->device)->virtual_memory().destroy_physical(kEntry, *memory);
}

Status aclrtMapMem(void* address, size_t size, size_t offset, void* handle, uint64_t flags) {
  constexpr std::string_view kEntry = "aclrtMapMem";
  device::Device* owner = nullptr;
  DRYDOCK_RETURN_IF_ERROR(owner_of(kEntry, address, owner));
  device::PhysicalMemory* memory = nullptr;
  DRYDOCK_RETURN_IF_ERROR(find_handle(kEntry, handle, memory));
  if (offset != 0) return refuse(kEntry, fmt::format("the offset is {}: only 0 is supported.", offset));
  if (flags != 0) return refuse(kEntry, fmt::format("the flags are {}: only 0 is defined.", flags));
  return owner->virtual_memory().map(kEntry, reinterpret_cast<uint64_t>(address), size, *memory);
}

Status aclrtUnmapMem(void* address) {
  constexpr std::string_view kEntry = "aclrtUnmapMem";
  device::Device* owner = nullptr;
  DRYDOCK_RETURN_IF_ERROR(owner_of(kEntry, address, owner));
  return owner->virtual_memory().unmap(kEntry, reinterpret_cast<uint64_t>(address));
}

Status aclrtMemGetAllocationGranularity(void* prop, int32_t option, size_t* granularity) {
  constexpr std::string_view kEntry = "aclrtMemGetAllocationGranularity";
  DRYDOCK_RETURN_IF_ERROR(require_argument(kEntry, "prop", prop));
  DRYDOCK_RETURN_IF_ERROR(require_argument(kEntry, "granularity", granularity));
  if (option != 0 && option != 1) {
    return refuse(kEntry,
                  fmt::format("there is no granularity option {}: 0 (minimum) and 1 (recommended) exist.", option));
  }
  const auto& properties = *static_cast<const PhysicalProperties*>(prop);
  DRYDOCK_RETURN_IF_ERROR(check_properties(kEntry, properties));
  *granularity = page_of(properties.memory_attribute);
  return Status::ok();
}

}  // namespace drydock::entries
