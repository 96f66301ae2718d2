#include "export/allocator_history.h"

#include <algorithm>
#include <iterator>

#include "export/run_traces.h"

namespace drydock::exports {
namespace {

using trace::DriverMemory;
using trace::Kind;

constexpr uint64_t kSmallSegment = uint64_t{2} << 20;  // and the page of an expandable one of small blocks
// torch_npu adds it to what is asked for and rounds up: a block's rounded size less this is the most that can have been
// asked for.
constexpr uint64_t kPadding = 32;

template <class Value>
Value* containing(std::map<uint64_t, Value>& pieces, uint64_t address) {
  auto after = pieces.upper_bound(address);
  if (after == pieces.begin()) return nullptr;
  auto found = std::prev(after);
  return address - found->first < found->second.size ? &found->second : nullptr;
}

}  // namespace

AllocatorHistory::Reservation* AllocatorHistory::reservation_of(uint64_t address) {
  return containing(reservations_, address);
}

// A segment in which the workspace allocator puts a block is none of the caching allocator.
void AllocatorHistory::mark_workspace(uint64_t address) {
  const auto leave_out = [this](Driver& driver) {
    if (driver.is_workspace) return;
    driver.is_workspace = true;
    if (driver.entry < entries_.size()) entries_[driver.entry].action = Action::kNothing;
    workspace_bytes_ += driver.size;
  };
  if (Driver* segment = containing(mallocs_, address); segment != nullptr) {
    leave_out(*segment);
    return;
  }
  Reservation* reservation = reservation_of(address);
  if (reservation == nullptr || reservation->is_workspace) return;
  reservation->is_workspace = true;
  const uint64_t begin = std::prev(reservations_.upper_bound(address))->first;
  for (auto mapping = mappings_.lower_bound(begin);
       mapping != mappings_.end() && mapping->first - begin < reservation->size; ++mapping)
    leave_out(mapping->second);
}

void AllocatorHistory::allocate(uint64_t address, const trace::Record& record) {
  has_blocks_ = true;
  if (record.is_workspace) {
    mark_workspace(address);
    workspace_blocks_[address] = true;
    return;
  }
  if (blocks_.contains(address)) release(address, record);  // its release was not recorded
  blocks_[address] = {.size = record.size_bytes, .requested = 0, .line = record.line, .entry = entries_.size()};
  const uint64_t most = record.size_bytes > kPadding ? record.size_bytes - kPadding : record.size_bytes;
  entries_.push_back(
      {.address = address, .size = most, .time_ns = record.time_ns, .line = record.line, .action = Action::kAlloc});
  ++unknown_sizes_;
}

void AllocatorHistory::release(uint64_t address, const trace::Record& record) {
  const auto found = blocks_.find(address);
  if (found == blocks_.end()) {
    if (workspace_blocks_.erase(address) == 0) ++unknown_frees_;
    return;
  }
  entries_.push_back({.address = address,
                      .size = entries_[found->second.entry].size,
                      .time_ns = record.time_ns,
                      .line = found->second.line,
                      .action = Action::kFree});
  blocks_.erase(found);
}

void AllocatorHistory::take_driver(const trace::Record& record, uint64_t address) {
  Driver driver{.size = record.size_bytes, .line = record.line, .entry = entries_.size(), .is_workspace = false};
  Entry entry{.address = address, .size = record.size_bytes, .time_ns = record.time_ns, .line = record.line};
  switch (record.memory) {
    case DriverMemory::kMalloc:
      entry.action = Action::kSegmentAlloc;
      entries_.push_back(entry);
      mallocs_[address] = driver;
      return;
    case DriverMemory::kReservation: reservations_[address] = {.size = record.size_bytes}; return;
    case DriverMemory::kMapping:
      if (Reservation* reservation = reservation_of(address); reservation != nullptr) {
        if (!reservation->has_mappings) reservation->is_small = record.size_bytes == kSmallSegment;
        reservation->has_mappings = true;
        driver.is_workspace = reservation->is_workspace;
      }
      if (driver.is_workspace) workspace_bytes_ += driver.size;
      entry.action = driver.is_workspace ? Action::kNothing : Action::kSegmentMap;
      entries_.push_back(entry);
      mappings_[address] = driver;
      return;
    default: return;
  }
}

void AllocatorHistory::free_driver(std::map<uint64_t, Driver>& drivers, uint64_t address, Action action,
                                   const trace::Record& record) {
  const auto found = drivers.find(address);
  if (found == drivers.end()) return;
  if (found->second.is_workspace) {
    workspace_bytes_ -= found->second.size;
  } else {
    entries_.push_back({.address = address,
                        .size = found->second.size,
                        .time_ns = record.time_ns,
                        .line = record.line,
                        .action = action});
  }
  drivers.erase(found);
}

void AllocatorHistory::take(const trace::TraceInfo& info, const trace::Record& record) {
  const uint64_t address = address_of(info, record.address);
  switch (record.kind) {
    case Kind::kBlockAllocated: allocate(address, record); return;
    case Kind::kBlockFreed: release(address, record); return;
    case Kind::kBlockRequested: {
      const auto found = blocks_.find(address);
      if (found == blocks_.end() || found->second.requested != 0 || record.size_bytes > found->second.size) return;
      found->second.requested = record.size_bytes;
      entries_[found->second.entry].size = record.size_bytes;
      --unknown_sizes_;
      return;
    }
    case Kind::kDriverAllocated: take_driver(record, address); return;
    case Kind::kDriverFreed:
      if (record.memory == DriverMemory::kMalloc) free_driver(mallocs_, address, Action::kSegmentFree, record);
      if (record.memory == DriverMemory::kMapping) free_driver(mappings_, address, Action::kSegmentUnmap, record);
      if (record.memory == DriverMemory::kReservation) reservations_.erase(address);
      return;
    case Kind::kDriverOutOfMemory:
      entries_.push_back({.address = record.free_bytes,
                          .size = record.size_bytes,
                          .time_ns = record.time_ns,
                          .line = record.line,
                          .action = Action::kOutOfMemory});
      return;
    default: return;
  }
}

void AllocatorHistory::finish() {
  for (auto& [address, block] : blocks_)
    if (block.requested == 0) block.requested = entries_[block.entry].size;
  for (const auto& [address, driver] : mallocs_) {
    if (driver.is_workspace) continue;
    segments_[address] = {
        .size = driver.size, .line = driver.line, .is_small = driver.size == kSmallSegment, .is_expandable = false};
    // A program without torch_npu's allocator: what the driver gave it is what it holds.
    if (!has_blocks_) blocks_[address] = {.size = driver.size, .requested = driver.size, .line = driver.line};
  }
  for (const auto& [address, driver] : mappings_) {
    if (driver.is_workspace) continue;
    const Reservation* reservation = reservation_of(address);
    const bool is_small = reservation != nullptr && reservation->is_small;
    if (!segments_.empty()) {
      auto& [begin, last] = *std::prev(segments_.end());
      const bool is_one = last.is_expandable && begin + last.size == address && reservation_of(begin) == reservation;
      if (is_one) {
        last.size += driver.size;
        continue;
      }
    }
    segments_[address] = {.size = driver.size, .line = driver.line, .is_small = is_small, .is_expandable = true};
  }
}

}  // namespace drydock::exports
