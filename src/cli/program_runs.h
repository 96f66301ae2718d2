#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "base/status.h"
#include "cli/rerun.h"
#include "cli/run_options.h"
#include "tune/variation.h"

// A program that is run again and again with different values, for its memory: `drydock plan` and `tune --program`.

namespace drydock::cli {

/// A run, with what the device had left when the most was reserved.
struct ProgramEnd {
  RerunEnd run;
  uint64_t capacity_bytes = 0;          ///< of the device, as the program sees it; 0 if it used none
  std::optional<int64_t> margin_bytes;  ///< the least of any device; none where nothing is known of one
};
/// Reads the run's traces once more.
ProgramEnd with_margin(RerunEnd run);

class ProgramRuns {
 public:
  /// Checks the options and makes the folder that will hold the runs. Values are ghosts unless they say otherwise.
  /// `steps`: optimizer steps after which a run is ended; 0 for none.
  Status prepare(const RunOptions& options, int32_t steps);

  RerunEnd run(const tune::Placed& placed, const tune::Variation& variation) const;

  const std::filesystem::path& folder() const { return folder_; }
  /// The run that `run` does, for those who do it again.
  ledger::RunInfo info_of(const tune::Placed& placed) const;
  std::map<std::string, std::string> environment_of(const tune::Placed& placed) const;
  /// A name for the folder of a variation's run.
  static std::string name_of(const tune::Variation& variation);

 private:
  ledger::RunInfo info_;
  std::filesystem::path folder_;
  int32_t steps_ = 0;
};

/// "fits", "out of memory (capacity) in step 3", "failed: exit code 1: ValueError: ...".
std::string outcome_of(const RerunEnd& end);

}  // namespace drydock::cli
