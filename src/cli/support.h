#pragma once

#include <string>

namespace drydock::cli {

struct SupportOptions {
  std::string name;   ///< a name or the beginning of names; empty for all
  std::string wheel;  ///< a .whl file or a folder with shared objects; empty where the table itself is asked for
  bool json = false;
};

/// `drydock support [NAME] [--json]`: the table of names with class and reason, and counts.
/// `drydock support --wheel PATH [--json]`: the names that a torch_npu wheel wants, and which of them are missing.
/// Writes to standard output. Returns the exit code: 0, or 2 for an unknown name or a wheel that can't be read (with a
/// sentence on standard error).
int run_support(const SupportOptions& options);

}  // namespace drydock::cli
