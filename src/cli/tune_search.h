#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/status.h"
#include "cli/rerun.h"
#include "ledger/report.h"
#include "ledger/tune_results.h"
#include "replay/workload.h"
#include "tune/search.h"

// The search for allocator settings on one run, and its confirmation: what `drydock tune RUN` and `tune --program`
// share.

namespace drydock::cli {

inline constexpr const char* kAllocatorVariable = "PYTORCH_NPU_ALLOC_CONF";

struct Search {
  std::vector<replay::Workload> workloads;
  std::string settings;  ///< that the run had
  tune::Grid grid;
  std::vector<tune::Trial> trials;  ///< ranked
  tune::Bound bound;
  std::optional<RerunEnd> need;  ///< a run on a larger device, where the bound is from (see tune_need.h)
  double seconds = 0;
  std::vector<std::string> missing;

  const std::string& text_of(const tune::Trial& trial) const { return grid.candidates[trial.candidate].text; }
  bool is_whole() const { return trials.size() == grid.candidates.size(); }
  bool found() const { return !trials.empty() && trials.front().fits; }
};

/// Reads the traces of a run; the request that it died of must be met, too. 100003 with a sentence if no trace has
/// blocks. Appends to `workloads` and to `missing`.
Status load_workloads(const std::filesystem::path& run, const ledger::Verdict& verdict,
                      std::vector<replay::Workload>& workloads, std::vector<std::string>& missing);

/// Reads the traces of a run and tries the grid's settings on them. 100003 with a sentence if there is nothing to
/// search on. An interruption ends it early.
Status search_settings(const std::filesystem::path& run, const ledger::RunInfo& info, const ledger::Verdict& verdict,
                       Search& search);

/// Runs the program under the best setting, and keeps what that shows.
class Confirmation {
 public:
  /// `environment`: to be set beside the setting. New runs become `parent`/NAME-1, ...
  Confirmation(ledger::RunInfo info, std::filesystem::path parent, std::string name,
               std::map<std::string, std::string> environment)
      : info_(std::move(info)),
        parent_(std::move(parent)),
        name_(std::move(name)),
        environment_(std::move(environment)) {}

  /// `verdict`: of the run that was searched. If the program dies later than that run, the search is made again on the
  /// longer one, at most three times.
  void confirm_best(const ledger::Verdict& verdict, Search& search);

  const std::vector<RerunEnd>& runs() const { return runs_; }
  bool is_confirmed(const std::string& setting) const;
  bool has_confirmed() const { return !confirmed_.empty(); }
  static std::string setting_of(const RerunEnd& run) { return run.environment.at(kAllocatorVariable); }

 private:
  void announce(const std::string& setting) const;

  ledger::RunInfo info_;
  std::filesystem::path parent_;
  std::string name_;
  std::map<std::string, std::string> environment_;
  std::vector<RerunEnd> runs_;
  std::vector<std::string> confirmed_;
};

/// The best ones, the front, and the run's own setting, in the order of their rank; all if `most` is 0. A longer
/// setting that comes to the same as a shorter one says nothing new.
std::vector<const tune::Trial*> rows_to_show(const Search& search, size_t most);

/// All trials, for the ledger and for JSON.
std::vector<ledger::TuneResult> results_of(const Search& search, const Confirmation& confirmation);

/// A row of `results_of`, as all JSON of tune has it.
nlohmann::ordered_json json_of_result(const ledger::TuneResult& row);

/// "(default)" for no setting.
std::string shown(const std::string& setting);
std::string signed_size(int64_t bytes);

/// The columns of tune's tables, and a row of them; `notes` are put behind the setting.
std::string table_head();
std::string table_row(const tune::Trial& trial, const std::string& setting, const std::string& notes);
/// A row without figures.
std::string table_row_without(const std::string& reason);
/// For a shell: sets the variable, or takes it away.
std::string export_line(const std::string& setting);

/// Why nothing of the grid fits, and what would have to shrink by how much. `holders`: of the run that was searched.
std::string impossible_text(const Search& search, const std::vector<ledger::HolderLine>& holders);

}  // namespace drydock::cli
