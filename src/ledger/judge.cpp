#include <algorithm>
#include <csignal>
#include <fstream>
#include <optional>
#include <tuple>

#include <fmt/format.h>

#include "base/generated/error_codes.h"
#include "ledger/sizes.h"
#include "ledger/verdict.h"
#include "ledger/workspace_summary.h"
#include "trace/python_stack.h"

namespace drydock::ledger {
namespace {

constexpr size_t kMostHolders = 10;

bool contains(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

// torch.OutOfMemoryError and torch_npu's RuntimeError with the same words; not the host's memory.
bool says_out_of_memory(const Exception& exception) {
  if (contains(exception.text, "host out of memory")) return false;
  return contains(exception.type, "OutOfMemoryError") || contains(exception.text, "out of memory");
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

// The size that stands before `label`: "50.46 GiB already allocated".
std::optional<uint64_t> size_before(std::string_view text, std::string_view label) {
  const size_t found = text.find(label);
  if (found == std::string_view::npos) return std::nullopt;
  const size_t begin = text.find_last_of(";(", found);
  if (begin == std::string_view::npos) return std::nullopt;
  return size_after(text.substr(begin), text.substr(begin, 1));
}

struct Candidate {
  int process = -1;
  const MemoryAccount* memory = nullptr;
  const OutOfMemory* event = nullptr;
  const Exception* exception = nullptr;
};

void last_event(const ProcessAccount& process, Candidate& candidate) {
  for (const auto& [device, memory] : process.memories()) {
    if (memory.out_of_memories().empty()) continue;
    const OutOfMemory& last = memory.out_of_memories().back();
    if (candidate.event != nullptr && candidate.event->record > last.record) continue;
    candidate.event = &last;
    candidate.memory = &memory;
  }
}

// The process that ended out of memory: one whose last exception says so, else one that died without an exception
// after the driver had refused it memory.
std::optional<Candidate> find_out_of_memory(const RunInfo& run, const std::vector<ProcessAccount>& processes) {
  std::optional<Candidate> silent;
  for (size_t index = 0; index < processes.size(); ++index) {
    const ProcessAccount& process = processes[index];
    Candidate candidate{.process = static_cast<int>(index)};
    last_event(process, candidate);
    if (!process.exceptions().empty()) {
      if (!says_out_of_memory(process.exceptions().back())) continue;
      candidate.exception = &process.exceptions().back();
      return candidate;
    }
    if (candidate.event != nullptr && run.exit_code.value_or(0) != 0 && !silent) silent = candidate;
  }
  return silent;
}

const MemoryAccount* largest_memory(const ProcessAccount& process) {
  const MemoryAccount* largest = nullptr;
  for (const auto& [device, memory] : process.memories())
    if (largest == nullptr || memory.peak_reserved_bytes() > largest->peak_reserved_bytes()) largest = &memory;
  return largest;
}

std::vector<HolderLine> holder_lines(const ProcessAccount& process, const std::vector<Holder>& holders,
                                     std::string_view directory) {
  // Lines of one text (two functions in one line, as lambdas are) count together.
  std::vector<HolderLine> lines;
  for (const Holder& holder : holders) {
    std::string text = line_text(process, holder.line, directory);
    auto same = std::find_if(lines.begin(), lines.end(), [&](const HolderLine& line) {
      return line.line == text && line.is_workspace == holder.is_workspace;
    });
    if (same == lines.end()) {
      lines.push_back({std::move(text), holder.bytes, holder.blocks, holder.is_workspace});
    } else {
      same->bytes += holder.bytes;
      same->blocks += holder.blocks;
    }
  }
  std::stable_sort(lines.begin(), lines.end(),
                   [](const HolderLine& a, const HolderLine& b) { return a.bytes > b.bytes; });
  if (lines.size() > kMostHolders) lines.resize(kMostHolders);
  return lines;
}

void take_exception(const Exception& exception, std::string_view directory, Verdict& verdict) {
  verdict.exception_type = exception.type;
  verdict.exception_text = first_line(exception.text);
  verdict.step = exception.steps_ended + 1;
  if (!exception.file.empty()) verdict.line = line_text({exception.file, exception.line, ""}, directory);
}

// Without an answer of the driver (a limit that the program set itself) only the message knows the numbers.
void take_message(const std::string& text, MemoryEvidence& evidence) {
  evidence.requested_bytes = size_after(text, "ried to allocate ").value_or(0);
  if (evidence.requested_bytes == 0) evidence.requested_bytes = size_after(text, "Requested size: ").value_or(0);
  evidence.allocated_bytes = size_before(text, " already allocated").value_or(evidence.allocated_bytes);
  evidence.reserved_bytes = size_before(text, " reserved in total").value_or(evidence.reserved_bytes);
  evidence.capacity_bytes = size_before(text, " total capacity").value_or(evidence.capacity_bytes);
  evidence.free_bytes = size_before(text, " free").value_or(evidence.free_bytes);
  evidence.limit_bytes = size_before(text, " allowed").value_or(0);
}

std::string stranded_sentence(const ProcessAccount& process, const Stranded& stranded, std::string_view directory) {
  std::string text = fmt::format("{} lie stranded in {} (largest hole {})", human_size(stranded.bytes),
                                 stranded.segments == 1 ? "1 segment" : fmt::format("{} segments", stranded.segments),
                                 human_size(stranded.largest_hole_bytes));
  if (stranded.idle_bytes > 0)
    text += fmt::format("; {} more, in segments without a block, could go back", human_size(stranded.idle_bytes));
  constexpr size_t kListedPins = 2;
  for (size_t index = 0; index < std::min(kListedPins, stranded.pins.size()); ++index) {
    const Pin& pin = stranded.pins[index];
    text += fmt::format(
        "{} {}{} beside {} of {}", index == 0 ? ":" : ",", human_size(pin.stranded_bytes), index == 0 ? " of them" : "",
        pin.blocks == 1 ? "1 block" : fmt::format("{} blocks", pin.blocks), line_text(process, pin.line, directory));
  }
  return text + ".";
}

// The most that blocks can have allocated: what the device has, less what is never theirs. 0 if unknown.
uint64_t room_of(const ProcessAccount& process, const MemoryAccount& memory) {
  uint64_t taken = memory.workspace_bytes();
  for (const auto& [what, bytes] : memory.overheads()) taken += bytes;
  const uint64_t capacity = process.capacity_bytes(memory.device());
  return capacity > taken ? capacity - taken : 0;
}

void find_trend_of(const ProcessAccount& process, std::string_view directory, TrendRow& row) {
  const MemoryAccount* memory = largest_memory(process);
  if (memory == nullptr) return;
  row.trend = find_trend(process.steps(), room_of(process, *memory));
  if (row.trend.growing != 0) row.growing_line = line_text(process, row.trend.growing, directory);
  if (row.trend.line != 0) row.tooth_line = line_text(process, row.trend.line, directory);
}

// What the first half of the steps would have said of the step that does not fit any more.
uint32_t foretold_step(const ProcessAccount& process, const MemoryAccount& memory) {
  std::vector<StepEnd> first = process.steps();
  first.resize(first.size() / 2 + 1);
  return find_trend(first, room_of(process, memory)).full_at_step;
}

void judge_out_of_memory(const RunInfo& run, const ProcessAccount& process, const Candidate& candidate,
                         Verdict& verdict) {
  verdict.kind = VerdictKind::kOutOfMemory;
  verdict.process = candidate.process;
  const std::string& directory = run.working_directory;
  if (candidate.exception != nullptr) take_exception(*candidate.exception, directory, verdict);
  const std::string text = candidate.exception != nullptr ? candidate.exception->text : std::string();

  MemoryEvidence evidence;
  const MemoryAccount* memory = candidate.memory != nullptr ? candidate.memory : largest_memory(process);
  std::vector<Holder> holders;
  if (candidate.event != nullptr) {
    const OutOfMemory& event = *candidate.event;
    verdict.step = event.steps_ended + 1;
    if (event.line != 0) verdict.line = line_text(process, event.line, directory);
    evidence.requested_bytes = event.requested_bytes + event.pending_bytes;
    evidence.allocated_bytes = event.allocated_bytes;
    evidence.reserved_bytes = event.reserved_bytes;
    evidence.workspace_bytes = event.workspace_bytes;
    evidence.direct_bytes = event.direct_bytes;
    evidence.free_bytes = event.free_bytes;
    evidence.capacity_bytes = event.capacity_bytes;
    evidence.idle_bytes = event.idle_bytes;
    evidence.hccl_bytes = event.hccl_bytes;
    // The driver is asked for pages or segments, the message names the tensor's block. It is rounded to two decimals:
    // where both mean the same the driver's number is the exact one.
    const uint64_t told = size_after(text, "ried to allocate ").value_or(event.requested_bytes);
    const uint64_t slack = rounding_of(told);
    if (event.requested_bytes + slack >= told && event.requested_bytes <= told + slack) {
      evidence.requested_bytes = event.requested_bytes + (text.empty() ? event.pending_bytes : 0);
    } else {
      evidence.requested_bytes = told;
    }
    holders = event.holders;
  } else if (memory != nullptr) {
    evidence.allocated_bytes = memory->peak_allocated_bytes();
    evidence.reserved_bytes = memory->peak_reserved_bytes();
    evidence.workspace_bytes = memory->peak_workspace_bytes();
    take_message(text, evidence);
    holders = memory->holder_lines().at_peak();
    verdict.evidence.emplace_back(
        "The device itself refused nothing: torch_npu did, by a limit of its own. Holders are those at the peak.");
  } else {
    take_message(text, evidence);
  }
  evidence.asked_for_workspace = contains(text, "NPUWorkspaceAllocator");
  if (candidate.event != nullptr) take_refused(process, candidate.event->record, directory, evidence, verdict);
  const Trend& trend = verdict.trend.trend;
  evidence.growth = trend.growth;
  evidence.grown_bytes = trend.grown_bytes;
  evidence.grown_steps = trend.grown_steps;

  verdict.memory_class = classify(evidence);
  verdict.evidence.insert(verdict.evidence.begin(), explain(verdict.memory_class, evidence));
  verdict.device = memory != nullptr ? memory->device() : -1;
  verdict.requested_bytes = evidence.requested_bytes;
  verdict.allocated_bytes = evidence.allocated_bytes;
  verdict.reserved_bytes = evidence.reserved_bytes;
  verdict.free_bytes = evidence.free_bytes;
  verdict.capacity_bytes = evidence.capacity_bytes;
  verdict.workspace_bytes = evidence.workspace_bytes;
  verdict.holders = holder_lines(process, holders, directory);
  if (verdict.line.empty()) verdict.line = line_text(SourceLine(), directory);
  if (verdict.memory_class == MemoryClass::kOversize) tell_operands(text, verdict.evidence);
  if (verdict.memory_class == MemoryClass::kFragmentation && candidate.event != nullptr)
    verdict.evidence.push_back(stranded_sentence(process, candidate.event->stranded, directory));
  std::string growing;
  if (verdict.memory_class == MemoryClass::kGrowth && memory != nullptr) {
    const auto grown = holder_lines(process, memory->holder_lines().growth_since_mark(), directory);
    if (trend.growth != Growth::kLeak) {
      growing = verdict.trend.growing_line;
    } else if (!grown.empty()) {
      growing = verdict.trend.growing_line = grown.front().line;
    }
    if (const uint32_t foretold = foretold_step(process, *memory); foretold > 0)
      verdict.evidence.push_back(
          fmt::format("The first {} steps alone foretold step {} as the first that does not fit.",
                      process.steps_ended() / 2 + 1, foretold));
  }
  const std::string settings = run.allocator_settings();
  const bool expandable = contains(settings, "expandable_segments:True") ||
                          contains(settings, "expandable_segments:true") ||
                          (memory != nullptr && memory->uses_virtual_memory());
  verdict.advice = advise(verdict.memory_class, evidence, expandable, settings, verdict.holders, growing);
}

bool is_users(const ProcessAccount& process, std::string_view file, std::string_view function) {
  return !file.empty() && trace::origin_of(file, function, process.python_minor) == trace::CodeOrigin::kUser;
}

const Exception* last_exception(const ProcessAccount& process) {
  return process.exceptions().empty() ? nullptr : &process.exceptions().back();
}

// The error to begin with: one that the exception names by its code, then one in the program's own code, then the
// earliest. Refusals of memory are no errors here: what the program did not cope with is an out of memory.
const ErrorKey* telling_error(const ProcessAccount& process, const Exception* exception) {
  const ErrorKey* best = nullptr;
  std::tuple<bool, bool, uint64_t> best_rank;
  for (const auto& [key, tally] : process.errors()) {
    if (key.code == code::ACL_ERROR_RT_MEMORY_ALLOCATION || key.code == code::ACL_ERROR_RT_DEVICE_OOM) continue;
    if (exception != nullptr && tally.first_record > exception->record) continue;
    const SourceLine line = key.line < process.lines.size() ? process.lines[key.line] : SourceLine();
    const bool is_named = exception != nullptr && contains(exception->text, std::to_string(key.code));
    const std::tuple rank(!is_named, !is_users(process, line.file, line.function), tally.first_record);
    if (best != nullptr && rank >= best_rank) continue;
    best = &key;
    best_rank = rank;
  }
  return best;
}

void take_error(const RunInfo& run, const ProcessAccount& process, EntryLookup entry_of, Verdict& verdict) {
  const Exception* exception = last_exception(process);
  const ErrorKey* error = telling_error(process, exception);
  if (error == nullptr) return;
  const SourceLine line = error->line < process.lines.size() ? process.lines[error->line] : SourceLine();
  const bool is_users_line = is_users(process, line.file, line.function);
  const std::string text = line_text(line, run.working_directory);
  const std::string name = entry_of(error->entry).name;
  std::string_view message = error->message;
  if (message.starts_with(name + ": ")) message.remove_prefix(name.size() + 2);
  verdict.evidence.push_back(
      fmt::format("{}: {} answered {} at {}: {}",
                  is_users_line ? "The device's first error in the program's code" : "The device's first error", name,
                  error->code, text, message));
  // The device works behind the program: a library often meets the error only where it waits.
  if (exception != nullptr && is_users_line && !is_users(process, exception->file, "") &&
      contains(exception->text, std::to_string(error->code)))
    verdict.line = text;
}

void judge_failure(const RunInfo& run, const std::vector<ProcessAccount>& processes, EntryLookup entry_of,
                   Verdict& verdict) {
  verdict.kind = VerdictKind::kFailed;
  const auto first_with = [&](auto holds) { return std::find_if(processes.begin(), processes.end(), holds); };
  const auto has_error = [](const ProcessAccount& process) {
    return telling_error(process, last_exception(process)) != nullptr;
  };
  auto decider = first_with([](const ProcessAccount& process) { return !process.exceptions().empty(); });
  if (decider != processes.end()) take_exception(decider->exceptions().back(), run.working_directory, verdict);
  // A parent that only says that its child failed has no error of its own.
  const auto source = decider != processes.end() && has_error(*decider) ? decider : first_with(has_error);
  if (decider == processes.end()) decider = source;
  if (decider != processes.end()) verdict.process = static_cast<int>(decider - processes.begin());
  if (source != processes.end()) take_error(run, *source, entry_of, verdict);
  const int32_t exit_code = run.exit_code.value_or(0);
  if (exit_code == 128 + 9)
    verdict.evidence.emplace_back(
        "The process was killed (SIGKILL). If nobody did that, the host ran out of its own memory: see dmesg.");
  else if (exit_code > 128 && exit_code < 128 + 65)
    verdict.evidence.push_back(fmt::format("The process was ended by signal {}.", exit_code - 128));
  else if (!run.exit_code && run.launcher_pid > 0)
    verdict.evidence.emplace_back("Ended unseen: drydock was killed before the program's end (exit code unknown).");
  else if (!run.exit_code && verdict.exception_type.empty())
    verdict.evidence.emplace_back(
        "Ended unseen: the program closed no trace, so it was killed, or left by _exit() (exit code unknown).");
}

// What is not known about the device must not look like a device that was not used.
void judge_traces(const std::vector<ProcessAccount>& processes, const UnreadTraces& unread, Verdict& verdict) {
  uint64_t records = 0;
  for (const ProcessAccount& process : processes) {
    records += process.records;
    if (process.truncated) ++verdict.truncated_traces;
  }
  verdict.unreadable_traces = unread.count;
  if (unread.count > 0 || !unread.folder_failure.empty()) {
    verdict.device_unknown =
        processes.empty()
            ? fmt::format("What happened on the device is unknown: {}", unread.first_reason)
            : fmt::format("What happened on the device is known in part: {} of {} traces can't be read. {}",
                          unread.count, unread.count + processes.size(), unread.first_reason);
  } else if (!processes.empty() && records == 0) {
    verdict.device_unknown =
        fmt::format("What happened on the device is unknown: no record is left in the trace {}.{}{}",
                    processes.front().trace_file, processes.front().problems.empty() ? "" : " ",
                    processes.front().problems.empty() ? "" : processes.front().problems.front());
  }
  if (!verdict.device_unknown.empty()) verdict.evidence.push_back(verdict.device_unknown);
}

}  // namespace

bool is_alive(int64_t process_id) {
  if (process_id <= 0 || process_id > INT32_MAX || kill(static_cast<pid_t>(process_id), 0) != 0) return false;
  // A process that ended and that nobody has waited for still takes signals. Its state stands behind its name.
  std::ifstream file(fmt::format("/proc/{}/stat", process_id));
  std::string text;
  if (!std::getline(file, text)) return true;
  const size_t name_end = text.rfind(')');
  return name_end == std::string::npos || name_end + 2 >= text.size() || text[name_end + 2] != 'Z';
}

std::string line_text(const SourceLine& line, std::string_view working_directory) {
  if (line.file.empty()) return "unknown line";
  std::string_view file = line.file;
  if (!working_directory.empty() && file.size() > working_directory.size() + 1 && file.starts_with(working_directory) &&
      file[working_directory.size()] == '/')
    file.remove_prefix(working_directory.size() + 1);
  return fmt::format("{}:{}", file, line.line);
}

std::string line_text(const ProcessAccount& process, trace::LineId line, std::string_view working_directory) {
  return line_text(line < process.lines.size() ? process.lines[line] : SourceLine(), working_directory);
}

Verdict judge(const RunInfo& run, const std::vector<ProcessAccount>& processes, const UnreadTraces& unread,
              EntryLookup entry_of) {
  Verdict verdict;
  bool finished = run.exit_code.value_or(0) == 0;
  if (!run.exit_code) {
    const bool is_launched = run.launcher_pid > 0;
    verdict.is_running = is_alive(run.launcher_pid);
    // Without an exit code only closed traces say that a run came to its end.
    if (processes.empty())
      finished = is_launched ? verdict.is_running : unread.count == 0 && unread.folder_failure.empty();
    for (const ProcessAccount& process : processes) {
      finished = finished && process.exceptions().empty() && (process.closed || process.is_running);
      verdict.is_running = verdict.is_running || process.is_running;
    }
  }
  const auto fewer_steps = [](const ProcessAccount& a, const ProcessAccount& b) {
    return a.steps_ended() < b.steps_ended();
  };
  const auto longest = std::max_element(processes.begin(), processes.end(), fewer_steps);
  if (longest != processes.end()) find_trend_of(*longest, run.working_directory, verdict.trend);
  if (!finished) {
    verdict.is_running = false;
    if (const std::optional<Candidate> candidate = find_out_of_memory(run, processes)) {
      find_trend_of(processes[static_cast<size_t>(candidate->process)], run.working_directory, verdict.trend);
      judge_out_of_memory(run, processes[static_cast<size_t>(candidate->process)], *candidate, verdict);
    } else {
      judge_failure(run, processes, entry_of, verdict);
    }
  }
  judge_traces(processes, unread, verdict);
  return verdict;
}

}  // namespace drydock::ledger
