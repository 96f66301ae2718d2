#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "ledger/process_account.h"
#include "ledger/run_info.h"
#include "ledger/verdict.h"

namespace drydock::ledger {

struct LedgerSources {
  const RunInfo& run;
  const std::vector<ProcessAccount>& processes;
  const std::vector<std::string>& problems;  ///< of the run as a whole
  const Verdict& verdict;
  EntryLookup entry_of;
};

/// Writes all tables into a new file at `path`. Throws DatabaseError.
void write_ledger(const std::filesystem::path& path, const LedgerSources& sources);

}  // namespace drydock::ledger
