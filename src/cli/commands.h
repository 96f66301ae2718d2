#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/run_options.h"

// One function per verb. Each writes what it was asked for to standard output, sentences about failures to standard
// error, and returns the exit code: 2 where drydock itself was asked wrongly or can't read its input.

namespace drydock::cli {

inline constexpr int kExitUsage = 2;

/// Writes "drydock: ..." to standard error.
void complain(const std::string& sentence);
/// The same; returns kExitUsage.
int refuse(const std::string& sentence);

/// Runs the command on the virtual device, makes the ledger and prints the verdict to standard error, for standard
/// output is the command's. Returns the command's exit code; 127 if there is no such command.
int run_command(const RunOptions& options);

/// Prints shell exports that do for any later program of that shell what `drydock run` does for its command.
int env_command(const RunOptions& options);

struct LedgerOptions {
  std::string run;  ///< a run folder or a ledger file
  bool json = false;
  bool rebuild = false;
};
int ledger_command(const LedgerOptions& options);

struct ReportOptions {
  std::string run;                  ///< a run folder or a ledger file
  std::string out = "report.html";  ///< replaced if it is there
  bool rebuild = false;
};
/// Writes the report of a run: one HTML file.
int report_command(const ReportOptions& options);

struct TraceOptions {
  std::string run;        ///< a run folder or a trace file
  bool no_times = false;  ///< without times two runs of a program compare
};
/// Prints the records of a run's traces (or of one trace file) as text, one a line, below a line that names the trace.
int trace_command(const TraceOptions& options);

struct ExportOptions {
  std::string run;     ///< a run folder or a trace file
  std::string format;  ///< torch-snapshot, chrome-trace, csv
  std::string output;  ///< a file; a folder for csv
  int32_t process = 0;
  uint64_t entries = 1'000'000;
  std::string at = "end";  ///< or "peak"
};
/// Writes a run's memory in a format of others.
int export_command(const ExportOptions& options);

struct MsprofOptions {
  std::string output;   ///< a folder of a profiler (PROF_*), or one that holds some
  std::string exports;  ///< on, off or empty, as the vendor's command has it
  std::string analyze;  ///< the same
  std::string type;     ///< text
};
/// What the vendor's `msprof` does with a profiler's folder: the files that torch_npu's parser reads.
int msprof_command(const MsprofOptions& options);

struct WatchOptions {
  std::string run;                 ///< a run folder or a trace file
  bool npu_smi = false;            ///< the machine's real devices instead
  std::vector<std::string> files;  ///< recorded outputs of npu-smi instead of the command
  double interval_s = 0.5;
  bool once = false;  ///< what is known now, and the end
};
/// Draws the memory curve of a run, or of the real devices, in the terminal; lines of text where there is none.
int watch_command(const WatchOptions& options);

struct TuneOptions {
  std::string run;                ///< a run folder; empty with `is_program`
  bool is_program = false;        ///< fresh runs of `program` instead
  RunOptions program;             ///< its `out` holds the runs; values are ghost if not given
  std::vector<std::string> vary;  ///< NAME=VALUE,VALUE
  int32_t steps = 0;              ///< of a fresh run; 0 for the whole program
  bool no_confirm = false;
  bool json = false;
  int32_t rows = 12;  ///< of the table; 0 for all
};
/// Searches the allocator's settings on a run's traces, prints a table and the line to export, and confirms the best by
/// running the program again under it. 0 if a setting was found (and, unless told not to, confirmed), 1 if there is
/// none.
int tune_command(const TuneOptions& options);
/// The same for each combination of the values that `vary` allows, each with a fresh run.
int tune_program_command(const TuneOptions& options);

struct PlanOptions {
  RunOptions run;                ///< its `out` holds the runs; values are ghost if not given
  std::vector<std::string> fit;  ///< NAME and FIRST..LAST
  int32_t steps = 5;
  bool json = false;
};
/// Finds the largest value of a number (a batch size, a length, a rank) with which the command survives its first
/// steps, by running it. 0 if there is one, 1 if not, 2 if the program fails for other reasons or the value changes
/// nothing, 130 after Ctrl-C.
int plan_command(const PlanOptions& options);

struct ReplayOptions {
  std::string run;       ///< a run folder, a trace file or a memory snapshot
  std::string settings;  ///< of PYTORCH_NPU_ALLOC_CONF, for a replay under others than the run's
  bool has_settings = false;
  bool json = false;
};
/// Compares the allocator's model with what the real allocator did in the run; with settings, says what the run would
/// come to under those. 1 where the model differs.
int replay_command(const ReplayOptions& options);

}  // namespace drydock::cli
