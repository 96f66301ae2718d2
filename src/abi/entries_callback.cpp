#include <cstdint>
#include <string>

#include "abi/entry_arguments.h"
#include "abi/generated/entries.h"
#include "base/generated/error_codes.h"
#include "device/callback.h"
#include "device/stream.h"

namespace drydock::entries {

using abi::EntryId;
using device::Stream;

Status aclrtSubscribeReport(uint64_t thread_id, void* stream) {
  constexpr std::string_view kEntry = "aclrtSubscribeReport";
  Stream* found = nullptr;
  DRYDOCK_RETURN_IF_ERROR(device::find_stream(kEntry, stream, found));
  DRYDOCK_RETURN_IF_ERROR(device::subscribe_callbacks(kEntry, thread_id, *found));
  record_call(EntryId::aclrtSubscribeReport, found->id());
  return Status::ok();
}

Status aclrtUnSubscribeReport(uint64_t thread_id, void* stream) {
  constexpr std::string_view kEntry = "aclrtUnSubscribeReport";
  Stream* found = nullptr;
  DRYDOCK_RETURN_IF_ERROR(device::find_stream(kEntry, stream, found));
  DRYDOCK_RETURN_IF_ERROR(device::unsubscribe_callbacks(kEntry, thread_id, *found));
  record_call(EntryId::aclrtUnSubscribeReport, found->id());
  return Status::ok();
}

Status aclrtProcessReport(int32_t timeout) { return device::process_callbacks("aclrtProcessReport", timeout); }

Status aclrtLaunchCallback(void (*fn)(void*), void* user_data, int32_t block_type, void* stream) {
  constexpr std::string_view kEntry = "aclrtLaunchCallback";
  constexpr int32_t kNoBlock = 0;
  constexpr int32_t kBlock = 1;
  DRYDOCK_RETURN_IF_ERROR(require_argument(kEntry, "fn", reinterpret_cast<const void*>(fn)));
  if (block_type != kNoBlock && block_type != kBlock) {
    return Status::error(code::ACL_ERROR_RT_PARAM_INVALID, std::string(kEntry) + ": there is no block type " +
                                                               std::to_string(block_type) +
                                                               ". They are 0 (does not block) and 1 (blocks).");
  }
  Stream* found = nullptr;
  DRYDOCK_RETURN_IF_ERROR(device::find_stream_to_submit(kEntry, stream, found));
  record_call(EntryId::aclrtLaunchCallback, found->id(), static_cast<uint64_t>(block_type));
  return device::launch_callback(kEntry, *found, fn, user_data, block_type == kBlock);
}

Status aclrtLaunchHostFunc(void* stream, void (*fn)(void*), void* args) {
  constexpr std::string_view kEntry = "aclrtLaunchHostFunc";
  DRYDOCK_RETURN_IF_ERROR(require_argument(kEntry, "fn", reinterpret_cast<const void*>(fn)));
  Stream* found = nullptr;
  DRYDOCK_RETURN_IF_ERROR(device::find_stream_to_submit(kEntry, stream, found));
  record_call(EntryId::aclrtLaunchHostFunc, found->id());
  return device::launch_host_function(kEntry, *found, fn, args);
}

}  // namespace drydock::entries
