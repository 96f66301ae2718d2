#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "ledger/races.h"
#include "ledger/verdict.h"
#include "ledger/workspace_summary.h"

// What a reader of a ledger is told: read from the tables, printed as text or JSON.

namespace drydock::ledger {

/// An operator that the host's CPU computes, or the device's own.
struct FallbackRow {
  std::string name;
  uint64_t calls = 0;
  std::string line;
};

struct RefusalRow {
  std::string name;
  std::string reason;
  std::string line;
  uint64_t calls = 0;
};

struct AssumptionRow {
  std::string line;
  std::string kind;
  uint64_t count = 0;
  uint64_t bytes = 0;
};

struct ErrorRow {
  std::string entry;
  int32_t code = 0;
  std::string message;
  std::string line;
  uint64_t count = 0;
};

/// One part of a device's memory at a moment: a kind of blocks, or what is in no block.
struct AccountPart {
  std::string name;
  bool is_blocks = false;
  uint64_t bytes = 0;
  uint64_t requested_bytes = 0;
  uint64_t blocks = 0;
};

/// Blocks of one kind, of one module, from one line.
struct AccountHolder {
  std::string kind;
  std::string line;
  std::string module;
  std::string phase;
  uint64_t bytes = 0;
  uint64_t blocks = 0;
};

struct AccountMoment {
  std::string name;  ///< "peak", "out of memory" or "end"
  uint64_t capacity_bytes = 0;
  std::vector<AccountPart> parts;  ///< their bytes add up to capacity_bytes where that is known
  std::vector<AccountHolder> holders;
};

struct Report {
  std::filesystem::path ledger;  ///< empty if none could be kept: a sentence in `problems` says why
  RunInfo run;
  uint64_t processes = 0;
  uint64_t steps = 0;  ///< of the process with the most

  Verdict verdict;
  uint64_t survived_out_of_memories = 0;  ///< driver refusals that the client coped with, by emptying its caches

  // The highest over processes and devices; blocks and segments are sums.
  uint64_t peak_allocated_bytes = 0;
  uint64_t peak_reserved_bytes = 0;
  uint64_t peak_workspace_bytes = 0;
  uint64_t peak_host_bytes = 0;
  uint64_t blocks = 0;
  uint64_t segments = 0;
  std::vector<HolderLine> peak_holders;  ///< of the device with the highest peak, largest first

  std::vector<AccountMoment> account;  ///< of that device
  WorkspaceSummary workspaces;
  std::vector<Race> races;  ///< of the stream check
  /// The stream check was on: no races then means that none was found.
  bool streams_were_checked() const;

  uint64_t operator_calls = 0;  ///< the sum of the four outcomes below
  uint64_t distinct_operators = 0;
  uint64_t distinct_calls = 0;  ///< by operator, dtypes, shapes and scalars
  uint64_t computed = 0;
  uint64_t ghost = 0;
  uint64_t assumed = 0;
  uint64_t refused_calls = 0;
  std::vector<FallbackRow> host_fallbacks;
  uint64_t aicpu_calls = 0;
  std::vector<FallbackRow> on_aicpu;
  std::vector<RefusalRow> refusals;
  std::vector<AssumptionRow> assumptions;
  std::vector<ErrorRow> errors;

  uint64_t records = 0;
  uint64_t bytes = 0;
  uint64_t lost = 0;
  std::vector<std::string> problems;
};

/// 100003 with a sentence if `ledger` is missing, no ledger, from another version, or damaged.
Status load_report(const std::filesystem::path& ledger, Report& report);

/// A dozen lines of at most 100 columns, with a newline at the end of each.
std::string report_text(const Report& report);
/// One object, keys in the order of docs/ledger.md, indented, with a newline at the end.
std::string report_json(const Report& report);

}  // namespace drydock::ledger
