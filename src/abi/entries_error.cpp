#include <cstdint>
#include <string>

#include "abi/entry_arguments.h"
#include "abi/generated/entries.h"
#include "base/generated/error_codes.h"
#include "base/recent_error.h"
#include "device/last_error.h"

namespace drydock::entries {
namespace {

Status check_level(std::string_view entry, int32_t level) {
  constexpr int32_t kThreadLevel = 0;
  if (level == kThreadLevel) return Status::ok();
  return Status::error(code::ACL_ERROR_RT_PARAM_INVALID, std::string(entry) + ": there is no level " +
                                                             std::to_string(level) + ". Only 0 (thread) exists.");
}

/// The door turns a failure into the thread's sentence; a pending fault must not cost the sentence that explains it.
Status pending_fault(int32_t fault) {
  if (fault == 0) return Status::ok();
  return Status::error(fault, peek_recent_error());
}

}  // namespace

const char* aclGetRecentErrMsg() { return take_recent_error(); }

Status aclrtPeekAtLastError(int32_t level) {
  DRYDOCK_RETURN_IF_ERROR(check_level("aclrtPeekAtLastError", level));
  return pending_fault(device::last_error());
}

Status aclrtGetLastError(int32_t level) {
  DRYDOCK_RETURN_IF_ERROR(check_level("aclrtGetLastError", level));
  const int32_t fault = device::last_error();
  device::set_last_error(0);
  return pending_fault(fault);
}

}  // namespace drydock::entries
