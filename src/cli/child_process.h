#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace drydock::cli {

struct ChildEnd {
  /// As a shell reports it: the command's own, 128 + signal, 127 (no such command), 126 (it can't be executed).
  int32_t exit_code = 0;
  double wall_s = 0;
  /// Why the command did not start; empty if it did.
  std::string failure;
};

/// Runs `command` (looked up in PATH) with `environment` set over the caller's variables, and waits for its end.
/// Meanwhile SIGINT, SIGTERM, SIGHUP and SIGQUIT do not end the caller: those that a process sent are passed on; those
/// of the terminal reach the command by themselves, which is in the same process group. All are noted
/// (interruption.h). One child at a time.
ChildEnd run_child(const std::vector<std::string>& command, const std::map<std::string, std::string>& environment);

}  // namespace drydock::cli
