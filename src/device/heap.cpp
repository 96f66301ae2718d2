#include "device/heap.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "base/generated/error_codes.h"
#include "device/client_allocator.h"
#include "device/host_room.h"
#include "races/stream_check.h"
#include "values/extents.h"

namespace drydock::device {
namespace {

constexpr uint64_t kNormalPage = 4096;
constexpr uint64_t kHugePage = kSlotBytes;
constexpr uint64_t kGiantPage = uint64_t{1} << 30;
constexpr uint64_t kNormalPagesUpTo = uint64_t{1} << 20;

// aclrtMemMallocPolicy: the low byte chooses pages, the rest asks for kinds of memory this device has one of.
enum PagePolicy : int32_t {
  kHugeFirst = 0,
  kHugeOnly = 1,
  kNormalOnly = 2,
  kHugeFirstPeer = 3,
  kHugeOnlyPeer = 4,
  kNormalOnlyPeer = 5,
  kGiantOnly = 6,
  kGiantOnlyPeer = 7,
};
constexpr int32_t kMemoryKindBits = 0x100 | 0x1000 | 0x100000;

uint64_t round_up(uint64_t size, uint64_t unit) { return (size + unit - 1) / unit * unit; }

uint64_t page_of(uint64_t size_bytes, int32_t policy) {
  switch (policy & ~kMemoryKindBits) {
    case kHugeFirst:
    case kHugeFirstPeer: return size_bytes <= kNormalPagesUpTo ? kNormalPage : kHugePage;
    case kHugeOnly:
    case kHugeOnlyPeer: return kHugePage;
    case kNormalOnly:
    case kNormalOnlyPeer: return kNormalPage;
    case kGiantOnly:
    case kGiantOnlyPeer: return kGiantPage;
    default: return size_bytes >= kHugePage ? kHugePage : kNormalPage;
  }
}

bool may_fall_back_to_normal_pages(int32_t policy) {
  const int32_t pages = policy & ~kMemoryKindBits;
  return pages == kHugeFirst || pages == kHugeFirstPeer;
}

}  // namespace

uint64_t page_rounded(uint64_t size_bytes, int32_t policy) noexcept {
  return round_up(size_bytes, page_of(size_bytes, policy));
}

void FreedRanges::add(const FreedRange& range) {
  if (ranges_.size() == kMost) ranges_.pop_front();
  ranges_.push_back(range);
  ranges_.back().number = count_++;
}

const FreedRange* FreedRanges::find(uint64_t address) const {
  const auto youngest = std::find_if(ranges_.rbegin(), ranges_.rend(),
                                     [&](const FreedRange& range) { return address - range.begin < range.size_bytes; });
  return youngest == ranges_.rend() ? nullptr : &*youngest;
}

Heap::Heap(int32_t device, AddressSpace& space, MemoryAccount& account)
    : device_(device), space_(space), account_(account), addresses_(space.begin(), space.store_begin()) {}

Status Heap::allocate(std::string_view entry, uint64_t size_bytes, int32_t policy, uint64_t& address) {
  const trace::LineId line = trace::current_line();
  watch_client_allocator();
  if (size_bytes == 0) {
    return Status::error(code::ACL_ERROR_INVALID_PARAM, fmt::format("{}: the size is 0", entry));
  }
  if (size_bytes > kMaxUsableBytes) {  // and rounding up can't wrap
    return account_.out_of_memory(entry, trace::DriverMemory::kMalloc, size_bytes, size_bytes, line);
  }
  const uint64_t page = page_of(size_bytes, policy);
  uint64_t charged = round_up(size_bytes, page);
  if (!account_.charge(charged, line)) {
    const uint64_t huge = charged;
    charged = round_up(size_bytes, kNormalPage);
    if (!may_fall_back_to_normal_pages(policy) || !account_.charge(charged, line)) {
      return account_.out_of_memory(entry, trace::DriverMemory::kMalloc, size_bytes, huge, line);
    }
  }
  if (Status held = require_host_room(entry, charged, MemoryAccount::held_bytes_of_all() - charged, line);
      !held.is_ok()) {
    account_.release(charged, line);
    return held;
  }
  const uint64_t slot_bytes = round_up(size_bytes, kSlotBytes);
  {
    std::lock_guard lock(mutex_);
    const std::optional<uint64_t> begin = addresses_.allocate(slot_bytes, std::max(page, kSlotBytes));
    Status status = begin ? space_.commit(*begin, slot_bytes)
                          : Status::error(code::ACL_ERROR_RT_INTERNAL_ERROR,
                                          fmt::format("{}: the address range of device {} is used up: {} allocations "
                                                      "are alive",
                                                      entry, device_, live_.size()));
    if (!status.is_ok()) {
      if (begin) addresses_.release(*begin, slot_bytes);
      account_.release(charged, line);
      return status;
    }
    address = *begin;
    live_.emplace(address, Allocation{size_bytes, slot_bytes, charged, line});
    space_.mark(address, size_bytes);
  }
  trace::driver_allocated(trace::DriverMemory::kMalloc, device_, address, 0, charged, line);
  return Status::ok();
}

Status Heap::free(std::string_view entry, uint64_t address) {
  const trace::LineId line = trace::current_line();
  Allocation allocation{};
  {
    // Before the mutex: who holds MemoryInUse may ask about addresses, which takes it.
    const MemoryChanging changing;
    std::lock_guard lock(mutex_);
    const auto found = live_.find(address);
    if (found != live_.end()) {
      allocation = found->second;
      live_.erase(found);
      space_.unmark(address, allocation.size_bytes);
      space_.decommit(address, allocation.slot_bytes);
      values::forget(address, allocation.slot_bytes);
      if (races::is_on()) [[unlikely]]
        races::memory_returned(address, allocation.slot_bytes);
      addresses_.release(address, allocation.slot_bytes);
      freed_.add({address, allocation.size_bytes, allocation.line, line});
      // Under the mutex: nobody may record the next allocation at this address before this record.
      trace::driver_freed(trace::DriverMemory::kMalloc, device_, address, 0, allocation.charged_bytes, line);
    }
  }
  if (allocation.size_bytes == 0) return refuse_free(entry, address);
  account_.release(allocation.charged_bytes, allocation.line);
  return Status::ok();
}

void Heap::free_all() {
  const trace::LineId line = trace::current_line();
  std::lock_guard lock(mutex_);
  for (const auto& [address, allocation] : live_) {
    space_.unmark(address, allocation.size_bytes);
    space_.discard(address, allocation.slot_bytes);
    values::forget(address, allocation.slot_bytes);
    if (races::is_on()) [[unlikely]]
      races::memory_returned(address, allocation.slot_bytes);
    addresses_.release(address, allocation.slot_bytes);
    freed_.add({address, allocation.size_bytes, allocation.line, line, "released with the device"});
    account_.release(allocation.charged_bytes, allocation.line);
    trace::driver_freed(trace::DriverMemory::kMalloc, device_, address, 0, allocation.charged_bytes, line);
  }
  live_.clear();
}

Status Heap::refuse_free(std::string_view entry, uint64_t address) const {
  const auto fail = [&](const std::string& why) {
    return Status::error(code::ACL_ERROR_RT_PARAM_INVALID, fmt::format("{}: {:#x} {}", entry, address, why));
  };
  if (const auto live = find_live(address)) {
    return fail(fmt::format("is {} bytes inside the allocation of {} made at {}: free it by its first address",
                            address - live->begin, bytes_text(live->size_bytes), line_text(live->allocated_line)));
  }
  if (const auto freed = find_freed(address)) {
    return fail(fmt::format("was {} before, at {} (allocated at {}, {})", freed->how, line_text(freed->freed_line),
                            line_text(freed->allocated_line), bytes_text(freed->size_bytes)));
  }
  return fail("was never handed out: " + describe_address(reinterpret_cast<const void*>(address)));
}

std::optional<FreedRange> Heap::find_live(uint64_t address) const {
  std::lock_guard lock(mutex_);
  auto allocation = live_.upper_bound(address);
  if (allocation == live_.begin()) return std::nullopt;
  --allocation;
  if (address - allocation->first >= allocation->second.size_bytes) return std::nullopt;
  return FreedRange{allocation->first, allocation->second.size_bytes, allocation->second.line, 0};
}

std::optional<FreedRange> Heap::find_before(uint64_t address) const {
  std::lock_guard lock(mutex_);
  auto allocation = live_.upper_bound(address);
  if (allocation == live_.begin()) return std::nullopt;
  --allocation;
  const uint64_t offset = address - allocation->first;
  if (offset < allocation->second.size_bytes || offset > allocation->second.slot_bytes) return std::nullopt;
  return FreedRange{allocation->first, allocation->second.size_bytes, allocation->second.line, 0};
}

std::optional<FreedRange> Heap::find_freed(uint64_t address) const {
  std::lock_guard lock(mutex_);
  const FreedRange* range = freed_.find(address);
  return range == nullptr ? std::nullopt : std::optional(*range);
}

size_t Heap::allocation_count() const {
  std::lock_guard lock(mutex_);
  return live_.size();
}

}  // namespace drydock::device
