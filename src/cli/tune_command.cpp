#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <set>
#include <thread>
#include <tuple>
#include <unistd.h>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/entry_names.h"
#include "cli/rerun.h"
#include "ledger/build.h"
#include "ledger/report.h"
#include "ledger/sizes.h"
#include "ledger/tune_results.h"
#include "replay/trace_history.h"
#include "tune/search.h"

namespace drydock::cli {
namespace {

namespace fs = std::filesystem;
using ledger::human_size;
using nlohmann::ordered_json;
using tune::Trial;

constexpr const char* kVariable = "PYTORCH_NPU_ALLOC_CONF";
constexpr int kMostConfirmations = 3;

std::atomic<bool> interrupted{false};

// Ctrl-C ends the search and keeps what is known; a program that is being run again gets it too.
class Interruptible {
 public:
  Interruptible() {
    struct sigaction action {};
    action.sa_handler = [](int) { interrupted.store(true); };
    sigaction(SIGINT, &action, &before_);
  }
  ~Interruptible() { sigaction(SIGINT, &before_, nullptr); }
  Interruptible(const Interruptible&) = delete;
  Interruptible& operator=(const Interruptible&) = delete;

 private:
  struct sigaction before_ {};
};

// On a terminal a line that is written over; nothing in a pipe.
void show_progress(size_t done, size_t all) {
  if (isatty(STDERR_FILENO) == 0) return;
  constexpr size_t kWidth = 30;
  const size_t filled = all == 0 ? kWidth : done * kWidth / all;
  fmt::print(stderr, "\rdrydock: {} of {} settings tried [{:<{}}]{}", done, all, std::string(filled, '='), kWidth,
             done == all ? "\n" : "");
  std::fflush(stderr);
}

struct Search {
  std::vector<replay::Workload> workloads;
  std::string settings;  ///< that the run had
  tune::Grid grid;
  std::vector<Trial> trials;  ///< ranked
  tune::Bound bound;
  double seconds = 0;
  std::vector<std::string> missing;
};

Status load(const fs::path& run, Search& search) {
  std::vector<std::string> paths;
  DRYDOCK_RETURN_IF_ERROR(replay::traces_of(run.string(), paths));
  for (const std::string& path : paths) {
    replay::History history;
    DRYDOCK_RETURN_IF_ERROR(replay::read_trace(path, history));
    search.missing.insert(search.missing.end(), history.missing.begin(), history.missing.end());
    for (const uint8_t device : replay::devices_of(history))
      search.workloads.push_back(replay::workload_of(history, device));
  }
  if (search.workloads.empty())
    return Status::error(ledger::kUnreadable,
                         fmt::format("no trace of {} has blocks of torch_npu's caching allocator, so there is nothing "
                                     "that its settings could change.",
                                     run.string()));
  return Status::ok();
}

// The request that a run died of must be met, too.
void demand(const ledger::Verdict& verdict, Search& search) {
  if (verdict.kind != ledger::VerdictKind::kOutOfMemory) return;
  for (replay::Workload& workload : search.workloads)
    if (workload.device == verdict.device) tune::demand_last_request(workload);
}

void carry_out(Search& search) {
  const auto begin = std::chrono::steady_clock::now();
  const bool many_streams = std::any_of(search.workloads.begin(), search.workloads.end(),
                                        [](const replay::Workload& workload) { return workload.streams > 1; });
  search.grid = tune::make_grid(search.settings, many_streams);
  search.bound = tune::lower_bound_of(search.workloads);
  search.trials = tune::try_all(search.workloads, search.grid, std::max(1U, std::thread::hardware_concurrency()),
                                interrupted, show_progress);
  tune::mark_front(search.trials);
  tune::rank(search.trials, search.grid);
  search.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

const std::string& text_of(const Search& search, const Trial& trial) {
  return search.grid.candidates[trial.candidate].text;
}

std::string shown(const std::string& setting) { return setting.empty() ? "(default)" : setting; }

std::string signed_size(int64_t bytes) {
  return bytes < 0 ? "-" + human_size(static_cast<uint64_t>(-bytes)) : human_size(static_cast<uint64_t>(bytes));
}

// The best ones, the front, and the run's own setting, in the order of their rank. A longer setting that comes to the
// same as a shorter one says nothing new.
std::vector<const Trial*> rows_to_show(const Search& search, size_t most) {
  std::vector<const Trial*> rows;
  size_t others = 0;
  std::set<std::tuple<bool, uint64_t, uint64_t, uint64_t, uint64_t>> seen;
  for (const Trial& trial : search.trials) {
    const std::string& text = text_of(search, trial);
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

void print_table(const Search& search, const std::vector<std::string>& confirmed, size_t most) {
  fmt::print("{:>11} {:>7} {:>8} {:>8} {:>5} {:>11}  setting\n", "reserved", "unused", "retries", "calls", "fits",
             "margin");
  for (const Trial* trial : rows_to_show(search, most)) {
    const std::string& text = text_of(search, *trial);
    std::string notes;
    if (trial->is_on_front) notes += " *";
    if (text == search.settings) notes += " (as it ran)";
    if (std::find(confirmed.begin(), confirmed.end(), text) != confirmed.end()) notes += " (confirmed)";
    fmt::print("{:>11} {:>6.1f}% {:>8} {:>8} {:>5} {:>11}  {}{}\n", human_size(trial->peak_reserved_bytes),
               100 * trial->fragmentation, trial->retries, trial->driver_calls, trial->fits ? "yes" : "no",
               signed_size(trial->margin_bytes), shown(text), notes);
  }
  fmt::print("*: nothing that fits has both a lower peak and fewer driver calls\n");
}

std::vector<ledger::TuneResult> rows_of(const Search& search, const std::vector<std::string>& confirmed) {
  std::vector<ledger::TuneResult> rows;
  for (const Trial& trial : search.trials) {
    const std::string& text = text_of(search, trial);
    rows.push_back({.setting = text,
                    .peak_reserved_bytes = trial.peak_reserved_bytes,
                    .peak_allocated_bytes = trial.peak_allocated_bytes,
                    .fragmentation = trial.fragmentation,
                    .retries = trial.retries,
                    .driver_calls = trial.driver_calls,
                    .fits = trial.fits,
                    .margin_bytes = trial.margin_bytes,
                    .is_pareto = trial.is_on_front,
                    .is_confirmed = std::find(confirmed.begin(), confirmed.end(), text) != confirmed.end()});
  }
  return rows;
}

class Tuning {
 public:
  explicit Tuning(const TuneOptions& options) : options_(options) {}

  int run() {
    std::error_code error;
    run_ = fs::absolute(options_.run, error).lexically_normal();
    if (!run_.has_filename()) run_ = run_.parent_path();
    if (!fs::is_directory(run_, error))
      return refuse(fmt::format("{} is no run folder: tune needs the traces in one.", run_.string()));
    if (Status status = ledger::open_run(run_, false, entry_of, report_); !status.is_ok())
      return refuse(status.message());
    Search search;
    if (Status status = load(run_, search); !status.is_ok()) return refuse(status.message());
    search.settings = report_.run.variable(kVariable);
    if (search.settings.empty()) search.settings = report_.run.variable("PYTORCH_ALLOC_CONF");
    demand(report_.verdict, search);
    {
      const Interruptible interruptible;
      carry_out(search);
      if (!options_.no_confirm && !interrupted) confirm_best(search);
    }
    if (search.trials.empty()) return refuse("interrupted before a setting was tried.");
    if (Status status = write(search); !status.is_ok()) complain(status.message());
    if (options_.json) {
      print_json(search);
    } else {
      print(search);
    }
    const bool found = search.trials.front().fits;
    return found && (options_.no_confirm || !confirmed_.empty()) ? 0 : 1;
  }

 private:
  static int refuse(const std::string& sentence) {
    complain(sentence);
    return kExitUsage;
  }

  // Runs the program under the best setting; if it dies later than the run that the search stood on, the search is
  // made again on the longer one.
  void confirm_best(Search& search) {
    while (static_cast<int>(confirmations_.size()) < kMostConfirmations && !interrupted) {
      if (search.trials.empty() || !search.trials.front().fits) return;
      const std::string setting = text_of(search, search.trials.front());
      const bool ran_so = setting == search.settings && report_.verdict.kind == ledger::VerdictKind::kRan;
      if (ran_so) {
        confirmed_.push_back(setting);  // the run itself is the proof
        return;
      }
      announce(setting);
      confirmations_.push_back(run_again(report_.run, run_, "tune", {{kVariable, setting}}));
      const RerunEnd& last = confirmations_.back();
      if (last.holds) confirmed_.push_back(setting);
      if (last.holds || !last.out_of_memory) return;
      Search longer;
      if (!load(last.folder, longer).is_ok()) return;
      longer.settings = search.settings;
      demand(last.verdict, longer);
      carry_out(longer);
      if (longer.trials.empty()) return;
      search = std::move(longer);
      const std::string next = text_of(search, search.trials.front());
      const bool is_known = std::any_of(confirmations_.begin(), confirmations_.end(),
                                        [&](const RerunEnd& each) { return each.environment.at(kVariable) == next; });
      if (is_known) return;  // the model says it fits, the program says it does not: nothing better is known
    }
  }

  void announce(const std::string& setting) const {
    if (isatty(STDERR_FILENO) != 0)
      fmt::print(stderr, "drydock: running the program again with {}={} (folder and log: {}/tune-...)\n", kVariable,
                 setting, run_.string());
  }

  Status write(const Search& search) const {
    if (report_.ledger.empty()) return Status::ok();
    return ledger::write_tune_results(report_.ledger, rows_of(search, confirmed_));
  }

  void print_scope(const Search& search) const {
    uint64_t operations = 0;
    for (const replay::Workload& workload : search.workloads) operations += workload.operations.size();
    const bool whole = search.trials.size() == search.grid.candidates.size();
    fmt::print(
        "{} of {} settings tried on {} requests of {} device{} in {:.1f} s: {}. {} combinations are left out, "
        "as torch_npu refuses them at start.\n",
        search.trials.size(), search.grid.candidates.size(), operations, search.workloads.size(),
        search.workloads.size() == 1 ? "" : "s", search.seconds,
        whole ? "the whole grid" : "interrupted, so a better one may be among the rest", search.grid.illegal);
    fmt::print("grid: {}\n", search.grid.description);
    if (report_.verdict.kind == ledger::VerdictKind::kOutOfMemory)
      fmt::print("The run died in step {}: what it would have asked for later is not in its trace.\n",
                 report_.verdict.step);
    for (const std::string& sentence : search.missing) fmt::print("missing: {}\n", sentence);
  }

  void print_impossible(const Search& search) const {
    const tune::Bound& bound = search.bound;
    if (bound.is_impossible) {
      fmt::print(
          "IMPOSSIBLE: no setting can do it. Live blocks alone need {} in pages of 2 MiB on npu:{}, and the "
          "allocator can have {}: they must shrink by {}.\n",
          human_size(bound.needed_bytes), bound.device, human_size(bound.room_bytes),
          human_size(bound.needed_bytes - bound.room_bytes));
    } else {
      fmt::print(
          "NONE of the grid fits. Live blocks need {} in pages of 2 MiB on npu:{}, and the allocator can have {}, "
          "so that the rest is fragmentation.\n",
          human_size(bound.needed_bytes), bound.device, human_size(bound.room_bytes));
    }
    for (const ledger::HolderLine& holder : report_.verdict.holders)
      fmt::print("  {:>10} in {} blocks from {}\n", human_size(holder.bytes), holder.blocks, holder.line);
  }

  void print(const Search& search) const {
    print_table(search, confirmed_, static_cast<size_t>(options_.rows));
    print_scope(search);
    for (const RerunEnd& each : confirmations_) {
      fmt::print("{} with {}: {} after {} steps, {:.1f} s, peak reserved {} ({})\n",
                 each.holds ? "confirmed" : "run again", shown(each.environment.at(kVariable)),
                 each.holds           ? "ran to its end"
                 : each.out_of_memory ? "out of memory"
                                      : fmt::format("exit code {}", each.exit_code),
                 each.steps, each.seconds, human_size(each.peak_reserved_bytes), each.folder.string());
    }
    const Trial& best = search.trials.front();
    if (!best.fits) return print_impossible(search);
    const std::string& setting = text_of(search, best);
    if (setting == search.settings) {
      fmt::print("Keep what you have: {} is among the best.\n", shown(setting));
    } else if (setting.empty()) {
      fmt::print("unset {}\n", kVariable);
    } else {
      fmt::print("export {}={}\n", kVariable, setting);
    }
    if (confirmed_.empty()) fmt::print("This is what the model says; no run has confirmed it.\n");
  }

  void print_json(const Search& search) const {
    ordered_json json;
    const Trial& best = search.trials.front();
    json["found"] = best.fits;
    json["setting"] = best.fits ? ordered_json(text_of(search, best)) : ordered_json(nullptr);
    json["confirmed"] = !confirmed_.empty();
    json["impossible"] = search.bound.is_impossible;
    json["needed_bytes"] = search.bound.needed_bytes;
    json["room_bytes"] = search.bound.room_bytes;
    json["search_s"] = search.seconds;
    json["grid"] = search.grid.description;
    json["is_exhaustive"] = search.trials.size() == search.grid.candidates.size();
    json["illegal"] = search.grid.illegal;
    json["missing"] = search.missing;
    json["confirmations"] = ordered_json::array();
    for (const RerunEnd& each : confirmations_)
      json["confirmations"].push_back({{"setting", each.environment.at(kVariable)},
                                       {"holds", each.holds},
                                       {"out_of_memory", each.out_of_memory},
                                       {"exit_code", each.exit_code},
                                       {"steps", each.steps},
                                       {"peak_reserved_bytes", each.peak_reserved_bytes},
                                       {"run", each.folder.string()}});
    json["settings"] = ordered_json::array();
    for (const ledger::TuneResult& row : rows_of(search, confirmed_))
      json["settings"].push_back({{"setting", row.setting},
                                  {"peak_reserved_bytes", *row.peak_reserved_bytes},
                                  {"peak_allocated_bytes", *row.peak_allocated_bytes},
                                  {"fragmentation", *row.fragmentation},
                                  {"retries", *row.retries},
                                  {"driver_calls", *row.driver_calls},
                                  {"fits", *row.fits},
                                  {"margin_bytes", *row.margin_bytes},
                                  {"pareto", row.is_pareto},
                                  {"confirmed", row.is_confirmed}});
    std::puts(json.dump(2).c_str());
  }

  const TuneOptions& options_;
  fs::path run_;
  ledger::Report report_;
  std::vector<RerunEnd> confirmations_;
  std::vector<std::string> confirmed_;
};

}  // namespace

int tune_command(const TuneOptions& options) { return Tuning(options).run(); }

}  // namespace drydock::cli
