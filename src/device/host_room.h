#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/export.h"
#include "base/status.h"
#include "trace/recorder.h"

// With `--values full` every byte that a program writes to device memory takes host memory, and a host that has none
// left kills a process without a word. What can be foreseen is refused when the memory is allocated.

namespace drydock::device {

/// How much more the host can give to this process, and what says so.
struct HostRoom {
  uint64_t available_bytes = 0;
  std::string source;  ///< for sentences: "as MemAvailable and SwapFree in /proc/meminfo say"
};

/// The least of what the host and the control groups of this process have left; as good as endless where none says.
/// `root` stands before every path, for tests.
DRYDOCK_API HostRoom host_room(const std::string& root = "");

/// With `--values full`: 207001 with the need, what the host has and the cure, if the host can't hold `asked_bytes`
/// more device memory beside the `held_bytes` that are allocated (written to or not). Ok in the other modes, which keep
/// few bytes. Thread-safe.
DRYDOCK_API Status require_host_room(std::string_view entry, uint64_t asked_bytes, uint64_t held_bytes,
                                     trace::LineId line);

/// The failure for device memory that the operating system refused to make accessible, with `--values full`.
Status host_refused(uint64_t asked_bytes, std::string_view reason);

}  // namespace drydock::device
