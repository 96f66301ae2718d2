#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "ledger/process_account.h"
#include "ledger/run_info.h"
#include "ledger/verdict.h"
#include "ledger/without_workspaces.h"

namespace drydock::ledger {

struct LedgerSources {
  const RunInfo& run;
  const std::vector<ProcessAccount>& processes;
  const std::vector<std::string>& problems;  ///< of the run as a whole
  const Verdict& verdict;
  EntryLookup entry_of;
  const WithoutWorkspaces* without_workspaces = nullptr;  ///< null where no operator asked for any
  int without_process = -1;                               ///< whom that is about
  int32_t without_device = -1;
};

/// Writes all tables into a new file at `path`. Throws DatabaseError.
void write_ledger(const std::filesystem::path& path, const LedgerSources& sources);

}  // namespace drydock::ledger
