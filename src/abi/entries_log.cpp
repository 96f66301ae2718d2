#include <cstdarg>
#include <cstdint>

#include "abi/generated/entries.h"
#include "device/log.h"

namespace drydock::entries {

void aclAppLog(int32_t log_level, const char* func, const char* file, uint32_t line, const char* fmt,
               va_list arguments) {
  device::log_formatted(static_cast<device::LogLevel>(log_level), func, file, line, fmt, arguments);
}

}  // namespace drydock::entries
