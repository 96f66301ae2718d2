#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "export/run_traces.h"

namespace drydock::exports {

struct TorchSnapshotOptions {
  /// The last entries of the history are kept; torch's viewer takes some hundred thousand.
  uint64_t most_entries = 1'000'000;
  /// The state when most was allocated, and the history up to there. Otherwise those of the program's end, before it
  /// gave all back: of its last allocation, operator, copy, or refusal of the driver.
  bool at_peak = false;
  std::string allocator_settings;  ///< PYTORCH_NPU_ALLOC_CONF of the run
};

/// Writes the caching allocator's memory and history as torch.npu.memory._dump_snapshot would, for torch's
/// _memory_viz.py and its viewer in the browser: segments, blocks, entries, with the user's line as the only frame.
/// What the file lacks is said in `sentences`. 100003, 100004 or 100006 with a sentence.
Status export_torch_snapshot(const RunTrace& trace, const TorchSnapshotOptions& options, const std::string& path,
                             std::vector<std::string>& sentences);

}  // namespace drydock::exports
