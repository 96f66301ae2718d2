#include "cli/rerun.h"

#include <algorithm>
#include <fstream>
#include <string_view>
#include <tuple>
#include <vector>

#include <fmt/format.h>

#include "cli/child_process.h"
#include "cli/entry_names.h"
#include "cli/interruption.h"
#include "ledger/build.h"
#include "ledger/report.h"

namespace drydock::cli {

namespace fs = std::filesystem;

namespace {

// What stands before the verdict that `drydock run` adds. Progress bars write over their line: its last state counts.
std::string last_line_of(const fs::path& log) {
  constexpr size_t kMostLetters = 300;
  constexpr std::string_view kOurs = "drydock: ";
  std::ifstream file(log);
  std::string last;
  std::string before_verdict;
  std::string verdict;
  bool is_verdict = false;
  for (std::string line; std::getline(file, line);) {
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.pop_back();
    line = line.substr(line.rfind('\r') + 1);
    if (line.empty()) continue;
    if (line.starts_with(kOurs)) {
      if (!is_verdict) before_verdict = last;
      if (!is_verdict) verdict = line;
      is_verdict = true;
    } else if (!line.starts_with("  ")) {
      is_verdict = false;  // somebody else wrote behind it
    }
    last = line;
  }
  if (is_verdict) last = before_verdict.empty() ? verdict : before_verdict;
  std::erase_if(last, [](char letter) { return static_cast<unsigned char>(letter) < ' '; });
  return last.size() > kMostLetters ? last.substr(0, kMostLetters) + "..." : last;
}

}  // namespace

RerunEnd run_again(const ledger::RunInfo& info, const fs::path& parent, const std::string& name,
                   const std::map<std::string, std::string>& environment) {
  RerunEnd result;
  result.environment = environment;
  std::error_code error;
  for (int number = 1; fs::exists(result.folder = parent / fmt::format("{}-{}", name, number), error);) ++number;
  std::vector<std::string> command = {"/bin/sh",
                                      "-c",
                                      "cd \"$1\" && log=\"$2\" && shift 2 && exec \"$@\" >\"$log\" 2>&1 </dev/null",
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
  const auto queue = variables.find("TASK_QUEUE_ENABLE");
  result.has_workspace_allocator = queue != variables.end() && queue->second == "2";
  const ChildEnd end = run_child(command, variables);
  result.exit_code = end.exit_code;
  result.seconds = end.wall_s;
  result.is_interrupted = interruption();
  result.last_line = last_line_of(command[5]);
  ledger::Report report;
  if (!ledger::open_run(result.folder, false, entry_of, report).is_ok()) return result;
  result.verdict = report.verdict;
  result.out_of_memory = report.verdict.kind == ledger::VerdictKind::kOutOfMemory;
  result.holds = end.exit_code == 0 && report.verdict.kind == ledger::VerdictKind::kRan;
  result.steps = report.steps;
  result.peak_allocated_bytes = report.peak_allocated_bytes;
  result.peak_reserved_bytes = report.peak_reserved_bytes;
  result.peak_workspace_bytes = report.peak_workspace_bytes;
  result.blocks = report.blocks;
  result.operator_calls = report.operator_calls;
  result.distinct_calls = report.distinct_calls;
  result.peak_holders = std::move(report.peak_holders);
  return result;
}

std::string reason_of(const RerunEnd& end) {
  std::string reason = fmt::format("exit code {}", end.exit_code);
  const ledger::Verdict& verdict = end.verdict;
  std::string words = end.last_line;
  if (!verdict.exception_type.empty() && words.find(verdict.exception_type) == std::string::npos)
    words = verdict.exception_type + ": " + verdict.exception_text;
  const bool was_ended = end.exit_code > 128;  // by a signal: its last line knows nothing of that
  if ((words.empty() || was_ended) && !verdict.evidence.empty()) words = verdict.evidence.front();
  return words.empty() ? reason + " without a word" : reason + ": " + words;
}

bool is_same_program(const RerunEnd& a, const RerunEnd& b) {
  const auto measures = [](const RerunEnd& end) {
    return std::tuple(end.holds, end.steps, end.blocks, end.operator_calls, end.distinct_calls,
                      end.peak_allocated_bytes, end.peak_reserved_bytes, end.verdict.requested_bytes);
  };
  return measures(a) == measures(b);
}

}  // namespace drydock::cli
