#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"

namespace drydock::ledger {

/// How a run was started and how it ended: RUN/run.json.
struct RunInfo {
  std::vector<std::string> command;
  std::string working_directory;
  std::string started;               ///< ISO 8601, UTC
  std::optional<int32_t> exit_code;  ///< as a shell reports it: 128 + signal; none while running, or if nobody waited
  int64_t launcher_pid = 0;          ///< of `drydock run`, which writes the exit code; 0 if nobody waits for the run
  double wall_s = 0;
  std::string profile;  ///< "ascend910c", or a path
  std::string values = "auto";
  int32_t devices = 1;
  std::string record = "full";
  std::string drydock_version;
  /// What the launcher set, and those of the caller's variables that the verdict depends on.
  std::map<std::string, std::string> environment;
  /// Names in `environment` that the launcher chose although nobody asked ("TASK_QUEUE_ENABLE").
  std::vector<std::string> chosen;

  /// The variable's value, or empty.
  std::string variable(const std::string& name) const;
  /// What torch_npu's caching allocator was set to: PYTORCH_NPU_ALLOC_CONF, else PYTORCH_ALLOC_CONF.
  std::string allocator_settings() const;
};

/// Writes `run_folder`/run.json: a new file, renamed into place. 100004 if it can't be written.
Status write_run_info(const std::filesystem::path& run_folder, const RunInfo& info);
/// Reads it. 100003 with a sentence if it is missing or makes no sense.
Status read_run_info(const std::filesystem::path& run_folder, RunInfo& info);

/// Codes of this half of the program: the vendor's numbers for a file that is invalid and one that can't be written.
inline constexpr int32_t kUnreadable = 100003;
inline constexpr int32_t kUnwritable = 100004;

}  // namespace drydock::ledger
