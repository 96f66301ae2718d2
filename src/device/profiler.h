#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/export.h"
#include "base/status.h"

// The vendor's profiler, as programs start and stop it. What it would measure is in the trace already: a session only
// marks which part of it is meant, in a folder of the vendor's layout that `drydock msprof` exports.

namespace drydock::device {

/// Makes `folder`/PROF_<number>_<time>_<id>/host with start_info (wall clock and monotonic clock at the same moment,
/// for torch_npu's parser) and drydock.json (run folder, process, parts of the trace). 100042 if a session is open,
/// 500005 if the folder can't be made. These four may be called from any thread.
DRYDOCK_API Status open_profiler(std::string_view folder);
/// A part of the trace begins; each device gets a folder device_<number>. 100043 without a session, 100042 if one has
/// begun.
DRYDOCK_API Status start_profiler(const std::vector<uint32_t>& devices);
/// 100043 if none has begun.
DRYDOCK_API Status stop_profiler();
/// Ends the session, and a part that was not stopped. 100043 without one.
DRYDOCK_API Status close_profiler();

}  // namespace drydock::device
