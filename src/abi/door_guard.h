#pragma once

#include <cstdint>
#include <type_traits>
#include <utility>

#include "abi/generated/entry_rows.h"
#include "base/export.h"
#include "base/recent_error.h"
#include "base/status.h"

// What every door does around its handler. No exception leaves a door; a failure becomes the vendor's code, the
// thread's sentence for aclGetRecentErrMsg, and an error record in the trace.

namespace drydock::abi {

/// Sets the sentence of a failed call, records it, and returns its code. Any thread.
DRYDOCK_API int32_t report_failure(EntryId entry, const Status& failure) noexcept;

/// The same for the exception in flight: the row's internal code (200000 where memory ran out).
DRYDOCK_API int32_t report_exception(EntryId entry) noexcept;

/// Answers a refused call: sentence from the row's reason, error record, the row's code. `operator_name` is the name of
/// the legacy operator that was asked for, or null.
DRYDOCK_API int32_t refuse(EntryId entry, const char* operator_name) noexcept;

/// Records a call of class hint.
DRYDOCK_API void took_hint(EntryId entry) noexcept;

/// Runs a handler. A handler that returns a Status gives the code; any other result is passed on, and is zero (or null)
/// where the handler threw.
template <class Handler>
auto run_door(EntryId entry, Handler&& handler) noexcept {
  using Result = std::invoke_result_t<Handler>;
  try {
    if constexpr (std::is_same_v<Result, Status>) {
      const Status status = std::forward<Handler>(handler)();
      return status.is_ok() ? int32_t{0} : report_failure(entry, status);
    } else {
      return std::forward<Handler>(handler)();
    }
  } catch (...) {
    [[maybe_unused]] const int32_t code = report_exception(entry);
    if constexpr (std::is_same_v<Result, Status>) {
      return code;
    } else if constexpr (!std::is_void_v<Result>) {
      return Result{};
    }
  }
}

}  // namespace drydock::abi
