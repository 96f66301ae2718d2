#pragma once

#include <cstdint>

#include "ledger/write_ledger.h"

namespace drydock::cli {

/// What the numbers of entries in traces mean in this version of Drydock.
ledger::EntryMeaning entry_of(uint32_t entry);

}  // namespace drydock::cli
