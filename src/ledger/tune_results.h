#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"

namespace drydock::ledger {

/// One setting that a search tried (table tune_results of the ledger, docs/ledger.md). Empty: the table does not say.
struct TuneResult {
  std::string setting;  ///< of PYTORCH_NPU_ALLOC_CONF; empty for the defaults
  std::optional<uint64_t> peak_reserved_bytes;
  std::optional<uint64_t> peak_allocated_bytes;
  std::optional<double> fragmentation;  ///< 0 to 1
  std::optional<uint64_t> retries;
  std::optional<uint64_t> driver_calls;
  std::optional<bool> fits;
  std::optional<int64_t> margin_bytes;
  bool is_pareto = false;
  bool is_confirmed = false;  ///< the program was run again under it, and ran to its end
};

/// In the table's order; empty if the ledger has no such table. `failure`: a sentence if it has one that can't be read.
std::vector<TuneResult> read_tune_results(const std::filesystem::path& ledger, std::string& failure);

/// Puts the table into a ledger, in place of an older one. 100004 with a sentence if the ledger can't be written.
Status write_tune_results(const std::filesystem::path& ledger, const std::vector<TuneResult>& results);

}  // namespace drydock::ledger
