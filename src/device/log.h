#pragma once

#include <cstdarg>
#include <cstdint>
#include <string_view>

#include "base/export.h"

// Log lines, the client's (aclAppLog) and Drydock's own. Any thread, before aclInit and during the end of the process
// too (contract L7): no lock, no allocation, one write per line.

namespace drydock::device {

/// The vendor's numbers.
enum class LogLevel : int32_t { kDebug = 0, kInfo = 1, kWarning = 2, kError = 3, kNone = 4 };

/// Lines below it are dropped: ASCEND_GLOBAL_LOG_LEVEL, 3 (errors) where that is unset or no number from 0 to 4.
DRYDOCK_API LogLevel log_threshold() noexcept;
/// True if a line of this level would be written.
DRYDOCK_API bool is_logged(LogLevel level) noexcept;

/// Writes one line, cut at 2 KiB, to standard error; to standard output with ASCEND_SLOG_PRINT_TO_STDOUT=1; else, with
/// ASCEND_PROCESS_LOG_PATH, to `debug/plog/plog-PID.log` below that folder.
DRYDOCK_API void log(LogLevel level, std::string_view message) noexcept;
/// As `log`, printf-style. `function` and `file` may be null.
DRYDOCK_API void log_formatted(LogLevel level, const char* function, const char* file, uint32_t line,
                               const char* format, va_list arguments) noexcept;

/// Reads the environment again. For tests.
DRYDOCK_API void reload_log_settings() noexcept;

}  // namespace drydock::device
