#include "ledger/build.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <sstream>
#include <unistd.h>

#include <fmt/format.h>

#include "ledger/aicpu.h"
#include "ledger/database.h"
#include "ledger/memory_records.h"
#include "ledger/workspace_summary.h"
#include "trace/call_encoding.h"
#include "trace/reader.h"

namespace drydock::ledger {
namespace {

namespace fs = std::filesystem;
using trace::Kind;
using trace::Record;

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
          trace::print_call(call, signature), runs_on_aicpu(signature.name, call, signature)};
}

void take(const trace::Reader& reader, const Record& record, ProcessAccount& account) {
  switch (record.kind) {
    case Kind::kOperator: account.operator_launched(record.device, record.call, record.line, record.outcome); break;
    case Kind::kDriverOutOfMemory: account.out_of_memory(record.device, out_of_memory_of(reader, record)); break;
    case Kind::kCapacity: account.memory(record.device).capacity_told(record.capacity_bytes); break;
    case Kind::kGarbageCollected: account.garbage_collected(record.count); break;
    case Kind::kCopy:
      account.copied(record.copy, record.device, record.size_bytes, record.is_async, record.line);
      if (record.copy == trace::CopyKind::kHostToDevice && record.address.tag == trace::ValueTag::kDevice)
        account.memory(record.address.device).block_filled_from_host(key_of(record.address));
      break;
    case Kind::kAssumed: account.assumed(record.assumption, record.size_bytes, record.line); break;
    case Kind::kEntry: account.entry_called(record.entry); break;
    case Kind::kFailed:
      account.failed(reader.records(), record.entry, record.code, reader.string(record.text), record.line);
      break;
    case Kind::kRace: account.races.push_back(race_of(reader, record)); break;
    case Kind::kStep: account.step_ended(reader.records(), record.time_ns); break;
    case Kind::kPhase: account.phase_began(record.phase); break;
    case Kind::kModuleNamed: account.module_named(record.module, reader.string(record.text)); break;
    case Kind::kLabel:
      account.memory(record.device)
          .block_labelled(key_of(record.address), record.label, record.size_bytes, record.text);
      break;
    case Kind::kHostFallback: account.host_fallback(reader.string(record.text), record.line); break;
    case Kind::kPythonException:
      account.python_exception({.record = reader.records(),
                                .type = std::string(reader.string(record.type)),
                                .text = std::string(reader.string(record.text)),
                                .file = std::string(reader.string(record.file)),
                                .line = record.file_line});
      break;
    case Kind::kWorkspaceGiven:
      account.workspaces.given(record, reader.records());
      take_memory_record(reader, record, account.memory(record.device));
      break;
    case Kind::kDriverFreed:
      account.driver_returned(record.memory, record.size_bytes, record.line);
      take_memory_record(reader, record, account.memory(record.device));
      break;
    default:  // definitions are taken from the reader's tables at the end
      if (is_memory_record(record.kind)) take_memory_record(reader, record, account.memory(record.device));
      break;
  }
}

// 11 of "3.11.2"; 0 if there is no such text.
int minor_of(std::string_view python_version) {
  const size_t dot = python_version.find('.');
  return dot == std::string_view::npos ? 0 : std::atoi(std::string(python_version.substr(dot + 1)).c_str());
}

