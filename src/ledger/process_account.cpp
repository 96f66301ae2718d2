#include "ledger/process_account.h"

#include <algorithm>
#include <utility>

namespace drydock::ledger {

MemoryAccount& ProcessAccount::memory(int32_t device) {
  if (last_memory_ != nullptr && last_memory_->device() == device) return *last_memory_;
  const auto [place, is_new] = memories_.try_emplace(device, device);
  last_memory_ = &place->second;
  if (is_new) last_memory_->phase_began(phase_);
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
  ++step_.operators;
}

void ProcessAccount::copied(trace::CopyKind kind, int32_t device, uint64_t size_bytes, bool async, trace::LineId line) {
  if (kind == trace::CopyKind::kHostToDevice) step_.input_bytes += size_bytes;
  Tally& tally = copies_[{kind, device, async, line}];
  ++tally.count;
  tally.bytes += size_bytes;
}

void ProcessAccount::assumed(trace::Assumption kind, uint64_t size_bytes, trace::LineId line) {
  Tally& tally = assumptions_[{kind, line}];
  ++tally.count;
  tally.bytes += size_bytes;
}

void ProcessAccount::phase_began(trace::Phase phase) {
  phase_ = phase;
  for (auto& [device, memory] : memories_) memory.phase_began(phase);
}

void ProcessAccount::module_named(uint32_t module, std::string_view name) { modules_[module] = name; }

std::string_view ProcessAccount::module_name(uint32_t module) const {
  const auto found = modules_.find(module);
  return found == modules_.end() ? std::string_view() : std::string_view(found->second);
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

uint64_t ProcessAccount::capacity_bytes(int32_t device) const {
  const auto found = memories_.find(device);
  return found == memories_.end() ? 0 : found->second.capacity_bytes();
}

void ProcessAccount::driver_returned(trace::DriverMemory kind, uint64_t size_bytes, trace::LineId line) {
  if (kind != trace::DriverMemory::kMalloc && kind != trace::DriverMemory::kPhysical) return;
  step_.returned_bytes += size_bytes;
  const uint64_t of_line = returns_[line] += size_bytes;
  if (of_line >= step_.returning.bytes) step_.returning = {line, of_line};
}

// What each line did within the step that ends.
void ProcessAccount::compare_lines(int32_t device, const HolderTally& tally) {
  std::vector<LineState>& before = line_states_[device];
  before.resize(tally.lines().size());
  for (size_t index = 0; index < before.size(); ++index) {
    const LineTally& now = tally.lines()[index];
    LineState& then = before[index];
    if (const uint64_t bytes = now.allocated_bytes - then.allocated_bytes; bytes > 0)
      step_.largest.push_back({now.line, bytes});
    if (now.live_bytes > then.live_bytes && now.live_bytes - then.live_bytes > step_.rising.bytes)
      step_.rising = {now.line, now.live_bytes - then.live_bytes};
    if (now.live_bytes < then.live_bytes && then.live_bytes - now.live_bytes > step_.falling.bytes)
      step_.falling = {now.line, then.live_bytes - now.live_bytes};
    then = {now.live_bytes, now.allocated_bytes};
  }
}

void ProcessAccount::step_ended(uint64_t record, uint64_t time_ns) {
  step_.step = steps_ended() + 1;
  step_.record = record;
  step_.time_ns = time_ns;
  for (auto& [device, memory] : memories_) {
    step_.allocated_bytes += memory.allocated_bytes();
    step_.reserved_bytes += memory.reserved_bytes();
    step_.peak_allocated_bytes += memory.step_peak_allocated_bytes();
    compare_lines(device, memory.holder_lines());
    memory.step_ended();
  }
  constexpr size_t kKept = 6;
  const auto larger = [](const LineBytes& a, const LineBytes& b) { return a.bytes > b.bytes; };
  const auto kept = step_.largest.begin() + static_cast<ptrdiff_t>(std::min(kKept, step_.largest.size()));
  std::partial_sort(step_.largest.begin(), kept, step_.largest.end(), larger);
  step_.largest.erase(kept, step_.largest.end());
  steps_.push_back(std::move(step_));
  step_ = StepEnd();
  returns_.clear();
  launch_index_.clear();
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
