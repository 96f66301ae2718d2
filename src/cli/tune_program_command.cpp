#include <algorithm>
#include <cstdio>
#include <optional>
#include <string>
#include <unistd.h>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/interruption.h"
#include "cli/program_runs.h"
#include "cli/tune_need.h"
#include "cli/tune_search.h"
#include "ledger/build.h"
#include "tune/variation.h"

namespace drydock::cli {
namespace {

using nlohmann::ordered_json;
using tune::Trial;

constexpr size_t kMostVariations = 64;

struct Entry {
  tune::Variation variation;
  tune::Placed placed;
  RerunEnd run;
  std::optional<Search> search;  ///< none where the program failed, or used no device
  std::optional<Confirmation> confirmation;
  std::string failure;  ///< why there is no search

  bool fits() const { return search && search->found(); }
  const std::string& best_setting() const { return search->text_of(search->trials.front()); }
};

class ProgramTuning {
 public:
  explicit ProgramTuning(const TuneOptions& options) : options_(options) {}

  int run() {
    if (Status status = read_axes(); !status.is_ok()) return refuse(status.message());
    if (Status status = runs_.prepare(options_.program, options_.steps); !status.is_ok())
      return refuse(status.message());
    {
      const Interruptible interruptible;
      for (Entry& entry : entries_) {
        if (is_interrupted_) break;
        try_variation(entry);
      }
      find_winner();
      if (winner_ != nullptr && !options_.no_confirm && !is_interrupted_) confirm(*winner_);
      if (interruption()) is_interrupted_ = true;
    }
    std::erase_if(entries_, [](const Entry& entry) { return !is_known(entry); });
    find_winner();
    notice_what_changes_nothing();
    for (const Entry& entry : entries_) keep(entry);
    if (options_.json) {
      print_json();
    } else {
      print();
    }
    if (is_interrupted_) return kExitInterrupted;
    const bool has_failed =
        std::all_of(entries_.begin(), entries_.end(), [](const Entry& each) { return !each.search; });
    if (has_failed) return refuse("no variation of the program could be searched: see the reasons above.");
    if (winner_ == nullptr) return 1;
    return options_.no_confirm || winner_->confirmation->has_confirmed() ? 0 : 1;
  }

 private:
  static bool is_known(const Entry& entry) { return entry.search || !entry.failure.empty(); }

  Status read_axes() {
    size_t count = 1;
    for (const std::string& text : options_.vary) {
      tune::Axis axis;
      if (Status status = tune::parse_axis(text, axis); !status.is_ok())
        return Status::error(status.code(), "--vary: " + status.message());
      if (axis.name == kAllocatorVariable || axis.name == "PYTORCH_ALLOC_CONF")
        return Status::error(tune::kBadVariation, fmt::format("--vary: {} is what tune itself varies.", axis.name));
      if (std::any_of(axes_.begin(), axes_.end(), [&](const tune::Axis& other) { return other.name == axis.name; }))
        return Status::error(tune::kBadVariation, fmt::format("--vary: {} is there twice.", axis.name));
      count *= axis.values.size();
      if (count > kMostVariations)
        return Status::error(tune::kBadVariation,
                             fmt::format("--vary: that is more than {} variations, each a run of the program. Allow "
                                         "fewer values.",
                                         kMostVariations));
      axes_.push_back(std::move(axis));
    }
    for (tune::Variation& variation : tune::combinations_of(axes_)) {
      Entry entry;
      DRYDOCK_RETURN_IF_ERROR(tune::place(options_.program.command, variation, entry.placed));
      entry.variation = std::move(variation);
      entries_.push_back(std::move(entry));
    }
    return Status::ok();
  }

  void announce(const Entry& entry, const char* what) const {
    if (isatty(STDERR_FILENO) != 0)
      fmt::print(stderr, "drydock: variation {} of {}: {}: {}\n", &entry - entries_.data() + 1, entries_.size(),
                 tune::text_of(entry.variation), what);
  }

