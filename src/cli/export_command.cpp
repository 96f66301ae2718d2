#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "cli/commands.h"
#include "export/chrome_trace.h"
#include "export/profiler_csv.h"
#include "export/run_traces.h"
#include "export/torch_snapshot.h"
#include "ledger/run_info.h"

namespace drydock::cli {
namespace {

namespace fs = std::filesystem;

// Settings of the run's allocator; empty where the run does not tell.
std::string allocator_settings(const fs::path& run) {
  ledger::RunInfo info;
  const fs::path folder = fs::is_directory(run) ? run : run.parent_path().parent_path();
  return ledger::read_run_info(folder, info).is_ok() ? info.allocator_settings() : std::string();
}

}  // namespace

int export_command(const ExportOptions& options) {
  std::vector<std::string> sentences;
  Status status = Status::ok();
  if (options.format == "chrome-trace") {
    std::vector<exports::RunTrace> traces;
    status = exports::find_traces(options.run, traces, sentences);
    if (status.is_ok()) status = exports::export_chrome_trace(traces, options.output, sentences);
  } else {
    exports::RunTrace trace;
    status = exports::choose_trace(options.run, options.process, trace, sentences);
    if (status.is_ok() && options.format == "csv") status = exports::export_csv(trace, options.output, sentences);
    if (status.is_ok() && options.format == "torch-snapshot")
      status = exports::export_torch_snapshot(trace,
                                              {.most_entries = options.entries,
                                               .at_peak = options.at == "peak",
                                               .allocator_settings = allocator_settings(options.run)},
                                              options.output, sentences);
  }
  for (const std::string& sentence : sentences) complain(sentence);
  if (status.is_ok()) return 0;
  return refuse(status.message());
}

}  // namespace drydock::cli
