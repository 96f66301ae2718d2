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
#include "ledger/sizes.h"
#include "tune/fit.h"
#include "tune/variation.h"

namespace drydock::cli {
namespace {

using ledger::human_size;
using nlohmann::ordered_json;

struct Probe {
  int64_t value = 0;
  tune::Placed placed;
  ProgramEnd end;

  bool fits() const { return end.run.holds; }
};

class Planning {
 public:
  Planning(const PlanOptions& options, int64_t first, int64_t last)
      : options_(options),
        name_(options.fit[0]),
        channel_(tune::channel_of(options.run.command, name_, true)),
        search_(first, last),
        last_(last) {}

  int run() {
    tune::Placed first;
    if (Status status = tune::place(options_.run.command, variation_of(1), first); !status.is_ok())
      return refuse(status.message());
    if (Status status = runs_.prepare(options_.run, options_.steps); !status.is_ok()) return refuse(status.message());
    {
      const Interruptible interruptible;
      for (auto value = next_value(); value && probe(*value); value = next_value()) {}
      for (auto value = search_.next_check(); can_go_on() && value && probe(*value); value = search_.next_check()) {}
    }
    std::sort(probes_.begin(), probes_.end(), [](const Probe& a, const Probe& b) { return a.value < b.value; });
    if (isatty(STDERR_FILENO) != 0) fmt::print(stderr, "\r\033[K");
    note_oddities();
    if (options_.json) {
      print_json();
    } else {
      print();
    }
    if (!problem_.empty()) return refuse(problem_);
    if (is_interrupted_) return kExitInterrupted;
    return search_.best() ? 0 : 1;
  }

 private:
  tune::Variation variation_of(int64_t value) const { return {{name_, std::to_string(value)}}; }
  bool can_go_on() const { return problem_.empty() && !is_interrupted_; }

  // False if there is no use in going on.
  bool probe(int64_t value) {
    show(value);
    Probe probe;
    probe.value = value;
    if (Status status = tune::place(options_.run.command, variation_of(value), probe.placed); !status.is_ok()) {
      problem_ = status.message();
      return false;
    }
    probe.end = with_margin(runs_.run(probe.placed, variation_of(value)));
    const RerunEnd& run = probe.end.run;
    if (interruption() || run.is_interrupted) {
      is_interrupted_ = true;
      return false;
    }
    probes_.push_back(probe);
    if (!run.holds && !run.out_of_memory) {
      problem_ = fmt::format("with {}={} the program failed, and not for want of memory: {} (see {}.log)", name_, value,
                             reason_of(run), run.folder.string());
      return false;
    }
    search_.tell(value, run.holds, probe.end.margin_bytes);
    notice_what_changes_nothing();
    return problem_.empty();
  }

  bool are_all_the_same() const {
    return std::all_of(probes_.begin(), probes_.end(),
                       [&](const Probe& probe) { return is_same_program(probe.end.run, probes_.front().end.run); });
  }

  // Neighbours may well come to the same, as lengths do that are padded; both ends of the range hardly do.
  std::optional<int64_t> next_value() const {
    if (probes_.size() == 2 && are_all_the_same() && probe_of(last_) == nullptr) return last_;
    return search_.next();
  }

  void notice_what_changes_nothing() {
    if (probes_.size() < 2 || probe_of(last_) == nullptr || !are_all_the_same()) return;
    problem_ = fmt::format(
        "{} changes nothing: with {} of its values, the first and the last among them, the program made the same calls "
        "and held the same bytes. {}",
        name_, probes_.size(), tune::describe_channel(channel_, name_));
  }

