#include "device/host_memory.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <unistd.h>

#include <fmt/format.h>
#include <sys/mman.h>

#include "base/generated/error_codes.h"
#include "device/heap.h"
#include "races/stream_check.h"

namespace drydock::device {
namespace {

struct HostMemory {
  std::mutex mutex;
  std::map<uint64_t, HostRange> ranges;
  FreedRanges freed;
  uint64_t bytes[3] = {0, 0, 0};

  const HostRange* find(uint64_t address) const {
    auto range = ranges.upper_bound(address);
    if (range == ranges.begin()) return nullptr;
    --range;
    return address - range->first < range->second.size_bytes ? &range->second : nullptr;
  }

  void add(const HostRange& range) {
    ranges.emplace(range.begin, range);
    bytes[static_cast<int>(range.kind)] += range.size_bytes;
  }

  HostRange take(std::map<uint64_t, HostRange>::iterator found, trace::LineId line) {
    const HostRange range = found->second;
    ranges.erase(found);
    bytes[static_cast<int>(range.kind)] -= range.size_bytes;
    // What was mapped lies in a reservation, which remembers it.
    if (range.kind != HostMemoryKind::kMapped) {
      freed.add({range.begin, range.size_bytes, range.line, line,
                 range.kind == HostMemoryKind::kPinned ? "freed" : "unregistered"});
    }
    return range;
  }
};

HostMemory& host_memory() noexcept {
  static HostMemory& memory = *new HostMemory;
  return memory;
}

uint64_t pages_up(uint64_t size_bytes) {
  static const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  return (size_bytes + page - 1) / page * page;
}

const char* how_to_give_back(HostMemoryKind kind) {
  switch (kind) {
    case HostMemoryKind::kPinned: return "pinned: free it by its first address with aclrtFreeHost";
    case HostMemoryKind::kRegistered: return "registered: unregister it by its first address";
    case HostMemoryKind::kMapped: return "physical host memory, mapped by aclrtMapMem: aclrtUnmapMem gives it back";
  }
  return "";
}

Status refuse(std::string_view entry, const HostMemory& memory, uint64_t address, std::string_view door) {
  std::string why;
  if (const HostRange* range = memory.find(address)) {
    why = fmt::format("it lies in {} that is {} (made at {})", bytes_text(range->size_bytes),
                      how_to_give_back(range->kind), line_text(range->line));
  } else if (const FreedRange* freed = memory.freed.find(address)) {
    why = fmt::format("it was {} before, at {} (made at {}, {})", freed->how, line_text(freed->freed_line),
                      line_text(freed->allocated_line), bytes_text(freed->size_bytes));
  } else if (device_of(reinterpret_cast<const void*>(address)) >= 0) {
    why = "it is device memory: use aclrtFree";
  } else {
    why = fmt::format("{} never returned it", door);
  }
  return Status::error(code::ACL_ERROR_RT_PARAM_INVALID,
                       fmt::format("{}: {:#x} can't be given back: {}", entry, address, why));
}

}  // namespace

Status allocate_host(std::string_view entry, uint64_t size_bytes, int32_t device, void*& address) {
  if (size_bytes == 0) {
    return Status::error(code::ACL_ERROR_INVALID_PARAM, fmt::format("{}: the size is 0", entry));
  }
  const trace::LineId line = trace::current_line();
  void* range = MAP_FAILED;
  if (size_bytes <= (uint64_t{1} << 46)) {
    range = mmap(nullptr, pages_up(size_bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  } else {
    errno = ENOMEM;
  }
  if (range == MAP_FAILED) {
    return Status::error(code::ACL_ERROR_RT_MEMORY_ALLOCATION,
                         fmt::format("{}: this machine has no {} of host memory: {}", entry, bytes_text(size_bytes),
                                     std::strerror(errno)));
  }
  HostMemory& memory = host_memory();
  {
    std::lock_guard lock(memory.mutex);
    memory.add({reinterpret_cast<uint64_t>(range), size_bytes, HostMemoryKind::kPinned, device, line});
  }
  address = range;
  trace::driver_allocated(trace::DriverMemory::kHost, device, reinterpret_cast<uint64_t>(range), 0, size_bytes, line);
  return Status::ok();
}

namespace {

// For the stream check: whoever still copies would copy from or into nothing.
void tell_freed(const HostRange& range, trace::LineId line) noexcept {
  const std::array<races::Use, 1> uses = {
      {{.footprint = races::Footprint::dense(range.begin, range.begin + range.size_bytes),
        .writes = true,
        .is_host = true}}};
  races::touched_by_host({.device = range.device, .line = line, .what = "aclrtFreeHost"}, uses);
  races::memory_returned(range.begin, range.size_bytes);
}

}  // namespace

Status free_host(std::string_view entry, void* address) {
  const trace::LineId line = trace::current_line();
  HostMemory& memory = host_memory();
  HostRange range;
  {
    std::lock_guard lock(memory.mutex);
    const auto found = memory.ranges.find(reinterpret_cast<uint64_t>(address));
    if (found == memory.ranges.end() || found->second.kind != HostMemoryKind::kPinned) {
      return refuse(entry, memory, reinterpret_cast<uint64_t>(address), "aclrtMallocHost");
    }
    range = memory.take(found, line);
  }
  trace::driver_freed(trace::DriverMemory::kHost, range.device, range.begin, 0, range.size_bytes, line);
  if (races::is_on()) [[unlikely]]
    tell_freed(range, line);
  munmap(address, pages_up(range.size_bytes));
  return Status::ok();
}

Status register_host(std::string_view entry, void* address, uint64_t size_bytes, int32_t device) {
  const auto begin = reinterpret_cast<uint64_t>(address);
  if (size_bytes == 0 || begin + size_bytes < begin) {
    return Status::error(code::ACL_ERROR_INVALID_PARAM,
                         fmt::format("{}: {} at {:#x} are no range", entry, bytes_text(size_bytes), begin));
  }
  const trace::LineId line = trace::current_line();
  if (device_of(address) >= 0) {
    return Status::error(code::ACL_ERROR_RT_PARAM_INVALID,
                         fmt::format("{}: {:#x} is device memory ({}): only host memory is registered", entry, begin,
                                     describe_address(address)));
  }
  HostMemory& memory = host_memory();
  {
    std::lock_guard lock(memory.mutex);
    const HostRange* taken = memory.find(begin);
    if (taken == nullptr) {
      const auto next = memory.ranges.lower_bound(begin);
      if (next != memory.ranges.end() && next->first < begin + size_bytes) taken = &next->second;
    }
    if (taken != nullptr) {
      return Status::error(code::ACL_ERROR_RT_PARAM_INVALID,
                           fmt::format("{}: {} at {:#x} overlap {} at {:#x} that are {} already (made at {})", entry,
                                       bytes_text(size_bytes), begin, bytes_text(taken->size_bytes), taken->begin,
                                       describe(taken->kind), line_text(taken->line)));
    }
    memory.add({begin, size_bytes, HostMemoryKind::kRegistered, device, line});
  }
  trace::driver_allocated(trace::DriverMemory::kHostRegistered, device, begin, 0, size_bytes, line);
  return Status::ok();
}

Status unregister_host(std::string_view entry, void* address) {
  const trace::LineId line = trace::current_line();
  HostMemory& memory = host_memory();
  HostRange range;
  {
    std::lock_guard lock(memory.mutex);
    const auto found = memory.ranges.find(reinterpret_cast<uint64_t>(address));
    if (found == memory.ranges.end() || found->second.kind != HostMemoryKind::kRegistered) {
      return refuse(entry, memory, reinterpret_cast<uint64_t>(address), "aclrtHostRegister");
    }
    range = memory.take(found, line);
  }
  trace::driver_freed(trace::DriverMemory::kHostRegistered, range.device, range.begin, 0, range.size_bytes, line);
  return Status::ok();
}

void note_mapped_host(uint64_t address, uint64_t size_bytes, int32_t device, trace::LineId line) {
  HostMemory& memory = host_memory();
  std::lock_guard lock(memory.mutex);
  memory.add({address, size_bytes, HostMemoryKind::kMapped, device, line});
}

void note_unmapped_host(uint64_t address) {
  HostMemory& memory = host_memory();
  std::lock_guard lock(memory.mutex);
  if (const auto found = memory.ranges.find(address); found != memory.ranges.end()) memory.take(found, 0);
}

std::string_view describe(HostMemoryKind kind) noexcept {
  switch (kind) {
    case HostMemoryKind::kPinned: return "pinned";
    case HostMemoryKind::kRegistered: return "registered";
    case HostMemoryKind::kMapped: return "physical";
  }
  return "";
}

std::optional<HostRange> find_host_range(const void* address) noexcept {
  HostMemory& memory = host_memory();
  std::lock_guard lock(memory.mutex);
  const HostRange* range = memory.find(reinterpret_cast<uint64_t>(address));
  return range == nullptr ? std::nullopt : std::optional(*range);
}

uint64_t pinned_bytes() noexcept {
  HostMemory& memory = host_memory();
  std::lock_guard lock(memory.mutex);
  return memory.bytes[static_cast<int>(HostMemoryKind::kPinned)];
}

uint64_t registered_bytes() noexcept {
  HostMemory& memory = host_memory();
  std::lock_guard lock(memory.mutex);
  return memory.bytes[static_cast<int>(HostMemoryKind::kRegistered)];
}

}  // namespace drydock::device
