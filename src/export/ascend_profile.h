#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/status.h"
#include "export/kernel_table.h"
#include "timeline/timeline.h"
#include "trace/reader.h"

// What the vendor's `msprof` makes of a profiler's folder: the files that torch_npu's own parser reads, and from which
// it makes kernel_details.csv, op_statistic.csv, step_trace_time.csv and trace_view.json.

namespace drydock::exports {

/// What a reader's calls cost: made for each trace, as ids of calls are those of one trace.
struct CallFacts {
  timeline::Clocks clocks;
  KernelTable::CoreOf core_of;  ///< the unit that a call runs on, in the vendor's words ("AI_CORE", "AI_CPU", ...)
};
using FactsOf = std::function<CallFacts(const trace::Reader& reader)>;

/// `prof`: a folder PROF_* that a program's profiler left (device/profiler.h), or one that holds some. Writes
/// PROF_*/mindstudio_profiler_output: op_summary, op_statistic, task_time (CSV) and msprof (JSON), each
/// with the time in its name. Host times are those of this machine, as the program's other profiling data has them;
/// device times are the cost model's, each stream's work after the host issued it and after what is before it. 100003
/// where there is no such folder or no trace of it, 100004 where a file can't be written, 100006 for damaged ones.
Status export_ascend_profile(const std::filesystem::path& prof, const FactsOf& facts_of,
                             const timeline::Timeline::EntryName& entry_name, std::vector<std::string>& sentences);

}  // namespace drydock::exports
