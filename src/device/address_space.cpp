#include "device/address_space.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <unistd.h>

#include <fmt/format.h>
#include <sys/mman.h>

#include "base/generated/error_codes.h"
#include "device/heap.h"
#include "device/host_room.h"
#include "device/settings.h"
#include "values/policy.h"

namespace drydock::device {
namespace {

// Above what a sanitizer uses for its shadow, below where position-independent programs are loaded.
constexpr uint64_t kFirstArena = uint64_t{17} << 40;
constexpr int32_t kDevicesAtFullSize = 8;
#if defined(__SANITIZE_THREAD__)
// The thread sanitizer ends a process that maps anything outside its own 1.5 TiB, or asks for a fixed address there.
constexpr uint64_t kAllArenas = uint64_t{2} << 40;
constexpr bool kAddressesAreFixed = false;
#else
constexpr uint64_t kAllArenas = uint64_t{64} << 40;
constexpr bool kAddressesAreFixed = true;
#endif
constexpr uint64_t kLeastArena = uint64_t{256} << 30;
constexpr uint64_t kSmallPlain = uint64_t{128} << 30;

// A slot's entry: which slot its extent begins in, and the extent's bytes. 0 where nothing is allocated; the highest
// bit alone where host pages are mapped.
constexpr int kSizeBits = 41;
constexpr uint64_t kSizeMask = (uint64_t{1} << kSizeBits) - 1;
constexpr uint64_t kHostSlot = uint64_t{1} << 63;
static_assert(kMaxUsableBytes <= kSizeMask);
static_assert(kAllArenas / kDevicesAtFullSize / kSlotBytes <= kHostSlot >> kSizeBits);

// What the lock-free questions read. `size` is 0 while the range is not open.
struct Arena {
  std::atomic<uint64_t> begin{0};
  std::atomic<uint64_t> size{0};
  std::atomic<uint64_t> reservations{0};  // offset where they begin
  std::atomic<uint64_t> host_offset{0};
  std::atomic<std::atomic<uint64_t>*> slots{nullptr};
  std::atomic<std::atomic<uint64_t>*> shared{nullptr};
  std::atomic<int> shared_file{-1};
};
constinit Arena arenas[kMaxDevices];
constinit std::atomic<int32_t> arena_limit{0};  // no arena at or above this index was ever open
constinit std::atomic<bool> any_guarded{false};
constinit std::atomic<bool> any_host_pages{false};

int32_t find_arena(uint64_t address) noexcept {
  const int32_t limit = arena_limit.load(std::memory_order_acquire);
  for (int32_t device = 0; device < limit; ++device) {
    const Arena& arena = arenas[device];
    // The size comes first: it is published last.
    const uint64_t size = arena.size.load(std::memory_order_acquire);
    if (address - arena.begin.load(std::memory_order_relaxed) < size) return device;
  }
  return -1;
}

uint64_t as_number(const void* address) noexcept { return reinterpret_cast<uint64_t>(address); }

bool has_host_pages(int32_t device, uint64_t address) noexcept {
  if (!any_host_pages.load(std::memory_order_acquire)) return false;
  const Arena& arena = arenas[device];
  const uint64_t slot = (address - arena.begin.load(std::memory_order_relaxed)) / kSlotBytes;
  return arena.slots.load(std::memory_order_relaxed)[slot].load(std::memory_order_acquire) == kHostSlot;
}

void* map_inaccessible(uint64_t wanted, uint64_t size) {
  constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  if (kAddressesAreFixed && wanted != 0) {
    void* const range = mmap(reinterpret_cast<void*>(wanted), size, PROT_NONE, kFlags | MAP_FIXED_NOREPLACE, -1, 0);
    if (range == reinterpret_cast<void*>(wanted)) return range;
    if (range != MAP_FAILED) munmap(range, size);  // a kernel that takes the address as a hint only
  }
  // Anywhere, but on a slot boundary: map one slot more and trim.
  void* const range = mmap(nullptr, size + kSlotBytes, PROT_NONE, kFlags, -1, 0);
  if (range == MAP_FAILED) return nullptr;
  const uint64_t begin = as_number(range);
  const uint64_t aligned = (begin + kSlotBytes - 1) / kSlotBytes * kSlotBytes;
  if (aligned != begin) munmap(range, aligned - begin);
  if (const uint64_t tail = begin + kSlotBytes - aligned; tail != 0) {
    munmap(reinterpret_cast<void*>(aligned + size), tail);
  }
  return reinterpret_cast<void*>(aligned);
}

bool is_shared(const std::atomic<uint64_t>* bits, uint64_t slot) noexcept {
  return (bits[slot / 64].load(std::memory_order_acquire) >> slot % 64 & 1) != 0;
}

uint64_t slots_up(uint64_t size_bytes) { return (size_bytes + kSlotBytes - 1) / kSlotBytes; }

}  // namespace

uint64_t arena_bytes() noexcept {
  const int32_t devices = settings().installed_devices;
  return devices <= kDevicesAtFullSize ? kAllArenas / kDevicesAtFullSize : kAllArenas / kMaxDevices;
}

AddressSpace::AddressSpace(int32_t device, bool guard) : device_(device), guard_(guard) {}
AddressSpace::~AddressSpace() { close(); }

bool AddressSpace::take_range(uint64_t size_bytes) {
  void* const range = map_inaccessible(kFirstArena + static_cast<uint64_t>(device_) * arena_bytes(), size_bytes);
  if (range == nullptr) return false;
  void* bytes = range;
  if (guard_) {
    bytes = map_inaccessible(0, size_bytes);
    if (bytes == nullptr) {
      munmap(range, size_bytes);
      return false;
    }
  }
  begin_ = as_number(range);
  size_ = size_bytes;
  host_offset_ = as_number(bytes) - begin_;
  // Most is for reservations, but a small range still has to hold the memory of a device.
  plain_bytes_ = std::max(size_ / 8, std::min(kSmallPlain, size_ / 4));
  // A touched byte must cost a page of 4 KiB, not one of 2 MiB.
  madvise(bytes, size_, MADV_NOHUGEPAGE);
  return true;
}

Status AddressSpace::open() {
  const auto refuse = [&](std::string_view what) {
    const int reason = errno;
    close();
    return Status::error(code::ACL_ERROR_RT_INTERNAL_ERROR,
                         fmt::format("device {}: the host gave no {} of address space for {}: {}. Raise `ulimit -v` or "
                                     "use fewer devices",
                                     device_, bytes_text(kLeastArena), what, std::strerror(reason)));
  };
  uint64_t size_bytes = arena_bytes();
  while (!take_range(size_bytes)) {
    size_bytes /= 2;
    if (size_bytes < kLeastArena) return refuse("device memory");
  }

  const uint64_t table_bytes = size_ / kSlotBytes * sizeof(std::atomic<uint64_t>);
  void* const table =
      mmap(nullptr, table_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (table == MAP_FAILED) return refuse("the table of allocations");
  slots_ = static_cast<std::atomic<uint64_t>*>(table);

  Arena& arena = arenas[device_];
  arena.begin.store(begin_, std::memory_order_relaxed);
  arena.reservations.store(2 * plain_bytes_, std::memory_order_relaxed);
  arena.host_offset.store(host_offset_, std::memory_order_relaxed);
  arena.slots.store(slots_, std::memory_order_relaxed);
  arena.size.store(size_, std::memory_order_release);
  if (guard_) any_guarded.store(true, std::memory_order_release);
  int32_t limit = arena_limit.load();
  while (limit <= device_ && !arena_limit.compare_exchange_weak(limit, device_ + 1)) {}
  return Status::ok();
}

void AddressSpace::close() noexcept {
  Arena& arena = arenas[device_];
  if (slots_ != nullptr) {
    arena.size.store(0);
    arena.begin.store(0);
    munmap(static_cast<void*>(slots_), size_ / kSlotBytes * sizeof(std::atomic<uint64_t>));
    slots_ = nullptr;
  }
  if (host_offset_ != 0) munmap(host(begin_), size_);
  if (begin_ != 0) munmap(reinterpret_cast<void*>(begin_), size_);
  if (shared_ != nullptr) {
    arena.shared.store(nullptr);
    arena.shared_file.store(-1);
    munmap(static_cast<void*>(shared_), size_ / kSlotBytes / 8);
    ::close(shared_file_);
    shared_ = nullptr;
    shared_file_ = -1;
  }
  begin_ = 0;
  host_offset_ = 0;
}

Status AddressSpace::commit(uint64_t address, uint64_t size_bytes) {
  if (mprotect(host(address), slots_up(size_bytes) * kSlotBytes, PROT_READ | PROT_WRITE) == 0) return Status::ok();
  const int reason = errno;
  if (reason == ENOMEM && values::policy().mode == values::Mode::kFull) {
    return host_refused(size_bytes, std::strerror(reason));
  }
  return Status::error(
      code::ACL_ERROR_RT_INTERNAL_ERROR,
      fmt::format("device {}: the host refused to make {} accessible: {}. This is the host's memory, not the device's: "
                  "look at vm.overcommit_memory and vm.max_map_count",
                  device_, bytes_text(size_bytes), std::strerror(reason)));
}

void AddressSpace::decommit(uint64_t address, uint64_t size_bytes) noexcept {
  const uint64_t bytes = slots_up(size_bytes) * kSlotBytes;
  static_cast<void>(give_back_pages(address, bytes));
  mprotect(host(address), bytes, PROT_NONE);
}

void AddressSpace::discard(uint64_t address, uint64_t size_bytes) noexcept {
  constexpr uint64_t kPage = 4096;
  const uint64_t begin = (address + kPage - 1) / kPage * kPage;
  const uint64_t end = (address + size_bytes) / kPage * kPage;
  if (begin < end) static_cast<void>(give_back_pages(begin, end - begin));
}

bool AddressSpace::open_shared_file() noexcept {
  if (shared_file_ >= 0) return true;
  const int file = memfd_create("drydock device memory", MFD_CLOEXEC);
  if (file < 0) return false;
  const uint64_t bits_bytes = size_ / kSlotBytes / 8;
  void* const bits =
      mmap(nullptr, bits_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  // As large as the range, and without a byte in it.
  if (bits == MAP_FAILED || ftruncate(file, static_cast<off_t>(size_)) != 0) {
    if (bits != MAP_FAILED) munmap(bits, bits_bytes);
    ::close(file);
    return false;
  }
  shared_ = static_cast<std::atomic<uint64_t>*>(bits);
  shared_file_ = file;
  arenas[device_].shared_file.store(file, std::memory_order_relaxed);
  arenas[device_].shared.store(shared_, std::memory_order_release);
  return true;
}

bool AddressSpace::share(uint64_t address, uint64_t size_bytes) noexcept {
  if (!open_shared_file()) return false;
  const uint64_t first = (address - begin_) / kSlotBytes;
  const uint64_t last = (address - begin_ + size_bytes - 1) / kSlotBytes;
  for (uint64_t slot = first; slot <= last; ++slot) {
    if (is_shared(shared_, slot)) continue;
    const uint64_t offset = slot * kSlotBytes;
    char* const bytes = host(begin_ + offset);
    // Pages of zeros, most of which were never touched, cost nothing in the file either.
    static constexpr char kZeros[4096] = {};
    for (uint64_t page = 0; page < kSlotBytes; page += sizeof kZeros) {
      if (std::memcmp(bytes + page, kZeros, sizeof kZeros) == 0) continue;
      if (pwrite(shared_file_, bytes + page, sizeof kZeros, static_cast<off_t>(offset + page)) !=
          static_cast<ssize_t>(sizeof kZeros)) {
        return false;
      }
    }
    if (mmap(bytes, kSlotBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, shared_file_,
             static_cast<off_t>(offset)) == MAP_FAILED) {
      return false;
    }
    shared_[slot / 64].fetch_or(uint64_t{1} << slot % 64, std::memory_order_release);
  }
  return true;
}

void AddressSpace::mark(uint64_t begin, uint64_t size_bytes) noexcept {
  write_slots(begin, size_bytes, (begin - begin_) / kSlotBytes << kSizeBits | size_bytes);
}

void AddressSpace::unmark(uint64_t begin, uint64_t size_bytes) noexcept { write_slots(begin, size_bytes, 0); }

void AddressSpace::write_slots(uint64_t begin, uint64_t size_bytes, uint64_t entry) noexcept {
  const uint64_t first = (begin - begin_) / kSlotBytes;
  // From the back, so that whoever sees the first slot sees all.
  for (uint64_t slot = first + slots_up(size_bytes); slot-- > first;) {
    slots_[slot].store(entry, std::memory_order_release);
  }
}

Status AddressSpace::map_host(uint64_t address, uint64_t size_bytes, const HostPages& pages) {
  if (mmap(reinterpret_cast<void*>(address), size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, pages.file,
           static_cast<off_t>(pages.offset)) == MAP_FAILED) {
    return Status::error(code::ACL_ERROR_RT_INTERNAL_ERROR,
                         fmt::format("the host refused to map {} of its memory at {:#x}: {}. Look at vm.max_map_count",
                                     bytes_text(size_bytes), address, std::strerror(errno)));
  }
  // What was shared there is no longer mapped, and pages that come back after these are this process's own.
  for (uint64_t slot = (address - begin_) / kSlotBytes;
       shared_ != nullptr && slot < (address - begin_ + size_bytes + kSlotBytes - 1) / kSlotBytes; ++slot)
    shared_[slot / 64].fetch_and(~(uint64_t{1} << slot % 64), std::memory_order_release);
  any_host_pages.store(true, std::memory_order_release);
  write_slots(address, size_bytes, kHostSlot);
  return Status::ok();
}

void AddressSpace::unmap_host(uint64_t address, uint64_t size_bytes) noexcept {
  write_slots(address, size_bytes, 0);
  // One call that replaces the pages: no moment at which someone else's mapping could take the place. Where the host
  // has no mappings left the pages stay until the device's range goes.
  static_cast<void>(mmap(reinterpret_cast<void*>(address), size_bytes, PROT_NONE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0));
  madvise(reinterpret_cast<void*>(address), size_bytes, MADV_NOHUGEPAGE);
}

int32_t device_of(const void* address) noexcept {
  const int32_t device = find_arena(as_number(address));
  return device >= 0 && has_host_pages(device, as_number(address)) ? -1 : device;
}

int32_t range_of(const void* address) noexcept { return find_arena(as_number(address)); }

std::optional<Extent> extent_of(const void* address) noexcept {
  const int32_t device = find_arena(as_number(address));
  if (device < 0) return std::nullopt;
  const uint64_t begin = arenas[device].begin.load(std::memory_order_relaxed);
  const uint64_t offset = as_number(address) - begin;
  const uint64_t entry =
      arenas[device].slots.load(std::memory_order_relaxed)[offset / kSlotBytes].load(std::memory_order_acquire);
  const uint64_t extent_begin = (entry >> kSizeBits) * kSlotBytes;
  const uint64_t extent_bytes = entry & kSizeMask;
  // Host pages have no bytes here, like what is not allocated.
  if (entry == 0 || offset - extent_begin >= extent_bytes) return std::nullopt;
  return Extent{begin + extent_begin, extent_bytes, device};
}

bool is_allocated(const void* address, uint64_t size_bytes) noexcept {
  const int32_t device = find_arena(as_number(address));
  if (device < 0) return false;
  const Arena& arena = arenas[device];
  uint64_t offset = as_number(address) - arena.begin.load(std::memory_order_relaxed);
  if (size_bytes > arena.size.load(std::memory_order_relaxed) - offset) return false;
  const std::atomic<uint64_t>* const slots = arena.slots.load(std::memory_order_relaxed);
  const uint64_t reservations = arena.reservations.load(std::memory_order_relaxed);
  const uint64_t end = offset + size_bytes;
  do {
    const uint64_t entry = slots[offset / kSlotBytes].load(std::memory_order_acquire);
    const uint64_t extent_begin = (entry >> kSizeBits) * kSlotBytes;
    const uint64_t extent_end = extent_begin + (entry & kSizeMask);
    // Subtraction also turns down an entry that ends before the address (the unused tail of a slot).
    if (entry == 0 || offset - extent_begin >= extent_end - extent_begin) return false;
    offset = extent_end;
    // Neighbouring mappings of one reservation may be used as one piece, neighbouring allocations may not.
  } while (offset < end && offset >= reservations);
  return offset >= end;
}

std::optional<SharedPlace> shared_place_of(const void* address, uint64_t size_bytes) noexcept {
  const int32_t device = find_arena(as_number(address));
  if (device < 0 || size_bytes == 0) return std::nullopt;
  const Arena& arena = arenas[device];
  const std::atomic<uint64_t>* const bits = arena.shared.load(std::memory_order_acquire);
  if (bits == nullptr) return std::nullopt;
  const uint64_t offset = as_number(address) - arena.begin.load(std::memory_order_relaxed);
  for (uint64_t slot = offset / kSlotBytes; slot <= (offset + size_bytes - 1) / kSlotBytes; ++slot) {
    if (!is_shared(bits, slot)) return std::nullopt;
  }
  return SharedPlace{arena.shared_file.load(std::memory_order_relaxed), offset};
}

bool give_back_pages(uint64_t address, uint64_t size_bytes) noexcept {
  char* const bytes = host_address(reinterpret_cast<const void*>(address));
  const int32_t device = find_arena(address);
  const std::atomic<uint64_t>* const bits =
      device < 0 ? nullptr : arenas[device].shared.load(std::memory_order_acquire);
  if (bits == nullptr) return madvise(bytes, size_bytes, MADV_DONTNEED) == 0;
  const uint64_t begin = address - arenas[device].begin.load(std::memory_order_relaxed);
  bool is_taken = true;
  for (uint64_t done = 0; done < size_bytes;) {
    const uint64_t slot = (begin + done) / kSlotBytes;
    const bool shared = is_shared(bits, slot);
    uint64_t end = slot + 1;
    while (end * kSlotBytes < begin + size_bytes && is_shared(bits, end) == shared) ++end;
    const uint64_t until = std::min(end * kSlotBytes - begin, size_bytes);
    // What is in a file is only gone when it is gone from there.
    if (madvise(bytes + done, until - done, shared ? MADV_REMOVE : MADV_DONTNEED) != 0) is_taken = false;
    done = until;
  }
  return is_taken;
}

char* host_address(const void* device_address) noexcept {
  const uint64_t address = as_number(device_address);
  if (any_guarded.load(std::memory_order_acquire)) {
    if (const int32_t device = find_arena(address); device >= 0 && !has_host_pages(device, address)) {
      return reinterpret_cast<char*>(address + arenas[device].host_offset.load(std::memory_order_relaxed));
    }
  }
  return reinterpret_cast<char*>(address);
}

uint64_t arena_base(int32_t device) noexcept {
  if (device < 0 || device >= kMaxDevices) return 0;
  return arenas[device].begin.load(std::memory_order_relaxed);
}

}  // namespace drydock::device
