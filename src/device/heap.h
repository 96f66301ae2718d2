#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "base/export.h"
#include "base/status.h"
#include "device/address_space.h"
#include "device/memory_account.h"
#include "device/range_allocator.h"
#include "trace/recorder.h"

namespace drydock::device {

/// Unit of device addresses in traces: every address torch_npu hands out is a multiple (contract E1).
inline constexpr uint64_t kGranuleBytes = 512;

/// Where an address lies.
struct Extent {
  uint64_t begin = 0;  ///< device address of the allocation or mapping that holds it
  uint64_t size_bytes = 0;
  int32_t device = -1;
};

/// The device whose memory or free address space holds `address`, or -1: also for host pages that are mapped in a
/// reservation. Lock-free; any pointer may be asked.
DRYDOCK_API int32_t device_of(const void* address) noexcept;

/// The device whose address range holds `address`, whatever is mapped there, or -1. Lock-free.
DRYDOCK_API int32_t range_of(const void* address) noexcept;

/// True if [address, address + size) lies inside one live allocation (or contiguous mappings of one reservation) of a
/// device. Lock-free.
DRYDOCK_API bool is_allocated(const void* address, uint64_t size_bytes) noexcept;

/// The live allocation or mapping that holds `address`. Lock-free.
DRYDOCK_API std::optional<Extent> extent_of(const void* address) noexcept;

/// Where Drydock itself may read and write the bytes at a device address (the same address unless in guard mode).
/// Only valid inside live allocations.
DRYDOCK_API char* host_address(const void* device_address) noexcept;

/// First address of the device's range, 0 while it is not open: traces hold addresses relative to it, so that two runs
/// compare.
DRYDOCK_API uint64_t arena_base(int32_t device) noexcept;

/// What Drydock knows about any pointer, for sentences: "in the allocation of 2097152 bytes made at train.py:12",
/// "in memory that was freed at train.py:14 (allocated at train.py:12)", "not device memory".
DRYDOCK_API std::string describe_address(const void* address);

/// Where a piece of device memory came from and where it went.
struct FreedRange {
  uint64_t begin = 0;
  uint64_t size_bytes = 0;
  trace::LineId allocated_line = 0;
  trace::LineId freed_line = 0;
  const char* how = "freed";  ///< "freed", "unmapped", "released with the device"
  uint64_t number = 0;        ///< how many ranges were given back before it (FreedRanges fills it in)
};

/// The last few thousand ranges that were given back, for sentences about use after free. Not thread-safe.
class FreedRanges {
 public:
  void add(const FreedRange& range);
  /// The youngest one that holds `address`.
  const FreedRange* find(uint64_t address) const;
  /// How many were ever added.
  uint64_t count() const { return count_; }

 private:
  static constexpr size_t kMost = 16384;
  uint64_t count_ = 0;
  std::deque<FreedRange> ranges_;
};

/// Plain device memory of one virtual device: aclrtMalloc and its relatives.
///
/// A device address is an address of this process in a reserved range, so clients may do arithmetic on it; pages cost
/// nothing until touched. Allocations begin at multiples of 2 MiB, first fit by address. What an allocation takes of
/// the device follows the page sizes of its policy. Thread-safe.
class DRYDOCK_API Heap {
 public:
  Heap(int32_t device, AddressSpace& space, MemoryAccount& account);

  /// `policy` is the client's aclrtMemMallocPolicy; `entry` names the door in sentences. 207001 exactly when the pages
  /// that the policy takes exceed what is free; 107000 for a size of 0.
  Status allocate(std::string_view entry, uint64_t size_bytes, int32_t policy, uint64_t& address);
  /// 107000 with a sentence for what is not the begin of a live allocation: never given out, given back before (where,
  /// by which line), an inner address.
  Status free(std::string_view entry, uint64_t address);
  /// Gives everything back (aclrtResetDevice). The pages stay accessible, for threads of the client that still run.
  void free_all();

  /// The line that made the live allocation that holds `address`, and its extent; nothing if there is none.
  std::optional<FreedRange> find_live(uint64_t address) const;
  /// The live allocation that ends at or shortly before `address`, in the same 2 MiB or where they end.
  std::optional<FreedRange> find_before(uint64_t address) const;
  /// The youngest range given back that holds `address`.
  std::optional<FreedRange> find_freed(uint64_t address) const;

  size_t allocation_count() const;

 private:
  struct Allocation {
    uint64_t size_bytes;     ///< what the client may use
    uint64_t slot_bytes;     ///< address range it occupies
    uint64_t charged_bytes;  ///< what it takes of the device
    trace::LineId line;
  };

  Status refuse_free(std::string_view entry, uint64_t address) const;

  const int32_t device_;
  AddressSpace& space_;
  MemoryAccount& account_;
  mutable std::mutex mutex_;
  RangeAllocator addresses_;
  std::map<uint64_t, Allocation> live_;
  FreedRanges freed_;
};

/// Bytes that an allocation of `size_bytes` under `policy` takes of the device.
///
/// Source: the vendor's interface guide, aclrtMemMallocPolicy: huge-first and huge-only take 2 MiB pages, huge-first
/// takes normal pages for up to 1 MiB, 1 GiB policies take 1 GiB pages; a value outside the enumeration takes huge
/// pages from 2 MiB on, normal ones below. A normal page of 4 KiB is assumed.
DRYDOCK_API uint64_t page_rounded(uint64_t size_bytes, int32_t policy) noexcept;

}  // namespace drydock::device
