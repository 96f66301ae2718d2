#include "cli/program_runs.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "ledger/run_info.h"
#include "replay/trace_history.h"

namespace drydock::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kStepsVariable = "DRYDOCK_STEPS";

// A program that is stopped in the middle leaves its temporary files behind.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::error_code error;
    std::string pattern = (fs::temp_directory_path(error) / "drydock-XXXXXX").string();
    if (!error && mkdtemp(pattern.data()) != nullptr) path_ = pattern;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;  // empty if none could be made: then the program uses the system's
};

}  // namespace

Status ProgramRuns::prepare(const RunOptions& options, int32_t steps) {
  RunOptions run_options = options;
  if (run_options.values.empty()) run_options.values = "ghost";
  fs::path root;
  RunSettings settings;
  DRYDOCK_RETURN_IF_ERROR(find_install_root(root));
  DRYDOCK_RETURN_IF_ERROR(resolve_run(run_options, root, fs::path(), settings));
  if (settings.info.record == "null")
    return Status::error(tune::kBadVariation, "--record null keeps no trace, so that nothing would be known of a run.");
  DRYDOCK_RETURN_IF_ERROR(make_run_folder(options.out, folder_));
  std::error_code ignored;
  fs::remove(folder_ / "traces", ignored);  // that would be a run's; this folder holds runs
  info_ = std::move(settings.info);
  info_.command = options.command;
  steps_ = steps;
  return Status::ok();
}

ledger::RunInfo ProgramRuns::info_of(const tune::Placed& placed) const {
  ledger::RunInfo info = info_;
  info.command = placed.command;
  return info;
}

std::map<std::string, std::string> ProgramRuns::environment_of(const tune::Placed& placed) const {
  std::map<std::string, std::string> environment = placed.environment;
  if (steps_ > 0) environment[kStepsVariable] = std::to_string(steps_);
  return environment;
}

std::string ProgramRuns::name_of(const tune::Variation& variation) {
  constexpr size_t kMostLetters = 80;
  std::string name;
  for (const auto& [what, value] : variation) name += fmt::format("{}{}-{}", name.empty() ? "" : "-", what, value);
  for (char& letter : name)
    if (std::isalnum(static_cast<unsigned char>(letter)) == 0 && letter != '.' && letter != '_') letter = '-';
  if (name.empty()) return "run";
  return name.substr(0, kMostLetters);
}

RerunEnd ProgramRuns::run(const tune::Placed& placed, const tune::Variation& variation) const {
  std::map<std::string, std::string> environment = environment_of(placed);
  const TemporaryFolder temporary;
  if (steps_ > 0 && !temporary.path().empty()) environment["TMPDIR"] = temporary.path();
  return run_again(info_of(placed), folder_, name_of(variation), environment);
}

ProgramEnd with_margin(RerunEnd run) {
  ProgramEnd end;
  end.run = std::move(run);
  std::vector<std::string> paths;
  if (!replay::traces_of(end.run.folder.string(), paths).is_ok()) return end;
  std::optional<uint64_t> room;
  for (const std::string& path : paths) {
    replay::History history;
    if (!replay::read_trace(path, history).is_ok()) continue;
    for (const replay::DeviceFacts& device : history.devices) {
      if (device.total_bytes == 0) continue;
      end.capacity_bytes = std::max(end.capacity_bytes, device.total_bytes);
      const uint64_t left = device.total_bytes - std::min(device.total_bytes, device.external_bytes);
      room = std::min(room.value_or(left), left);
    }
  }
  if (!room) return end;
  const uint64_t beside = end.run.has_workspace_allocator ? end.run.peak_workspace_bytes : 0;
  end.margin_bytes = static_cast<int64_t>(*room) - static_cast<int64_t>(end.run.peak_reserved_bytes + beside);
  return end;
}

std::string outcome_of(const RerunEnd& end) {
  if (end.holds) return "fits";
  if (end.out_of_memory)
    return fmt::format("out of memory ({}) in step {}", ledger::name_of(end.verdict.memory_class), end.verdict.step);
  return "failed: " + reason_of(end);
}

}  // namespace drydock::cli
