#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/status.h"

namespace drydock::ledger {

/// One setting that `drydock tune` tried: a row of the table tune_results (docs/ledger.md).
struct TunedSetting {
  std::string setting;  ///< of PYTORCH_NPU_ALLOC_CONF; empty for the defaults
  uint64_t peak_reserved_bytes = 0;
  uint64_t peak_allocated_bytes = 0;
  double fragmentation = 0;  ///< 0 to 1
  uint64_t retries = 0;
  uint64_t driver_calls = 0;
  bool fits = false;
  int64_t margin_bytes = 0;
  bool pareto = false;
  bool confirmed = false;  ///< the program was run again under it, and ran to its end
};

/// Puts the table into a ledger, in place of an older one. 100004 with a sentence if the ledger can't be written.
Status write_tune_table(const std::filesystem::path& ledger, const std::vector<TunedSetting>& rows);

}  // namespace drydock::ledger
