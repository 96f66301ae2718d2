#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

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
  bool is_interrupted = false;  ///< somebody wanted an end: how the program ended says nothing
  int32_t exit_code = 0;
  std::string last_line;  ///< of the program's own output
  uint64_t steps = 0;
  uint64_t peak_allocated_bytes = 0;
  uint64_t peak_reserved_bytes = 0;
  uint64_t peak_workspace_bytes = 0;
  bool has_workspace_allocator = false;  ///< workspaces are not among the reserved bytes
  uint64_t blocks = 0;
  uint64_t operator_calls = 0;
  uint64_t distinct_calls = 0;
  std::vector<ledger::HolderLine> peak_holders;  ///< of the device with the highest peak, largest first
  double seconds = 0;
};

/// Runs the command of a run again, in its folder, with its profile, devices, values and variables, but for those in
/// `environment`. The new run's folder is the first `parent`/NAME-1, NAME-2... that is not there yet.
RerunEnd run_again(const ledger::RunInfo& info, const std::filesystem::path& parent, const std::string& name,
                   const std::map<std::string, std::string>& environment);

/// Why a program ended that had memory enough: its exit code, and its last words or the ledger's, as one line.
std::string reason_of(const RerunEnd& end);

/// True if two ends look the same: as many calls, blocks and bytes. Then what was changed between them changed nothing.
bool is_same_program(const RerunEnd& a, const RerunEnd& b);

}  // namespace drydock::cli
