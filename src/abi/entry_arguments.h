#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "abi/generated/entry_rows.h"
#include "base/generated/error_codes.h"
#include "base/status.h"
#include "trace/recorder.h"

// What handlers share: checks of arguments, and the record of a change of state.

namespace drydock::entries {

/// 100000 with a sentence if `pointer` is null. `argument` is its name in the vendor's declaration.
inline Status require_argument(std::string_view entry, std::string_view argument, const void* pointer) {
  if (pointer != nullptr) [[likely]]
    return Status::ok();
  return Status::error(code::ACL_ERROR_INVALID_PARAM,
                       std::string(entry) + ": the argument `" + std::string(argument) + "` is null.");
}

/// 100000 with a sentence about an argument.
inline Status bad_argument(std::string_view entry, std::string_view sentence) {
  return Status::error(code::ACL_ERROR_INVALID_PARAM, std::string(entry) + ": " + std::string(sentence));
}

/// Records a call that changed state, with the user's line.
inline void record_call(abi::EntryId entry, uint64_t subject, uint64_t detail = 0) noexcept {
  if (trace::enabled()) trace::entry_called(static_cast<uint32_t>(entry), subject, detail, trace::current_line());
}

}  // namespace drydock::entries
