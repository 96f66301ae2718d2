#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "ledger/memory_account.h"
#include "trace/reader.h"

namespace drydock::watch {

/// Bytes of one device. Of several processes they add up.
struct DeviceFigures {
  uint64_t allocated = 0;
  uint64_t reserved = 0;
  uint64_t workspace = 0;
  uint64_t overheads = 0;  ///< idle use and contexts
};

/// A figure over time in a bounded number of steps, each with the highest value in it. Not thread-safe.
class Curve {
 public:
  /// Times never go back.
  void add(uint64_t time_ns, const DeviceFigures& figures);
  /// The highest figures from `begin_ns` up to and without `end_ns`; those that held at `begin_ns` count.
  DeviceFigures highest(uint64_t begin_ns, uint64_t end_ns) const;

 private:
  static constexpr size_t kMostSteps = 4096;
  std::vector<DeviceFigures> steps_;
  uint64_t step_ns_ = 1'000'000;
  DeviceFigures last_;
};

/// What a run's traces say up to now: read as far as they are written, and further at each `poll`.
class RunFollower {
 public:
  struct Process {
    std::unique_ptr<trace::Reader> reader;
    std::map<int32_t, ledger::MemoryAccount> accounts;
    std::map<int32_t, Curve> curves;
    uint64_t offset_ns = 0;  ///< its start, since the run's first
    uint64_t last_ns = 0;    ///< of its last record, since the run's first
    uint32_t steps = 0;
    bool is_alive = true;
    int32_t pid() const { return reader->info().pid; }
  };

  explicit RunFollower(std::filesystem::path run) : run_(std::move(run)) {}

  /// Takes what was written since. 100003 with a sentence if there is no such run, or a single file is no trace.
  Status poll();

  const std::vector<Process>& processes() const { return processes_; }
  std::vector<int32_t> devices() const;
  /// Of processes that are alive, or of all, as they were in the end.
  DeviceFigures now(int32_t device, bool only_alive) const;
  DeviceFigures highest(int32_t device, uint64_t begin_ns, uint64_t end_ns) const;
  uint64_t last_ns() const;
  uint32_t steps() const;
  /// All processes that were seen have ended, and `drydock run` is not waiting for more.
  bool has_ended() const;
  /// Profile that the first process saw; empty if there is none.
  std::string profile() const { return processes_.empty() ? std::string() : processes_.front().reader->info().profile; }
  /// Sentences about what could not be read.
  const std::vector<std::string>& problems() const { return problems_; }

 private:
  void open_new();
  static void read(Process& process);

  std::filesystem::path run_;
  std::vector<Process> processes_;
  std::map<std::string, uint64_t> unreadable_;  // size of files when they could not be read
  std::vector<std::string> problems_;
};

}  // namespace drydock::watch
