#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace drydock::watch {

/// One chip as a table of `npu-smi info` shows it.
struct NpuSmiChip {
  int32_t npu = 0;
  int32_t chip = 0;
  int32_t physical = -1;  ///< -1 where the table has no column for it
  std::string name;
  std::string health;
  int32_t aicore_percent = -1;  ///< -1 where it is no number
  uint64_t memory_used_mb = 0, memory_total_mb = 0;
  uint64_t hbm_used_mb = 0, hbm_total_mb = 0;
};

struct NpuSmiTable {
  std::string version;
  std::vector<NpuSmiChip> chips;
};

/// Reads what `npu-smi info` prints: by the names of the columns, whatever their widths, so that tables of 910A, 910B
/// and 910C and of versions 22 to 26 are read alike. 100006 with a sentence that says what is missing.
Status parse_npu_smi(std::string_view text, NpuSmiTable& table);

}  // namespace drydock::watch
