#include "cli/tune_search.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <new>
#include <set>
#include <thread>
#include <tuple>
#include <unistd.h>

#include <fmt/format.h>

#include "cli/interruption.h"
#include "ledger/sizes.h"
#include "replay/trace_history.h"

namespace drydock::cli {
namespace {

namespace fs = std::filesystem;
using ledger::human_size;
using tune::Trial;

constexpr size_t kMostConfirmations = 3;

// On a terminal a line that is written over; nothing in a pipe.
void show_progress(size_t done, size_t all) {
  if (isatty(STDERR_FILENO) == 0) return;
  constexpr size_t kWidth = 30;
  const size_t filled = all == 0 ? kWidth : done * kWidth / all;
  fmt::print(stderr, "\rdrydock: {} of {} settings tried [{:<{}}]{}", done, all, std::string(filled, '='), kWidth,
             done == all ? "\n" : "");
  std::fflush(stderr);
}

void carry_out(Search& search) {
  const auto begin = std::chrono::steady_clock::now();
  const bool many_streams = std::any_of(search.workloads.begin(), search.workloads.end(),
                                        [](const replay::Workload& workload) { return workload.streams > 1; });
  search.grid = tune::make_grid(search.settings, many_streams);
  search.bound = tune::lower_bound_of(search.workloads);
  search.trials = tune::try_all(search.workloads, search.grid, std::max(1U, std::thread::hardware_concurrency()),
                                interruption(), show_progress);
  tune::mark_front(search.trials);
  tune::rank(search.trials, search.grid);
  search.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace

Status load_workloads(const fs::path& run, const ledger::Verdict& verdict, std::vector<replay::Workload>& workloads,
                      std::vector<std::string>& missing) {
  std::vector<std::string> paths;
  DRYDOCK_RETURN_IF_ERROR(replay::traces_of(run.string(), paths));
  for (const std::string& path : paths) {
    replay::History history;
    DRYDOCK_RETURN_IF_ERROR(replay::read_trace(path, history));
    missing.insert(missing.end(), history.missing.begin(), history.missing.end());
    for (const uint8_t device : replay::devices_of(history)) workloads.push_back(replay::workload_of(history, device));
  }
  if (workloads.empty())
    return Status::error(ledger::kUnreadable,
                         fmt::format("no trace of {} has blocks of torch_npu's caching allocator, so there is nothing "
                                     "that its settings could change.",
                                     run.string()));
  if (verdict.kind == ledger::VerdictKind::kOutOfMemory)
    for (replay::Workload& workload : workloads)
      if (workload.device == verdict.device) tune::demand_last_request(workload);
  return Status::ok();
}

Status search_settings(const fs::path& run, const ledger::RunInfo& info, const ledger::Verdict& verdict,
                       Search& search) {
  DRYDOCK_RETURN_IF_ERROR(load_workloads(run, verdict, search.workloads, search.missing));
  search.settings = info.allocator_settings();
  try {
    carry_out(search);
  } catch (const std::bad_alloc&) {
    return Status::error(ledger::kUnreadable,
                         "The search found no room in the host's memory: it replays the whole run "
                         "on every core.");
  }
  return Status::ok();
}

bool Confirmation::is_confirmed(const std::string& setting) const {
  return std::find(confirmed_.begin(), confirmed_.end(), setting) != confirmed_.end();
}

void Confirmation::announce(const std::string& setting) const {
  if (isatty(STDERR_FILENO) != 0)
    fmt::print(stderr, "drydock: running the program again with {}={} (folder and log: {}/{}-...)\n",
               kAllocatorVariable, setting, parent_.string(), name_);
}

void Confirmation::confirm_best(const ledger::Verdict& verdict, Search& search) {
  while (runs_.size() < kMostConfirmations && !interruption()) {
    if (!search.found()) return;
    const std::string setting = search.text_of(search.trials.front());
    if (setting == search.settings && verdict.kind == ledger::VerdictKind::kRan) {
      confirmed_.push_back(setting);  // the run itself is the proof
      return;
    }
    announce(setting);
    std::map<std::string, std::string> environment = environment_;
    environment[kAllocatorVariable] = setting;
    runs_.push_back(run_again(info_, parent_, name_, environment));
    const RerunEnd& last = runs_.back();
    if (last.holds && !last.is_interrupted) confirmed_.push_back(setting);
    if (last.holds || !last.out_of_memory) return;
    Search longer;
    if (!search_settings(last.folder, info_, last.verdict, longer).is_ok() || longer.trials.empty()) return;
    longer.settings = search.settings;
    search = std::move(longer);
    const std::string& next = search.text_of(search.trials.front());
    const bool is_known =
        std::any_of(runs_.begin(), runs_.end(), [&](const RerunEnd& each) { return setting_of(each) == next; });
    if (is_known) return;  // the model says it fits, the program says it does not: nothing better is known
  }
}

std::vector<const Trial*> rows_to_show(const Search& search, size_t most) {
  std::vector<const Trial*> rows;
  size_t others = 0;
  std::set<std::tuple<bool, uint64_t, uint64_t, uint64_t, uint64_t>> seen;
  for (const Trial& trial : search.trials) {
    const std::string& text = search.text_of(trial);
    const bool is_new = seen.emplace(trial.fits, trial.peak_reserved_bytes, trial.peak_allocated_bytes, trial.retries,
                                     trial.driver_calls)
                            .second;
    if (most != 0 && !is_new && text != search.settings && !text.empty()) continue;
    const bool always = trial.is_on_front || text == search.settings || text.empty();
    if (most == 0 || always || others < most) rows.push_back(&trial);
    if (!always) ++others;
  }
  return rows;
}

std::vector<ledger::TuneResult> results_of(const Search& search, const Confirmation& confirmation) {
  std::vector<ledger::TuneResult> rows;
  for (const Trial& trial : search.trials) {
    const std::string& text = search.text_of(trial);
    rows.push_back({.setting = text,
                    .peak_reserved_bytes = trial.peak_reserved_bytes,
                    .peak_allocated_bytes = trial.peak_allocated_bytes,
                    .fragmentation = trial.fragmentation,
                    .retries = trial.retries,
                    .driver_calls = trial.driver_calls,
                    .fits = trial.fits,
                    .margin_bytes = trial.margin_bytes,
                    .is_pareto = trial.is_on_front,
                    .is_confirmed = confirmation.is_confirmed(text)});
  }
  return rows;
}

nlohmann::ordered_json json_of_result(const ledger::TuneResult& row) {
  return {{"setting", row.setting},
          {"peak_reserved_bytes", *row.peak_reserved_bytes},
          {"peak_allocated_bytes", *row.peak_allocated_bytes},
          {"fragmentation", *row.fragmentation},
          {"retries", *row.retries},
          {"driver_calls", *row.driver_calls},
          {"fits", *row.fits},
          {"margin_bytes", *row.margin_bytes},
          {"pareto", row.is_pareto},
          {"confirmed", row.is_confirmed}};
}

std::string shown(const std::string& setting) { return setting.empty() ? "(default)" : setting; }

std::string signed_size(int64_t bytes) {
  return bytes < 0 ? "-" + human_size(static_cast<uint64_t>(-bytes)) : human_size(static_cast<uint64_t>(bytes));
}

std::string table_head() {
  return fmt::format("{:>11} {:>7} {:>8} {:>8} {:>5} {:>11}  setting\n", "reserved", "unused", "retries", "calls",
                     "fits", "margin");
}

std::string table_row(const Trial& trial, const std::string& setting, const std::string& notes) {
  return fmt::format("{:>11} {:>6.1f}% {:>8} {:>8} {:>5} {:>11}  {}{}\n", human_size(trial.peak_reserved_bytes),
                     100 * trial.fragmentation, trial.retries, trial.driver_calls, trial.fits ? "yes" : "no",
                     signed_size(trial.margin_bytes), shown(setting), notes);
}

std::string table_row_without(const std::string& reason) {
  return fmt::format("{:>11} {:>7} {:>8} {:>8} {:>5} {:>11}  {}\n", "-", "-", "-", "-", "-", "-", reason);
}

std::string export_line(const std::string& setting) {
  return setting.empty() ? fmt::format("unset {}\n", kAllocatorVariable)
                         : fmt::format("export {}={}\n", kAllocatorVariable, setting);
}

std::string impossible_text(const Search& search, const std::vector<ledger::HolderLine>& holders) {
  const tune::Bound& bound = search.bound;
  std::string text;
  if (search.need)
    text = search.need->holds ? fmt::format("On a larger device the program ran to its end ({} steps, {}). ",
                                            search.need->steps, search.need->folder.string())
                              : fmt::format("It dies on a device with several times the memory, too, in step {} ({}). ",
                                            search.need->verdict.step, search.need->folder.string());
  const std::string need =
      fmt::format("{} {} in pages of 2 MiB on npu:{}, and the allocator can have {}",
                  search.need && !search.need->holds ? "Live blocks alone need more than" : "Live blocks alone need",
                  human_size(bound.needed_bytes), bound.device, human_size(bound.room_bytes));
  if (!bound.is_impossible) return fmt::format("NONE of the grid fits. {}{}: the rest is fragmentation.\n", text, need);
  const uint64_t excess = bound.needed_bytes - bound.room_bytes;
  const auto percent = [excess](uint64_t of) { return 100.0 * static_cast<double>(excess) / static_cast<double>(of); };
  text = fmt::format("IMPOSSIBLE: no setting can do it. {}{}: they must shrink by {} ({:.1f}% of them).\n", text, need,
                     human_size(excess), percent(bound.needed_bytes));
  for (const ledger::HolderLine& holder : search.need ? search.need->peak_holders : holders) {
    text += fmt::format("  {:>10} in {} blocks from {}", human_size(holder.bytes), holder.blocks, holder.line);
    text += holder.bytes >= excess ? fmt::format(": {:.1f}% less of it would do\n", percent(holder.bytes))
                                   : ": not enough by itself\n";
  }
  return text;
}

}  // namespace drydock::cli
