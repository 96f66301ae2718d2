#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ledger/without_workspaces.h"

namespace drydock::ledger {

class Database;
class ProcessAccount;
struct MemoryEvidence;
struct Verdict;

/// An operator's workspace as people read it.
struct WorkspaceRow {
  std::string operator_name;
  std::string signature;  ///< with dtypes and shapes
  std::string line;
  std::string basis;  ///< "high", "medium", "low", "assumed", "upper bound", "unknown"
  int32_t device = 0;
  uint32_t stream = 0;
  uint64_t bytes = 0;
  uint64_t uses = 0;
};

/// What a run's verdict owes to the workspaces of its operators.
struct WorkspaceSummary {
  std::string mode = "rules";         ///< --workspace of the run
  std::vector<WorkspaceRow> largest;  ///< at most 10, one for each stream at least, largest first
  WithoutWorkspaces without;          ///< of the device with the highest peak
};

/// Reads the tables `workspaces` and `without_workspaces`.
void load_workspaces(Database& database, WorkspaceSummary& summary);

/// "20.0 MiB for aclnnMatmul at train.py:12 (rule of medium confidence), 512 B ...": the largest of each stream, and
/// what the peak would be without. Empty if no operator asked for any.
std::vector<std::string> sentences_of(const WorkspaceSummary& summary);

/// If the trace's `refusal`-th record refused an operator's workspace: its size, and a sentence that names operator and
/// line.
void take_refused(const ProcessAccount& process, uint64_t refusal, std::string_view directory, MemoryEvidence& evidence,
                  Verdict& verdict);
/// What the replay says of a run that died; empty if it says nothing.
std::string dependence_sentence(const WithoutWorkspaces& without);

}  // namespace drydock::ledger