  // A run that died is known up to there only: it goes on under the setting that would have cured it. Where nothing
  // fits and where the run came to its end, the search is final as it is.
  void try_variation(Entry& entry) {
    announce(entry, "running");
    entry.run = runs_.run(entry.placed, entry.variation);
    if (entry.run.is_interrupted) {
      is_interrupted_ = true;
      return;
    }
    if (!entry.run.holds && !entry.run.out_of_memory) {
      entry.failure = outcome_of(entry.run);
      return;
    }
    announce(entry, "searching");
    Search search;
    const ledger::RunInfo info = runs_.info_of(entry.placed);
    if (Status status = search_settings(entry.run.folder, info, entry.run.verdict, search); !status.is_ok()) {
      entry.failure = status.message();
      return;
    }
    if (search.trials.empty()) {
      is_interrupted_ = true;
      return;
    }
    entry.search = std::move(search);
    entry.confirmation.emplace(info, runs_.folder(), ProgramRuns::name_of(entry.variation) + "-tuned",
                               runs_.environment_of(entry.placed));
    if (entry.run.out_of_memory && !options_.no_confirm) {
      confirm(entry);
      learn_need(info, runs_.folder(), ProgramRuns::name_of(entry.variation), runs_.environment_of(entry.placed),
                 *entry.search);
    }
    if (interruption()) is_interrupted_ = true;
  }

  void confirm(Entry& entry) {
    if (entry.confirmation->has_confirmed()) return;
    entry.confirmation->confirm_best(entry.run.verdict, *entry.search);
    // A run under another setting may show what the model does not: then it counts, and not the model.
    const std::vector<RerunEnd>& runs = entry.confirmation->runs();
    if (!entry.confirmation->has_confirmed() && !runs.empty() && !runs.back().is_interrupted &&
        !runs.back().out_of_memory && !runs.back().holds)
      entry.failure = fmt::format("failed when run again: {}", reason_of(runs.back()));
  }

  // Values are listed from the frugal to the wanted: the latest ones that fit, the first axis first.
  void find_winner() {
    winner_ = nullptr;
    for (Entry& entry : entries_) {
      const bool is_refuted = entry.confirmation && !options_.no_confirm && !entry.confirmation->runs().empty() &&
                              !entry.confirmation->has_confirmed();
      if (entry.fits() && !is_refuted) winner_ = &entry;  // combinations come in that order
    }
  }

  static bool differ_only_in(const std::string& name, const Entry& a, const Entry& b) {
    for (size_t index = 0; index < a.variation.size(); ++index)
      if ((a.variation[index].second != b.variation[index].second) != (a.variation[index].first == name)) return false;
    return true;
  }

  void notice_what_changes_nothing() {
    for (const tune::Axis& axis : axes_) {
      size_t compared = 0;
      std::vector<std::string> same;
      for (size_t first = 0; first < entries_.size(); ++first) {
        for (size_t second = first + 1; second < entries_.size(); ++second) {
          const Entry& a = entries_[first];
          const Entry& b = entries_[second];
          if (!a.search || !b.search || !differ_only_in(axis.name, a, b)) continue;
          ++compared;
          if (is_same_program(a.run, b.run))
            same.push_back(fmt::format("{} and {}", tune::text_of(a.variation), tune::text_of(b.variation)));
        }
      }
      if (same.empty()) continue;
      if (same.size() == compared) {
        const tune::Channel channel = tune::channel_of(options_.program.command, axis.name, axes_.size() == 1);
        notes_.push_back(fmt::format(
            "--vary {} changes nothing: the program makes the same calls and holds the same bytes whatever it is. {}",
            axis.name, tune::describe_channel(channel, axis.name)));
      } else {
        for (const std::string& pair : same)
          notes_.push_back(fmt::format("{} are the same to the program: the same calls and bytes.", pair));
      }
    }
  }

  // Each run's ledger has its table, for its report.
  static void keep(const Entry& entry) {
    if (!entry.search) return;
    const Status status =
        ledger::write_tune_results(entry.run.folder / "ledger.sqlite", results_of(*entry.search, *entry.confirmation));
    if (!status.is_ok()) complain(status.message());
  }

  void print_rows(const Entry& entry, size_t width) const {
    const std::string text = tune::text_of(entry.variation);
    const auto failed_row = [&](const std::string& reason) {
      fmt::print("{:<{}} {}", text, width, table_row_without(reason));
    };
    if (!entry.search) return failed_row(entry.failure);
    for (const Trial* trial : rows_to_show(*entry.search, static_cast<size_t>(options_.rows))) {
      const std::string& setting = entry.search->text_of(*trial);
      std::string notes;
      if (trial->is_on_front) notes += " *";
      if (setting == entry.search->settings && entry.run.holds) notes += " (ran)";
      if (entry.confirmation->is_confirmed(setting) && setting != entry.search->settings) notes += " (confirmed)";
      fmt::print("{:<{}} {}", text, width, table_row(*trial, setting, notes));
    }
    if (!entry.failure.empty()) failed_row(entry.failure);
  }

