#include "ledger/memory_account.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace drydock::ledger {

using trace::DriverMemory;

bool MemoryAccount::is_device_memory(DriverMemory kind) {
  return kind == DriverMemory::kMalloc || kind == DriverMemory::kPhysical;
}

MemoryAccount::LiveSegment* MemoryAccount::containing(Segments& segments, uint64_t address) {
  auto after = segments.upper_bound(address);
  if (after == segments.begin()) return nullptr;
  auto found = std::prev(after);
  return address - found->first < found->second.size_bytes ? &found->second : nullptr;
}

void MemoryAccount::enter_workspace(LiveSegment& segment) {
  if (segment.is_workspace) return;
  segment.is_workspace = true;
  workspace_segments_ += segment.size_bytes;
}

// Finds out what a segment is for: from the first block in it.
void MemoryAccount::place(uint64_t address, bool is_workspace) {
  if (blockless_ == 0) return;
  if (LiveSegment* segment = containing(mallocs_, address); segment != nullptr) {
    if (segment->has_blocks) return;
    segment->has_blocks = true;
    --blockless_;
    if (is_workspace) enter_workspace(*segment);
    return;
  }
  auto after = reservations_.upper_bound(address);
  if (after == reservations_.begin()) return;
  const auto& [begin, unused] = *std::prev(after);
  LiveSegment& reservation = std::prev(after)->second;
  if (address - begin >= reservation.size_bytes || reservation.has_blocks) return;
  reservation.has_blocks = true;
  --blockless_;
  if (!is_workspace) return;
  reservation.is_workspace = true;
  for (auto mapping = mappings_.lower_bound(begin);
       mapping != mappings_.end() && mapping->first - begin < reservation.size_bytes; ++mapping) {
    auto physical = physical_.find(mapping->second.handle);
    if (physical != physical_.end()) enter_workspace(physical->second);
  }
}

// Whether new driver memory is workspace is known only once a block lies in it, so a peak of reserved bytes counts
// when the next event is seen.
void MemoryAccount::settle() {
  if (!unsettled_) return;
  unsettled_ = false;
  peak_workspace_ = std::max(peak_workspace_, workspace_segments_ + scratch_);
  if (reserved_bytes() <= peak_reserved_) return;
  peak_reserved_ = reserved_bytes();
  driver_lines_.new_peak();
}

void MemoryAccount::block_allocated(uint64_t address, uint64_t size_bytes, bool is_workspace, trace::LineId line,
                                    uint32_t module, bool gradients_are_recorded) {
  if (address == FlatTable<LiveBlock>::kEmptyKey) return;
  place(address, is_workspace);
  settle();
  if (live_blocks_.find(address) != nullptr) block_freed(address);  // its release was not recorded
  LiveBlock block{.size_bytes = size_bytes, .is_workspace = is_workspace};
  block.tally = block_lines_.add(line, is_workspace, size_bytes);
  live_blocks_[address] = block;
  block_sizes_[size_bytes] = 1;
  ++block_count_;
  if (is_workspace) return;
  census_.allocated(address, size_bytes, {line, module, gradients_are_recorded});
  allocated_ += size_bytes;
  step_peak_ = std::max(step_peak_, allocated_);
  if (allocated_ <= peak_allocated_) return;
  peak_allocated_ = allocated_;
  block_lines_.new_peak();
  census_.new_peak();
  at_peak_ = moment_now();
}

void MemoryAccount::block_freed(uint64_t address) {
  settle();
  const LiveBlock* block = live_blocks_.find(address);
  if (block == nullptr) {
    ++unknown_frees_;
    return;
  }
  block_lines_.remove(block->tally, block->size_bytes);
  if (!block->is_workspace) allocated_ -= block->size_bytes;
  if (block->is_scratch) scratch_ -= block->size_bytes;
  if (!block->is_workspace) census_.freed(address);
  live_blocks_.erase(address);
}

