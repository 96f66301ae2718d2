#include "device/log.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <unistd.h>

#include <sys/stat.h>

namespace drydock::device {
namespace {

constexpr size_t kMaxLineBytes = 2048;
constexpr int32_t kNotRead = -1;

std::atomic<int32_t> threshold{kNotRead};
std::atomic<int> log_file{kNotRead};

int32_t read_threshold() noexcept {
  const char* text = std::getenv("ASCEND_GLOBAL_LOG_LEVEL");
  const bool is_level = text != nullptr && text[0] >= '0' && text[0] <= '4' && text[1] == '\0';
  return is_level ? text[0] - '0' : static_cast<int32_t>(LogLevel::kError);
}

/// The file of this process below `folder`, or standard error where it can't be opened.
int open_below(const char* folder) noexcept {
  std::array<char, 1024> path{};
  for (const char* part : {"", "/debug", "/debug/plog"}) {
    const int length = std::snprintf(path.data(), path.size(), "%s%s", folder, part);
    if (length < 0 || static_cast<size_t>(length) >= path.size()) return STDERR_FILENO;
    if (mkdir(path.data(), 0750) != 0 && errno != EEXIST) return STDERR_FILENO;
  }
  const int length =
      std::snprintf(path.data(), path.size(), "%s/debug/plog/plog-%d.log", folder, static_cast<int>(getpid()));
  if (length < 0 || static_cast<size_t>(length) >= path.size()) return STDERR_FILENO;
  const int file = open(path.data(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0640);
  return file < 0 ? STDERR_FILENO : file;
}

int open_log() noexcept {
  const char* to_stdout = std::getenv("ASCEND_SLOG_PRINT_TO_STDOUT");
  if (to_stdout != nullptr && std::strcmp(to_stdout, "1") == 0) return STDOUT_FILENO;
  const char* folder = std::getenv("ASCEND_PROCESS_LOG_PATH");
  return folder == nullptr || *folder == '\0' ? STDERR_FILENO : open_below(folder);
}

int log_descriptor() noexcept {
  int file = log_file.load(std::memory_order_acquire);
  if (file != kNotRead) return file;
  file = open_log();
  int expected = kNotRead;
  // Of two threads that open it at once one keeps its file; the other's stays open, once per process at most.
  if (!log_file.compare_exchange_strong(expected, file)) return expected;
  return file;
}

const char* name_of(LogLevel level) noexcept {
  switch (level) {
    case LogLevel::kDebug: return "DEBUG";
    case LogLevel::kInfo: return "INFO";
    case LogLevel::kWarning: return "WARNING";
    case LogLevel::kError: return "ERROR";
    case LogLevel::kNone: break;
  }
  return "LOG";
}

/// "[ERROR] 2026-08-22-10:11:12.345 1234 "; returns its length.
size_t put_head(LogLevel level, char* line, size_t size) noexcept {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  tm local{};
  localtime_r(&now.tv_sec, &local);
  const int length = std::snprintf(line, size, "[%s] %04d-%02d-%02d-%02d:%02d:%02d.%03ld %d ", name_of(level),
                                   local.tm_year + 1900, local.tm_mon + 1, local.tm_mday, local.tm_hour, local.tm_min,
                                   local.tm_sec, now.tv_nsec / 1000000, static_cast<int>(getpid()));
  return length < 0 ? 0 : std::min(static_cast<size_t>(length), size - 1);
}

void write_line(char* line, size_t length) noexcept {
  length = std::min(length, kMaxLineBytes - 1);
  if (length == 0 || line[length - 1] != '\n') line[length++] = '\n';
  size_t written = 0;
  while (written < length) {
    const ssize_t count = write(log_descriptor(), line + written, length - written);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return;  // nowhere to say that the log is full
    written += static_cast<size_t>(count);
  }
}

}  // namespace

LogLevel log_threshold() noexcept {
  int32_t level = threshold.load(std::memory_order_relaxed);
  if (level == kNotRead) {
    level = read_threshold();
    threshold.store(level, std::memory_order_relaxed);
  }
  return static_cast<LogLevel>(level);
}

bool is_logged(LogLevel level) noexcept {
  return level >= LogLevel::kDebug && level < LogLevel::kNone && level >= log_threshold();
}

void log(LogLevel level, std::string_view message) noexcept {
  if (!is_logged(level)) return;
  std::array<char, kMaxLineBytes> line{};
  size_t length = put_head(level, line.data(), line.size());
  const size_t copied = std::min(message.size(), line.size() - 1 - length);
  std::memcpy(line.data() + length, message.data(), copied);
  write_line(line.data(), length + copied);
}

void log_formatted(LogLevel level, const char* function, const char* file, uint32_t line_number, const char* format,
                   va_list arguments) noexcept {
  if (!is_logged(level) || format == nullptr) return;
  std::array<char, kMaxLineBytes> line{};
  size_t length = put_head(level, line.data(), line.size());
  const auto add = [&](int count) {
    if (count > 0) length = std::min(length + static_cast<size_t>(count), line.size() - 1);
  };
  add(std::snprintf(line.data() + length, line.size() - length, "[%s:%u] %s: ", file == nullptr ? "?" : file,
                    line_number, function == nullptr ? "?" : function));
  add(std::vsnprintf(line.data() + length, line.size() - length, format, arguments));
  write_line(line.data(), length);
}

void reload_log_settings() noexcept {
  threshold.store(kNotRead);
  const int file = log_file.exchange(kNotRead);
  if (file > STDERR_FILENO) close(file);
}

}  // namespace drydock::device
