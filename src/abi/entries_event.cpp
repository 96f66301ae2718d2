#include <cstdint>
#include <string>

#include "abi/entry_arguments.h"
#include "abi/generated/entries.h"
#include "base/generated/error_codes.h"
#include "device/context.h"
#include "device/event.h"
#include "device/stream.h"
#include "races/stream_check.h"

namespace drydock::entries {
namespace {

using abi::EntryId;
using device::Event;
using device::EventKind;
using device::Stream;

Status create(EntryId id, std::string_view entry, EventKind kind, void** event, uint32_t flags) {
  DRYDOCK_RETURN_IF_ERROR(require_argument(entry, "event", event));
  device::Context* context = nullptr;
  DRYDOCK_RETURN_IF_ERROR(device::require_context(entry, context));
  DRYDOCK_RETURN_IF_ERROR(device::create_event(entry, kind, flags, *event));
  Event* created = nullptr;
  DRYDOCK_RETURN_IF_ERROR(device::find_event(entry, *event, created));
  record_call(id, created->id(), flags);
  return Status::ok();
}

Status find_both(std::string_view entry, void* event, void* stream, Event*& found, Stream*& on) {
  DRYDOCK_RETURN_IF_ERROR(device::find_event(entry, event, found));
  return device::find_stream_to_submit(entry, stream, on);
}

}  // namespace

Status aclrtCreateEvent(void** event) {
  return create(EntryId::aclrtCreateEvent, "aclrtCreateEvent", EventKind::kPlain, event, 0);
}

Status aclrtCreateEventWithFlag(void** event, uint32_t flag) {
  return create(EntryId::aclrtCreateEventWithFlag, "aclrtCreateEventWithFlag", EventKind::kWithFlag, event, flag);
}

Status aclrtCreateEventExWithFlag(void** event, uint32_t flag) {
  return create(EntryId::aclrtCreateEventExWithFlag, "aclrtCreateEventExWithFlag", EventKind::kExtended, event, flag);
}

Status aclrtDestroyEvent(void* event) {
  constexpr std::string_view kEntry = "aclrtDestroyEvent";
  Event* found = nullptr;
  DRYDOCK_RETURN_IF_ERROR(device::find_event(kEntry, event, found));
  const uint32_t id = found->id();
  DRYDOCK_RETURN_IF_ERROR(device::destroy_event(kEntry, event));
  record_call(EntryId::aclrtDestroyEvent, id);
  return Status::ok();
}

Status aclrtRecordEvent(void* event, void* stream) {
  Event* found = nullptr;
  Stream* on = nullptr;
  DRYDOCK_RETURN_IF_ERROR(find_both("aclrtRecordEvent", event, stream, found, on));
  record_call(EntryId::aclrtRecordEvent, found->id(), on->id());
  return found->record(*on);
}

Status aclrtStreamWaitEvent(void* stream, void* event) {
  constexpr std::string_view kEntry = "aclrtStreamWaitEvent";
  Event* found = nullptr;
  Stream* on = nullptr;
  DRYDOCK_RETURN_IF_ERROR(find_both(kEntry, event, stream, found, on));
  record_call(EntryId::aclrtStreamWaitEvent, found->id(), on->id());
  return found->wait(kEntry, *on);
}

Status aclrtResetEvent(void* event, void* stream) {
  constexpr std::string_view kEntry = "aclrtResetEvent";
  Event* found = nullptr;
  Stream* on = nullptr;
  DRYDOCK_RETURN_IF_ERROR(find_both(kEntry, event, stream, found, on));
  record_call(EntryId::aclrtResetEvent, found->id(), on->id());
  return found->reset(kEntry, *on);
}

Status aclrtQueryEventStatus(void* event, int32_t* status) {
  constexpr std::string_view kEntry = "aclrtQueryEventStatus";
  // The opposite sense of the wait status and of a stream's (contract G1).
  constexpr int32_t kNotReady = 0;
  constexpr int32_t kComplete = 1;
  DRYDOCK_RETURN_IF_ERROR(require_argument(kEntry, "status", status));
  Event* found = nullptr;
  DRYDOCK_RETURN_IF_ERROR(device::find_event(kEntry, event, found));
  *status = found->is_recorded() ? kComplete : kNotReady;
  if (races::is_on() && *status == kComplete) [[unlikely]]
    races::host_saw_event(found->id());
  return Status::ok();
}

Status aclrtQueryEventWaitStatus(void* event, int32_t* status) {
  constexpr std::string_view kEntry = "aclrtQueryEventWaitStatus";
  constexpr int32_t kComplete = 0;
  constexpr int32_t kNotReady = 1;
  DRYDOCK_RETURN_IF_ERROR(require_argument(kEntry, "status", status));
  Event* found = nullptr;
  DRYDOCK_RETURN_IF_ERROR(device::find_event(kEntry, event, found));
  if (found->kind() == EventKind::kExtended) {
    return Status::error(code::ACL_ERROR_RT_PARAM_INVALID,
                         std::string(kEntry) +
                             ": the event was created by aclrtCreateEventExWithFlag, which keeps no wait status. Ask "
                             "aclrtQueryEventStatus, or create it by aclrtCreateEventWithFlag.");
  }
  *status = found->is_waited_out() ? kComplete : kNotReady;
  return Status::ok();
}

Status aclrtSynchronizeEvent(void* event) {
  Event* found = nullptr;
  DRYDOCK_RETURN_IF_ERROR(device::find_event("aclrtSynchronizeEvent", event, found));
  record_call(EntryId::aclrtSynchronizeEvent, found->id());
  return found->synchronize();
}

Status aclrtSynchronizeEventWithTimeout(void* event, int32_t timeout) {
  constexpr std::string_view kEntry = "aclrtSynchronizeEventWithTimeout";
  if (timeout != -1 && timeout <= 0) {
    return Status::error(code::ACL_ERROR_RT_PARAM_INVALID, std::string(kEntry) + ": the timeout is " +
                                                               std::to_string(timeout) +
                                                               " ms. It is -1 (wait for ever) or above 0.");
  }
  Event* found = nullptr;
  DRYDOCK_RETURN_IF_ERROR(device::find_event(kEntry, event, found));
  record_call(EntryId::aclrtSynchronizeEventWithTimeout, found->id());
  return found->synchronize(timeout);
}

Status aclrtEventElapsedTime(float* ms, void* start_event, void* end_event) {
  constexpr std::string_view kEntry = "aclrtEventElapsedTime";
  DRYDOCK_RETURN_IF_ERROR(require_argument(kEntry, "ms", ms));
  Event* start = nullptr;
  Event* end = nullptr;
  DRYDOCK_RETURN_IF_ERROR(device::find_event(kEntry, start_event, start));
  DRYDOCK_RETURN_IF_ERROR(device::find_event(kEntry, end_event, end));
  return device::elapsed_ms(kEntry, *start, *end, *ms);
}

Status aclrtEventGetTimestamp(void* event, uint64_t* timestamp) {
  constexpr std::string_view kEntry = "aclrtEventGetTimestamp";
  DRYDOCK_RETURN_IF_ERROR(require_argument(kEntry, "timestamp", timestamp));
  Event* found = nullptr;
  DRYDOCK_RETURN_IF_ERROR(device::find_event(kEntry, event, found));
  uint64_t time_ns = 0;
  DRYDOCK_RETURN_IF_ERROR(found->time_ns(kEntry, time_ns));
  *timestamp = time_ns / 1000;  // microseconds (contract G9)
  return Status::ok();
}

}  // namespace drydock::entries
