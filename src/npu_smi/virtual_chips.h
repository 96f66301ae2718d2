#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "device/profile.h"

namespace drydock::npu_smi {

struct ChipProcess {
  int32_t pid = 0;
  std::string name;
  uint64_t memory_mb = 0;
};

/// One virtual device as npu-smi tells it.
struct VirtualChip {
  int32_t npu = 0;       ///< the card: of a 910C it holds two chips
  int32_t chip = 0;      ///< on its card
  int32_t physical = 0;  ///< as programs number it
  uint64_t hbm_used_mb = 0;
  uint64_t hbm_total_mb = 0;
  std::vector<ChipProcess> processes;

  uint64_t hbm_percent() const { return hbm_total_mb == 0 ? 0 : hbm_used_mb * 100 / hbm_total_mb; }
};

/// The virtual machine: what DRYDOCK_PROFILE, DRYDOCK_DEVICES, DRYDOCK_CANN and DRYDOCK_DRIVER say, with the memory
/// that the living processes of DRYDOCK_RUN_DIR hold by now, and idle use where there are none.
struct VirtualMachine {
  device::Profile profile;
  std::string driver;        ///< "25.2.0"
  bool is_dual_die = false;  ///< a card has two chips, and the tables a column for their physical number
  bool is_wide = false;      ///< tables as drivers from 26 on print them
  std::vector<VirtualChip> chips;
  std::vector<std::string> problems;  ///< sentences about traces that can't be read

  /// "Ascend910", "910B3": as the table names it.
  std::string chip_name() const;
};

/// 100000 or 100003 with a sentence for settings that make no sense.
Status read_virtual_machine(VirtualMachine& machine);

}  // namespace drydock::npu_smi
