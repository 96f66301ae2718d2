#include "trace/process_memory.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>

#include <sys/uio.h>

namespace drydock::trace {
namespace {

bool copy_from_process(uintptr_t address, void* to, size_t bytes) noexcept {
  const iovec target{to, bytes};
  const iovec source{reinterpret_cast<void*>(address), bytes};  // NOLINT: the kernel checks the address
  const ssize_t copied = process_vm_readv(getpid(), &target, 1, &source, 1, 0);
  if (copied == static_cast<ssize_t>(bytes)) return true;
  if (copied >= 0 || (errno != ENOSYS && errno != EPERM)) return false;
  // Sandboxes forbid the call; the same memory can be read as a file.
  const int descriptor = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return false;
  const ssize_t got = pread(descriptor, to, bytes, static_cast<off_t>(address));
  close(descriptor);
  return got == static_cast<ssize_t>(bytes);
}

}  // namespace

void ProcessMemory::restart() noexcept {
  for (Page& page : pages_) page.is_valid = false;
}

const ProcessMemory::Page* ProcessMemory::page_of(uintptr_t number) noexcept {
  Page& page = pages_[number % kPages];
  if (page.is_valid && page.number == number) return &page;
  page.number = number;
  page.is_valid = copy_from_process(number * kPageBytes, page.bytes.data(), kPageBytes);
  return page.is_valid ? &page : nullptr;
}

bool ProcessMemory::read(uintptr_t address, void* to, size_t bytes) noexcept {
  auto* out = static_cast<std::byte*>(to);
  while (bytes > 0) {
    const uintptr_t within = address % kPageBytes;
    const size_t part = std::min(bytes, kPageBytes - within);
    const Page* page = page_of(address / kPageBytes);
    if (page == nullptr) return false;
    std::memcpy(out, page->bytes.data() + within, part);
    out += part;
    address += part;
    bytes -= part;
  }
  return true;
}

}  // namespace drydock::trace
