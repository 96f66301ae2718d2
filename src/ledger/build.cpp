#include "ledger/build.h"

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <memory>
#include <sstream>
#include <unistd.h>

#include <fmt/format.h>

#include "ledger/database.h"
#include "trace/call_encoding.h"
#include "trace/reader.h"

namespace drydock::ledger {
namespace {

namespace fs = std::filesystem;
using trace::Kind;
using trace::Record;

// One number for what a record calls an address: offsets in device memory and numbers of identities don't mix.
uint64_t key_of(const trace::TracedValue& value) { return value.bits | (static_cast<uint64_t>(value.tag) << 62); }

SourceLine source_line(const trace::Reader& reader, trace::LineId id) {
  const trace::Reader::Line line = reader.line(id);
  return {std::string(reader.string(line.file)), line.line, std::string(reader.string(line.function))};
}

CallText call_text(const trace::Reader& reader, trace::CallId id) {
  trace::Call call;
  const std::span<const std::byte> encoded = reader.call(id);
  if (!trace::decode_call(encoded, call)) call.truncated = true;
  const trace::Signature signature = trace::parse_signature(reader.operator_signature(call.operator_id));
  return {signature.name.empty() ? fmt::format("operator {}", call.operator_id) : signature.name,
          trace::print_call(call, signature)};
}

void take(const trace::Reader& reader, const Record& record, ProcessAccount& account) {
  switch (record.kind) {
    case Kind::kOperator: account.operator_launched(record.device, record.call, record.line, record.outcome); break;
    case Kind::kBlockAllocated:
      account.memory(record.device)
          .block_allocated(key_of(record.address), record.size_bytes, record.is_workspace, record.line);
      break;
    case Kind::kWorkspaceGiven: account.memory(record.device).workspace_given(key_of(record.address)); break;
    case Kind::kBlockFreed: account.memory(record.device).block_freed(key_of(record.address)); break;
    case Kind::kBlockRequested:
      account.memory(record.device).block_requested(key_of(record.address), record.size_bytes);
      break;
    case Kind::kDriverAllocated:
      account.memory(record.device)
          .driver_allocated({.kind = record.memory,
                             .address = key_of(record.address),
                             .handle = key_of(record.detail),
                             .size_bytes = record.size_bytes,
                             .line = record.line,
                             .allocated_record = reader.records()});
      break;
    case Kind::kDriverFreed:
      account.memory(record.device)
          .driver_freed(record.memory, key_of(record.address), key_of(record.detail), reader.records());
      break;
    case Kind::kDriverOutOfMemory: {
      OutOfMemory event;
      event.record = reader.records();
      event.kind = record.memory;
      event.requested_bytes = record.size_bytes;
      event.free_bytes = record.free_bytes;
      event.capacity_bytes = record.capacity_bytes;
      event.line = record.line;
      account.out_of_memory(record.device, std::move(event));
      break;
    }
    case Kind::kOverhead:
      account.memory(record.device).overhead_charged(reader.string(record.text), record.size_bytes);
      break;
    case Kind::kCopy:
      account.copied(record.copy, record.device, record.size_bytes, record.is_async, record.line);
      break;
    case Kind::kAssumed: account.assumed(record.assumption, record.size_bytes, record.line); break;
    case Kind::kEntry: account.entry_called(record.entry); break;
    case Kind::kFailed: account.failed(record.entry, record.code, reader.string(record.text), record.line); break;
    case Kind::kStep: account.step_ended(reader.records(), record.time_ns); break;
    case Kind::kHostFallback: account.host_fallback(reader.string(record.text), record.line); break;
    case Kind::kPythonException:
      account.python_exception({.record = reader.records(),
                                .type = std::string(reader.string(record.type)),
                                .text = std::string(reader.string(record.text)),
                                .file = std::string(reader.string(record.file)),
                                .line = record.file_line});
      break;
    default:  // definitions: taken from the reader's tables at the end
      break;
  }
}

std::vector<fs::path> traces_of(const fs::path& run_folder) {
  std::vector<fs::path> paths;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(run_folder / "traces", error))
    if (entry.path().extension() == ".ddtrace") paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  return paths;
}

// Replaces the ledger only by a whole one.
void write_whole(const fs::path& path, const LedgerSources& sources) {
  const fs::path draft = path.string() + fmt::format(".{}", getpid());
  try {
    write_ledger(draft, sources);
    fs::rename(draft, path);
  } catch (...) {
    std::error_code ignored;
    fs::remove(draft, ignored);
    throw;
  }
}

}  // namespace

