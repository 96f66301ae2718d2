#include "device/physical_memory.h"

#include <fmt/format.h>

#include "base/generated/error_codes.h"
#include "device/memory_account.h"

namespace drydock::device {
namespace {

constexpr size_t kMostHandles = size_t{1} << 20;

Status refuse(std::string_view entry, const std::string& why) {
  return Status::error(code::ACL_ERROR_RT_PARAM_INVALID, fmt::format("{}: {}", entry, why));
}

// Host memory has no address of its own in a trace; its handle's lies in the same address space as pinned memory's.
uint64_t traced_address(const PhysicalMemory& memory) { return reinterpret_cast<uint64_t>(&memory); }

}  // namespace

HandlePool<PhysicalMemory>& physical_memory() noexcept {
  static HandlePool<PhysicalMemory>& pool = *new HandlePool<PhysicalMemory>(kMostHandles);
  return pool;
}

Status check_physical_size(std::string_view entry, uint64_t size_bytes, uint64_t page_bytes) {
  if (size_bytes != 0 && size_bytes % page_bytes == 0) return Status::ok();
  return refuse(entry, fmt::format("the size of physical memory must be a multiple of {}, not {}",
                                   bytes_text(page_bytes), bytes_text(size_bytes)));
}

Status too_many_handles(std::string_view entry) {
  return Status::error(code::ACL_ERROR_RT_RESOURCE_ALLOC_FAIL,
                       fmt::format("{}: {} physical handles are alive, which is the most", entry, kMostHandles));
}

Status still_mapped(std::string_view entry, const PhysicalMemory& memory) {
  return refuse(entry, fmt::format("the physical memory ({}, made at {}) is still mapped at {:#x}: unmap it first",
                                   bytes_text(memory.size_bytes), line_text(memory.line), memory.mapped_at));
}

Status freed_by_another_thread(std::string_view entry) {
  return Status::error(code::ACL_ERROR_RT_INVALID_HANDLE,
                       fmt::format("{}: the handle was freed by another thread", entry));
}

std::mutex& host_memory_mutex() noexcept {
  static std::mutex& mutex = *new std::mutex;
  return mutex;
}

Status create_physical_host(std::string_view entry, uint64_t size_bytes, uint64_t page_bytes, int32_t device,
                            void*& handle) {
  const trace::LineId line = trace::current_line();
  DRYDOCK_RETURN_IF_ERROR(check_physical_size(entry, size_bytes, page_bytes));
  HostPages pages;
  DRYDOCK_RETURN_IF_ERROR(allocate_host_pages(entry, size_bytes, pages));
  PhysicalMemory* const memory = physical_memory().create();
  if (memory == nullptr) {
    free_host_pages(pages, size_bytes);
    return too_many_handles(entry);
  }
  memory->device = device;
  memory->on_host = true;
  memory->pages = pages;
  memory->size_bytes = size_bytes;
  memory->line = line;
  handle = memory;
  trace::driver_allocated(trace::DriverMemory::kHost, device, traced_address(*memory), 0, size_bytes, line);
  return Status::ok();
}

Status destroy_physical_host(std::string_view entry, PhysicalMemory& memory) {
  std::lock_guard lock(host_memory_mutex());
  if (memory.mapped_at != 0) return still_mapped(entry, memory);
  const uint64_t size_bytes = memory.size_bytes;
  const HostPages pages = memory.pages;
  const int32_t device = memory.device;
  const uint64_t address = traced_address(memory);
  if (!physical_memory().destroy(&memory)) return freed_by_another_thread(entry);
  trace::driver_freed(trace::DriverMemory::kHost, device, address, 0, size_bytes, trace::current_line());
  free_host_pages(pages, size_bytes);
  return Status::ok();
}

}  // namespace drydock::device