  void print() const {
    size_t width = 9;
    for (const Entry& entry : entries_) width = std::max(width, tune::text_of(entry.variation).size());
    fmt::print("{:<{}} {}", "variation", width, table_head());
    for (const Entry& entry : entries_) print_rows(entry, width);
    fmt::print("*: nothing of the same variation that fits has both a lower peak and fewer driver calls\n");
    size_t tried = 0;
    size_t whole = 0;
    size_t searched = 0;
    double seconds = 0;
    for (const Entry& entry : entries_) {
      if (!entry.search) continue;
      ++searched;
      tried += entry.search->trials.size();
      if (entry.search->is_whole()) ++whole;
      seconds += entry.search->seconds;
    }
    fmt::print("{} of {} variations run, {} settings tried on {} of them in {:.1f} s: {}.{}\n", entries_.size(),
               tune::combinations_of(axes_).size(), tried, searched, seconds,
               whole == searched ? "the whole grid" : "not the whole grid",
               is_interrupted_ ? " Interrupted: this is what is known." : "");
    fmt::print("runs: {}\n", runs_.folder().string());
    for (const std::string& note : notes_) fmt::print("note: {}\n", note);
    for (const Entry& entry : entries_)
      if (entry.search && !entry.fits())
        fmt::print("{}: {}", tune::text_of(entry.variation), impossible_text(*entry.search, entry.run.verdict.holders));
    if (winner_ == nullptr) return;
    const std::string& setting = winner_->best_setting();
    fmt::print("Of the variations that fit, the last listed is {}. ", tune::text_of(winner_->variation));
    fmt::print("{}\n", winner_->confirmation->is_confirmed(setting)
                           ? "It was run with this setting, and ran to its end."
                           : "This is what the model says; no run has "
                             "confirmed it.");
    fmt::print("{}", export_line(setting));
    fmt::print("run: {}\n", tune::shell_line(winner_->placed));
  }

  ordered_json json_of(const Entry& entry) const {
    ordered_json json;
    json["values"] = ordered_json::object();
    for (const auto& [name, value] : entry.variation) json["values"][name] = value;
    json["command"] = entry.placed.command;
    json["environment"] = entry.placed.environment;
    json["outcome"] = outcome_of(entry.run);
    json["failure"] = entry.failure.empty() ? ordered_json(nullptr) : ordered_json(entry.failure);
    json["steps"] = entry.run.steps;
    json["seconds"] = entry.run.seconds;
    json["run"] = entry.run.folder.string();
    json["found"] = entry.fits();
    json["setting"] = entry.fits() ? ordered_json(entry.best_setting()) : ordered_json(nullptr);
    json["confirmed"] = entry.fits() && entry.confirmation->is_confirmed(entry.best_setting());
    json["impossible"] = entry.search && entry.search->bound.is_impossible;
    json["needed_bytes"] = entry.search ? ordered_json(entry.search->bound.needed_bytes) : ordered_json(nullptr);
    json["room_bytes"] = entry.search ? ordered_json(entry.search->bound.room_bytes) : ordered_json(nullptr);
    json["needed_run"] =
        entry.search && entry.search->need ? ordered_json(entry.search->need->folder.string()) : ordered_json(nullptr);
    json["is_exhaustive"] = entry.search && entry.search->is_whole();
    json["settings"] = ordered_json::array();
    if (entry.search)
      for (const ledger::TuneResult& row : results_of(*entry.search, *entry.confirmation))
        json["settings"].push_back(json_of_result(row));
    return json;
  }

  void print_json() const {
    ordered_json json;
    json["found"] = winner_ != nullptr;
    json["winner"] = winner_ != nullptr ? ordered_json(winner_ - entries_.data()) : ordered_json(nullptr);
    json["is_interrupted"] = is_interrupted_;
    json["notes"] = notes_;
    json["folder"] = runs_.folder().string();
    json["variations"] = ordered_json::array();
    for (const Entry& entry : entries_) json["variations"].push_back(json_of(entry));
    std::puts(json.dump(2, ' ', false, ordered_json::error_handler_t::replace).c_str());
  }

  const TuneOptions& options_;
  ProgramRuns runs_;
  std::vector<tune::Axis> axes_;
  std::vector<Entry> entries_;
  std::vector<std::string> notes_;
  Entry* winner_ = nullptr;
  bool is_interrupted_ = false;
};

}  // namespace

int tune_program_command(const TuneOptions& options) {
  if (options.program.command.empty()) {
    return refuse(
        "tune --program needs a command behind --, for example: drydock tune --program --vary batch_size=1,2,4 -- "
        "python train.py --batch_size 4");
  }
  return ProgramTuning(options).run();
}

}  // namespace drydock::cli
