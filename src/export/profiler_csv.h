#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "export/run_traces.h"

namespace drydock::exports {

/// Writes memory_record.csv and operator_memory.csv into `folder`, which is made where it is missing, with the columns
/// of the Ascend PyTorch profiler. 100004 or 100006 with a sentence.
///
/// A block's name is the operator that its thread launched next: the one that it was made for. Streams of blocks are
/// not recorded, so their column is empty.
Status export_csv(const RunTrace& trace, const std::string& folder, std::vector<std::string>& sentences);

}  // namespace drydock::exports
