#include <cstdint>
#include <cstring>
#include <string>
#include <unistd.h>

#include <fmt/format.h>

#include "abi/entry_arguments.h"
#include "abi/generated/entries.h"
#include "base/generated/error_codes.h"
#include "device/context.h"
#include "device/core_limits.h"
#include "device/device.h"
#include "device/settings.h"
#include "device/stream.h"

// The life of the library, devices, contexts, and what a device says of itself.

namespace drydock::entries {
namespace {

using abi::EntryId;

// aclDeviceInfo.
enum DeviceCapability : int32_t { kCubeCores = 0, kVectorCores = 1, kL2Bytes = 2 };

// aclrtDevAttr: those that the profile, or this machine, can answer.
enum DeviceAttribute : int32_t {
  kAiCpuCores = 1,
  kAiCores = 101,
  kCubeCoresAttribute = 102,
  kVectorCoresAttribute = 201,
  kUbBytesPerVectorCore = 204,
  kTotalMemoryBytes = 301,
  kL2CacheBytes = 302,
  kIsVirtual = 501,
  kNpuArch = 601,
};

constexpr int32_t kRunsOnHost = 1;  // aclrtRunMode: ACL_HOST

// aclrtUuid.
struct Uuid {
  char bytes[16];
};
static_assert(sizeof(Uuid) == 16);

bool answer(const device::Profile& profile, int32_t physical, int32_t attribute, int64_t& value) {
  switch (attribute) {
    case kAiCpuCores: value = profile.ai_cpu_cores; return true;
    case kAiCores:
    case kCubeCoresAttribute: value = profile.cube_cores; return true;
    case kVectorCoresAttribute: value = profile.vector_cores; return true;
    case kUbBytesPerVectorCore: value = static_cast<int64_t>(profile.ub_bytes); return true;
    case kTotalMemoryBytes: value = static_cast<int64_t>(profile.die(physical).usable_bytes); return true;
    case kL2CacheBytes: value = static_cast<int64_t>(profile.l2_bytes); return true;
    case kIsVirtual: value = 0; return true;  // a whole die, not a share of one
    case kNpuArch: value = profile.npu_arch; return true;
    default: return false;
  }
}

}  // namespace

Status aclInit(const char* config_path) {
  DRYDOCK_RETURN_IF_ERROR(device::initialize(config_path));
  record_call(EntryId::aclInit, 0);
  return Status::ok();
}

Status aclFinalize() {
  DRYDOCK_RETURN_IF_ERROR(device::finalize());
  record_call(EntryId::aclFinalize, 0);
  return Status::ok();
}

Status aclrtGetDeviceCount(uint32_t* count) {
  DRYDOCK_RETURN_IF_ERROR(require_argument("aclrtGetDeviceCount", "count", count));
  DRYDOCK_RETURN_IF_ERROR(device::settings_status());
  *count = static_cast<uint32_t>(device::device_count());
  return Status::ok();
}

Status aclrtSetDevice(int32_t device_id) {
  DRYDOCK_RETURN_IF_ERROR(device::set_device(device_id));
  record_call(EntryId::aclrtSetDevice, static_cast<uint64_t>(device_id));
  return Status::ok();
}

Status aclrtGetDevice(int32_t* device_id) {
  constexpr std::string_view kEntry = "aclrtGetDevice";
  DRYDOCK_RETURN_IF_ERROR(require_argument(kEntry, "deviceId", device_id));
  DRYDOCK_RETURN_IF_ERROR(device::require_alive());
  int32_t number = device::current_device();
  // With a default device the vendor names it without making a context (contract C4).
  if (number < 0) number = device::default_device();
  if (number < 0) {
    return Status::error(code::ACL_ERROR_RT_CONTEXT_NULL,
                         "aclrtGetDevice: this thread has no device yet: aclrtSetDevice comes first.");
  }
  *device_id = number;
  return Status::ok();
}

Status aclrtResetDevice(int32_t device_id) {
  DRYDOCK_RETURN_IF_ERROR(device::reset_device(device_id, false));
  record_call(EntryId::aclrtResetDevice, static_cast<uint64_t>(device_id));
  return Status::ok();
}

Status aclrtCreateContext(void** context, int32_t device_id) {
  DRYDOCK_RETURN_IF_ERROR(require_argument("aclrtCreateContext", "context", context));
  device::Context* created = nullptr;
  DRYDOCK_RETURN_IF_ERROR(device::create_context(device_id, created));
  *context = created;
  record_call(EntryId::aclrtCreateContext, created->id, static_cast<uint64_t>(device_id));
  return Status::ok();
}

Status aclrtDestroyContext(void* context) {
  const device::Context* const found = device::find_context(context);
  const uint32_t id = found == nullptr ? 0 : found->id;
  DRYDOCK_RETURN_IF_ERROR(device::destroy_context(context));
  record_call(EntryId::aclrtDestroyContext, id);
  return Status::ok();
}

Status aclrtSetCurrentContext(void* context) {
  DRYDOCK_RETURN_IF_ERROR(device::set_current_context(context));
  const device::Context* const current = device::current_context();
  record_call(EntryId::aclrtSetCurrentContext, current == nullptr ? 0 : current->id);
  return Status::ok();
}

Status aclrtGetCurrentContext(void** context) {
  constexpr std::string_view kEntry = "aclrtGetCurrentContext";
  DRYDOCK_RETURN_IF_ERROR(require_argument(kEntry, "context", context));
  device::Context* current = nullptr;
  DRYDOCK_RETURN_IF_ERROR(device::require_context(kEntry, current));
  *context = current;
  return Status::ok();
}

Status aclrtGetPrimaryCtxState(int32_t device_id, uint32_t* flags, int32_t* active) {
  constexpr std::string_view kEntry = "aclrtGetPrimaryCtxState";
  DRYDOCK_RETURN_IF_ERROR(require_argument(kEntry, "active", active));
  DRYDOCK_RETURN_IF_ERROR(device::require_alive());
  DRYDOCK_RETURN_IF_ERROR(device::check_device(kEntry, device_id));
  if (flags != nullptr) *flags = 0;  // torch_npu passes null (contract C8)
  *active = device::primary_context(device_id) != nullptr ? 1 : 0;
  return Status::ok();
}

const char* aclrtGetSocName() { return device::profile().soc_name.c_str(); }

Status aclrtGetRunMode(int32_t* run_mode) {
  DRYDOCK_RETURN_IF_ERROR(require_argument("aclrtGetRunMode", "runMode", run_mode));
  *run_mode = kRunsOnHost;
  return Status::ok();
}

Status aclGetDeviceCapability(uint32_t device_id, int32_t capability, int64_t* value) {
  constexpr std::string_view kEntry = "aclGetDeviceCapability";
  DRYDOCK_RETURN_IF_ERROR(require_argument(kEntry, "value", value));
  DRYDOCK_RETURN_IF_ERROR(device::check_device(kEntry, device_id));
  const device::Profile& profile = device::profile();
  switch (capability) {
    case kCubeCores: *value = profile.cube_cores; return Status::ok();
    case kVectorCores: *value = profile.vector_cores; return Status::ok();
    case kL2Bytes: *value = static_cast<int64_t>(profile.l2_bytes); return Status::ok();
    default:
      return bad_argument(kEntry, fmt::format("there is no capability {}: 0 cube cores, 1 vector cores and 2 bytes of "
                                              "L2 cache can be asked.",
                                              capability));
  }
}

Status aclrtGetDeviceInfo(uint32_t device_id, int32_t attr, int64_t* value) {
  constexpr std::string_view kEntry = "aclrtGetDeviceInfo";
  DRYDOCK_RETURN_IF_ERROR(require_argument(kEntry, "value", value));
  DRYDOCK_RETURN_IF_ERROR(device::check_device(kEntry, device_id));
  const int32_t physical = device::physical_device(static_cast<int32_t>(device_id));
  if (answer(device::profile(), physical, attr, *value)) return Status::ok();
  return Status::error(
      code::ACL_ERROR_RT_PARAM_INVALID,
      fmt::format("{}: the profile {} says nothing of attribute {}. Answered are 1 (AI CPU cores), 101 "
                  "and 102 (cube cores), 201 (vector cores), 204 (unified buffer), 301 (memory), 302 "
                  "(L2 cache), 501 (is a share of a device), 601 (architecture).",
                  kEntry, device::profile().name, attr));
}

Status aclrtDeviceGetUuid(int32_t device_id, void* uuid) {
  constexpr std::string_view kEntry = "aclrtDeviceGetUuid";
  DRYDOCK_RETURN_IF_ERROR(require_argument(kEntry, "uuid", uuid));
  DRYDOCK_RETURN_IF_ERROR(device::check_device(kEntry, device_id));
  Uuid value{{'D', 'R', 'Y', 'D', 'O', 'C', 'K'}};
  value.bytes[sizeof(value.bytes) - 1] = static_cast<char>(device::physical_device(device_id));
  std::memcpy(uuid, &value, sizeof(value));
  return Status::ok();
}

Status aclrtDeviceGetBareTgid(int32_t* pid) {
  DRYDOCK_RETURN_IF_ERROR(require_argument("aclrtDeviceGetBareTgid", "pid", pid));
  *pid = getpid();
  return Status::ok();
}

Status aclrtGetLogicDevIdByUserDevId(const int32_t user_device, int32_t* const logic_device) {
  constexpr std::string_view kEntry = "aclrtGetLogicDevIdByUserDevId";
  DRYDOCK_RETURN_IF_ERROR(require_argument(kEntry, "logicDevId", logic_device));
  DRYDOCK_RETURN_IF_ERROR(device::check_device(kEntry, user_device));
  *logic_device = device::physical_device(user_device);
  return Status::ok();
}

Status aclrtDeviceCanAccessPeer(int32_t* can_access, int32_t device_id, int32_t peer) {
  constexpr std::string_view kEntry = "aclrtDeviceCanAccessPeer";
  DRYDOCK_RETURN_IF_ERROR(require_argument(kEntry, "canAccessPeer", can_access));
  DRYDOCK_RETURN_IF_ERROR(device::check_device(kEntry, device_id));
  DRYDOCK_RETURN_IF_ERROR(device::check_device(kEntry, peer));
  *can_access = device_id != peer ? 1 : 0;  // every die reaches every other (contract M3)
  return Status::ok();
}

Status aclrtDeviceEnablePeerAccess(int32_t peer, uint32_t flags) {
  constexpr std::string_view kEntry = "aclrtDeviceEnablePeerAccess";
  device::Context* context = nullptr;
  DRYDOCK_RETURN_IF_ERROR(device::require_context(kEntry, context));
  DRYDOCK_RETURN_IF_ERROR(device::check_device(kEntry, peer));
  if (flags != 0) return bad_argument(kEntry, fmt::format("the flags are {}: only 0 is defined.", flags));
  if (peer == context->device) {
    return Status::error(code::ACL_ERROR_RT_PARAM_INVALID,
                         fmt::format("{}: device {} is no peer of itself.", kEntry, peer));
  }
  if (!device::Device::find(context->device)->enable_peer(peer)) {
    return Status::error(code::ACL_ERROR_RT_PARAM_INVALID,
                         fmt::format("{}: device {} has access to device {} already.", kEntry, context->device, peer));
  }
  record_call(EntryId::aclrtDeviceEnablePeerAccess, static_cast<uint64_t>(context->device),
              static_cast<uint64_t>(peer));
  return Status::ok();
}

Status aclrtDeviceDisablePeerAccess(int32_t peer) {
  constexpr std::string_view kEntry = "aclrtDeviceDisablePeerAccess";
  device::Context* context = nullptr;
  DRYDOCK_RETURN_IF_ERROR(device::require_context(kEntry, context));
  DRYDOCK_RETURN_IF_ERROR(device::check_device(kEntry, peer));
  if (!device::Device::find(context->device)->disable_peer(peer)) {
    return Status::error(
        code::ACL_ERROR_RT_PARAM_INVALID,
        fmt::format("{}: device {} has no access to device {} that could end.", kEntry, context->device, peer));
  }
  record_call(EntryId::aclrtDeviceDisablePeerAccess, static_cast<uint64_t>(context->device),
              static_cast<uint64_t>(peer));
  return Status::ok();
}

Status aclrtGetDeviceResLimit(int32_t device_id, int32_t type, uint32_t* value) {
  constexpr std::string_view kEntry = "aclrtGetDeviceResLimit";
  DRYDOCK_RETURN_IF_ERROR(require_argument(kEntry, "value", value));
  DRYDOCK_RETURN_IF_ERROR(device::check_device(kEntry, device_id));
  DRYDOCK_RETURN_IF_ERROR(device::check_core_kind(kEntry, type));
  const auto kind = static_cast<device::CoreKind>(type);
  const uint32_t limit = device::device_core_limit(device_id, kind);
  *value = limit == 0 ? device::core_count(kind) : limit;
  return Status::ok();
}

Status aclrtSetDeviceResLimit(int32_t device_id, int32_t type, uint32_t value) {
  constexpr std::string_view kEntry = "aclrtSetDeviceResLimit";
  DRYDOCK_RETURN_IF_ERROR(device::require_alive());
  DRYDOCK_RETURN_IF_ERROR(device::check_device(kEntry, device_id));
  DRYDOCK_RETURN_IF_ERROR(device::check_core_kind(kEntry, type));
  const auto kind = static_cast<device::CoreKind>(type);
  DRYDOCK_RETURN_IF_ERROR(device::check_core_limit(kEntry, kind, value));
  device::set_device_core_limit(device_id, kind, value);
  record_call(EntryId::aclrtSetDeviceResLimit, static_cast<uint64_t>(device_id),
              uint64_t{static_cast<uint32_t>(type)} << 32 | value);
  return Status::ok();
}

Status aclrtResetDeviceResLimit(int32_t device_id) {
  constexpr std::string_view kEntry = "aclrtResetDeviceResLimit";
  DRYDOCK_RETURN_IF_ERROR(device::require_alive());
  DRYDOCK_RETURN_IF_ERROR(device::check_device(kEntry, device_id));
  device::set_device_core_limit(device_id, device::CoreKind::kCube, 0);
  device::set_device_core_limit(device_id, device::CoreKind::kVector, 0);
  record_call(EntryId::aclrtResetDeviceResLimit, static_cast<uint64_t>(device_id));
  return Status::ok();
}

}  // namespace drydock::entries
