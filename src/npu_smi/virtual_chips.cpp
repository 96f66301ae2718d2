#include "npu_smi/virtual_chips.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>

#include <fmt/format.h>

#include "device/version.h"
#include "watch/run_follower.h"

namespace drydock::npu_smi {
namespace {

constexpr int kMostChips = 16;
constexpr int kBadSetting = 100000;  // the vendor's number for a bad parameter

std::string variable(const char* name, const char* otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr || *text == '\0' ? otherwise : text;
}

std::string name_of_process(int32_t pid) {
  std::ifstream file(fmt::format("/proc/{}/comm", pid));
  std::string name;
  std::getline(file, name);
  return name;
}

uint64_t mebibytes(uint64_t size_bytes) { return size_bytes >> 20; }

// What a process took from the driver, with the context that it opened.
uint64_t bytes_of(const ledger::MemoryAccount& account) {
  const auto context = account.overheads().find("context");
  return account.reserved_bytes() + account.workspace_bytes() +
         (context == account.overheads().end() ? 0 : context->second);
}

void add_run(VirtualMachine& machine, const std::string& run) {
  watch::RunFollower follower(run);
  if (Status status = follower.poll(); !status.is_ok()) {
    machine.problems.push_back(status.message());
    return;
  }
  machine.problems = follower.problems();
  for (VirtualChip& chip : machine.chips) {
    uint64_t used = 0;
    for (const watch::RunFollower::Process& process : follower.processes()) {
      const auto account = process.accounts.find(chip.physical);
      if (!process.is_alive || account == process.accounts.end()) continue;
      const uint64_t bytes = bytes_of(account->second);
      used += bytes;
      chip.processes.push_back({process.pid(), name_of_process(process.pid()), mebibytes(bytes)});
    }
    chip.hbm_used_mb = std::min(chip.hbm_used_mb + mebibytes(used), chip.hbm_total_mb);
  }
}

}  // namespace

std::string VirtualMachine::chip_name() const {
  if (is_dual_die) return "Ascend910";
  return profile.soc_name.starts_with("Ascend") ? profile.soc_name.substr(6) : profile.soc_name;
}

Status read_virtual_machine(VirtualMachine& machine) {
  if (Status status = device::load_profile(variable("DRYDOCK_PROFILE", "ascend910c"), machine.profile); !status.is_ok())
    return status;
  const std::string cann = variable("DRYDOCK_CANN", ""), driver = variable("DRYDOCK_DRIVER", "");
  device::ClaimedVersions versions =
      device::read_versions(cann.empty() ? nullptr : cann.c_str(), driver.empty() ? nullptr : driver.c_str());
  if (!versions.status.is_ok()) return std::move(versions.status);
  machine.driver = versions.driver.text;
  if (cann.empty() && driver.empty() && !machine.profile.driver_version.empty())
    machine.driver = machine.profile.driver_version;
  machine.is_wide = std::atoi(machine.driver.c_str()) >= 26;
  machine.is_dual_die = machine.profile.soc_name.starts_with("Ascend910_93");
  const std::string devices = variable("DRYDOCK_DEVICES", "1");
  const int count = std::atoi(devices.c_str());
  if (count < 1 || count > kMostChips)
    return Status::error(kBadSetting, fmt::format("DRYDOCK_DEVICES is \"{}\": it is 1 to {}.", devices, kMostChips));
  for (int number = 0; number < count; ++number) {
    const device::DieMemory& die = machine.profile.die(number);
    // The chip's memory less what programs see is the system's own, and in use.
    const uint64_t own = machine.profile.hbm_bytes - std::min(machine.profile.hbm_bytes, die.usable_bytes);
    machine.chips.push_back({.npu = machine.is_dual_die ? number / 2 : number,
                             .chip = machine.is_dual_die ? number % 2 : 0,
                             .physical = number,
                             .hbm_used_mb = mebibytes(own + die.idle_bytes),
                             .hbm_total_mb = mebibytes(machine.profile.hbm_bytes),
                             .processes = {}});
  }
  if (const std::string run = variable("DRYDOCK_RUN_DIR", ""); !run.empty()) add_run(machine, run);
  return Status::ok();
}

}  // namespace drydock::npu_smi
