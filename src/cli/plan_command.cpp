#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <unistd.h>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/rerun.h"
#include "ledger/sizes.h"
#include "replay/trace_history.h"
#include "replay/workload.h"
#include "tune/fit.h"

namespace drydock::cli {
namespace {

namespace fs = std::filesystem;
using ledger::human_size;
using nlohmann::ordered_json;

constexpr int kInterrupted = 128 + 2;
constexpr const char* kStepsVariable = "DRYDOCK_STEPS";

struct Probe {
  int64_t value = 0;
  RerunEnd end;
  int64_t margin_bytes = 0;  ///< the least of any device; meaningless where nothing is known of one
  bool margin_known = false;
};

// What the devices of a run had left when the most was reserved.
void find_margin(Probe& probe) {
  std::vector<std::string> paths;
  if (!replay::traces_of(probe.end.folder.string(), paths).is_ok()) return;
  uint64_t room = std::numeric_limits<uint64_t>::max();
  for (const std::string& path : paths) {
    replay::History history;
    if (!replay::read_trace(path, history).is_ok()) continue;
    for (const replay::DeviceFacts& device : history.devices)
      if (device.total_bytes > device.external_bytes) room = std::min(room, device.total_bytes - device.external_bytes);
  }
  probe.margin_known = room != std::numeric_limits<uint64_t>::max();
  probe.margin_bytes = static_cast<int64_t>(room) - static_cast<int64_t>(probe.end.peak_reserved_bytes);
}

bool is_same_program(const RerunEnd& a, const RerunEnd& b) {
  return a.peak_allocated_bytes == b.peak_allocated_bytes && a.peak_reserved_bytes == b.peak_reserved_bytes &&
         a.operator_calls == b.operator_calls && a.distinct_calls == b.distinct_calls;
}

class Planning {
 public:
  Planning(const PlanOptions& options, const std::string& name, tune::FitSearch search)
      : options_(options), name_(name), channel_(tune::channel_of(options.run.command, name)), search_(search) {}

  int run(const ledger::RunInfo& info, const fs::path& folder) {
    while (const auto value = search_.next()) {
      show(*value);
      Probe probe = try_value(info, folder, *value);
      const RerunEnd& end = probe.end;
      if (end.exit_code == kInterrupted) {
        interrupted_ = true;
        break;
      }
      if (!end.holds && !end.out_of_memory) {
        probes_.push_back(probe);
        problem_ = fmt::format("with {}={} the program failed for another reason (exit code {}): see {}.log", name_,
                               *value, end.exit_code, end.folder.string());
        break;
      }
      if (end.holds) find_margin(probe);
      const bool same = std::any_of(probes_.begin(), probes_.end(),
                                    [&](const Probe& other) { return is_same_program(other.end, end); });
      probes_.push_back(probe);
      if (same) {
        problem_ = fmt::format(
            "{}={} changes nothing: the program called the same operators and held as much as "
            "before. {}",
            name_, *value, where_it_went());
        break;
      }
      search_.tell(*value, end.holds);
    }
    if (isatty(STDERR_FILENO) != 0) fmt::print(stderr, "\r{:80}\r", "");
    options_.json ? print_json() : print();
    if (!problem_.empty()) return kExitUsage;
    return search_.best() ? 0 : 1;
  }

 private:
  std::string where_it_went() const {
    if (channel_ == tune::Channel::kVariable)
      return fmt::format("It was set as the environment variable {0}, as the command has neither {{{0}}} nor --{0}.",
                         name_);
    return "It was put into the command line.";
  }

  void show(int64_t value) const {
    if (isatty(STDERR_FILENO) == 0) return;
    const size_t left = static_cast<size_t>(search_.most_left());
    const size_t all = probes_.size() + left;
    constexpr size_t kWidth = 20;
    fmt::print(stderr, "\rdrydock: {}={} ... [{:<{}}] at most {} more ", name_, value,
               std::string(all == 0 ? 0 : probes_.size() * kWidth / all, '='), kWidth, left);
    std::fflush(stderr);
  }

  Probe try_value(const ledger::RunInfo& given, const fs::path& folder, int64_t value) const {
    ledger::RunInfo info = given;
    info.command = tune::with_value(given.command, name_, value);
    std::map<std::string, std::string> environment;
    if (channel_ == tune::Channel::kVariable) environment[name_] = std::to_string(value);
    if (options_.steps > 0) environment[kStepsVariable] = std::to_string(options_.steps);
    Probe probe;
    probe.value = value;
    probe.end = run_again(info, folder, fmt::format("{}-{}", name_, value), environment);
    return probe;
  }

