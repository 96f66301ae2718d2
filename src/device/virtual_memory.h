#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string_view>

#include "base/export.h"
#include "base/status.h"
#include "device/address_space.h"
#include "device/heap.h"
#include "device/memory_account.h"
#include "device/physical_memory.h"
#include "device/range_allocator.h"
#include "trace/recorder.h"

namespace drydock::device {

/// Virtual memory of one device, with the vendor's limits (contract E5): reservations, physical handles, mappings.
///
/// Wrong use gives 107000 (107017 for handles that are not alive, 207001 where memory is short) and a sentence.
/// `entry` names the door in sentences. Thread-safe. Addresses and sizes in bytes.
class DRYDOCK_API VirtualMemory {
 public:
  VirtualMemory(int32_t device, AddressSpace& space, MemoryAccount& account);

  /// Takes address space, rounded up to 2 MiB. Costs no device memory.
  Status reserve(std::string_view entry, uint64_t size_bytes, uint64_t& address);
  /// Gives it back; refused while something is mapped in it.
  Status release(std::string_view entry, uint64_t address);

  /// Takes device memory at once. `page_bytes` is 2 MiB or 1 GiB and must divide the size.
  Status create_physical(std::string_view entry, uint64_t size_bytes, uint64_t page_bytes, void*& handle);
  /// Refused while the handle is mapped (the vendor's interface guide asks for the unmap first).
  Status destroy_physical(std::string_view entry, PhysicalMemory& memory);

  /// The whole of `memory` at `address`, which lies in one reservation at a multiple of 2 MiB and is free. A handle is
  /// mapped at most once. What the memory held when it was last unmapped is there again.
  Status map(std::string_view entry, uint64_t address, uint64_t size_bytes, PhysicalMemory& memory);
  /// `address` is the begin of a mapping.
  Status unmap(std::string_view entry, uint64_t address);

  /// Drops mappings, handles and reservations (aclrtResetDevice). The pages stay accessible. Host memory is not the
  /// device's: like other pinned memory (contract E7) it stays, and so does the reservation that it is mapped in.
  void release_all();

  std::optional<FreedRange> find_live(uint64_t address) const;
  std::optional<FreedRange> find_freed(uint64_t address) const;
  /// True if `address` lies in a reservation, mapped or not.
  bool is_reserved(uint64_t address) const;

 private:
  struct Reservation {
    uint64_t size_bytes;
    trace::LineId line;
    uint64_t freed_before;  // ranges given back earlier tell nothing of it
  };
  struct Mapping {
    uint64_t size_bytes;
    PhysicalMemory* memory;
    trace::LineId line;
  };

  const Reservation* find_reservation(uint64_t address, uint64_t& begin) const;
  Status check_map(std::string_view entry, uint64_t address, uint64_t size_bytes, const PhysicalMemory& memory) const;
  void store_contents(uint64_t address, PhysicalMemory& memory);
  void restore_contents(uint64_t address, PhysicalMemory& memory);
  void drop_contents(PhysicalMemory& memory);
  Status map_host_memory(uint64_t address, PhysicalMemory& memory, trace::LineId line);
  void unmap_host_memory(uint64_t address, PhysicalMemory& memory);
  bool holds_host_memory(uint64_t address, const Reservation& reservation) const;

  const int32_t device_;
  AddressSpace& space_;
  MemoryAccount& account_;
  mutable std::mutex mutex_;
  RangeAllocator reservation_addresses_;
  RangeAllocator store_addresses_;
  std::map<uint64_t, Reservation> reservations_;
  std::map<uint64_t, Mapping> mappings_;
  std::map<uint64_t, PhysicalMemory*> handles_;  // by id: the order of release_all is the order of creation
  FreedRanges freed_;
};

}  // namespace drydock::device
