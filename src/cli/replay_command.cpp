#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "ledger/run_info.h"
#include "ledger/sizes.h"
#include "replay/settings.h"
#include "replay/simulate.h"
#include "replay/trace_history.h"
#include "replay/verify.h"
#include "replay/workload.h"
#include "snapshot/history.h"
#include "snapshot/snapshot.h"

namespace drydock::cli {
namespace {

using ledger::human_count;
using ledger::human_size;
using nlohmann::ordered_json;
using replay::History;
using replay::Outcome;
using replay::Settings;
using replay::Verification;
using replay::Workload;

const std::string& place_text(const History& history, uint32_t place) {
  return history.places[place < history.places.size() ? place : replay::kUnknownPlace];
}

void print_verification(const History& history, const Workload& workload, const Verification& result) {
  fmt::print("npu:{}  {} events: {}\n", result.device, human_count(result.events),
             result.is_equal ? "the model did what the real allocator did" : "the model differs");
  fmt::print("  blocks         {} of {} at the same address\n", human_count(result.blocks_equal),
             human_count(result.blocks));
  fmt::print("  segment calls  {} of {} the same\n", human_count(result.segment_calls_equal),
             human_count(result.segment_calls));
  fmt::print("  out of memory  {} of {} the same; {} retries\n", result.out_of_memory_equal, result.out_of_memory,
             result.retries);
  fmt::print("  peaks          allocated {}, reserved {}; live blocks take at least {}\n",
             human_size(result.peak_allocated_bytes), human_size(result.peak_reserved_bytes),
             human_size(workload.lower_bound_bytes));
  if (result.has_final_state)
    fmt::print("  at the end     the segments and blocks are {}\n",
               result.is_final_state_equal ? "the same" : "not the same");
  if (!result.is_equal)
    fmt::print("  first difference at record {} ({}): {}\n", result.ordinal, place_text(history, result.place),
               result.difference);
}

ordered_json verification_json(const History& history, const Verification& result) {
  ordered_json json = {{"device", result.device},
                       {"events", result.events},
                       {"blocks", result.blocks},
                       {"blocks_equal", result.blocks_equal},
                       {"segment_calls", result.segment_calls},
                       {"segment_calls_equal", result.segment_calls_equal},
                       {"out_of_memory", result.out_of_memory},
                       {"out_of_memory_equal", result.out_of_memory_equal},
                       {"retries", result.retries},
                       {"caches_emptied", result.caches_emptied},
                       {"peak_allocated_bytes", result.peak_allocated_bytes},
                       {"peak_reserved_bytes", result.peak_reserved_bytes},
                       {"is_equal", result.is_equal}};
  if (!result.is_equal) {
    json["difference"] = result.difference;
    json["difference_record"] = result.ordinal;
    json["difference_line"] = place_text(history, result.place);
  }
  return json;
}

// The event that a what-if run dies at.
const replay::Event& failed_event(const History& history, const Workload& workload, const Outcome& outcome) {
  return history.events[workload.events[outcome.failed_operation]];
}

void print_outcome(const History& history, const Workload& workload, const std::string& settings,
                   const Outcome& outcome) {
  fmt::print("npu:{}  with {}: {}\n", workload.device, settings.empty() ? "the default settings" : settings,
             outcome.fits ? "it fits" : "OUT OF MEMORY");
  if (!outcome.fits) {
    const replay::Event& event = failed_event(history, workload, outcome);
    fmt::print("  dies           at record {} ({}), asked {}; {} of {} operations replayed\n", event.ordinal,
               place_text(history, event.place), human_size(outcome.failed_bytes), human_count(outcome.operations),
               human_count(workload.operations.size()));
  }
  fmt::print("  peaks          allocated {}, reserved {} ({:.1f}% of it unused then)\n",
             human_size(outcome.peak_allocated_bytes), human_size(outcome.peak_reserved_bytes),
             100 * outcome.fragmentation());
  fmt::print("  driver         {} calls, {} segments or mappings; {} retries, {} garbage collections\n",
             human_count(outcome.driver_calls), human_count(outcome.segments), outcome.retries, outcome.collections);
  fmt::print("  lower bound    {}: live blocks in whole pages\n", human_size(workload.lower_bound_bytes));
}

ordered_json outcome_json(const History& history, const Workload& workload, const Outcome& outcome) {
  ordered_json json = {{"device", workload.device},
                       {"fits", outcome.fits},
                       {"operations", outcome.operations},
                       {"peak_allocated_bytes", outcome.peak_allocated_bytes},
                       {"peak_reserved_bytes", outcome.peak_reserved_bytes},
                       {"fragmentation", outcome.fragmentation()},
                       {"driver_calls", outcome.driver_calls},
                       {"segments", outcome.segments},
                       {"retries", outcome.retries},
                       {"collections", outcome.collections},
                       {"rejections", outcome.rejections},
                       {"lower_bound_bytes", workload.lower_bound_bytes}};
  if (!outcome.fits) {
    const replay::Event& event = failed_event(history, workload, outcome);
    json["failed_record"] = event.ordinal;
    json["failed_line"] = place_text(history, event.place);
    json["failed_bytes"] = outcome.failed_bytes;
  }
  return json;
}

class Replaying {
 public:
  explicit Replaying(const ReplayOptions& options) : options_(options) {}

