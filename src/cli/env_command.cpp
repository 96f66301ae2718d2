#include <cstdio>
#include <filesystem>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/run_options.h"
#include "ledger/run_info.h"

namespace drydock::cli {
namespace {

// For POSIX shells: nothing is special between single quotes but the quote itself.
std::string shell_quoted(std::string_view value) {
  std::string result = "'";
  for (char letter : value) {
    if (letter == '\'')
      result += "'\\''";
    else
      result += letter;
  }
  return result + "'";
}

}  // namespace

int env_command(const RunOptions& options) {
  std::filesystem::path root;
  RunSettings settings;
  Status status = find_install_root(root);
  if (status.is_ok()) status = resolve_run(options, root, std::filesystem::path(), settings);
  std::filesystem::path run_folder;
  if (status.is_ok()) status = make_run_folder(options.out, run_folder);
  if (status.is_ok()) {
    settings.environment["DRYDOCK_RUN_DIR"] = run_folder.string();
    settings.info.environment["DRYDOCK_RUN_DIR"] = run_folder.string();
    settings.info.started = utc_now();
    status = ledger::write_run_info(run_folder, settings.info);
  }
  if (!status.is_ok()) {
    return refuse(status.message());
  }
  for (const auto& [name, value] : settings.environment) fmt::print("export {}={}\n", name, shell_quoted(value));
  complain(fmt::format("programs of this shell will be recorded in {}; afterwards: drydock ledger {}",
                       run_folder.string(), shell_quoted(run_folder.string())));
  return 0;
}

}  // namespace drydock::cli
