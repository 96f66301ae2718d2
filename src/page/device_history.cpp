#include "page/device_history.h"

#include <algorithm>
#include <utility>

#include "ledger/memory_records.h"

namespace drydock::page {

using trace::DriverMemory;
using trace::Kind;
using trace::Record;

namespace {

// Loading a model, and programs without an optimizer, are worth a look too: windows of so many events end before the
// first step does. Later on a window is a step, unless that takes very long.
constexpr uint64_t kWindowEventsBeforeSteps = 128;
constexpr uint64_t kWindowEvents = 65'536;

}  // namespace

uint32_t DeviceHistory::holder(const HolderKey& key) {
  // Numbers of lines stay below 2^28, of modules and names below 2^29.
  const uint64_t owner = key.name != 0 ? uint64_t{key.name} | 1U << 29 : key.module;
  uint32_t& slot = holder_ids_[uint64_t{key.line} << 36 | owner << 6 | static_cast<uint64_t>(key.block_kind) << 2 |
                               static_cast<uint64_t>(key.kind)];
  if (slot == 0) {  // 0 = new; ids are kept plus one
    const bool is_driver = key.kind == HolderKind::kDriver;
    std::vector<HolderKey>& keys = is_driver ? driver_holders_ : block_holders_;
    HolderMoments& moments = is_driver ? drivers_ : blocks_;
    uint32_t& group = group_ids_[uint64_t{key.line} << 2 | static_cast<uint64_t>(key.kind)];
    if (group == 0) group = moments.add_group() + 1;
    keys.push_back(key);
    slot = moments.add_holder(key.kind != HolderKind::kWorkspace, group - 1) + 1;
  }
  return slot - 1;
}

// The state after an event is taken down when the next one comes, once it is known what new driver memory is for.
void DeviceHistory::sample() {
  if (!unsampled_) return;
  unsampled_ = false;
  curve_.add({.event = event_,
              .time_ns = time_ns_,
              .allocated_bytes = blocks_.total_bytes(),
              .reserved_bytes = account_.reserved_bytes(),
              .workspace_bytes = account_.workspace_bytes() + scratch_});
}

void DeviceHistory::take_block(const Record& record, uint32_t step) {
  const uint64_t address = ledger::key_of(record.address);
  if (address == ledger::FlatTable<int>::kEmptyKey) return;  // of a damaged trace
  switch (record.kind) {
    case Kind::kBlockAllocated: {
      if (account_.blocks() == 1) peak_ = 0;  // heights were those of driver memory so far
      if (const PlacedBlock* old = space_.block_at(address); old != nullptr) {
        // Its release was not recorded.
        if (block_holders_[old->holder].kind == HolderKind::kScratch) scratch_ -= old->size_bytes;
        blocks_.remove(old->holder, old->size_bytes, record.time_ns);
      }
      HolderKey key{.kind = HolderKind::kWorkspace, .line = record.line};
      if (!record.is_workspace) {
        key.kind = HolderKind::kBlock;
        key.module = record.module;
        if (births_ < purposes_.size()) {
          key.block_kind = purposes_[births_].kind;
          key.name = purposes_[births_].name;
        }
        ++births_;
      }
      const uint32_t id = holder(key);
      blocks_.add(id, record.size_bytes, event_, record.time_ns);
      space_.block_allocated({address, record.size_bytes, 0, id, step});
      if (blocks_.total_bytes() <= peak_) return;
      peak_ = blocks_.total_bytes();
      peak_ns_ = record.time_ns;
      peak_step_ = step;
      space_.mark(AddressSpace::Mark::kPeak);
      return;
    }
    case Kind::kWorkspaceGiven: {
      PlacedBlock* block = space_.block_at(address);
      if (block == nullptr || block_holders_[block->holder].kind != HolderKind::kBlock) return;
      HolderKey key = block_holders_[block->holder];
      key.kind = HolderKind::kScratch;
      const uint32_t id = holder(key);
      blocks_.move(block->holder, id, block->size_bytes, record.time_ns);
      scratch_ += block->size_bytes;
      block->holder = id;
      return;
    }
    case Kind::kBlockRequested: {
      PlacedBlock* block = space_.block_at(address);
      if (block != nullptr && block->requested_bytes == 0 && record.size_bytes <= block->size_bytes)
        block->requested_bytes = record.size_bytes;
      return;
    }
    default: {
      const PlacedBlock* block = space_.block_at(address);
      if (block == nullptr) return;
      blocks_.remove(block->holder, block->size_bytes, record.time_ns);
      if (block_holders_[block->holder].kind == HolderKind::kScratch) scratch_ -= block->size_bytes;
      space_.block_freed(address);
      return;
    }
  }
}

void DeviceHistory::take_driver(const Record& record, uint32_t step) {
  const uint64_t address = ledger::key_of(record.address);
  const bool is_allocated = record.kind == Kind::kDriverAllocated;
  if (record.memory == DriverMemory::kReservation) {
    if (is_allocated)
      space_.reserved(address, record.size_bytes);
    else
      space_.unreserved(address);
    return;
  }
  const bool is_mapping = record.memory == DriverMemory::kMapping;
  if (record.memory == DriverMemory::kMalloc || is_mapping) {
    const uint32_t id = holder({.kind = HolderKind::kDriver, .line = record.line});
    auto old = driver_pieces_.find(address);
    if (old != driver_pieces_.end()) {
      drivers_.remove(old->second.first, old->second.second, record.time_ns);
      driver_pieces_.erase(old);
    }
    if (is_allocated) {
      space_.piece_added({address, record.size_bytes, id}, is_mapping);
      driver_pieces_[address] = {id, record.size_bytes};
      drivers_.add(id, record.size_bytes, event_, record.time_ns);
    } else {
      space_.piece_removed(address);
    }
  }
  if (has_blocks() || drivers_.total_bytes() <= peak_) return;
  peak_ = drivers_.total_bytes();
  peak_ns_ = record.time_ns;
  peak_step_ = step;
  space_.mark(AddressSpace::Mark::kPeak);
}

void DeviceHistory::take(const trace::Reader& reader, const Record& record, uint32_t step) {
  const bool is_placement = unplaced_ && record.kind == Kind::kBlockAllocated;
  switch (record.kind) {
    case Kind::kBlockAllocated:
    case Kind::kBlockFreed:
    case Kind::kWorkspaceGiven:
    case Kind::kDriverAllocated:
    case Kind::kDriverFreed:
      if (!is_placement) sample();
      ++event_;
      unsampled_ = true;
      unplaced_ = record.kind == Kind::kDriverAllocated;
      break;
    case Kind::kDriverOutOfMemory: sample(); break;
    default: break;
  }
  if (record.kind == Kind::kCapacity) capacity_ = std::max(capacity_, record.capacity_bytes);
  if (record.kind == Kind::kDriverOutOfMemory)
    account_.out_of_memory(ledger::out_of_memory_of(reader, record));
  else if (!ledger::take_memory_record(reader, record, account_))
    return;
  time_ns_ = std::max(time_ns_, record.time_ns);
  switch (record.kind) {
    case Kind::kBlockAllocated:
    case Kind::kBlockFreed:
    case Kind::kWorkspaceGiven:
    case Kind::kBlockRequested: take_block(record, step); break;
    case Kind::kDriverAllocated:
    case Kind::kDriverFreed: take_driver(record, step); break;
    case Kind::kDriverOutOfMemory:
      capacity_ = std::max(capacity_, record.capacity_bytes);
      space_.mark(AddressSpace::Mark::kRefusal);
      held_at_refusal_ = moments().now(step, event_, record.time_ns);
      break;
    default: break;
  }
  if (++window_events_ >= (step == 1 ? kWindowEventsBeforeSteps : kWindowEvents)) step_ended(step, record.time_ns);
}

void DeviceHistory::step_ended(uint32_t step, uint64_t time_ns) {
  window_events_ = 0;
  blocks_.close_window(step, event_, time_ns);
  drivers_.close_window(step, event_, time_ns);
}

void DeviceHistory::finish(uint32_t step, uint64_t time_ns) {
  sample();
  account_.finish();
  blocks_.finish(step, event_, time_ns);
  drivers_.finish(step, event_, time_ns);
}

void DeviceHistory::shrink_to(size_t spans, size_t moments) {
  curve_.shrink_to(spans);
  blocks_.shrink_to(moments);
  drivers_.shrink_to(moments);
}

std::vector<CurvePoint> DeviceHistory::curve() const {
  std::vector<CurvePoint> points = curve_.points();
  if (!has_blocks())
    for (CurvePoint& point : points) point.allocated_bytes = point.reserved_bytes;
  return points;
}

LayoutMoment DeviceHistory::at_peak() const {
  return {space_.at(AddressSpace::Mark::kPeak), false, peak_ns_, peak_step_};
}

std::optional<LayoutMoment> DeviceHistory::at_refusal() const {
  if (!held_at_refusal_) return std::nullopt;
  return LayoutMoment{space_.at(AddressSpace::Mark::kRefusal), true, held_at_refusal_->time_ns, held_at_refusal_->step};
}

}  // namespace drydock::page
