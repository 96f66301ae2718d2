#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "ledger/process_account.h"
#include "ledger/run_info.h"
#include "ledger/verdict.h"

namespace drydock::ledger {

/// What a trace's entry numbers mean (trace::failed, trace::entry_called).
struct EntryMeaning {
  std::string name;  ///< "aclrtMalloc", "aclnnAdd"
  bool is_operator = false;
  bool is_refused = false;  ///< of class refused: always answers with an error
};
using EntryLookup = EntryMeaning (*)(uint32_t entry);

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
