#pragma once

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <unistd.h>
#include <vector>

#include <gtest/gtest.h>
#include <sys/wait.h>

#include "device/address_space.h"
#include "device/heap.h"
#include "trace/recorder.h"
#include "trace/text.h"

// Recording is for good once a process has begun it, so each test records in a child of its own.

namespace drydock::trace {

/// A folder for a test's run, removed with it.
class RunFolder {
 public:
  RunFolder() {
    std::string pattern = std::filesystem::temp_directory_path() / "drydock-trace-XXXXXX";
    path_ = mkdtemp(pattern.data());
  }
  ~RunFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  const std::string& path() const { return path_; }
  std::vector<std::string> traces() const {
    std::vector<std::string> found;
    std::error_code ignored;
    for (const auto& entry : std::filesystem::directory_iterator(path_ + "/traces", ignored))
      found.push_back(entry.path());
    return found;
  }
  /// The only trace; empty (and a failure) if there is another number of them.
  std::string trace() const {
    const std::vector<std::string> found = traces();
    EXPECT_EQ(found.size(), 1U);
    return found.size() == 1 ? found.front() : std::string();
  }

 private:
  std::string path_;
};

/// Starts `body` in a child that records into `folder`.
inline pid_t start_child(const std::string& folder, const std::function<void()>& body) {
  const pid_t pid = fork();
  if (pid != 0) return pid;
  setenv("DRYDOCK_RUN_DIR", folder.c_str(), 1);
  body();
  _exit(::testing::Test::HasFailure() ? 1 : 0);
}

/// Exit code of a child, or 128 + the signal that ended it.
inline int wait_for(pid_t pid) {
  int status = 0;
  if (waitpid(pid, &status, 0) != pid) return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

inline int run_child(const std::string& folder, const std::function<void()>& body) {
  return wait_for(start_child(folder, body));
}

/// First device address of device 0; takes its address range where nobody has yet.
inline uint64_t open_arena() {
  if (device::arena_base(0) == 0) {
    static auto& space = *new device::AddressSpace(0, false);
    const Status status = space.open();
    EXPECT_TRUE(status.is_ok()) << status.message();
  }
  return device::arena_base(0);
}

inline std::string text_of_trace(const std::string& path, const TextOptions& options = {.times = false}) {
  std::string text;
  const Status status = print_trace(path, options, text);
  EXPECT_TRUE(status.is_ok()) << status.message();
  return text;
}

/// All records of a trace, and what the reader says at its end.
struct ReadTrace {
  std::vector<Record> records;
  std::unique_ptr<Reader> reader;
};

inline ReadTrace read_all(const std::string& path) {
  ReadTrace read;
  const Status status = Reader::open(path, read.reader);
  EXPECT_TRUE(status.is_ok()) << status.message();
  Record record;
  while (read.reader != nullptr && read.reader->next(record)) read.records.push_back(record);
  return read;
}

}  // namespace drydock::trace
