#include "watch/run_follower.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "ledger/memory_records.h"
#include "ledger/run_info.h"
#include "ledger/verdict.h"

namespace drydock::watch {
namespace fs = std::filesystem;
namespace {

DeviceFigures figures_of(const ledger::MemoryAccount& account) {
  // Until the first block it is not known whether driver memory is the caching allocator's.
  DeviceFigures figures{account.has_blocks() ? account.allocated_bytes() : 0, account.reserved_bytes(),
                        account.workspace_bytes()};
  for (const auto& [what, bytes] : account.overheads()) figures.overheads += bytes;
  return figures;
}

DeviceFigures higher(const DeviceFigures& a, const DeviceFigures& b) {
  return {std::max(a.allocated, b.allocated), std::max(a.reserved, b.reserved), std::max(a.workspace, b.workspace),
          std::max(a.overheads, b.overheads)};
}

void add_up(DeviceFigures& sum, const DeviceFigures& figures) {
  sum.allocated += figures.allocated;
  sum.reserved += figures.reserved;
  sum.workspace += figures.workspace;
  sum.overheads += figures.overheads;
}

}  // namespace

void Curve::add(uint64_t time_ns, const DeviceFigures& figures) {
  while (time_ns / step_ns_ >= kMostSteps) {
    step_ns_ *= 2;
    for (size_t index = 0; index < steps_.size(); index += 2)
      steps_[index / 2] = index + 1 < steps_.size() ? higher(steps_[index], steps_[index + 1]) : steps_[index];
    steps_.resize((steps_.size() + 1) / 2);
  }
  const size_t index = time_ns / step_ns_;
  // In a step without changes the figures are those before it.
  if (index >= steps_.size()) steps_.resize(index + 1, last_);
  steps_[index] = higher(steps_[index], figures);
  last_ = figures;
}

DeviceFigures Curve::highest(uint64_t begin_ns, uint64_t end_ns) const {
  const size_t begin = begin_ns / step_ns_;
  if (begin >= steps_.size()) return last_;
  const size_t end = std::min<size_t>(std::max<size_t>((end_ns + step_ns_ - 1) / step_ns_, begin + 1), steps_.size());
  DeviceFigures figures;
  for (size_t index = begin; index < end; ++index) figures = higher(figures, steps_[index]);
  return figures;
}

void RunFollower::open_new() {
  std::vector<fs::path> paths;
  std::error_code error;
  if (fs::is_directory(run_, error)) {
    for (fs::directory_iterator entry(run_ / "traces", error); !error && entry != fs::directory_iterator();
         entry.increment(error))
      if (entry->path().extension() == ".ddtrace") paths.push_back(entry->path());
  } else {
    paths.push_back(run_);
  }
  std::sort(paths.begin(), paths.end());
  for (const fs::path& path : paths) {
    const bool is_known = std::any_of(processes_.begin(), processes_.end(), [&](const Process& process) {
      return process.reader->info().path == path.string();
    });
    if (is_known) continue;
    const uint64_t size = fs::file_size(path, error);
    const auto tried = unreadable_.find(path.string());
    if (tried != unreadable_.end() && tried->second == size) continue;
    Process process;
    if (Status status = trace::Reader::open(path.string(), process.reader); !status.is_ok()) {
      if (tried == unreadable_.end()) problems_.push_back(status.message());
      unreadable_[path.string()] = size;  // a process that is just making it
      continue;
    }
    processes_.push_back(std::move(process));
  }
  std::stable_sort(processes_.begin(), processes_.end(), [](const Process& a, const Process& b) {
    return a.reader->info().start_wall_ns < b.reader->info().start_wall_ns;
  });
  for (Process& process : processes_)
    process.offset_ns = static_cast<uint64_t>(
        std::max<int64_t>(process.reader->info().start_wall_ns - processes_.front().reader->info().start_wall_ns, 0));
}

void RunFollower::read(Process& process) {
  process.is_alive = !process.reader->info().closed && ledger::is_alive(process.reader->info().pid);
  trace::Record record;
  while (process.reader->next(record)) {
    if (record.kind < trace::Kind::kOperator) continue;
    const uint64_t now = process.offset_ns + record.time_ns;
    process.last_ns = std::max(process.last_ns, now);
    if (record.kind == trace::Kind::kStep) ++process.steps;
    if (!ledger::is_memory_record(record.kind) || record.device < 0) continue;
    ledger::MemoryAccount& account = process.accounts.try_emplace(record.device, record.device).first->second;
    if (ledger::take_memory_record(*process.reader, record, account))
      process.curves[record.device].add(now, figures_of(account));
  }
}

Status RunFollower::poll() {
  std::error_code error;
  if (!fs::exists(run_, error))
    return Status::error(ledger::kUnreadable, fmt::format("There is no run {}.", run_.string()));
  open_new();
  if (processes_.empty() && !fs::is_directory(run_, error))
    return Status::error(ledger::kUnreadable,
                         problems_.empty() ? fmt::format("{} can't be read.", run_.string()) : problems_.front());
  for (Process& process : processes_) {
    process.reader->resume();
    read(process);
  }
  return Status::ok();
}

std::vector<int32_t> RunFollower::devices() const {
  std::set<int32_t> devices;
  for (const Process& process : processes_)
    for (const auto& [device, account] : process.accounts) devices.insert(device);
  return {devices.begin(), devices.end()};
}

DeviceFigures RunFollower::now(int32_t device, bool only_alive) const {
  DeviceFigures sum;
  for (const Process& process : processes_) {
    const auto account = process.accounts.find(device);
    if (account == process.accounts.end() || (only_alive && !process.is_alive)) continue;
    add_up(sum, figures_of(account->second));
  }
  return sum;
}

DeviceFigures RunFollower::highest(int32_t device, uint64_t begin_ns, uint64_t end_ns) const {
  DeviceFigures sum;
  for (const Process& process : processes_) {
    const auto curve = process.curves.find(device);
    const bool is_there = end_ns > process.offset_ns && (process.is_alive || begin_ns <= process.last_ns);
    if (curve != process.curves.end() && is_there) add_up(sum, curve->second.highest(begin_ns, end_ns));
  }
  return sum;
}

uint64_t RunFollower::last_ns() const {
  uint64_t last = 0;
  for (const Process& process : processes_) last = std::max(last, process.last_ns);
  return last;
}

uint32_t RunFollower::steps() const {
  uint32_t steps = 0;
  for (const Process& process : processes_) steps = std::max(steps, process.steps);
  return steps;
}

bool RunFollower::has_ended() const {
  if (std::any_of(processes_.begin(), processes_.end(), [](const Process& process) { return process.is_alive; }))
    return false;
  ledger::RunInfo info;
  std::error_code error;
  if (!fs::is_directory(run_, error) || !ledger::read_run_info(run_, info).is_ok()) return true;
  if (info.exit_code) return true;
  // Nobody waits for a shell's programs (`drydock env`): the run may go on with another one, or not.
  return info.launcher_pid != 0 ? !ledger::is_alive(info.launcher_pid) : !processes_.empty();
}

}  // namespace drydock::watch
