#include <cstdint>
#include <string>

#include <fmt/format.h>

#include "abi/entry_arguments.h"
#include "abi/generated/entries.h"
#include "base/generated/error_codes.h"
#include "device/context.h"
#include "device/device.h"
#include "device/heap.h"

// Plain device memory and what is left of it.

namespace drydock::entries {
namespace {

constexpr uint64_t kAlignment = 32;
// Kernels may read up to this far past a tensor; aclrtMalloc makes room for it (contract E2).
constexpr uint64_t kReadPastEnd = 32;

// aclrtMemAttr.
enum MemoryAttribute : int32_t {
  kDdr = 0,
  kHbm = 1,
  kDdrHuge = 2,
  kDdrNormal = 3,
  kHbmHuge = 4,
  kHbmNormal = 5,
  kDdrPeerHuge = 6,
  kDdrPeerNormal = 7,
  kHbmPeerHuge = 8,
  kHbmPeerNormal = 9,
  kHbmGiant = 10,
  kHbmPeerGiant = 11,
  kAnyNormal = 12,
  kAnyHuge = 13,
  kAnyGiant = 14,
  kAnyPeerNormal = 15,
  kAnyPeerHuge = 16,
  kAnyPeerGiant = 17,
};

// Pages of what an attribute asks for: what is free is whole pages of it. 0 for memory that this device has none of.
bool page_of(int32_t attribute, uint64_t& page_bytes) {
  switch (attribute) {
    case kDdr:
    case kDdrHuge:
    case kDdrNormal:
    case kDdrPeerHuge:
    case kDdrPeerNormal: page_bytes = 0; return true;
    case kHbm:
    case kHbmNormal:
    case kHbmPeerNormal:
    case kAnyNormal:
    case kAnyPeerNormal: page_bytes = 1; return true;
    case kHbmHuge:
    case kHbmPeerHuge:
    case kAnyHuge:
    case kAnyPeerHuge: page_bytes = uint64_t{2} << 20; return true;
    case kHbmGiant:
    case kHbmPeerGiant:
    case kAnyGiant:
    case kAnyPeerGiant: page_bytes = uint64_t{1} << 30; return true;
    default: return false;
  }
}

Status allocate(std::string_view entry, void** pointer, uint64_t asked_bytes, uint64_t extra_bytes, int32_t policy) {
  DRYDOCK_RETURN_IF_ERROR(require_argument(entry, "devPtr", pointer));
  if (asked_bytes == 0) return bad_argument(entry, "the size is 0.");
  device::Context* context = nullptr;
  DRYDOCK_RETURN_IF_ERROR(device::require_context(entry, context));
  // Sizes so large that rounding would wrap are refused by the heap as they are.
  const uint64_t size_bytes = asked_bytes > device::kMaxUsableBytes
                                  ? asked_bytes
                                  : (asked_bytes + kAlignment - 1) / kAlignment * kAlignment + extra_bytes;
  uint64_t address = 0;
  DRYDOCK_RETURN_IF_ERROR(device::Device::find(context->device)->heap().allocate(entry, size_bytes, policy, address));
  *pointer = reinterpret_cast<void*>(address);
  return Status::ok();
}

}  // namespace

Status aclrtMalloc(void** pointer, size_t size, int32_t policy) {
  return allocate("aclrtMalloc", pointer, size, kReadPastEnd, policy);
}

Status aclrtMallocAlign32(void** pointer, size_t size, int32_t policy) {
  return allocate("aclrtMallocAlign32", pointer, size, 0, policy);
}

Status aclrtFree(void* pointer) {
  constexpr std::string_view kEntry = "aclrtFree";
  DRYDOCK_RETURN_IF_ERROR(require_argument(kEntry, "devPtr", pointer));
  DRYDOCK_RETURN_IF_ERROR(device::require_alive());
  device::Device* const owner = device::Device::find(device::device_of(pointer));
  if (owner == nullptr) {
    return Status::error(code::ACL_ERROR_RT_PARAM_INVALID,
                         fmt::format("{}: {} was never handed out by aclrtMalloc: it is {}", kEntry, fmt::ptr(pointer),
                                     device::describe_address(pointer)));
  }
  return owner->heap().free(kEntry, reinterpret_cast<uint64_t>(pointer));
}

Status aclrtGetMemInfo(int32_t attr, size_t* free, size_t* total) {
  constexpr std::string_view kEntry = "aclrtGetMemInfo";
  DRYDOCK_RETURN_IF_ERROR(require_argument(kEntry, "free", free));
  DRYDOCK_RETURN_IF_ERROR(require_argument(kEntry, "total", total));
  uint64_t page_bytes = 0;
  if (!page_of(attr, page_bytes)) {
    return Status::error(code::ACL_ERROR_RT_PARAM_INVALID,
                         fmt::format("{}: there is no memory attribute {}: 0 to 17 exist.", kEntry, attr));
  }
  device::Context* context = nullptr;
  DRYDOCK_RETURN_IF_ERROR(device::require_context(kEntry, context));
  const device::MemoryInfo info = device::Device::find(context->device)->account().info();
  *free = page_bytes == 0 ? 0 : info.free_bytes / page_bytes * page_bytes;
  *total = page_bytes == 0 ? 0 : info.total_bytes / page_bytes * page_bytes;
  return Status::ok();
}

}  // namespace drydock::entries
