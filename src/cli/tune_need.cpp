#include "cli/tune_need.h"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <unistd.h>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/interruption.h"
#include "device/profile.h"
#include "replay/trace_history.h"

namespace drydock::cli {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kTimes = 4;

// The same device with more memory, as a profile's file; empty if it could not be written.
fs::path write_larger_profile(const std::string& profile_name, const fs::path& parent) {
  device::Profile profile;
  if (!device::load_profile(profile_name, profile).is_ok()) return {};
  const fs::path path = parent / "larger-device.json";
  std::ofstream file(path, std::ios::trunc);
  const nlohmann::json larger = {
      {"base", profile_name},
      {"memory", {{"hbm_bytes", std::min(kTimes * profile.hbm_bytes, device::kMaxUsableBytes)}}}};
  file << larger.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) << '\n';
  file.flush();
  return file ? path : fs::path();
}

}  // namespace

void learn_need(const ledger::RunInfo& info, const fs::path& parent, const std::string& name,
                const std::map<std::string, std::string>& environment, Search& search) {
  if (search.found() || search.trials.empty() || search.bound.is_impossible || interruption()) return;
  ledger::RunInfo larger = info;
  const fs::path profile = write_larger_profile(info.profile, parent);
  if (profile.empty()) return;
  larger.profile = profile.string();
  if (larger.values == "full") larger.values = "auto";  // the host has no such memory
  if (isatty(STDERR_FILENO) != 0)
    fmt::print(stderr,
               "drydock: nothing fits: running the program on a device with {} times the memory, for what it needs in "
               "all (folder and log: {}/{}-need-...)\n",
               kTimes, parent.string(), name);
  RerunEnd end = run_again(larger, parent, name + "-need", environment);
  if (end.is_interrupted || (!end.holds && !end.out_of_memory)) return;
  std::vector<replay::Workload> workloads;
  if (!load_workloads(end.folder, end.verdict, workloads, search.missing).is_ok()) return;
  const tune::Bound whole = tune::lower_bound_of(workloads);
  if (whole.needed_bytes < search.bound.needed_bytes) return;
  search.bound.needed_bytes = whole.needed_bytes;
  search.bound.device = whole.device;
  search.bound.is_impossible = search.bound.room_bytes > 0 && whole.needed_bytes > search.bound.room_bytes;
  search.need = std::move(end);
}

}  // namespace drydock::cli
