#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

#include "ledger/run_info.h"
#include "ledger/verdict.h"

namespace drydock::cli {

/// What a program came to when it was run again.
struct RerunEnd {
  std::map<std::string, std::string> environment;  ///< what was changed
  std::filesystem::path folder;                    ///< its run folder; its output is in the file of this name and .log
  ledger::Verdict verdict;
  bool holds = false;  ///< it ran to its end with exit code 0
  bool out_of_memory = false;
  int32_t exit_code = 0;
  uint64_t steps = 0;
  uint64_t peak_allocated_bytes = 0;
  uint64_t peak_reserved_bytes = 0;
  uint64_t operator_calls = 0;
  uint64_t distinct_calls = 0;
  double seconds = 0;
};

/// Runs the command of a run again, in its folder, with its profile, devices, values and variables, but for those in
/// `environment`. The new run's folder is the first `parent`/NAME-1, NAME-2... that is not there yet.
RerunEnd run_again(const ledger::RunInfo& info, const std::filesystem::path& parent, const std::string& name,
                   const std::map<std::string, std::string>& environment);

}  // namespace drydock::cli
