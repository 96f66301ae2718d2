#include "ledger/without_workspaces.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "ledger/sizes.h"
#include "replay/simulate.h"
#include "replay/trace_history.h"
#include "replay/workload.h"

namespace drydock::ledger {
namespace {

WithoutWorkspaces unknown(std::string reason) {
  WithoutWorkspaces answer;
  answer.reason = std::move(reason);
  return answer;
}

}  // namespace

WithoutWorkspaces replay_without_workspaces(const std::filesystem::path& trace, int32_t device,
                                            const std::string& allocator_settings,
                                            uint64_t recorded_peak_reserved_bytes) {
  replay::Settings settings;
  if (const Status status = replay::parse_settings(allocator_settings, replay::Policy::kNpu, settings); !status.is_ok())
    return unknown(fmt::format("The allocator's settings are none that the model knows: {}", status.message()));
  replay::History history;
  if (const Status status = replay::read_trace(trace.string(), history); !status.is_ok())
    return unknown(status.message());
  const auto number = static_cast<uint8_t>(device);
  const auto devices = replay::devices_of(history);
  if (std::find(devices.begin(), devices.end(), number) == devices.end())
    return unknown("The program's memory did not come from torch_npu's allocator.");

  const replay::Outcome with = replay::simulate(replay::workload_of(history, number), settings);
  if (with.peak_reserved_bytes != recorded_peak_reserved_bytes)
    return unknown(fmt::format("The model of the allocator comes to {} reserved where the trace shows {}.",
                               human_size(with.peak_reserved_bytes), human_size(recorded_peak_reserved_bytes)));
  const replay::Outcome without = replay::simulate(replay::workload_of(history, number, false), settings);
  return {.is_known = true,
          .reason = {},
          .peak_allocated_bytes = without.peak_allocated_bytes,
          .peak_reserved_bytes = without.peak_reserved_bytes,
          .fits = without.fits};
}

}  // namespace drydock::ledger