// Of the device with the highest peak, of the process that decided or of all: what it would have come to without
// workspaces. Nothing where no operator asked for one.
std::optional<WithoutWorkspaces> compare_without_workspaces(const fs::path& run_folder, LedgerSources& sources) {
  const MemoryAccount* highest = nullptr;
  for (size_t index = 0; index < sources.processes.size(); ++index) {
    if (sources.verdict.process >= 0 && sources.verdict.process != static_cast<int>(index)) continue;
    for (const auto& [device, memory] : sources.processes[index].memories()) {
      if (highest != nullptr && memory.peak_reserved_bytes() <= highest->peak_reserved_bytes()) continue;
      highest = &memory;
      sources.without_process = static_cast<int>(index);
      sources.without_device = device;
    }
  }
  if (highest == nullptr) return std::nullopt;
  const ProcessAccount& process = sources.processes[static_cast<size_t>(sources.without_process)];
  if (process.workspaces.is_empty()) return std::nullopt;
  return replay_without_workspaces(run_folder / "traces" / process.trace_file, highest->device(),
                                   sources.run.allocator_settings(), highest->peak_reserved_bytes());
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

std::vector<fs::path> traces_of(const fs::path& run_folder, std::string& failure) {
  std::vector<fs::path> paths;
  const fs::path folder = run_folder / "traces";
  std::error_code error;
  for (fs::directory_iterator entry(folder, error); !error && entry != fs::directory_iterator(); entry.increment(error))
    if (entry->path().extension() == ".ddtrace") paths.push_back(entry->path());
  if (error) failure = fmt::format("The folder {} can't be read: {}.", folder.string(), error.message());
  std::sort(paths.begin(), paths.end());
  return paths;
}

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
  account.is_running = !info.closed && is_alive(info.pid);
  account.truncated = reader->is_truncated();
  account.python_minor = minor_of(info.python_version);
  if (reader->is_truncated()) account.problems.push_back(reader->truncation());
  const bool lines_failed = info.python_state == trace::PythonState::kUnknownVersion ||
                            info.python_state == trace::PythonState::kLayoutMismatch;
  if (lines_failed) account.problems.push_back(trace::describe_python_state(info));
  for (trace::LineId id = 0; id <= reader->lines(); ++id) account.lines.push_back(source_line(*reader, id));
  for (const auto& [device, memory] : account.memories()) {
    for (const DeviceMoment* moment : {&memory.at_peak(), &memory.at_out_of_memory(), &memory.at_end()})
      for (const KindHolder& holder : moment->blocks.holders)
        if (holder.name != 0) account.names.try_emplace(holder.name, reader->string(holder.name));
    for (std::string& sentence : memory.imbalances()) account.problems.push_back(std::move(sentence));
  }
  account.calls.push_back({"unknown", "unknown"});
  for (trace::CallId id = 1; id <= reader->calls(); ++id) account.calls.push_back(call_text(*reader, id));
  return Status::ok();
}

Status build_ledger(const fs::path& run_folder, EntryLookup entry_of, BuiltLedger& ledger) {
  std::vector<ProcessAccount> processes;
  std::vector<std::string> problems;
  UnreadTraces unread;
  for (const fs::path& path : traces_of(run_folder, unread.folder_failure)) {
    ProcessAccount account;
    if (Status status = read_trace(path, account); status.is_ok()) {
      processes.push_back(std::move(account));
    } else {
      ++unread.count;
      problems.push_back(status.message());
    }
  }
  if (!unread.folder_failure.empty()) problems.insert(problems.begin(), unread.folder_failure);
  if (!problems.empty()) unread.first_reason = problems.front();
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

  Verdict verdict = judge(run, processes, unread, entry_of);
  LedgerSources sources{run, processes, problems, verdict, entry_of};
  const std::optional<WithoutWorkspaces> without = compare_without_workspaces(run_folder, sources);
  if (without) {
    sources.without_workspaces = &*without;
    if (verdict.kind == VerdictKind::kOutOfMemory)
      if (std::string sentence = dependence_sentence(*without); !sentence.empty())
        verdict.evidence.push_back(std::move(sentence));
  }
  ledger = {.path = run_folder / kLedgerFile, .not_kept = {}};
  try {
    write_whole(ledger.path, sources);
    return Status::ok();
  } catch (const std::exception& failure) {
    ledger.not_kept = failure.what();
  }
  std::error_code error;
  std::string elsewhere = (fs::temp_directory_path(error) / "drydock-ledger-XXXXXX").string();
  const bool is_made = mkdtemp(elsewhere.data()) != nullptr;
  std::string failures = is_made ? "" : fmt::format("{}: {}", elsewhere, std::strerror(errno));
  try {
    ledger.path = fs::path(elsewhere) / kLedgerFile;
    if (is_made) {
      write_whole(ledger.path, sources);
      return Status::ok();
    }
  } catch (const std::exception& failure) {
    failures = failure.what();
    fs::remove_all(elsewhere, error);
  }
  return Status::error(kUnwritable, fmt::format("No ledger could be written: {}; {}", ledger.not_kept, failures));
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
  BuiltLedger ledger{.path = folder / kLedgerFile, .not_kept = {}};
  if (!rebuild && fs::exists(ledger.path, error)) {
    DRYDOCK_RETURN_IF_ERROR(load_report(ledger.path, report));
    if (!report.verdict.is_running) return Status::ok();
    report = Report();  // of a run that went on: it may have ended since
  }
  DRYDOCK_RETURN_IF_ERROR(build_ledger(folder, entry_of, ledger));
  Status status = load_report(ledger.path, report);
  if (!ledger.not_kept.empty()) {
    fs::remove_all(ledger.path.parent_path(), error);
    report.ledger.clear();
    report.problems.push_back(
        fmt::format("No ledger could be kept in {}: {}. It is made again from the traces "
                    "whenever it is asked for.",
                    folder.string(), ledger.not_kept));
  }
  return status;
}

}  // namespace drydock::ledger
