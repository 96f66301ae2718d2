#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "cli/tune_search.h"
#include "ledger/run_info.h"
#include "replay/workload.h"

// A run that died says nothing of what the program would have asked for later. On a larger device it goes on.

namespace drydock::cli {

/// Where nothing fits and the run's own trace is no proof that nothing can: runs the program on a device with four
/// times the memory, and takes the bound from there, with `search.need` as its source. Nothing is changed where that
/// run failed. New runs become `parent`/NAME-need-1, ...; `environment`: to be set, beside what the run had.
void learn_need(const ledger::RunInfo& info, const std::filesystem::path& parent, const std::string& name,
                const std::map<std::string, std::string>& environment, Search& search);

}  // namespace drydock::cli