  void note_oddities() {
    if (!problem_.empty() || probes_.empty()) return;
    const Probe* below = nullptr;
    uint64_t most_steps = 0;
    for (const Probe& probe : probes_) {
      most_steps = std::max(most_steps, probe.end.run.steps);
      if (below != nullptr && probe.fits() && below->fits()) {
        const uint64_t peak = probe.end.run.peak_reserved_bytes;
        const uint64_t peak_below = below->end.run.peak_reserved_bytes;
        if (is_same_program(probe.end.run, below->end.run))
          notes_.push_back(fmt::format("{} and {} are the same to the program: the same calls and bytes.", below->value,
                                       probe.value));
        else if (peak + peak / 100 < peak_below)
          notes_.push_back(
              fmt::format("{} reserves less than {} does: memory does not simply rise with {}, so that a value that "
                          "was not tried may surprise.",
                          probe.value, below->value, name_));
      }
      below = &probe;
    }
    if (!search_.is_monotone())
      notes_.push_back(fmt::format(
          "NOT MONOTONE: {} survives and {}, which is less, does not. So what survives depends on more than {}; values "
          "between that were not tried may go either way. All values tried below {} survive.",
          *search_.best(), *search_.too_large(), name_, *search_.too_large()));
    const auto asked = static_cast<uint64_t>(options_.steps);
    if (search_.best() && most_steps == 0)
      notes_.emplace_back(
          "No optimizer step was seen: each run was the whole program (drydock.step() marks steps by hand).");
    else if (search_.best() && options_.steps > 0 && most_steps < asked)
      notes_.push_back(fmt::format("The program ended by itself after {} steps.", most_steps));
  }

  void show(int64_t value) const {
    if (isatty(STDERR_FILENO) == 0) return;
    const auto left = static_cast<size_t>(search_.most_left());
    const size_t all = probes_.size() + std::max<size_t>(left, 1);
    constexpr size_t kWidth = 20;
    fmt::print(stderr, "\r\033[Kdrydock: {}={} [{:<{}}] {}", name_, value,
               std::string(probes_.size() * kWidth / all, '='), kWidth,
               left == 0 ? std::string("checking larger values") : fmt::format("at most {} runs to go", left));
    if (!probes_.empty()) fmt::print(stderr, "; {}: {}", probes_.back().value, outcome_of(probes_.back().end.run));
    std::fflush(stderr);
  }

  static double percent_of(int64_t bytes, uint64_t of) {
    return of == 0 ? 0 : 100 * static_cast<double>(bytes) / static_cast<double>(of);
  }

  const Probe* probe_of(std::optional<int64_t> value) const {
    const auto found =
        std::find_if(probes_.begin(), probes_.end(), [&](const Probe& each) { return each.value == value; });
    return found == probes_.end() ? nullptr : &*found;
  }

  bool is_complete() const { return can_go_on() && !search_.next(); }

  void print() const {
    fmt::print("{:>10} {:>11} {:>11} {:>11} {:>7} {:>6} {:>8}  outcome\n", "value", "allocated", "reserved", "margin",
               "", "steps", "seconds");
    for (const Probe& probe : probes_) {
      const ProgramEnd& end = probe.end;
      const bool has_margin = probe.fits() && end.margin_bytes && *end.margin_bytes >= 0;
      fmt::print("{:>10} {:>11} {:>11} {:>11} {:>7} {:>6} {:>8.1f}  {}\n", probe.value,
                 human_size(end.run.peak_allocated_bytes), human_size(end.run.peak_reserved_bytes),
                 has_margin ? human_size(static_cast<uint64_t>(*end.margin_bytes)) : "-",
                 has_margin ? fmt::format("{:.1f}%", percent_of(*end.margin_bytes, end.capacity_bytes)) : "",
                 end.run.steps, end.run.seconds, outcome_of(end.run));
    }
    for (const std::string& note : notes_) fmt::print("note: {}\n", note);
    if (!problem_.empty() && !search_.best()) return;  // told on standard error
    if (!search_.best()) {
      fmt::print("{}", probes_.empty() ? "Interrupted before anything was known.\n"
                                       : fmt::format("{}: not even {} fits.\n", name_, probes_.front().value));
      return;
    }
    print_answer();
  }

