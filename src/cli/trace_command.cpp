#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/entry_names.h"
#include "trace/reader.h"
#include "trace/text.h"

namespace drydock::cli {
namespace {

namespace fs = std::filesystem;

std::string entry_name(uint32_t entry) { return entry_of(entry).name; }

// Record by record: a trace may be larger than memory. False if the trace can't be read.
bool print_one(const fs::path& path, bool times) {
  std::unique_ptr<trace::Reader> reader;
  if (Status status = trace::Reader::open(path.string(), reader); !status.is_ok()) {
    complain(status.message());
    return false;
  }
  const trace::TraceInfo& info = reader->info();
  fmt::print("# {}: process {}, {}\n", path.filename().string(), info.pid, info.command);
  trace::Record record;
  while (reader->next(record)) {
    if (record.kind < trace::Kind::kOperator) continue;  // definitions
    if (std::puts(trace::print_record(*reader, record, {.times = times, .entry_name = entry_name}).c_str()) < 0)
      return true;  // nobody reads any more
  }
  if (reader->is_truncated()) complain(reader->truncation());
  return true;
}

}  // namespace

int trace_command(const TraceOptions& options) {
  const std::string& run = options.run;
  std::vector<fs::path> paths;
  std::error_code error;
  if (fs::is_directory(run, error)) {
    for (const fs::directory_entry& entry : fs::directory_iterator(fs::path(run) / "traces", error))
      if (entry.path().extension() == ".ddtrace") paths.push_back(entry.path());
    std::sort(paths.begin(), paths.end());
    if (paths.empty()) {
      return refuse(fmt::format("{} holds no trace: there is no file {}/traces/*.ddtrace.", run, run));
    }
  } else {
    paths.emplace_back(run);
  }
  bool any = false;
  for (const fs::path& path : paths) any = print_one(path, !options.no_times) || any;
  return any ? 0 : kExitUsage;
}

}  // namespace drydock::cli
