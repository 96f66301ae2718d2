#include "cli/rerun.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "cli/child_process.h"
#include "cli/entry_names.h"
#include "ledger/build.h"
#include "ledger/report.h"

namespace drydock::cli {

namespace fs = std::filesystem;

RerunEnd run_again(const ledger::RunInfo& info, const fs::path& parent, const std::string& name,
                   const std::map<std::string, std::string>& environment) {
  RerunEnd result;
  result.environment = environment;
  std::error_code error;
  for (int number = 1; fs::exists(result.folder = parent / fmt::format("{}-{}", name, number), error);) ++number;
  std::vector<std::string> command = {"/bin/sh",
                                      "-c",
                                      "cd \"$1\" && log=\"$2\" && shift 2 && exec \"$@\" >\"$log\" 2>&1",
                                      "sh",
                                      info.working_directory.empty() ? "." : info.working_directory,
                                      result.folder.string() + ".log",
                                      fs::read_symlink("/proc/self/exe", error).string(),
                                      "run",
                                      "--out",
                                      result.folder.string(),
                                      "--values",
                                      info.values,
                                      "--profile",
                                      info.profile,
                                      "--devices",
                                      std::to_string(info.devices),
                                      "--"};
  command.insert(command.end(), info.command.begin(), info.command.end());
  // The rest as it was: what the caller had set then, and not what the launcher chose or sets by itself.
  std::map<std::string, std::string> variables;
  for (const auto& [variable, value] : info.environment) {
    const bool is_launchers = variable == "DRYDOCK_RUN_DIR" || variable.starts_with("LD_") ||
                              variable == "ASCEND_HOME_PATH" || variable == "ASCEND_OPP_PATH" ||
                              std::find(info.chosen.begin(), info.chosen.end(), variable) != info.chosen.end();
    if (!is_launchers) variables[variable] = value;
  }
  for (const auto& [variable, value] : environment) variables[variable] = value;
  const ChildEnd end = run_child(command, variables);
  result.exit_code = end.exit_code;
  result.seconds = end.wall_s;
  ledger::Report report;
  if (!ledger::open_run(result.folder, false, entry_of, report).is_ok()) return result;
  result.verdict = report.verdict;
  result.out_of_memory = report.verdict.kind == ledger::VerdictKind::kOutOfMemory;
  result.holds = end.exit_code == 0 && report.verdict.kind == ledger::VerdictKind::kRan;
  result.steps = report.steps;
  result.peak_allocated_bytes = report.peak_allocated_bytes;
  result.peak_reserved_bytes = report.peak_reserved_bytes;
  result.operator_calls = report.operator_calls;
  result.distinct_calls = report.distinct_calls;
  return result;
}

}  // namespace drydock::cli
