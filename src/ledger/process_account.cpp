#include "ledger/process_account.h"

#include <algorithm>
#include <utility>

namespace drydock::ledger {

MemoryAccount& ProcessAccount::memory(int32_t device) {
  if (last_memory_ != nullptr && last_memory_->device() == device) return *last_memory_;
  last_memory_ = &memories_.try_emplace(device, device).first->second;
  return *last_memory_;
}

void ProcessAccount::operator_launched(int32_t device, trace::CallId call, trace::LineId line, trace::Outcome outcome) {
  const auto kind = static_cast<size_t>(outcome);
  if (kind >= kOutcomes) return;
  // Devices beyond the low bits share an index only with themselves: ids of calls and lines stay far below 2^28.
  const uint64_t key = (uint64_t{call} << 36) ^ (uint64_t{line} << 8) ^ (static_cast<uint64_t>(device) & 0xff);
  uint32_t& slot = launch_index_[key];
  if (slot == 0) {
    launches_.push_back({.step = steps_ended() + 1, .call = call, .line = line, .device = device});
    slot = static_cast<uint32_t>(launches_.size());
  }
  ++launches_[slot - 1].count[kind];
  ++step_operators_;
}

void ProcessAccount::copied(trace::CopyKind kind, int32_t device, uint64_t size_bytes, bool async, trace::LineId line) {
  Tally& tally = copies_[{kind, device, async, line}];
  ++tally.count;
  tally.bytes += size_bytes;
}

void ProcessAccount::assumed(trace::Assumption kind, uint64_t size_bytes, trace::LineId line) {
  Tally& tally = assumptions_[{kind, line}];
  ++tally.count;
  tally.bytes += size_bytes;
}

void ProcessAccount::entry_called(uint32_t entry) { ++entries_[entry]; }

void ProcessAccount::failed(uint64_t record, uint32_t entry, int32_t code, std::string_view message,
                            trace::LineId line) {
  ErrorTally& tally = errors_[{entry, code, line, std::string(message)}];
  if (tally.count++ == 0) tally.first_record = record;
}

void ProcessAccount::out_of_memory(int32_t device, OutOfMemory event) {
  event.steps_ended = steps_ended();
  memory(device).out_of_memory(std::move(event));
}

void ProcessAccount::step_ended(uint64_t record, uint64_t time_ns) {
  StepEnd end{.step = steps_ended() + 1, .record = record, .time_ns = time_ns, .operators = step_operators_};
  for (auto& [device, memory] : memories_) {
    end.allocated_bytes += memory.allocated_bytes();
    end.reserved_bytes += memory.reserved_bytes();
    end.peak_allocated_bytes += memory.step_peak_allocated_bytes();
    memory.step_ended();
  }
  steps_.push_back(end);
  launch_index_.clear();
  step_operators_ = 0;
}

void ProcessAccount::host_fallback(std::string_view name, trace::LineId line) {
  ++host_fallbacks_[{std::string(name), line}];
}

void ProcessAccount::python_exception(Exception exception) {
  exception.steps_ended = steps_ended();
  exceptions_.push_back(std::move(exception));
}

void ProcessAccount::finish() {
  for (auto& [device, memory] : memories_) memory.finish();
}

}  // namespace drydock::ledger
