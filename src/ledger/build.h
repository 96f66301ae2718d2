#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/status.h"
#include "ledger/process_account.h"
#include "ledger/report.h"
#include "ledger/write_ledger.h"

namespace drydock::ledger {

/// Name of a run folder's ledger.
inline constexpr const char* kLedgerFile = "ledger.sqlite";

/// The traces of a run, by name. `failure` stays empty if the folder could be read to its end.
std::vector<std::filesystem::path> traces_of(const std::filesystem::path& run_folder, std::string& failure);

/// The account of one trace. What is missing at its end becomes a sentence in `problems`. 100003 or 100006 if the file
/// is no trace that can be read.
Status read_trace(const std::filesystem::path& trace, ProcessAccount& account);

struct BuiltLedger {
  std::filesystem::path path;
  /// If the run folder can't be written: why. The ledger is then alone in a new folder for temporary files, for the
  /// caller to remove.
  std::string not_kept;
};

/// Makes RUN/ledger.sqlite from RUN/run.json and all RUN/traces/*.ddtrace, in place of the one that is there. Damaged
/// or foreign traces become sentences in the ledger. 100003 if there is neither a run.json nor a trace, 100004 if no
/// ledger could be written.
Status build_ledger(const std::filesystem::path& run_folder, EntryLookup entry_of, BuiltLedger& ledger);

/// Reads the ledger of `run`: a run folder (made where it is missing, or of a run that had not ended, or with
/// `rebuild`) or a ledger file. Leaves no file outside of the run folder. Entry numbers are named by `entry_of`. 100003
/// with a sentence.
Status open_run(const std::filesystem::path& run, bool rebuild, EntryLookup entry_of, Report& report);

}  // namespace drydock::ledger
