#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "base/export.h"
#include "base/status.h"
#include "device/host_pages.h"

namespace drydock::device {

/// Device addresses are handed out in multiples of this, the vendor's huge page.
inline constexpr uint64_t kSlotBytes = uint64_t{2} << 20;

/// Size of one device's range where the host has room: 8 TiB, or 4 TiB where more than 8 devices have to fit. torch_npu
/// reserves 9/8 of the device's memory for each stream and pool (contract E5), so most of it is for reservations.
DRYDOCK_API uint64_t arena_bytes() noexcept;

/// The address range of one device and what is accessible in it.
///
/// The begin is the same in every run where the host allows it, so that addresses compare. Nothing is accessible until
/// `commit`; pages cost nothing until they are touched. In guard mode what the client holds stays inaccessible, and the
/// bytes live in a second range of the same shape (`host_address` in heap.h translates).
///
/// `mark` publishes an extent to the lock-free questions of heap.h (`device_of`, `is_allocated`); the others are plain
/// system calls. Callers serialise changes of overlapping ranges. Addresses are absolute.
class DRYDOCK_API AddressSpace {
 public:
  AddressSpace(int32_t device, bool guard);
  ~AddressSpace();
  AddressSpace(const AddressSpace&) = delete;
  AddressSpace& operator=(const AddressSpace&) = delete;

  /// Takes the range from the operating system; less than `arena_bytes` where the host has less (`ulimit -v`, a
  /// sanitizer). 507000 with a sentence if not even 256 GiB can be had.
  Status open();

  /// The parts of the range, each up to the next one's begin: aclrtMalloc; contents of physical memory while it is
  /// unmapped; aclrtReserveMemAddress.
  uint64_t begin() const noexcept { return begin_; }
  uint64_t store_begin() const noexcept { return begin_ + plain_bytes_; }
  uint64_t reservation_begin() const noexcept { return begin_ + 2 * plain_bytes_; }
  uint64_t end() const noexcept { return begin_ + size_; }
  bool is_guarded() const noexcept { return guard_; }

  /// Makes the slots of [address, address + size) readable and writable; they read as zero. 507000 if the host refuses.
  Status commit(uint64_t address, uint64_t size_bytes);
  /// Gives the pages back and makes the slots inaccessible.
  void decommit(uint64_t address, uint64_t size_bytes) noexcept;
  /// Gives whole pages inside the range back to the host: what was there reads as zero.
  void discard(uint64_t address, uint64_t size_bytes) noexcept;

  /// Moves the bytes of the slots under [address, address + size), which are committed, into a file that other
  /// processes of this machine can map; what was in them stays, and they stay in the file for good. Returns false where
  /// the host does not let it: then they stay where they were. The caller holds MemoryChanging.
  bool share(uint64_t address, uint64_t size_bytes) noexcept;

  /// Says that [begin, begin + size) is one live extent; `begin` is a multiple of kSlotBytes.
  void mark(uint64_t begin, uint64_t size_bytes) noexcept;
  void unmark(uint64_t begin, uint64_t size_bytes) noexcept;

  /// Puts host pages where the client itself reads and writes them, guarded or not; the questions of heap.h take the
  /// range for host memory until `unmap_host`. 507000 if the host refuses.
  Status map_host(uint64_t address, uint64_t size_bytes, const HostPages& pages);
  /// Makes the slots what they were before.
  void unmap_host(uint64_t address, uint64_t size_bytes) noexcept;

  char* host(uint64_t address) const noexcept { return reinterpret_cast<char*>(address + host_offset_); }

 private:
  bool take_range(uint64_t size_bytes);
  void close() noexcept;
  void write_slots(uint64_t begin, uint64_t size_bytes, uint64_t entry) noexcept;
  bool open_shared_file() noexcept;

  int32_t device_;
  bool guard_;
  uint64_t begin_ = 0;
  uint64_t size_ = 0;
  uint64_t plain_bytes_ = 0;
  uint64_t host_offset_ = 0;  ///< what to add to a device address; 0 unless guarded (may wrap)
  std::atomic<uint64_t>* slots_ = nullptr;
  std::atomic<uint64_t>* shared_ = nullptr;  ///< a bit for each slot; null until something was shared
  int shared_file_ = -1;
};

/// Where other processes find device bytes: a file of this process, and a place in it.
struct SharedPlace {
  int file = -1;
  uint64_t offset = 0;
};

/// The place of [address, address + size), all of it; nothing where some of it is not shared. Lock-free.
DRYDOCK_API std::optional<SharedPlace> shared_place_of(const void* address, uint64_t size_bytes) noexcept;

/// Gives whole host pages of committed device memory back: they read as zero. Both numbers are multiples of 4096.
/// False if the host does not take them.
bool give_back_pages(uint64_t address, uint64_t size_bytes) noexcept;

/// While one lives, no device memory is given back or unmapped: who copies or computes holds it between the question
/// whether memory is allocated and the last touch of it. Take it for as long as one operator, never across a call
/// into the client.
class DRYDOCK_API MemoryInUse {
 public:
  MemoryInUse() noexcept;
  ~MemoryInUse();
  MemoryInUse(const MemoryInUse&) = delete;
  MemoryInUse& operator=(const MemoryInUse&) = delete;
};

/// The other side: waits for every MemoryInUse to end and holds off new ones. Taken before any mutex of the device.
class MemoryChanging {
 public:
  MemoryChanging() noexcept;
  ~MemoryChanging();
  MemoryChanging(const MemoryChanging&) = delete;
  MemoryChanging& operator=(const MemoryChanging&) = delete;
};

}  // namespace drydock::device
