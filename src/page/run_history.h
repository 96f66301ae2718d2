#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/status.h"
#include "ledger/process_account.h"
#include "page/device_history.h"

namespace drydock::page {

struct StepMark {
  uint32_t step = 0;     ///< counted from 1
  uint64_t time_ns = 0;  ///< when it ended
};

/// What one process did with device memory, over time.
struct ProcessHistory {
  std::string trace_file;
  int32_t process_id = 0;
  int64_t start_wall_ns = 0;
  uint64_t duration_ns = 0;
  std::vector<StepMark> steps;
  std::vector<ledger::SourceLine> lines;          ///< by LineId
  std::map<uint32_t, std::string> modules;        ///< path by number
  std::map<trace::StringId, std::string> owners;  ///< path of a parameter's or buffer's module, by its name
  std::map<int32_t, DeviceHistory> devices;
};

struct RunHistory {
  std::vector<ProcessHistory> processes;  ///< in the ledger's order: by start
  std::vector<std::string> missing;       ///< sentences: what could not be read
};

/// Reads one trace, in two passes: what a block was for shows later.
Status read_process_history(const std::filesystem::path& trace, ProcessHistory& process, std::string& missing);
/// Reads all traces of a run. What can't be read becomes a sentence.
RunHistory read_run_history(const std::filesystem::path& run_folder);

}  // namespace drydock::page
