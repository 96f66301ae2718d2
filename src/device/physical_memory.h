#pragma once

#include <cstdint>
#include <mutex>
#include <string_view>

#include "base/export.h"
#include "base/handle_pool.h"
#include "base/status.h"
#include "device/host_pages.h"
#include "trace/recorder.h"

namespace drydock::device {

/// A piece of physical memory: behind aclrtDrvMemHandle.
struct PhysicalMemory {
  int32_t device = -1;  ///< of host memory: the device of the context that asked
  bool on_host = false;
  HostPages pages;  ///< of host memory
  uint64_t size_bytes = 0;
  uint64_t id = 0;  ///< numbers the handles of a process, from 1; traces name a handle by it
  trace::LineId line = 0;
  uint64_t mapped_at = 0;  ///< device address, 0 while it is not mapped
  uint64_t stored_at = 0;  ///< where its contents are kept while it is not mapped; 0 if it has none
};

/// Physical handles of all devices. Lives as long as the process. Thread-safe.
HandlePool<PhysicalMemory>& physical_memory() noexcept;

/// Physical memory comes in whole pages: 107000 otherwise.
Status check_physical_size(std::string_view entry, uint64_t size_bytes, uint64_t page_bytes);
/// What there is to say where all handles are taken, where one is still mapped, where two threads free the same one.
Status too_many_handles(std::string_view entry);
Status still_mapped(std::string_view entry, const PhysicalMemory& memory);
Status freed_by_another_thread(std::string_view entry);

/// Takes host memory for the process, with a context of `device`; sizes as for device memory, of which it takes none.
/// It may be mapped in any device's reservation, where the program touches it like memory of its own.
DRYDOCK_API Status create_physical_host(std::string_view entry, uint64_t size_bytes, uint64_t page_bytes,
                                        int32_t device, void*& handle);
/// Refused while the handle is mapped.
DRYDOCK_API Status destroy_physical_host(std::string_view entry, PhysicalMemory& memory);
/// Held while host memory is mapped, unmapped or freed, for that it may be mapped in the reservation of any device.
/// Taken after the device's own mutex.
std::mutex& host_memory_mutex() noexcept;

}  // namespace drydock::device
