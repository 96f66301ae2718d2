#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/status.h"
#include "ledger/block_census.h"

namespace drydock::page {

/// What the blocks of a process were for, each by its number among those of its device: what a block is for may be
/// known only when it is freed, so this is read before what is shown of the block.
struct BlockPurposes {
  std::map<int32_t, std::vector<ledger::BlockPurpose>> of_devices;
  std::map<uint32_t, std::string> modules;  ///< path by number
  /// Path of the module that a parameter or buffer belongs to, by its name.
  std::map<trace::StringId, std::string> owners;
};

/// Reads one trace, in one pass.
Status read_block_purposes(const std::filesystem::path& trace, BlockPurposes& purposes);

}  // namespace drydock::page