void MemoryAccount::block_requested(uint64_t address, uint64_t requested_bytes) {
  LiveBlock* block = live_blocks_.find(address);
  if (block == nullptr || requested_bytes > block->size_bytes) return;
  // The first wish for a block is the block's; a smaller view of the same storage changes nothing.
  if (block->requested_bytes != 0) return;
  block->requested_bytes = requested_bytes;
  if (!block->is_workspace) census_.requested(address, requested_bytes);
  padding_ += block->size_bytes - requested_bytes;
  ++requested_blocks_;
}

void MemoryAccount::workspace_given(uint64_t address) {
  if (address == FlatTable<LiveBlock>::kEmptyKey || address == 0) return;  // it could not be given
  LiveBlock* block = live_blocks_.find(address);
  if (block == nullptr || block->is_workspace || block->is_scratch) return;
  block->is_scratch = true;
  census_.given_as_workspace(address);
  scratch_ += block->size_bytes;
  peak_workspace_ = std::max(peak_workspace_, workspace_segments_ + scratch_);
}

void MemoryAccount::map(const Segment& segment) {
  if (mappings_.contains(segment.address)) unmap(segment.address);
  mappings_[segment.address] = {segment.size_bytes, segment.handle};
  auto physical = physical_.find(segment.handle);
  if (physical == physical_.end()) return;
  if (physical->second.mappings++ == 0) unmapped_ -= std::min(unmapped_, physical->second.size_bytes);
  const LiveSegment* reservation = containing(reservations_, segment.address);
  if (reservation != nullptr && reservation->is_workspace) enter_workspace(physical->second);
}

void MemoryAccount::unmap(uint64_t address) {
  auto mapping = mappings_.find(address);
  if (mapping == mappings_.end()) return;
  auto physical = physical_.find(mapping->second.handle);
  mappings_.erase(mapping);
  if (physical == physical_.end() || physical->second.mappings == 0 || --physical->second.mappings > 0) return;
  LiveSegment& segment = physical->second;
  unmapped_ += segment.size_bytes;
  if (!segment.is_workspace) return;
  segment.is_workspace = false;
  workspace_segments_ -= segment.size_bytes;
}

void MemoryAccount::driver_allocated(const Segment& segment) {
  settle();
  ++segment_count_;
  LiveSegment live{.size_bytes = segment.size_bytes};
  if (segment_rows_.size() < kMaxSegmentRows) {
    live.row = segment_rows_.size();
    segment_rows_.push_back(segment);
  }
  switch (segment.kind) {
    case DriverMemory::kMalloc:
    case DriverMemory::kPhysical: {
      const bool is_physical = segment.kind == DriverMemory::kPhysical;
      driver_freed(segment.kind, segment.address, segment.handle, segment.allocated_record);  // release not recorded
      live.tally = driver_lines_.add(segment.line, false, segment.size_bytes);
      driver_ += segment.size_bytes;
      if (is_physical) {
        uses_virtual_memory_ = true;
        unmapped_ += segment.size_bytes;
        physical_[segment.handle] = live;
      } else {
        mallocs_[segment.address] = live;
        ++blockless_;
      }
      break;
    }
    case DriverMemory::kReservation: {
      LiveSegment& slot = reservations_[segment.address];
      if (slot.size_bytes == 0 || slot.has_blocks) ++blockless_;
      slot = live;
      break;
    }
    case DriverMemory::kMapping: map(segment); break;
    case DriverMemory::kHost:
    case DriverMemory::kHostRegistered: {
      uint64_t& size = host_sizes_[segment.address];
      host_ += segment.size_bytes - size;
      size = segment.size_bytes;
      peak_host_ = std::max(peak_host_, host_);
      break;
    }
  }
  unsettled_ = true;
}

void MemoryAccount::release(LiveSegment& segment, uint64_t record) {
  driver_ -= segment.size_bytes;
  if (segment.is_workspace) workspace_segments_ -= segment.size_bytes;
  driver_lines_.remove(segment.tally, segment.size_bytes);
  if (segment.row < segment_rows_.size()) segment_rows_[segment.row].freed_record = record;
}