Status read_trace(const fs::path& trace, ProcessAccount& account) {
  std::unique_ptr<trace::Reader> reader;
  DRYDOCK_RETURN_IF_ERROR(trace::Reader::open(trace.string(), reader));
  Record record;
  while (reader->next(record)) take(*reader, record, account);
  account.finish();

  const trace::TraceInfo& info = reader->info();
  account.process_id = static_cast<uint32_t>(info.pid);
  account.trace_file = trace.filename().string();
  account.command = info.command;
  account.values = info.values;
  account.profile = info.profile;
  account.start_wall_ns = info.start_wall_ns;
  account.records = reader->records();
  account.bytes = reader->bytes();
  account.lost = info.lost_records;
  account.closed = info.closed;
  // Of this machine, and shortly before: good enough to tell a run that goes on from one that was killed.
  account.is_running = !info.closed && info.pid > 0 && kill(info.pid, 0) == 0;
  if (reader->is_truncated()) account.problems.push_back(reader->truncation());
  const bool lines_failed = info.python_state == trace::PythonState::kUnknownVersion ||
                            info.python_state == trace::PythonState::kLayoutMismatch;
  if (lines_failed) account.problems.push_back(trace::describe_python_state(info));
  for (trace::LineId id = 0; id <= reader->lines(); ++id) account.lines.push_back(source_line(*reader, id));
  account.calls.push_back({"unknown", "unknown"});
  for (trace::CallId id = 1; id <= reader->calls(); ++id) account.calls.push_back(call_text(*reader, id));
  return Status::ok();
}

Status build_ledger(const fs::path& run_folder, EntryLookup entry_of, fs::path& ledger) {
  std::vector<ProcessAccount> processes;
  std::vector<std::string> problems;
  for (const fs::path& path : traces_of(run_folder)) {
    ProcessAccount account;
    if (Status status = read_trace(path, account); status.is_ok())
      processes.push_back(std::move(account));
    else
      problems.push_back(status.message());
  }
  std::stable_sort(processes.begin(), processes.end(),
                   [](const ProcessAccount& a, const ProcessAccount& b) { return a.start_wall_ns < b.start_wall_ns; });
  RunInfo run;
  if (Status status = read_run_info(run_folder, run); !status.is_ok()) {
    if (processes.empty())
      return Status::error(kUnreadable,
                           fmt::format("{} is not a run that can be read. {} {}", run_folder.string(), status.message(),
                                       problems.empty() ? "There is no trace." : problems.front()));
    problems.push_back(status.message());
  }
  if (!processes.empty()) {
    const ProcessAccount& first = processes.front();
    std::istringstream words(run.command.empty() ? first.command : std::string());
    for (std::string word; words >> word;) run.command.push_back(word);
    if (run.profile.empty()) run.profile = first.profile;
    if (!first.values.empty()) run.values = first.values;
  }

  const Verdict verdict = judge(run, processes);
  const LedgerSources sources{run, processes, problems, verdict, entry_of};
  std::string failures;
  std::error_code error;
  const fs::path elsewhere = fs::temp_directory_path(error) / fmt::format("drydock-{}-{}", getuid(), getpid());
  for (const fs::path& folder : {run_folder, elsewhere}) {
    try {
      if (folder == elsewhere) fs::create_directories(folder);
      ledger = folder / kLedgerFile;
      write_whole(ledger, sources);
      return Status::ok();
    } catch (const std::exception& failure) {
      failures += fmt::format("{}{}", failures.empty() ? "" : "; ", failure.what());
    }
  }
  return Status::error(kUnwritable, fmt::format("No ledger could be written: {}", failures));
}

Status open_run(const fs::path& run, bool rebuild, EntryLookup entry_of, Report& report) {
  std::error_code error;
  fs::path folder = fs::absolute(run, error).lexically_normal();
  if (!folder.has_filename()) folder = folder.parent_path();
  if (!fs::exists(folder, error))
    return Status::error(kUnreadable, fmt::format("There is no run {}.", folder.string()));
  if (!fs::is_directory(folder, error)) {
    if (!rebuild) return load_report(folder, report);
    folder = folder.parent_path();
  }
  fs::path ledger = folder / kLedgerFile;
  if (rebuild || !fs::exists(ledger, error)) DRYDOCK_RETURN_IF_ERROR(build_ledger(folder, entry_of, ledger));
  return load_report(ledger, report);
}

}  // namespace drydock::ledger
