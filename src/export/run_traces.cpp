#include "export/run_traces.h"

#include <algorithm>
#include <memory>

#include <fmt/format.h>

namespace drydock::exports {
namespace fs = std::filesystem;
namespace {

constexpr int32_t kUnreadable = 100003;  // the vendor's number for a file that is invalid

}  // namespace

Status find_traces(const fs::path& run, std::vector<RunTrace>& traces, std::vector<std::string>& problems) {
  std::vector<fs::path> paths;
  std::error_code error;
  if (fs::is_directory(run, error)) {
    for (fs::directory_iterator entry(run / "traces", error); !error && entry != fs::directory_iterator();
         entry.increment(error))
      if (entry->path().extension() == ".ddtrace") paths.push_back(entry->path());
  } else if (fs::exists(run, error)) {
    paths.push_back(run);
  } else {
    return Status::error(kUnreadable, fmt::format("There is no run {}.", run.string()));
  }
  std::sort(paths.begin(), paths.end());
  for (const fs::path& path : paths) {
    std::unique_ptr<trace::Reader> reader;
    if (Status status = trace::Reader::open(path.string(), reader); !status.is_ok()) {
      problems.push_back(status.message());
      continue;
    }
    const trace::TraceInfo& info = reader->info();
    traces.push_back({.path = path,
                      .pid = info.pid,
                      .bytes = info.used_bytes,
                      .is_closed = info.closed,
                      .start_wall_ns = info.start_wall_ns,
                      .command = info.command});
  }
  std::stable_sort(traces.begin(), traces.end(),
                   [](const RunTrace& a, const RunTrace& b) { return a.start_wall_ns < b.start_wall_ns; });
  if (!traces.empty()) return Status::ok();
  if (!problems.empty()) return Status::error(kUnreadable, problems.front());
  return Status::error(kUnreadable,
                       fmt::format("{} holds no trace: there is no file {}/traces/*.ddtrace. No process of "
                                   "this run used the device, or the run was not recorded.",
                                   run.string(), run.string()));
}

Status choose_trace(const fs::path& run, int32_t pid, RunTrace& chosen, std::vector<std::string>& sentences) {
  std::vector<RunTrace> traces;
  DRYDOCK_RETURN_IF_ERROR(find_traces(run, traces, sentences));
  const auto is_smaller = [](const RunTrace& a, const RunTrace& b) { return a.bytes < b.bytes; };
  auto found = std::max_element(traces.begin(), traces.end(), is_smaller);
  if (pid != 0) {
    found = std::find_if(traces.begin(), traces.end(), [pid](const RunTrace& trace) { return trace.pid == pid; });
    if (found == traces.end()) {
      std::string known;
      for (const RunTrace& trace : traces) known += fmt::format("{}{}", known.empty() ? "" : ", ", trace.pid);
      return Status::error(kUnreadable,
                           fmt::format("{} has no trace of process {}. It has: {}.", run.string(), pid, known));
    }
  } else if (traces.size() > 1) {
    sentences.push_back(
        fmt::format("The run has {} processes; this is process {}, which recorded most. Another: --process PID.",
                    traces.size(), found->pid));
  }
  chosen = *found;
  return Status::ok();
}

SourceLine source_line(const trace::Reader& reader, trace::LineId id) {
  const trace::Reader::Line line = reader.line(id);
  return {std::string(reader.string(line.file)), line.line, std::string(reader.string(line.function))};
}

uint64_t address_of(const trace::TraceInfo& info, const trace::TracedValue& value) {
  if (value.tag != trace::ValueTag::kDevice) return value.bits;
  const auto device = static_cast<size_t>(value.device);
  return value.bits + (device < info.arena_bases.size() ? info.arena_bases[device] : 0);
}

}  // namespace drydock::exports
