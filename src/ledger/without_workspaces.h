#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace drydock::ledger {

/// What one device of one process would have come to if no operator had asked for workspace: the trace's requests
/// without those for workspaces, replayed through the model of the allocator under the run's own settings.
struct WithoutWorkspaces {
  bool is_known = false;
  std::string reason;  ///< why not, a sentence; empty if it is
  uint64_t peak_allocated_bytes = 0;
  uint64_t peak_reserved_bytes = 0;
  bool fits = true;  ///< every request could be met, also one that was refused
};

/// `allocator_settings`: of the run. The answer is known only where the same model with
/// workspaces comes to the `recorded_peak_reserved_bytes` that the trace shows.
WithoutWorkspaces replay_without_workspaces(const std::filesystem::path& trace, int32_t device,
                                            const std::string& allocator_settings,
                                            uint64_t recorded_peak_reserved_bytes);

}  // namespace drydock::ledger
