#pragma once

#include <string>
#include <vector>

#include "npu_smi/virtual_chips.h"

// The texts of `npu-smi info`, in the layout of the driver that the virtual machine claims. What a virtual device does
// not have (power, temperature, serial numbers) is "-" or "NA", as the tool prints what it can't read; no core is ever
// busy.

namespace drydock::npu_smi {

std::string info_table(const VirtualMachine& machine);
/// `info -l`
std::string card_list(const VirtualMachine& machine);
/// `info -m`
std::string chip_map(const VirtualMachine& machine);

/// The kinds of `info -t KIND -i NPU` that are known.
std::vector<std::string> known_types();
/// Empty for a kind that is not known. `chip` is -1 for all chips of the card.
std::string type_text(const VirtualMachine& machine, const std::string& type, int32_t npu, int32_t chip);

}  // namespace drydock::npu_smi
