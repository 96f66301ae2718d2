#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "export/run_traces.h"

namespace drydock::exports {

/// Writes the processes of a run as a trace that Perfetto and chrome://tracing open: a counter of allocated, reserved
/// and workspace bytes for each device, a slice for each operator and each step, a mark for each refusal of the driver.
/// An operator's slice goes from its record to the next one of its thread: host time. 100004 or 100006 with a sentence.
Status export_chrome_trace(const std::vector<RunTrace>& traces, const std::string& path,
                           std::vector<std::string>& sentences);

}  // namespace drydock::exports