  void print_answer() const {
    const Probe* best = probe_of(search_.best());
    const std::string survived = options_.steps > 0 ? fmt::format("{} steps", options_.steps) : "the whole program";
    if (is_complete())
      fmt::print("{}: {} is the largest{} that survives {}", name_, *search_.best(),
                 search_.is_monotone() ? "" : " known", survived);
    else
      fmt::print("{}: at least {} survives {}; {} before more was known", name_, *search_.best(), survived,
                 is_interrupted_ ? "interrupted" : "stopped");
    const ProgramEnd& end = best->end;
    if (end.margin_bytes && *end.margin_bytes >= 0)
      fmt::print(", {} ({:.1f}%) below the {} of the device", human_size(static_cast<uint64_t>(*end.margin_bytes)),
                 percent_of(*end.margin_bytes, end.capacity_bytes), human_size(end.capacity_bytes));
    if (const Probe* failing = probe_of(search_.too_large()))
      fmt::print("; {} does not: {}.\n", failing->value, outcome_of(failing->end.run));
    else
      fmt::print("{}.\n", is_complete() ? ", and the end of the range" : "");
    fmt::print("run: {}\n", tune::shell_line(best->placed));
  }

  void print_json() const {
    const auto or_null = [](auto value) { return value ? ordered_json(*value) : ordered_json(nullptr); };
    const Probe* best = probe_of(search_.best());
    ordered_json json;
    json["name"] = name_;
    json["best"] = or_null(search_.best());
    json["margin_bytes"] = best == nullptr ? ordered_json(nullptr) : or_null(best->end.margin_bytes);
    json["capacity_bytes"] = best == nullptr ? ordered_json(nullptr) : ordered_json(best->end.capacity_bytes);
    json["too_large"] = or_null(search_.too_large());
    json["is_complete"] = is_complete();
    json["is_monotone"] = search_.is_monotone();
    json["is_interrupted"] = is_interrupted_;
    json["problem"] = problem_.empty() ? ordered_json(nullptr) : ordered_json(problem_);
    json["notes"] = notes_;
    json["steps"] = options_.steps;
    json["command"] = best == nullptr ? ordered_json(nullptr) : ordered_json(best->placed.command);
    json["environment"] = best == nullptr ? ordered_json::object() : ordered_json(best->placed.environment);
    json["probes"] = ordered_json::array();
    for (const Probe& probe : probes_) {
      const RerunEnd& run = probe.end.run;
      const std::string memory_class(ledger::name_of(run.verdict.memory_class));
      json["probes"].push_back({{"value", probe.value},
                                {"fits", run.holds},
                                {"out_of_memory", run.out_of_memory},
                                {"class", memory_class.empty() ? ordered_json(nullptr) : ordered_json(memory_class)},
                                {"exit_code", run.exit_code},
                                {"outcome", outcome_of(run)},
                                {"steps", run.steps},
                                {"peak_allocated_bytes", run.peak_allocated_bytes},
                                {"peak_reserved_bytes", run.peak_reserved_bytes},
                                {"peak_workspace_bytes", run.peak_workspace_bytes},
                                {"margin_bytes", run.holds ? or_null(probe.end.margin_bytes) : ordered_json(nullptr)},
                                {"seconds", run.seconds},
                                {"run", run.folder.string()}});
    }
    std::puts(json.dump(2, ' ', false, ordered_json::error_handler_t::replace).c_str());
  }

  const PlanOptions& options_;
  std::string name_;
  tune::Channel channel_;
  tune::FitSearch search_;
  int64_t last_;
  ProgramRuns runs_;
  std::vector<Probe> probes_;
  std::vector<std::string> notes_;
  std::string problem_;
  bool is_interrupted_ = false;
};

}  // namespace

int plan_command(const PlanOptions& options) {
  if (options.run.command.empty()) {
    return refuse(
        "plan needs a command behind --, for example: drydock plan --fit batch_size 1..64 -- python train.py");
  }
  const auto range = tune::parse_range(options.fit[1]);
  if (!range) {
    return refuse(
        fmt::format("--fit: \"{}\" is no range: FIRST..LAST, two whole numbers from 1 on, as 1..128.", options.fit[1]));
  }
  return Planning(options, range->first, range->second).run();
}

}  // namespace drydock::cli
