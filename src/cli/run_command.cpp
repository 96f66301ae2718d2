#include <cstdio>
#include <filesystem>
#include <unistd.h>

#include <fmt/format.h>

#include "cli/child_process.h"
#include "cli/commands.h"
#include "cli/entry_names.h"
#include "cli/run_options.h"
#include "ledger/build.h"
#include "ledger/report.h"

namespace drydock::cli {
namespace {

namespace fs = std::filesystem;

// A folder in which nothing ran is of no use to anyone.
void remove_run_folder(const fs::path& folder) {
  std::error_code ignored;
  fs::remove(folder / "run.json", ignored);
  fs::remove(folder / "traces", ignored);
  fs::remove(folder, ignored);
}

// True if a check found something.
bool print_verdict(const fs::path& run_folder, const ledger::RunInfo& info) {
  ledger::Report report;
  if (Status status = ledger::open_run(run_folder, true, entry_of, report); !status.is_ok()) {
    complain(fmt::format("the command ended with exit code {}. There is no verdict: {}", info.exit_code.value_or(0),
                         status.message()));
    return false;
  }
  std::fputs(ledger::report_text(report).c_str(), stderr);
  return !report.races.empty();
}

}  // namespace

void complain(const std::string& sentence) { fmt::print(stderr, "drydock: {}\n", sentence); }

int refuse(const std::string& sentence) {
  complain(sentence);
  return kExitUsage;
}

int run_command(const RunOptions& options) {
  if (options.command.empty()) {
    return refuse("run needs a command behind --, for example: drydock run -- python train.py");
  }
  fs::path root;
  RunSettings settings;
  // Everything is checked before anything is made.
  Status status = find_install_root(root);
  if (status.is_ok()) status = resolve_run(options, root, fs::path(), settings);
  fs::path run_folder;
  if (status.is_ok()) status = make_run_folder(options.out, run_folder);
  if (!status.is_ok()) {
    return refuse(status.message());
  }
  settings.environment["DRYDOCK_RUN_DIR"] = run_folder.string();
  ledger::RunInfo& info = settings.info;
  info.environment["DRYDOCK_RUN_DIR"] = run_folder.string();
  info.command = options.command;
  info.started = utc_now();
  info.launcher_pid = getpid();
  // Without it the run still runs; the ledger then says what it does not know.
  if (status = ledger::write_run_info(run_folder, info); !status.is_ok()) complain(status.message());

  const ChildEnd end = run_child(options.command, settings.environment);
  if (!end.failure.empty()) {
    remove_run_folder(run_folder);
    complain(end.failure);
    return end.exit_code;
  }
  info.exit_code = end.exit_code;
  info.wall_s = end.wall_s;
  if (status = ledger::write_run_info(run_folder, info); !status.is_ok()) complain(status.message());
  const bool found = print_verdict(run_folder, info);
  return found && end.exit_code == 0 ? options.check_exit_code : end.exit_code;
}

}  // namespace drydock::cli
