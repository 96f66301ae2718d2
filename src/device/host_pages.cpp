#include "device/host_pages.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <mutex>
#include <optional>
#include <unistd.h>

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "base/generated/error_codes.h"
#include "device/address_space.h"
#include "device/memory_account.h"
#include "device/range_allocator.h"

namespace drydock::device {
namespace {

constexpr uint64_t kMostBytes = uint64_t{1} << 46;  // more than any host has

struct PageFile {
  std::mutex mutex;
  int file = -1;
  uint64_t size_bytes = 0;
  RangeAllocator offsets{0, kMostBytes};

  // 0, or what the system says.
  int grow(uint64_t end) {
    if (file < 0) file = memfd_create("drydock host pages", MFD_CLOEXEC);
    if (file < 0) return errno;
    if (end <= size_bytes) return 0;
    // Growing beyond this limit would end the process with a signal.
    rlimit limit{};
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && end > limit.rlim_cur) return EFBIG;
    if (ftruncate(file, static_cast<off_t>(end)) != 0) return errno;
    size_bytes = end;
    return 0;
  }
};

PageFile& page_file() noexcept {
  static PageFile& pages = *new PageFile;
  return pages;
}

}  // namespace

Status allocate_host_pages(std::string_view entry, uint64_t size_bytes, HostPages& pages) {
  PageFile& all = page_file();
  std::lock_guard lock(all.mutex);
  const std::optional<uint64_t> offset = all.offsets.allocate(size_bytes, kSlotBytes);
  const int reason = offset ? all.grow(*offset + size_bytes) : ENOMEM;
  if (reason == 0) {
    pages = {all.file, *offset};
    return Status::ok();
  }
  if (offset) all.offsets.release(*offset, size_bytes);
  return Status::error(code::ACL_ERROR_RT_MEMORY_ALLOCATION,
                       fmt::format("{}: this machine has no {} of host memory: {}", entry, bytes_text(size_bytes),
                                   std::strerror(reason)));
}

void free_host_pages(const HostPages& pages, uint64_t size_bytes) noexcept {
  PageFile& all = page_file();
  std::lock_guard lock(all.mutex);
  fallocate(pages.file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(pages.offset),
            static_cast<off_t>(size_bytes));
  all.offsets.release(pages.offset, size_bytes);
}

}  // namespace drydock::device
