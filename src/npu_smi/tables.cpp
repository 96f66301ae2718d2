#include "npu_smi/tables.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

namespace drydock::npu_smi {
namespace {

// Widths of the three columns of the table, by layout.
struct Layout {
  std::array<int, 3> columns;
  const char* titles;
  const char* chip_titles;       ///< without a physical number
  const char* dual_chip_titles;  ///< with it
  int first, second;             ///< of the third column: where its second and third figure begin
  int pad;                       ///< behind a total
  const char* process_titles;
};

constexpr Layout kNarrow = {
    {27, 15, 52},
    "| NPU   Name                | Health        | Power(W)    Temp(C)           Hugepages-Usage(page)|\n",
    "| Chip                      | Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)        |\n",
    "| Chip  Phy-ID              | Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)        |\n",
    12,
    18,
    14,
    "| NPU     Chip              | Process id    | Process name             | Process memory(MB)      |\n"};
constexpr Layout kWide = {{27, 15, 70},
                          "| NPU   Name                | Health        | Power(W)             Temp(C)                 "
                          "Hugepages-Usage(page)   |\n",
                          "| Chip                      | Bus-Id        | AICore(%)            Memory-Usage(MB)        "
                          "HBM-Usage(MB)           |\n",
                          "| Chip  Phy-ID              | Bus-Id        | AICore(%)            Memory-Usage(MB)        "
                          "HBM-Usage(MB)           |\n",
                          21,
                          24,
                          17,
                          "| NPU     Chip              | Process id    | Process name       | Process memory(MB)    | "
                          "Process id in container |\n"};

int width_of(const Layout& layout) { return layout.columns[0] + layout.columns[1] + layout.columns[2] + 2; }

std::string rule(const Layout& layout, char letter) {
  std::string text = "+";
  for (const int width : layout.columns) text += std::string(static_cast<size_t>(width), letter) + "+";
  return text + "\n";
}

std::string plain_rule(const Layout& layout) {
  return "+" + std::string(static_cast<size_t>(width_of(layout)), '-') + "+\n";
}

std::string line(const Layout& layout, const std::string& text) {
  return fmt::format("| {:<{}}|\n", text, width_of(layout) - 1);
}

std::string usage(uint64_t used, uint64_t total, int pad) { return fmt::format("{:<5}/ {:<{}}", used, total, pad); }

std::string chip_rows(const VirtualMachine& machine, const VirtualChip& chip, const Layout& layout) {
  // The second figure of the third column is padded so that the third begins where its title does.
  const int middle = layout.second - 7;
  std::string rows = fmt::format("| {:<6}{:<20}| {:<14}| {:<{}}{:<{}}{}|\n", chip.npu, machine.chip_name(), "OK", "-",
                                 layout.first, "-", layout.second, usage(0, 0, layout.pad));
  rows += fmt::format("| {:<6}{:<20}| {:<14}| {:<{}}{}{}|\n", chip.chip,
                      machine.is_dual_die ? std::to_string(chip.physical) : "", "NA", 0, layout.first,
                      usage(0, 0, middle), usage(chip.hbm_used_mb, chip.hbm_total_mb, layout.pad));
  return rows;
}

std::string process_rows(const VirtualMachine& machine, int32_t npu, const Layout& layout) {
  std::string rows;
  for (const VirtualChip& chip : machine.chips) {
    if (chip.npu != npu) continue;
    for (const ChipProcess& process : chip.processes) {
      rows += fmt::format("| {:<8}{:<18}| {:<14}", chip.npu, chip.chip, process.pid);
      rows += machine.is_wide
                  ? fmt::format("| {:<19}| {:<22}| {:<24}|\n", process.name.substr(0, 18), process.memory_mb, "NA")
                  : fmt::format("| {:<25}| {:<24}|\n", process.name.substr(0, 24), process.memory_mb);
    }
  }
  return rows.empty() ? line(layout, fmt::format("No running processes found in NPU {}", npu)) : rows;
}

std::vector<int32_t> cards(const VirtualMachine& machine) {
  std::vector<int32_t> cards;
  for (const VirtualChip& chip : machine.chips)
    if (cards.empty() || cards.back() != chip.npu) cards.push_back(chip.npu);
  return cards;
}

int chip_count(const VirtualMachine& machine, int32_t npu) {
  return static_cast<int>(std::count_if(machine.chips.begin(), machine.chips.end(),
                                        [npu](const VirtualChip& chip) { return chip.npu == npu; }));
}

template <class Value>
std::string entry(const char* name, const Value& value) {
  return fmt::format("\t{:<31}: {}\n", name, value);
}

std::string usages(const VirtualMachine&, const VirtualChip& chip) {
  return entry("HBM Capacity(MB)", chip.hbm_total_mb) + entry("HBM Usage Rate(%)", chip.hbm_percent()) +
         entry("Aicore Usage Rate(%)", 0) + entry("Aivector Usage Rate(%)", 0) + entry("Aicpu Usage Rate(%)", 0) +
         entry("Ctrlcpu Usage Rate(%)", "NA") + entry("HBM Bandwidth Usage Rate(%)", "NA") +
         entry("Chip ID", chip.chip);
}

std::string memory(const VirtualMachine&, const VirtualChip& chip) {
  return entry("DDR Capacity(MB)", 0) + entry("DDR Clock Speed(MHz)", "NA") +
         entry("HBM Capacity(MB)", chip.hbm_total_mb) + entry("HBM Clock Speed(MHz)", "NA") +
         entry("HBM Temperature(C)", "NA") + entry("HBM Manufacturer ID", "NA") + entry("Chip ID", chip.chip);
}

std::string common(const VirtualMachine& machine, const VirtualChip& chip) {
  return entry("Chip ID", chip.chip) + entry("Memory Usage Rate(%)", 0) +
         entry("HBM Usage Rate(%)", chip.hbm_percent()) + entry("Aicore Usage Rate(%)", 0) +
         entry("Aicore Freq(MHZ)", machine.profile.cube_mhz) + entry("Aicore Count", machine.profile.cube_cores) +
         entry("Temperature(C)", "NA") + entry("NPU Real-time Power(W)", "NA");
}

std::string process_memory(const VirtualMachine&, const VirtualChip& chip) {
  std::string text;
  for (const ChipProcess& process : chip.processes)
    text += fmt::format("\tProcess id:{} Process name:{:<17} Process memory(MB):{}\n", process.pid, process.name,
                        process.memory_mb);
  if (text.empty()) text = "\tNo process in device.\n";
  return text + entry("Chip ID", chip.chip);
}

struct Type {
  const char* name;
  std::string (*text)(const VirtualMachine&, const VirtualChip&);
};
constexpr Type kTypes[] = {{"usages", usages}, {"memory", memory}, {"common", common}, {"proc-mem", process_memory}};

}  // namespace

std::string info_table(const VirtualMachine& machine) {
  const Layout& layout = machine.is_wide ? kWide : kNarrow;
  std::string text = plain_rule(layout);
  text += line(
      layout, fmt::format("{:<{}}Version: {}", "npu-smi " + machine.driver, machine.is_wide ? 44 : 33, machine.driver));
  text += rule(layout, '-') + layout.titles + (machine.is_dual_die ? layout.dual_chip_titles : layout.chip_titles) +
          rule(layout, '=');
  for (size_t index = 0; index < machine.chips.size(); ++index) {
    text += chip_rows(machine, machine.chips[index], layout);
    const bool is_last = index + 1 == machine.chips.size() || machine.chips[index + 1].npu != machine.chips[index].npu;
    text += is_last ? rule(layout, '=') : plain_rule(layout);
  }
  text += rule(layout, '-') + layout.process_titles + rule(layout, '=');
  for (const int32_t npu : cards(machine)) text += process_rows(machine, npu, layout) + rule(layout, '=');
  return text;
}

std::string card_list(const VirtualMachine& machine) {
  std::string text = entry("Total Count", cards(machine).size());
  for (const int32_t npu : cards(machine))
    text += "\n" + entry("NPU ID", npu) + entry("Product Name", "NA") + entry("Serial Number", "NA") +
            entry("Chip Count", chip_count(machine, npu));
  return text;
}

std::string chip_map(const VirtualMachine& machine) {
  const auto row = [&](const auto& npu, const auto& chip, const auto& logic, const auto& physical,
                       const std::string& name) {
    std::string text = fmt::format("\t{:<31}{:<31}{:<31}", npu, chip, logic);
    if (machine.is_dual_die) text += fmt::format("{:<31}", physical);
    return text + fmt::format("{:<30}\n", name);
  };
  std::string text = row("NPU ID", "Chip ID", "Chip Logic ID", "Chip Phy-ID", "Chip Name");
  const std::string name = machine.is_dual_die ? "Ascend910" : "Ascend " + machine.chip_name();
  for (size_t index = 0; index < machine.chips.size(); ++index) {
    const VirtualChip& chip = machine.chips[index];
    text += row(chip.npu, chip.chip, chip.physical, chip.physical, name);
    const bool is_last = index + 1 == machine.chips.size() || machine.chips[index + 1].npu != chip.npu;
    if (is_last) text += row(chip.npu, chip.chip + 1, "-", "-", "Mcu");
  }
  return text;
}

std::vector<std::string> known_types() {
  std::vector<std::string> names;
  for (const Type& type : kTypes) names.emplace_back(type.name);
  return names;
}

std::string type_text(const VirtualMachine& machine, const std::string& type, int32_t npu, int32_t chip) {
  for (const Type& each : kTypes) {
    if (type != each.name) continue;
    std::string text = entry("NPU ID", npu) + entry("Chip Count", chip_count(machine, npu));
    for (const VirtualChip& one : machine.chips)
      if (one.npu == npu && (chip < 0 || one.chip == chip)) text += "\n" + each.text(machine, one);
    return text;
  }
  return "";
}

}  // namespace drydock::npu_smi
