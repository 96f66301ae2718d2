#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include <gtest/gtest.h>

#include "ledger/build.h"
#include "ledger/run_info.h"
#include "trace/recorder.h"
#include "trace_child_process.h"

// Runs made by hand: a run.json, and a trace that a child process writes through the recorder.

namespace drydock::ledger {

inline constexpr uint64_t kMiB = uint64_t{1} << 20;
inline constexpr uint64_t kGiB = uint64_t{1} << 30;
/// Addresses below any of the process: the trace takes them as plain numbers.
inline constexpr uint64_t kBase = uint64_t{1} << 36;

inline EntryMeaning test_entry(uint32_t entry) {
  if (entry == 7) return {"aclnnRefused", true, false};
  if (entry == 8) return {"aclopCompileAndExecute", false, true};
  return {"entry" + std::to_string(entry), false, false};
}

class SyntheticRun {
 public:
  SyntheticRun() {
    info_.command = {"python", "train.py"};
    info_.working_directory = "/home/user";
    info_.profile = "ascend910c";
    info_.exit_code = 1;
    info_.wall_s = 2.5;
  }

  RunInfo& info() { return info_; }
  std::string path() const { return folder_.path(); }
  std::string trace() const { return folder_.trace(); }

  /// Records what `body` records, as one process of the run.
  void record(const std::function<void()>& body) { ASSERT_EQ(trace::run_child(folder_.path(), body), 0); }
  void write_info() { ASSERT_TRUE(write_run_info(folder_.path(), info_).is_ok()); }
  /// The report of the run, with the ledger made anew.
  Report report() {
    write_info();
    Report report;
    const Status status = open_run(folder_.path(), true, test_entry, report);
    EXPECT_TRUE(status.is_ok()) << status.message();
    return report;
  }

 private:
  trace::RunFolder folder_;
  RunInfo info_;
};

inline trace::LineId line(uint32_t number) { return trace::intern_line("/home/user/train.py", number, "step"); }

inline void segment(uint64_t address, uint64_t size_bytes, trace::LineId at) {
  trace::driver_allocated(trace::DriverMemory::kMalloc, 0, address, 0, size_bytes, at);
}

inline void block(uint64_t address, uint64_t size_bytes, trace::LineId at) {
  trace::block_allocated(0, address, size_bytes, false, at);
}

inline void no_room(uint64_t requested_bytes, uint64_t free_bytes, uint64_t capacity_bytes, trace::LineId at) {
  trace::driver_out_of_memory(trace::DriverMemory::kMalloc, 0, requested_bytes, free_bytes, capacity_bytes, at);
}

inline void raise_out_of_memory(const std::string& asked) {
  trace::python_exception("torch.OutOfMemoryError", "NPU out of memory. Tried to allocate " + asked + " (NPU 0; ...)",
                          "/home/user/train.py", 99);
}

}  // namespace drydock::ledger
