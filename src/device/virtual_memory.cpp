#include "device/virtual_memory.h"

#include <atomic>
#include <cstring>

#include <fmt/format.h>

#include "base/generated/error_codes.h"
#include "device/client_allocator.h"
#include "device/copy.h"
#include "device/host_memory.h"
#include "device/host_room.h"
#include "races/stream_check.h"
#include "values/extents.h"

namespace drydock::device {
namespace {

uint64_t round_up(uint64_t size, uint64_t unit) { return (size + unit - 1) / unit * unit; }

template <class... Args>
Status refuse(std::string_view entry, fmt::format_string<Args...> format, Args&&... args) {
  return Status::error(code::ACL_ERROR_RT_PARAM_INVALID,
                       fmt::format("{}: {}", entry, fmt::format(format, std::forward<Args>(args)...)));
}

uint64_t next_handle_id() {
  static std::atomic<uint64_t> last{0};
  return ++last;
}

}  // namespace

VirtualMemory::VirtualMemory(int32_t device, AddressSpace& space, MemoryAccount& account)
    : device_(device),
      space_(space),
      account_(account),
      reservation_addresses_(space.reservation_begin(), space.end()),
      store_addresses_(space.store_begin(), space.reservation_begin()) {}

Status VirtualMemory::reserve(std::string_view entry, uint64_t size_bytes, uint64_t& address) {
  const trace::LineId line = trace::current_line();
  if (size_bytes == 0) {
    return Status::error(code::ACL_ERROR_INVALID_PARAM, fmt::format("{}: the size is 0", entry));
  }
  std::lock_guard lock(mutex_);
  std::optional<uint64_t> begin;
  uint64_t rounded = 0;
  if (size_bytes <= space_.end() - space_.reservation_begin()) {
    rounded = round_up(size_bytes, kSlotBytes);
    // One slot more, so that mappings of neighbouring reservations never look like one piece.
    begin = reservation_addresses_.allocate(rounded + kSlotBytes, kSlotBytes);
  }
  if (!begin) {
    return Status::error(
        code::ACL_ERROR_RT_MEMORY_ALLOCATION,
        fmt::format("{}: device {} has no {} of address space left: {} reservations are alive, and {} are there for "
                    "all of them. Release reservations that are no longer used",
                    entry, device_, bytes_text(size_bytes), reservations_.size(),
                    bytes_text(space_.end() - space_.reservation_begin())));
  }
  address = *begin;
  reservations_.emplace(address, Reservation{rounded, line, freed_.count()});
  trace::driver_allocated(trace::DriverMemory::kReservation, device_, address, 0, rounded, line);
  return Status::ok();
}

Status VirtualMemory::release(std::string_view entry, uint64_t address) {
  const trace::LineId line = trace::current_line();
  std::unique_lock lock(mutex_);
  const auto found = reservations_.find(address);
  if (found == reservations_.end()) {
    lock.unlock();
    return refuse(entry, "{:#x} is not the begin of a reservation: it is {}", address,
                  describe_address(reinterpret_cast<const void*>(address)));
  }
  const Reservation reservation = found->second;
  const auto mapping = mappings_.lower_bound(address);
  if (mapping != mappings_.end() && mapping->first < address + reservation.size_bytes) {
    return refuse(entry,
                  "the reservation at {:#x} still has memory mapped in it ({} at {:#x}, mapped at {}): unmap it "
                  "first",
                  address, bytes_text(mapping->second.size_bytes), mapping->first, line_text(mapping->second.line));
  }
  reservations_.erase(found);
  reservation_addresses_.release(address, reservation.size_bytes + kSlotBytes);
  freed_.add({address, reservation.size_bytes, reservation.line, line, "released"});
  trace::driver_freed(trace::DriverMemory::kReservation, device_, address, 0, reservation.size_bytes, line);
  return Status::ok();
}

Status VirtualMemory::create_physical(std::string_view entry, uint64_t size_bytes, uint64_t page_bytes, void*& handle) {
  const trace::LineId line = trace::current_line();
  watch_client_allocator();
  DRYDOCK_RETURN_IF_ERROR(check_physical_size(entry, size_bytes, page_bytes));
  if (!account_.charge(size_bytes, line)) {
    return account_.out_of_memory(entry, trace::DriverMemory::kPhysical, size_bytes, size_bytes, line);
  }
  if (Status held = require_host_room(entry, size_bytes, MemoryAccount::held_bytes_of_all() - size_bytes, line);
      !held.is_ok()) {
    account_.release(size_bytes, line);
    return held;
  }
  PhysicalMemory* const memory = physical_memory().create();
  if (memory == nullptr) {
    account_.release(size_bytes, line);
    return too_many_handles(entry);
  }
  memory->device = device_;
  memory->size_bytes = size_bytes;
  memory->id = next_handle_id();
  memory->line = line;
  {
    std::lock_guard lock(mutex_);
    handles_.emplace(memory->id, memory);
  }
  handle = memory;
  trace::driver_allocated(trace::DriverMemory::kPhysical, device_, 0, memory->id, size_bytes, line);
  return Status::ok();
}

Status VirtualMemory::destroy_physical(std::string_view entry, PhysicalMemory& memory) {
  const trace::LineId line = trace::current_line();
  std::lock_guard lock(mutex_);
  if (memory.mapped_at != 0) return still_mapped(entry, memory);
  if (handles_.erase(memory.id) == 0) return freed_by_another_thread(entry);
  drop_contents(memory);
  account_.release(memory.size_bytes, memory.line);
  trace::driver_freed(trace::DriverMemory::kPhysical, device_, 0, memory.id, memory.size_bytes, line);
  physical_memory().destroy(&memory);
  return Status::ok();
}

const VirtualMemory::Reservation* VirtualMemory::find_reservation(uint64_t address, uint64_t& begin) const {
  auto reservation = reservations_.upper_bound(address);
  if (reservation == reservations_.begin()) return nullptr;
  --reservation;
  begin = reservation->first;
  return address - begin < reservation->second.size_bytes ? &reservation->second : nullptr;
}

Status VirtualMemory::check_map(std::string_view entry, uint64_t address, uint64_t size_bytes,
                                const PhysicalMemory& memory) const {
  if (size_bytes != memory.size_bytes) {
    return refuse(entry, "the size to map ({}) must equal the size of the physical memory ({}, made at {})",
                  bytes_text(size_bytes), bytes_text(memory.size_bytes), line_text(memory.line));
  }
  if (memory.mapped_at != 0) {
    return refuse(entry, "the physical memory ({}, made at {}) is already mapped at {:#x}: a handle is mapped once",
                  bytes_text(memory.size_bytes), line_text(memory.line), memory.mapped_at);
  }
  uint64_t begin = 0;
  const Reservation* const reservation = find_reservation(address, begin);
  if (reservation == nullptr) return refuse(entry, "{:#x} does not lie in a reservation", address);
  if (!memory.on_host && memory.device != device_) {
    return refuse(entry, "{:#x} was reserved on device {}, and the physical memory belongs to device {}", address,
                  device_, memory.device);
  }
  if (address % kSlotBytes != 0) {
    return refuse(entry, "the address {:#x} must be a multiple of {}", address, bytes_text(kSlotBytes));
  }
  if (size_bytes > reservation->size_bytes - (address - begin)) {
    return refuse(entry, "{} at {:#x} reach behind the end of the reservation ({} at {:#x}, made at {})",
                  bytes_text(size_bytes), address, bytes_text(reservation->size_bytes), begin,
                  line_text(reservation->line));
  }
  auto next = mappings_.lower_bound(address);
  if (next != mappings_.begin()) {
    const auto& [before_begin, before] = *std::prev(next);
    if (before_begin + before.size_bytes > address) {
      return refuse(entry, "{:#x} is taken by the mapping of {} at {:#x}, made at {}", address,
                    bytes_text(before.size_bytes), before_begin, line_text(before.line));
    }
  }
  if (next != mappings_.end() && next->first < address + size_bytes) {
    return refuse(entry, "{} at {:#x} reach into the mapping of {} at {:#x}, made at {}", bytes_text(size_bytes),
                  address, bytes_text(next->second.size_bytes), next->first, line_text(next->second.line));
  }
  return Status::ok();
}

Status VirtualMemory::map(std::string_view entry, uint64_t address, uint64_t size_bytes, PhysicalMemory& memory) {
  const trace::LineId line = trace::current_line();
  std::lock_guard lock(mutex_);
  std::unique_lock host_lock(host_memory_mutex(), std::defer_lock);
  if (memory.on_host) host_lock.lock();
  DRYDOCK_RETURN_IF_ERROR(check_map(entry, address, size_bytes, memory));
  if (memory.on_host) return map_host_memory(address, memory, line);
  DRYDOCK_RETURN_IF_ERROR(space_.commit(address, size_bytes));
  restore_contents(address, memory);
  memory.mapped_at = address;
  mappings_.emplace(address, Mapping{size_bytes, &memory, line});
  space_.mark(address, size_bytes);
  trace::driver_allocated(trace::DriverMemory::kMapping, device_, address, memory.id, size_bytes, line);
  return Status::ok();
}

Status VirtualMemory::unmap(std::string_view entry, uint64_t address) {
  const trace::LineId line = trace::current_line();
  {
    const MemoryChanging changing;  // before the mutex, as in Heap::free
    std::lock_guard lock(mutex_);
    const auto found = mappings_.find(address);
    if (found != mappings_.end()) {
      const Mapping mapping = found->second;
      mappings_.erase(found);
      if (mapping.memory->on_host) {
        unmap_host_memory(address, *mapping.memory);
        freed_.add({address, mapping.size_bytes, mapping.line, line, "unmapped"});
        return Status::ok();
      }
      space_.unmark(address, mapping.size_bytes);
      store_contents(address, *mapping.memory);
      space_.decommit(address, mapping.size_bytes);
      values::forget(address, mapping.size_bytes);
      if (races::is_on()) [[unlikely]]
        races::memory_returned(address, mapping.size_bytes);
      mapping.memory->mapped_at = 0;
      freed_.add({address, mapping.size_bytes, mapping.line, line, "unmapped"});
      trace::driver_freed(trace::DriverMemory::kMapping, device_, address, mapping.memory->id, mapping.size_bytes,
                          line);
      return Status::ok();
    }
  }
  return refuse(entry, "{:#x} is not the begin of a mapping: it is {}", address,
                describe_address(reinterpret_cast<const void*>(address)));
}

Status VirtualMemory::map_host_memory(uint64_t address, PhysicalMemory& memory, trace::LineId line) {
  DRYDOCK_RETURN_IF_ERROR(space_.map_host(address, memory.size_bytes, memory.pages));
  memory.mapped_at = address;
  mappings_.emplace(address, Mapping{memory.size_bytes, &memory, line});
  note_mapped_host(address, memory.size_bytes, memory.device, line);
  return Status::ok();
}

void VirtualMemory::unmap_host_memory(uint64_t address, PhysicalMemory& memory) {
  std::lock_guard host_lock(host_memory_mutex());
  note_unmapped_host(address);
  space_.unmap_host(address, memory.size_bytes);
  memory.mapped_at = 0;
}

bool VirtualMemory::holds_host_memory(uint64_t address, const Reservation& reservation) const {
  for (auto mapping = mappings_.lower_bound(address);
       mapping != mappings_.end() && mapping->first < address + reservation.size_bytes; ++mapping) {
    if (mapping->second.memory->on_host) return true;
  }
  return false;
}

void VirtualMemory::store_contents(uint64_t address, PhysicalMemory& memory) {
  bool has_contents = false;
  values::for_each_real_part(
      address, memory.size_bytes, [](void* context, uint64_t, uint64_t) { *static_cast<bool*>(context) = true; },
      &has_contents);
  if (!has_contents) return;
  const std::optional<uint64_t> store = store_addresses_.allocate(memory.size_bytes, kSlotBytes);
  // The store is as large as the address range of all physical memory, so only gaps can use it up: then the contents
  // become ghosts, which loses values and invents none.
  if (!store) return;
  if (!space_.commit(*store, memory.size_bytes).is_ok()) {
    store_addresses_.release(*store, memory.size_bytes);
    return;
  }
  move_device_bytes(*store, address, memory.size_bytes);
  memory.stored_at = *store;
}

void VirtualMemory::restore_contents(uint64_t address, PhysicalMemory& memory) {
  if (memory.stored_at == 0) return;
  move_device_bytes(address, memory.stored_at, memory.size_bytes);
  drop_contents(memory);
}

void VirtualMemory::drop_contents(PhysicalMemory& memory) {
  if (memory.stored_at == 0) return;
  values::forget(memory.stored_at, memory.size_bytes);
  space_.decommit(memory.stored_at, memory.size_bytes);
  store_addresses_.release(memory.stored_at, memory.size_bytes);
  memory.stored_at = 0;
}

void VirtualMemory::release_all() {
  const trace::LineId line = trace::current_line();
  std::lock_guard lock(mutex_);
  for (auto each = mappings_.begin(); each != mappings_.end();) {
    const auto& [address, mapping] = *each;
    if (mapping.memory->on_host) {
      ++each;
      continue;
    }
    space_.unmark(address, mapping.size_bytes);
    space_.discard(address, mapping.size_bytes);
    values::forget(address, mapping.size_bytes);
    if (races::is_on()) [[unlikely]]
      races::memory_returned(address, mapping.size_bytes);
    freed_.add({address, mapping.size_bytes, mapping.line, line, "released with the device"});
    trace::driver_freed(trace::DriverMemory::kMapping, device_, address, mapping.memory->id, mapping.size_bytes, line);
    each = mappings_.erase(each);
  }
  for (const auto& [id, memory] : handles_) {
    drop_contents(*memory);
    account_.release(memory->size_bytes, memory->line);
    trace::driver_freed(trace::DriverMemory::kPhysical, device_, 0, id, memory->size_bytes, line);
    physical_memory().destroy(memory);
  }
  handles_.clear();
  for (auto each = reservations_.begin(); each != reservations_.end();) {
    const auto& [address, reservation] = *each;
    if (holds_host_memory(address, reservation)) {
      ++each;
      continue;
    }
    reservation_addresses_.release(address, reservation.size_bytes + kSlotBytes);
    freed_.add({address, reservation.size_bytes, reservation.line, line, "released with the device"});
    trace::driver_freed(trace::DriverMemory::kReservation, device_, address, 0, reservation.size_bytes, line);
    each = reservations_.erase(each);
  }
}

std::optional<FreedRange> VirtualMemory::find_live(uint64_t address) const {
  std::lock_guard lock(mutex_);
  auto mapping = mappings_.upper_bound(address);
  if (mapping == mappings_.begin()) return std::nullopt;
  --mapping;
  if (address - mapping->first >= mapping->second.size_bytes) return std::nullopt;
  return FreedRange{mapping->first, mapping->second.size_bytes, mapping->second.line, 0};
}

std::optional<FreedRange> VirtualMemory::find_freed(uint64_t address) const {
  std::lock_guard lock(mutex_);
  const FreedRange* range = freed_.find(address);
  uint64_t begin = 0;
  const Reservation* const reservation = find_reservation(address, begin);
  if (range != nullptr && reservation != nullptr && range->number < reservation->freed_before) range = nullptr;
  return range == nullptr ? std::nullopt : std::optional(*range);
}

bool VirtualMemory::is_reserved(uint64_t address) const {
  std::lock_guard lock(mutex_);
  uint64_t begin = 0;
  return find_reservation(address, begin) != nullptr;
}

}  // namespace drydock::device
