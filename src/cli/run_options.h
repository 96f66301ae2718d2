#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/status.h"
#include "ledger/run_info.h"

namespace drydock::cli {

/// What `drydock run` and `drydock env` are told on the command line (spec/options.csv). Empty = not given: then the
/// caller's environment decides, then the default.
struct RunOptions {
  std::string profile;
  std::string devices;
  std::string values;
  std::string value_budget;
  std::string threads;
  std::string workspace;
  std::string cann;
  std::string driver;
  std::string record;
  std::string holders;
  std::string check;
  int32_t check_exit_code =
      0;  ///< of `drydock run` alone: where the check found something and the program ended with 0
  std::string out;
  bool guard = false;
  std::vector<std::string> command;
};

/// The folder that holds bin, cann and profiles: two above the running binary. 100003 if the libraries are not there.
Status find_install_root(std::filesystem::path& root);

/// The variables that make a program find the virtual device, and what is known of the run so far.
struct RunSettings {
  std::map<std::string, std::string> environment;  ///< to be set for the program
  ledger::RunInfo info;                            ///< without command, times and exit code
};

/// Checks the options and works out the variables, from the options, the caller's environment and the defaults.
/// 100000 with a sentence for an option that makes no sense.
Status resolve_run(const RunOptions& options, const std::filesystem::path& root,
                   const std::filesystem::path& run_folder, RunSettings& settings);

/// Makes the run folder: `out`, which must be new or empty, or a new one below ./drydock-runs (below the folder for
/// temporary files, if the current one can't be written). `folder` becomes absolute. 100004 with a sentence.
Status make_run_folder(const std::string& out, std::filesystem::path& folder);

/// Now, as "2026-01-31T12:00:00Z".
std::string utc_now();

}  // namespace drydock::cli
