#include <algorithm>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "npu_smi/tables.h"
#include "npu_smi/virtual_chips.h"

// `npu-smi` of the virtual machine, so that scripts that parse its tables find one.

namespace drydock::npu_smi {
namespace {

constexpr int kBadUse = 1;

int complain(const std::string& sentence) {
  fmt::print(stderr, "npu-smi (drydock): {}\n", sentence);
  return kBadUse;
}

int run(int argc, char** argv) {
  CLI::App app{"npu-smi of Drydock's virtual device: the memory that the living processes of DRYDOCK_RUN_DIR hold."};
  app.name("npu-smi");
  app.footer("What a virtual device does not have (power, temperature, load) is -, NA or 0. Nothing can be set.\n");
  bool wants_version = false;
  app.add_flag("-v", wants_version, "Print the version");
  app.require_subcommand(0, 1);
  CLI::App* info = app.add_subcommand("info", "Print the devices");
  bool wants_list = false, wants_map = false;
  std::string type;
  int npu = -1, chip = -1;
  info->add_flag("-l", wants_list, "List the cards");
  info->add_flag("-m", wants_map, "Which chip is which device");
  info->add_option("-t", type, "One kind of figures: " + fmt::format("{}", fmt::join(known_types(), ", ")));
  info->add_option("-i", npu, "Number of the card")->check(CLI::NonNegativeNumber);
  info->add_option("-c", chip, "Number of the chip on its card")->check(CLI::NonNegativeNumber);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& asked) {
    return app.exit(asked);
  } catch (const CLI::ParseError& error) {
    return complain(std::string(error.what()) + ". See npu-smi --help.");
  }
  VirtualMachine machine;
  if (Status status = read_virtual_machine(machine); !status.is_ok()) return complain(status.message());
  for (const std::string& problem : machine.problems) complain(problem);
  if (wants_version) {
    fmt::print("npu-smi version: {}\n", machine.driver);
    return 0;
  }
  if (!info->parsed()) return complain("npu-smi needs a command: info. See npu-smi --help.");
  if (type.empty()) {
    if (npu >= 0 || chip >= 0) return complain("-i and -c choose of the figures of a kind: give -t, too.");
    std::fputs((wants_list ? card_list(machine) : wants_map ? chip_map(machine) : info_table(machine)).c_str(), stdout);
    return 0;
  }
  if (npu < 0) {
    if (machine.chips.size() > 1 && machine.chips.back().npu != 0)
      return complain(fmt::format("-t {} needs a card: -i NUMBER.", type));
    npu = 0;
  }
  const bool is_there = std::any_of(machine.chips.begin(), machine.chips.end(), [&](const VirtualChip& each) {
    return each.npu == npu && (chip < 0 || each.chip == chip);
  });
  if (!is_there)
    return complain(chip < 0 ? fmt::format("there is no card {}.", npu)
                             : fmt::format("there is no chip {} on card {}.", chip, npu));
  const std::string text = type_text(machine, type, npu, chip);
  if (text.empty())
    return complain(
        fmt::format("the virtual device has no \"{}\": it knows {}.", type, fmt::join(known_types(), ", ")));
  std::fputs(text.c_str(), stdout);
  return 0;
}

}  // namespace
}  // namespace drydock::npu_smi

int main(int argc, char** argv) {
  try {
    return drydock::npu_smi::run(argc, argv);
  } catch (const std::exception& failure) {
    fmt::print(stderr, "npu-smi (drydock): {}\n", failure.what());
    return 1;
  }
}
