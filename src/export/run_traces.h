#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/status.h"
#include "trace/reader.h"

namespace drydock::exports {

struct RunTrace {
  std::filesystem::path path;
  int32_t pid = 0;
  uint64_t bytes = 0;  ///< of records
  bool is_closed = false;
  int64_t start_wall_ns = 0;
  std::string command;
};

/// The traces of a run folder, or the one file, that can be read; in order of their start. What can't be read becomes a
/// sentence in `problems`. 100003 with a sentence if there is none.
Status find_traces(const std::filesystem::path& run, std::vector<RunTrace>& traces, std::vector<std::string>& problems);

/// The trace of process `pid`; with 0 that of the process that recorded most, and a sentence about the others.
Status choose_trace(const std::filesystem::path& run, int32_t pid, RunTrace& chosen,
                    std::vector<std::string>& sentences);

/// A line of a trace as a pair of file and function.
struct SourceLine {
  std::string file;
  uint32_t line = 0;
  std::string function;
};
SourceLine source_line(const trace::Reader& reader, trace::LineId id);

/// The device address that a record means; offsets are added to the device's base.
uint64_t address_of(const trace::TraceInfo& info, const trace::TracedValue& value);

}  // namespace drydock::exports