void MemoryAccount::driver_freed(DriverMemory kind, uint64_t address, uint64_t handle, uint64_t record) {
  settle();
  switch (kind) {
    case DriverMemory::kMalloc: {
      auto found = mallocs_.find(address);
      if (found == mallocs_.end()) return;
      if (!found->second.has_blocks) --blockless_;
      release(found->second, record);
      mallocs_.erase(found);
      return;
    }
    case DriverMemory::kPhysical: {
      auto found = physical_.find(handle);
      if (found == physical_.end()) return;
      if (found->second.mappings == 0) unmapped_ -= std::min(unmapped_, found->second.size_bytes);
      release(found->second, record);
      physical_.erase(found);
      return;
    }
    case DriverMemory::kReservation: {
      auto found = reservations_.find(address);
      if (found == reservations_.end()) return;
      if (!found->second.has_blocks) --blockless_;
      if (found->second.row < segment_rows_.size()) segment_rows_[found->second.row].freed_record = record;
      reservations_.erase(found);
      return;
    }
    case DriverMemory::kMapping: unmap(address); return;
    case DriverMemory::kHost:
    case DriverMemory::kHostRegistered:
      if (const uint64_t* size = host_sizes_.find(address); size != nullptr) {
        host_ -= *size;
        host_sizes_.erase(address);
      }
      return;
  }
}

// Driver memory in which the caching allocator never placed a block: the program's own.
uint64_t MemoryAccount::direct_bytes() {
  if (!has_blocks()) return 0;
  uint64_t bytes = 0;
  for (const auto& [address, segment] : mallocs_)
    if (!segment.has_blocks) bytes += segment.size_bytes;
  for (const auto& [address, mapping] : mappings_) {
    const LiveSegment* reservation = containing(reservations_, address);
    if (reservation != nullptr && !reservation->has_blocks) bytes += mapping.size_bytes;
  }
  return bytes;
}

Stranded MemoryAccount::stranded() const {
  std::vector<Extent> extents;
  for (const auto& [address, segment] : mallocs_)
    if (segment.has_blocks && !segment.is_workspace) extents.push_back({address, segment.size_bytes});
  for (const auto& [address, mapping] : mappings_) {
    const auto physical = physical_.find(mapping.handle);
    if (physical != physical_.end() && physical->second.is_workspace) continue;
    // Pages that follow each other are one place for a block.
    if (!extents.empty() && extents.back().address + extents.back().size_bytes == address)
      extents.back().size_bytes += mapping.size_bytes;
    else
      extents.push_back({address, mapping.size_bytes});
  }
  std::vector<PlacedBlock> blocks;
  live_blocks_.for_each([&](uint64_t address, const LiveBlock& block) {
    if (!block.is_workspace) blocks.push_back({address, block.size_bytes, block_lines_.lines()[block.tally].line});
  });
  return find_stranded(std::move(extents), std::move(blocks));
}

DeviceMoment MemoryAccount::moment_now() {
  DeviceMoment moment;
  moment.is_known = true;
  moment.capacity_bytes = capacity_;
  moment.allocated_bytes = has_blocks() ? allocated_ : 0;
  moment.direct_bytes = has_blocks() ? (blockless_ > 0 ? direct_bytes() : 0) : reserved_bytes();
  const uint64_t held = moment.allocated_bytes + moment.direct_bytes;
  moment.cached_bytes = reserved_bytes() > held ? reserved_bytes() - held : 0;
  moment.workspace_bytes = workspace_segments_;
  moment.unmapped_bytes = unmapped_;
  moment.idle_bytes = idle_;
  moment.context_bytes = context_;
  moment.hccl_bytes = hccl_;
  moment.free_bytes = capacity_ > moment.used_bytes() ? capacity_ - moment.used_bytes() : 0;
  return moment;
}

