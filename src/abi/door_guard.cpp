#include "abi/door_guard.h"

#include <exception>
#include <new>
#include <string>
#include <string_view>

#include "base/generated/error_codes.h"
#include "trace/recorder.h"

namespace drydock::abi {
namespace {

const EntryRow& row_of(EntryId entry) noexcept { return entry_rows()[static_cast<size_t>(entry)]; }

int32_t report(EntryId entry, int32_t code, std::string_view message) noexcept {
  try {
    set_recent_error(std::string(message));
  } catch (...) {
    set_recent_error({});
  }
  trace::failed(static_cast<uint32_t>(entry), code, message, trace::current_line());
  return code;
}

}  // namespace

int32_t report_failure(EntryId entry, const Status& failure) noexcept {
  return report(entry, failure.code(), failure.message());
}

int32_t report_exception(EntryId entry) noexcept {
  const EntryRow& row = row_of(entry);
  try {
    try {
      throw;
    } catch (const std::bad_alloc&) {
      const int32_t code =
          row.internal_code == code::ACL_ERROR_INTERNAL_ERROR ? code::ACL_ERROR_BAD_ALLOC : row.internal_code;
      return report(
          entry, code,
          std::string(row.name) + ": the host has no memory left for Drydock's own tables. Free host memory.");
    } catch (const std::exception& error) {
      return report(entry, row.internal_code,
                    std::string(row.name) + ": a defect of Drydock (" + error.what() + "). Please report it.");
    } catch (...) {
      return report(entry, row.internal_code, std::string(row.name) + ": a defect of Drydock. Please report it.");
    }
  } catch (...) {  // no memory for the sentence either
    return report(entry, row.internal_code, row.name);
  }
}

int32_t refuse(EntryId entry, const char* operator_name) noexcept {
  const EntryRow& row = row_of(entry);
  try {
    std::string message(row.name);
    if (operator_name != nullptr) message.append("(").append(operator_name).append(")");
    message.append(": not supported by the virtual device: ").append(row.reason).append(".");
    return report(entry, row.refused_code, message);
  } catch (...) {
    return report(entry, row.refused_code, row.reason);
  }
}

void took_hint(EntryId entry) noexcept {
  trace::entry_called(static_cast<uint32_t>(entry), 0, 0, trace::current_line());
}

}  // namespace drydock::abi
