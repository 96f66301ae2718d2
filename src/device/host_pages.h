#pragma once

#include <cstdint>
#include <string_view>

#include "base/status.h"

// Pages of physical host memory: what stands behind aclrtMallocPhysical with a location on the host. They exist apart
// from any address, in one anonymous file, so that they keep their contents while nothing maps them.

namespace drydock::device {

/// Where some pages lie in the file.
struct HostPages {
  int file = -1;
  uint64_t offset = 0;
};

/// Takes pages that read as zero and cost nothing until they are touched. 207001 where the host has none left.
/// Thread-safe.
Status allocate_host_pages(std::string_view entry, uint64_t size_bytes, HostPages& pages);
/// Gives them back; nothing maps them any more.
void free_host_pages(const HostPages& pages, uint64_t size_bytes) noexcept;

}  // namespace drydock::device