std::vector<std::string> MemoryAccount::imbalances() const {
  std::vector<std::string> sentences;
  const auto differ = [&](std::string_view moment, std::string_view what, uint64_t one, std::string_view other,
                          uint64_t two) {
    if (one != two)
      sentences.push_back(fmt::format("The account of npu:{} does not balance {}: {} are {} bytes, {} {}.", device_,
                                      moment, what, one, other, two));
  };
  for (const auto& [name, moment] :
       {std::pair("at the peak", &at_peak_), {"at the refusal", &at_out_of_memory_}, {"at the end", &at_end_}}) {
    if (!moment->is_known) continue;
    differ(name, "the kinds of blocks", moment->blocks.allocated_bytes(), "allocated ones", moment->allocated_bytes);
    uint64_t held = 0;
    for (const KindHolder& holder : moment->blocks.holders) held += holder.bytes;
    differ(name, "the holders", held, "allocated ones", moment->allocated_bytes);
    if (moment->capacity_bytes != 0)
      differ(name, "the parts", moment->used_bytes() + moment->other_bytes + moment->free_bytes, "the device's",
             moment->capacity_bytes);
  }
  uint64_t by_line = 0, by_line_now = 0;
  for (const LineTally& tally : block_lines_.lines()) {
    if (tally.is_workspace) continue;
    by_line += tally.bytes_at_peak;
    by_line_now += tally.live_bytes;
  }
  if (at_peak_.is_known && has_blocks())
    differ("at the peak", "lines", by_line, "kinds", at_peak_.blocks.allocated_bytes());
  differ("at the end", "lines", by_line_now, "kinds", at_end_.blocks.allocated_bytes());
  return sentences;
}

void MemoryAccount::out_of_memory(OutOfMemory event) {
  settle();
  census_.out_of_memory();
  at_out_of_memory_ = moment_now();
  // What the driver says is free, and what this process holds, leaves what others hold.
  const uint64_t known = at_out_of_memory_.used_bytes() + event.free_bytes;
  if (capacity_ >= known) {
    at_out_of_memory_.other_bytes = capacity_ - known;
    at_out_of_memory_.free_bytes = event.free_bytes;
  }
  event.allocated_bytes = allocated_bytes();
  event.reserved_bytes = reserved_bytes();
  event.workspace_bytes = workspace_segments_;
  event.direct_bytes = direct_bytes();
  event.pending_bytes = event.kind == DriverMemory::kPhysical ? unmapped_ : 0;
  event.free_bytes += event.pending_bytes;
  for (const auto& [what, bytes] : overheads_)
    (what.starts_with("hccl") ? event.hccl_bytes : event.idle_bytes) += bytes;
  event.holders = holder_lines().now();
  if (has_blocks()) event.stranded = stranded();
  if (!out_of_memories_.empty()) {
    out_of_memories_.back().holders = {};
    out_of_memories_.back().stranded.pins = {};
  }
  out_of_memories_.push_back(std::move(event));
}

void MemoryAccount::overhead_charged(std::string_view what, uint64_t size_bytes) {
  std::string name(what);
  for (char& letter : name)
    if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
  overheads_[name] += size_bytes;
  (name.starts_with("hccl") ? hccl_ : name == "idle" ? idle_ : context_) += size_bytes;
}

void MemoryAccount::step_ended() {
  settle();
  step_peak_ = allocated_;
  census_.step_ended();
  // The first step makes the optimizer's state, the second the first gradients beside it.
  if (++steps_ended_ == 2) {
    block_lines_.mark();
    driver_lines_.mark();
  }
}

void MemoryAccount::finish() {
  settle();
  block_lines_.finish();
  driver_lines_.finish();
  census_.finish();
  at_peak_.blocks = census_.at_peak();
  at_out_of_memory_.blocks = census_.at_out_of_memory();
  at_end_ = moment_now();
  at_end_.blocks = census_.at_end();
}

}  // namespace drydock::ledger
