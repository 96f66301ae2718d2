#include <cstdint>
#include <string>

#include "abi/entry_arguments.h"
#include "abi/generated/entries.h"
#include "base/generated/error_codes.h"
#include "device/context.h"
#include "device/core_limits.h"
#include "device/notify.h"
#include "device/stream.h"
#include "races/stream_check.h"

// Streams, notifies, and what waits for whole streams.

namespace drydock::entries {
namespace {

using abi::EntryId;
using device::CoreKind;
using device::Stream;

/// Flags that ask for what is not modelled: streams whose work is kept to be run by a model (4), and streams that only
/// device code uses (32).
constexpr uint32_t kPersistentFlag = 0x04;
constexpr uint32_t kDeviceUseOnlyFlag = 0x20;

Status create(EntryId id, std::string_view entry, void** stream, uint32_t priority, uint32_t flags) {
  DRYDOCK_RETURN_IF_ERROR(require_argument(entry, "stream", stream));
  Stream* created = nullptr;
  DRYDOCK_RETURN_IF_ERROR(device::create_stream(entry, priority, flags, created));
  *stream = created->handle();
  record_call(id, created->id(), uint64_t{priority} << 32 | flags);
  return Status::ok();
}

Status destroy(EntryId id, std::string_view entry, void* handle, bool force) {
  uint32_t stream_id = 0;
  if (handle != nullptr) {
    Stream* stream = nullptr;
    DRYDOCK_RETURN_IF_ERROR(device::find_stream(entry, handle, stream));
    stream_id = stream->id();
  }
  DRYDOCK_RETURN_IF_ERROR(device::destroy_stream(entry, handle, force));
  record_call(id, stream_id);
  return Status::ok();
}

Status check_timeout(std::string_view entry, int32_t timeout_ms) {
  if (timeout_ms == -1 || timeout_ms > 0) return Status::ok();
  return Status::error(code::ACL_ERROR_RT_PARAM_INVALID, std::string(entry) + ": the timeout is " +
                                                             std::to_string(timeout_ms) +
                                                             " ms. It is -1 (wait for ever) or above 0.");
}

Status synchronize(EntryId id, std::string_view entry, void* handle, int32_t timeout_ms) {
  Stream* stream = nullptr;
  DRYDOCK_RETURN_IF_ERROR(device::find_stream(entry, handle, stream));
  record_call(id, stream->id());
  return stream->synchronize(timeout_ms);
}

Status synchronize_device(EntryId id, std::string_view entry, int32_t timeout_ms) {
  device::Context* context = nullptr;
  DRYDOCK_RETURN_IF_ERROR(device::require_context(entry, context));
  record_call(id, static_cast<uint64_t>(context->device));
  return device::synchronize_device(context->device, timeout_ms);
}

Status find_with_kind(std::string_view entry, void* handle, int32_t type, Stream*& stream) {
  DRYDOCK_RETURN_IF_ERROR(device::check_core_kind(entry, type));
  return device::find_stream(entry, handle, stream);
}

}  // namespace

Status aclrtCreateStream(void** stream) {
  return create(EntryId::aclrtCreateStream, "aclrtCreateStream", stream, 0, 0);
}

Status aclrtCreateStreamWithConfig(void** stream, uint32_t priority, uint32_t flag) {
  constexpr std::string_view kEntry = "aclrtCreateStreamWithConfig";
  if ((flag & (kPersistentFlag | kDeviceUseOnlyFlag)) != 0) {
    return Status::error(code::ACL_ERROR_API_NOT_SUPPORT,
                         std::string(kEntry) + ": the flags " + std::to_string(flag) +
                             " ask for a stream that belongs to a model or to device code (4, 32). Those are not "
                             "modelled; use ACL_STREAM_FAST_LAUNCH | ACL_STREAM_FAST_SYNC or 0.");
  }
  return create(EntryId::aclrtCreateStreamWithConfig, kEntry, stream, priority, flag);
}

Status aclrtDestroyStream(void* stream) {
  return destroy(EntryId::aclrtDestroyStream, "aclrtDestroyStream", stream, false);
}

Status aclrtDestroyStreamForce(void* stream) {
  return destroy(EntryId::aclrtDestroyStreamForce, "aclrtDestroyStreamForce", stream, true);
}

Status aclrtCtxGetCurrentDefaultStream(void** stream) {
  constexpr std::string_view kEntry = "aclrtCtxGetCurrentDefaultStream";
  DRYDOCK_RETURN_IF_ERROR(require_argument(kEntry, "stream", stream));
  Stream* found = nullptr;
  DRYDOCK_RETURN_IF_ERROR(device::find_stream(kEntry, nullptr, found));
  *stream = found->handle();
  return Status::ok();
}

Status aclrtStreamGetId(void* stream, int32_t* stream_id) {
  constexpr std::string_view kEntry = "aclrtStreamGetId";
  DRYDOCK_RETURN_IF_ERROR(require_argument(kEntry, "streamId", stream_id));
  Stream* found = nullptr;
  DRYDOCK_RETURN_IF_ERROR(device::find_stream(kEntry, stream, found));
  *stream_id = static_cast<int32_t>(found->id());
  return Status::ok();
}

Status aclrtStreamQuery(void* stream, int32_t* status) {
  constexpr std::string_view kEntry = "aclrtStreamQuery";
  constexpr int32_t kComplete = 0;
  constexpr int32_t kNotReady = 1;
  DRYDOCK_RETURN_IF_ERROR(require_argument(kEntry, "status", status));
  Stream* found = nullptr;
  DRYDOCK_RETURN_IF_ERROR(device::find_stream(kEntry, stream, found));
  *status = found->is_complete() ? kComplete : kNotReady;
  if (races::is_on() && *status == kComplete) [[unlikely]]
    races::host_waited_for_stream(found->id());
  return Status::ok();
}

Status aclrtSynchronizeStream(void* stream) {
  return synchronize(EntryId::aclrtSynchronizeStream, "aclrtSynchronizeStream", stream, -1);
}

Status aclrtSynchronizeStreamWithTimeout(void* stream, int32_t timeout) {
  constexpr std::string_view kEntry = "aclrtSynchronizeStreamWithTimeout";
  DRYDOCK_RETURN_IF_ERROR(check_timeout(kEntry, timeout));
  return synchronize(EntryId::aclrtSynchronizeStreamWithTimeout, kEntry, stream, timeout);
}

Status aclrtSynchronizeDevice() {
  return synchronize_device(EntryId::aclrtSynchronizeDevice, "aclrtSynchronizeDevice", -1);
}

Status aclrtSynchronizeDeviceWithTimeout(int32_t timeout) {
  constexpr std::string_view kEntry = "aclrtSynchronizeDeviceWithTimeout";
  DRYDOCK_RETURN_IF_ERROR(check_timeout(kEntry, timeout));
  return synchronize_device(EntryId::aclrtSynchronizeDeviceWithTimeout, kEntry, timeout);
}

Status aclrtSetStreamFailureMode(void* stream, uint64_t mode) {
  constexpr std::string_view kEntry = "aclrtSetStreamFailureMode";
  Stream* found = nullptr;
  DRYDOCK_RETURN_IF_ERROR(device::find_stream(kEntry, stream, found));
  if (mode > static_cast<uint64_t>(device::FailureMode::kStop)) {
    return Status::error(code::ACL_ERROR_RT_PARAM_INVALID,
                         std::string(kEntry) + ": there is no failure mode " + std::to_string(mode) +
                             ". They are 0 (continue on failure) and 1 (stop on failure).");
  }
  device::set_failure_mode(*found, static_cast<device::FailureMode>(mode));
  record_call(EntryId::aclrtSetStreamFailureMode, found->id(), mode);
  return Status::ok();
}

Status aclrtSetStreamOverflowSwitch(void* stream, uint32_t flag) {
  constexpr std::string_view kEntry = "aclrtSetStreamOverflowSwitch";
  Stream* found = nullptr;
  DRYDOCK_RETURN_IF_ERROR(device::find_stream(kEntry, stream, found));
  if (flag > 1) {
    return Status::error(code::ACL_ERROR_RT_PARAM_INVALID,
                         std::string(kEntry) + ": the flag is " + std::to_string(flag) + ". It is 0 (off) or 1 (on).");
  }
  found->set_overflow_switch(flag == 1);
  record_call(EntryId::aclrtSetStreamOverflowSwitch, found->id(), flag);
  return Status::ok();
}

Status aclrtGetStreamOverflowSwitch(void* stream, uint32_t* flag) {
  constexpr std::string_view kEntry = "aclrtGetStreamOverflowSwitch";
  DRYDOCK_RETURN_IF_ERROR(require_argument(kEntry, "flag", flag));
  Stream* found = nullptr;
  DRYDOCK_RETURN_IF_ERROR(device::find_stream(kEntry, stream, found));
  *flag = found->overflow_switch() ? 1 : 0;
  return Status::ok();
}

Status aclrtSetStreamResLimit(void* stream, int32_t type, uint32_t value) {
  constexpr std::string_view kEntry = "aclrtSetStreamResLimit";
  Stream* found = nullptr;
  DRYDOCK_RETURN_IF_ERROR(find_with_kind(kEntry, stream, type, found));
  const auto kind = static_cast<CoreKind>(type);
  DRYDOCK_RETURN_IF_ERROR(device::check_core_limit(kEntry, kind, value));
  found->set_core_limit(kind, value);
  record_call(EntryId::aclrtSetStreamResLimit, found->id(), uint64_t{static_cast<uint32_t>(type)} << 32 | value);
  return Status::ok();
}

Status aclrtGetStreamResLimit(void* stream, int32_t type, uint32_t* value) {
  constexpr std::string_view kEntry = "aclrtGetStreamResLimit";
  DRYDOCK_RETURN_IF_ERROR(require_argument(kEntry, "value", value));
  Stream* found = nullptr;
  DRYDOCK_RETURN_IF_ERROR(find_with_kind(kEntry, stream, type, found));
  *value = device::stream_core_limit(*found, static_cast<CoreKind>(type));
  return Status::ok();
}

Status aclrtResetStreamResLimit(void* stream) {
  constexpr std::string_view kEntry = "aclrtResetStreamResLimit";
  Stream* found = nullptr;
  DRYDOCK_RETURN_IF_ERROR(device::find_stream(kEntry, stream, found));
  found->set_core_limit(CoreKind::kCube, 0);
  found->set_core_limit(CoreKind::kVector, 0);
  record_call(EntryId::aclrtResetStreamResLimit, found->id());
  return Status::ok();
}

Status aclrtUseStreamResInCurrentThread(void* stream) {
  Stream* found = nullptr;
  DRYDOCK_RETURN_IF_ERROR(device::find_stream("aclrtUseStreamResInCurrentThread", stream, found));
  device::use_stream_limits(*found);
  return Status::ok();
}

Status aclrtUnuseStreamResInCurrentThread(void* stream) {
  Stream* found = nullptr;
  DRYDOCK_RETURN_IF_ERROR(device::find_stream("aclrtUnuseStreamResInCurrentThread", stream, found));
  device::unuse_stream_limits();
  return Status::ok();
}

Status aclrtGetResInCurrentThread(int32_t type, uint32_t* value) {
  constexpr std::string_view kEntry = "aclrtGetResInCurrentThread";
  DRYDOCK_RETURN_IF_ERROR(require_argument(kEntry, "value", value));
  DRYDOCK_RETURN_IF_ERROR(device::check_core_kind(kEntry, type));
  device::Context* context = nullptr;
  DRYDOCK_RETURN_IF_ERROR(device::require_context(kEntry, context));
  *value = device::thread_core_limit(context->device, static_cast<CoreKind>(type));
  return Status::ok();
}

Status aclrtCreateNotify(void** notify, uint64_t flag) {
  constexpr std::string_view kEntry = "aclrtCreateNotify";
  DRYDOCK_RETURN_IF_ERROR(require_argument(kEntry, "notify", notify));
  if (flag != 0) {
    return Status::error(code::ACL_ERROR_API_NOT_SUPPORT,
                         std::string(kEntry) + ": the flag is " + std::to_string(flag) +
                             ". Only 0 is modelled: notifies that device code uses need device code.");
  }
  device::Context* context = nullptr;
  DRYDOCK_RETURN_IF_ERROR(device::require_context(kEntry, context));
  DRYDOCK_RETURN_IF_ERROR(device::create_notify(kEntry, context->device, *notify));
  device::Notify* created = nullptr;
  DRYDOCK_RETURN_IF_ERROR(device::find_notify(kEntry, *notify, created));
  record_call(EntryId::aclrtCreateNotify, created->id());
  return Status::ok();
}

Status aclrtDestroyNotify(void* notify) {
  constexpr std::string_view kEntry = "aclrtDestroyNotify";
  device::Notify* found = nullptr;
  DRYDOCK_RETURN_IF_ERROR(device::find_notify(kEntry, notify, found));
  const uint32_t id = found->id();
  DRYDOCK_RETURN_IF_ERROR(device::destroy_notify(kEntry, notify));
  record_call(EntryId::aclrtDestroyNotify, id);
  return Status::ok();
}

Status aclrtRecordNotify(void* notify, void* stream) {
  constexpr std::string_view kEntry = "aclrtRecordNotify";
  device::Notify* found = nullptr;
  DRYDOCK_RETURN_IF_ERROR(device::find_notify(kEntry, notify, found));
  Stream* on = nullptr;
  DRYDOCK_RETURN_IF_ERROR(device::find_stream_to_submit(kEntry, stream, on));
  record_call(EntryId::aclrtRecordNotify, found->id(), on->id());
  return found->record(*on);
}

Status aclrtWaitAndResetNotify(void* notify, void* stream, uint32_t timeout) {
  constexpr std::string_view kEntry = "aclrtWaitAndResetNotify";
  static_cast<void>(timeout);  // seconds; a wait that never ends shows where the stream is synchronised
  device::Notify* found = nullptr;
  DRYDOCK_RETURN_IF_ERROR(device::find_notify(kEntry, notify, found));
  Stream* on = nullptr;
  DRYDOCK_RETURN_IF_ERROR(device::find_stream_to_submit(kEntry, stream, on));
  record_call(EntryId::aclrtWaitAndResetNotify, found->id(), on->id());
  return found->wait_and_reset(*on);
}

}  // namespace drydock::entries
