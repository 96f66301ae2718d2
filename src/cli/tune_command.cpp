#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/entry_names.h"
#include "cli/interruption.h"
#include "cli/tune_need.h"
#include "cli/tune_search.h"
#include "ledger/build.h"
#include "ledger/sizes.h"

namespace drydock::cli {
namespace {

namespace fs = std::filesystem;
using ledger::human_size;
using nlohmann::ordered_json;
using tune::Trial;

void print_table(const Search& search, const Confirmation& confirmation, size_t most) {
  fmt::print("{}", table_head());
  for (const Trial* trial : rows_to_show(search, most)) {
    const std::string& text = search.text_of(*trial);
    std::string notes;
    if (trial->is_on_front) notes += " *";
    if (text == search.settings) notes += " (as it ran)";
    if (confirmation.is_confirmed(text)) notes += " (confirmed)";
    fmt::print("{}", table_row(*trial, text, notes));
  }
  fmt::print("*: nothing that fits has both a lower peak and fewer driver calls\n");
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
    Confirmation confirmation(report_.run, run_, "tune", {});
    {
      const Interruptible interruptible;
      if (Status status = search_settings(run_, report_.run, report_.verdict, search); !status.is_ok())
        return refuse(status.message());
      if (!options_.no_confirm) {
        confirmation.confirm_best(report_.verdict, search);
        learn_need(report_.run, run_, "tune", {}, search);
      }
    }
    if (search.trials.empty()) return refuse("interrupted before a setting was tried.");
    if (Status status = write(search, confirmation); !status.is_ok()) complain(status.message());
    if (options_.json) {
      print_json(search, confirmation);
    } else {
      print(search, confirmation);
    }
    return search.found() && (options_.no_confirm || confirmation.has_confirmed()) ? 0 : 1;
  }

 private:
  Status write(const Search& search, const Confirmation& confirmation) const {
    if (report_.ledger.empty()) return Status::ok();
    return ledger::write_tune_results(report_.ledger, results_of(search, confirmation));
  }

  void print_scope(const Search& search) const {
    uint64_t operations = 0;
    for (const replay::Workload& workload : search.workloads) operations += workload.operations.size();
    fmt::print(
        "{} of {} settings tried on {} requests of {} device{} in {:.1f} s: {}. {} combinations are left out, "
        "as torch_npu refuses them at start.\n",
        search.trials.size(), search.grid.candidates.size(), operations, search.workloads.size(),
        search.workloads.size() == 1 ? "" : "s", search.seconds,
        search.is_whole() ? "the whole grid" : "interrupted, so a better one may be among the rest",
        search.grid.illegal);
    if (const auto replays = std::count_if(search.trials.begin(), search.trials.end(),
                                           [](const tune::Trial& trial) { return trial.was_replayed; });
        static_cast<size_t>(replays) < search.trials.size())
      fmt::print("{} settings were replayed; the others provably come to the same as one of them.\n", replays);
    fmt::print("grid: {}\n", search.grid.description);
    if (report_.verdict.kind == ledger::VerdictKind::kOutOfMemory)
      fmt::print("The run died in step {}: what it would have asked for later is not in its trace.\n",
                 report_.verdict.step);
    for (const std::string& sentence : search.missing) fmt::print("missing: {}\n", sentence);
  }

  void print(const Search& search, const Confirmation& confirmation) const {
    print_table(search, confirmation, static_cast<size_t>(options_.rows));
    print_scope(search);
    for (const RerunEnd& each : confirmation.runs()) {
      fmt::print("{} with {}: {} after {} steps, {:.1f} s, peak reserved {} ({})\n",
                 each.holds ? "confirmed" : "run again", shown(Confirmation::setting_of(each)),
                 each.holds           ? "ran to its end"
                 : each.out_of_memory ? "out of memory"
                                      : reason_of(each),
                 each.steps, each.seconds, human_size(each.peak_reserved_bytes), each.folder.string());
    }
    const Trial& best = search.trials.front();
    if (!best.fits) {
      fmt::print("{}", impossible_text(search, report_.verdict.holders));
      return;
    }
    const std::string& setting = search.text_of(best);
    if (setting == search.settings) {
      fmt::print("Keep what you have: {} is among the best.\n", shown(setting));
    } else {
      fmt::print("{}", export_line(setting));
    }
    if (!confirmation.has_confirmed()) fmt::print("This is what the model says; no run has confirmed it.\n");
  }

  void print_json(const Search& search, const Confirmation& confirmation) const {
    ordered_json json;
    const Trial& best = search.trials.front();
    json["found"] = best.fits;
    json["setting"] = best.fits ? ordered_json(search.text_of(best)) : ordered_json(nullptr);
    json["confirmed"] = confirmation.has_confirmed();
    json["impossible"] = search.bound.is_impossible;
    json["needed_bytes"] = search.bound.needed_bytes;
    json["room_bytes"] = search.bound.room_bytes;
    json["needed_run"] = search.need ? ordered_json(search.need->folder.string()) : ordered_json(nullptr);
    json["search_s"] = search.seconds;
    json["grid"] = search.grid.description;
    json["is_exhaustive"] = search.is_whole();
    json["illegal"] = search.grid.illegal;
    json["missing"] = search.missing;
    json["confirmations"] = ordered_json::array();
    for (const RerunEnd& each : confirmation.runs())
      json["confirmations"].push_back({{"setting", Confirmation::setting_of(each)},
                                       {"holds", each.holds},
                                       {"out_of_memory", each.out_of_memory},
                                       {"exit_code", each.exit_code},
                                       {"steps", each.steps},
                                       {"peak_reserved_bytes", each.peak_reserved_bytes},
                                       {"run", each.folder.string()}});
    json["settings"] = ordered_json::array();
    for (const ledger::TuneResult& row : results_of(search, confirmation))
      json["settings"].push_back(json_of_result(row));
    std::puts(json.dump(2).c_str());
  }

  const TuneOptions& options_;
  fs::path run_;
  ledger::Report report_;
};

}  // namespace

int tune_command(const TuneOptions& options) {
  return options.is_program ? tune_program_command(options) : Tuning(options).run();
}

}  // namespace drydock::cli