  int run() {
    const bool is_snapshot = snapshot::looks_like_pickle(options_.run);
    std::vector<std::string> paths = {options_.run};
    if (!is_snapshot) {
      if (Status status = replay::traces_of(options_.run, paths); !status.is_ok()) return refuse(status.message());
    }
    for (const std::string& path : paths)
      if (const int code = replay_one(path); code != 0) return code;
    if (options_.json) {
      if (json_["missing"].is_null()) json_["missing"] = ordered_json::array();
      std::puts(json_.dump(2).c_str());
    }
    if (!any_) complain(fmt::format("{} tells of no block of a caching allocator.", options_.run));
    return any_ && all_equal_ ? 0 : any_ ? 1 : kExitUsage;
  }

 private:
  // A trace is torch_npu's; a memory snapshot may be of PyTorch's allocator for CUDA.
  static Status read(const std::string& path, History& history, replay::Policy& policy) {
    if (!snapshot::looks_like_pickle(path)) return replay::read_trace(path, history);
    snapshot::Snapshot taken;
    DRYDOCK_RETURN_IF_ERROR(snapshot::read_snapshot_file(path, taken));
    history = snapshot::history_of(taken);
    policy = snapshot::is_of_npu(taken) ? replay::Policy::kNpu : replay::Policy::kCuda;
    return Status::ok();
  }

  int replay_one(const std::string& path) {
    History history;
    replay::Policy policy = replay::Policy::kNpu;
    if (Status status = read(path, history, policy); !status.is_ok()) return refuse(status.message());
    if (options_.has_settings) {
      if (Status status = replay::parse_settings(options_.settings, policy, settings_); !status.is_ok())
        return refuse(status.message());
    }
    if (history.source == replay::Source::kDrydockTrace) take_settings(history);
    const std::vector<uint8_t> devices = replay::devices_of(history);
    if (devices.empty()) return 0;
    any_ = true;
    std::vector<std::string> missing = history.missing;
    for (const uint8_t device : devices) {
      const Workload workload = replay::workload_of(history, device);
      missing.insert(missing.end(), workload.missing.begin(), workload.missing.end());
      if (options_.has_settings) {
        what_if(history, workload);
      } else {
        Settings recorded;
        if (Status status = replay::parse_settings(history.settings, policy, recorded); !status.is_ok())
          return refuse(fmt::format("{}: {}", path, status.message()));
        compare(history, workload, recorded);
      }
    }
    if (options_.json) {
      for (std::string& sentence : missing) json_["missing"].push_back(std::move(sentence));
    } else {
      for (const std::string& sentence : missing) fmt::print("  missing        {}\n", sentence);
    }
    return 0;
  }

  void take_settings(History& history) const {
    ledger::RunInfo info;
    if (!ledger::read_run_info(options_.run, info).is_ok()) {
      history.missing.emplace_back("The run's run.json can't be read: it is taken to have had the default settings.");
      return;
    }
    history.settings = info.allocator_settings();
    history.settings_known = true;
  }

  void compare(const History& history, const Workload& workload, const Settings& settings) {
    const Verification result = replay::verify(history, workload, settings);
    all_equal_ = all_equal_ && result.is_equal;
    if (options_.json) {
      json_["devices"].push_back(verification_json(history, result));
      json_["settings"] = history.settings;
    } else {
      print_verification(history, workload, result);
    }
  }

  void what_if(const History& history, const Workload& workload) {
    const Outcome outcome = replay::simulate(workload, settings_);
    if (options_.json) {
      json_["devices"].push_back(outcome_json(history, workload, outcome));
      json_["settings"] = options_.settings;
    } else {
      print_outcome(history, workload, options_.settings, outcome);
      for (const std::string& key : settings_.without_effect)
        fmt::print("  no effect      {} is about host memory or locks: device memory stays the same\n", key);
    }
  }

  const ReplayOptions& options_;
  Settings settings_;
  ordered_json json_;
  bool any_ = false;
  bool all_equal_ = true;
};

}  // namespace

int replay_command(const ReplayOptions& options) { return Replaying(options).run(); }

}  // namespace drydock::cli
