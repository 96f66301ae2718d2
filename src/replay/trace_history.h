#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "replay/events.h"

namespace drydock::replay {

/// Reads one trace of a run (docs/trace-format.md) into a history. 100003 or 100006 as trace::Reader::open says; a
/// trace that is cut gives the history before the cut and a sentence in `missing`.
Status read_trace(const std::string& path, History& history);

/// The trace files of a run folder, sorted; of a trace file, itself. 100003 with a sentence if there are none.
Status traces_of(const std::string& run, std::vector<std::string>& paths);

}  // namespace drydock::replay