  static std::string outcome(const Probe& probe) {
    if (probe.end.holds) return "fits";
    if (probe.end.out_of_memory)
      return fmt::format("out of memory ({}) in step {}", name_of(probe.end.verdict.memory_class),
                         probe.end.verdict.step);
    return fmt::format("exit code {}", probe.end.exit_code);
  }

  void print() const {
    std::vector<Probe> probes = probes_;
    std::sort(probes.begin(), probes.end(), [](const Probe& a, const Probe& b) { return a.value < b.value; });
    fmt::print("{:>12} {:>11} {:>11} {:>11} {:>6} {:>8}  outcome\n", "value", "allocated", "reserved", "margin",
               "steps", "seconds");
    for (const Probe& probe : probes) {
      const bool has_margin = probe.end.holds && probe.margin_known && probe.margin_bytes >= 0;
      fmt::print("{:>12} {:>11} {:>11} {:>11} {:>6} {:>8.1f}  {}\n", probe.value,
                 human_size(probe.end.peak_allocated_bytes), human_size(probe.end.peak_reserved_bytes),
                 has_margin ? human_size(static_cast<uint64_t>(probe.margin_bytes)) : "-", probe.end.steps,
                 probe.end.seconds, outcome(probe));
    }
    if (!problem_.empty()) return complain(problem_);
    const std::string survived = options_.steps > 0 ? fmt::format("{} steps", options_.steps) : "the whole program";
    if (!search_.best()) {
      fmt::print("{}: not even {} fits.\n", name_, probes_.empty() ? 0 : probes_.front().value);
    } else if (search_.next()) {
      fmt::print("{}: at least {} survives {}; interrupted before more was known.\n", name_, *search_.best(), survived);
    } else {
      fmt::print("{}: {} is the largest that survives {}{}.\n", name_, *search_.best(), survived,
                 search_.too_large() ? fmt::format("; {} does not", *search_.too_large()) : ", the end of the range");
    }
  }

  void print_json() const {
    ordered_json json;
    json["name"] = name_;
    json["best"] = search_.best() ? ordered_json(*search_.best()) : ordered_json(nullptr);
    json["too_large"] = search_.too_large() ? ordered_json(*search_.too_large()) : ordered_json(nullptr);
    json["is_complete"] = !interrupted_ && problem_.empty() && !search_.next();
    json["problem"] = problem_.empty() ? ordered_json(nullptr) : ordered_json(problem_);
    json["steps"] = options_.steps;
    json["probes"] = ordered_json::array();
    for (const Probe& probe : probes_)
      json["probes"].push_back(
          {{"value", probe.value},
           {"fits", probe.end.holds},
           {"class", std::string(name_of(probe.end.verdict.memory_class))},
           {"exit_code", probe.end.exit_code},
           {"steps", probe.end.steps},
           {"peak_allocated_bytes", probe.end.peak_allocated_bytes},
           {"peak_reserved_bytes", probe.end.peak_reserved_bytes},
           {"margin_bytes",
            probe.end.holds && probe.margin_known ? ordered_json(probe.margin_bytes) : ordered_json(nullptr)},
           {"seconds", probe.end.seconds},
           {"run", probe.end.folder.string()}});
    std::puts(json.dump(2).c_str());
    if (!problem_.empty()) complain(problem_);
  }

  const PlanOptions& options_;
  std::string name_;
  tune::Channel channel_;
  tune::FitSearch search_;
  std::vector<Probe> probes_;
  std::string problem_;
  bool interrupted_ = false;
};

int refuse(const std::string& sentence) {
  complain(sentence);
  return kExitUsage;
}

}  // namespace

int plan_command(const PlanOptions& options) {
  if (options.run.command.empty())
    return refuse(
        "plan needs a command behind --, for example: drydock plan --fit batch_size 1..64 -- python train.py");
  const auto range = tune::parse_range(options.fit[1]);
  if (!range)
    return refuse(
        fmt::format("--fit: \"{}\" is no range: FIRST..LAST, two whole numbers from 1 on, as 1..128.", options.fit[1]));
  fs::path root;
  RunSettings settings;
  RunOptions run_options = options.run;
  if (run_options.values.empty()) run_options.values = "ghost";
  fs::path folder;
  Status status = find_install_root(root);
  if (status.is_ok()) status = resolve_run(run_options, root, fs::path(), settings);
  if (status.is_ok()) status = make_run_folder(options.run.out, folder);
  if (!status.is_ok()) return refuse(status.message());
  std::error_code ignored;
  fs::remove(folder / "traces", ignored);  // of a run; this folder holds runs
  settings.info.command = options.run.command;
  return Planning(options, options.fit[0], tune::FitSearch(range->first, range->second)).run(settings.info, folder);
}

}  // namespace drydock::cli
