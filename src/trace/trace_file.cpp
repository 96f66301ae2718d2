#include "trace/trace_file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

namespace drydock::trace {
namespace {

// Small first, so that the many short-lived processes of a run (data loaders) cost little disk.
constexpr uint64_t kFirstChunk = 1024 * 1024;
constexpr uint64_t kLargestChunk = 16 * 1024 * 1024;
constexpr uint64_t kSmallestChunk = 64 * 1024;

uint64_t page_bytes() noexcept { return static_cast<uint64_t>(sysconf(_SC_PAGESIZE)); }

// Allocates [begin, end) of the file. The limit on file sizes is asked first: running into it would raise SIGXFSZ.
int allocate(int descriptor, uint64_t begin, uint64_t end) noexcept {
  rlimit limit{};
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && end > limit.rlim_cur) return EFBIG;
  int error = 0;
  do {
    error = posix_fallocate(descriptor, static_cast<off_t>(begin), static_cast<off_t>(end - begin));
  } while (error == EINTR);
  return error;
}

}  // namespace

int TraceFile::create(const char* path) noexcept {
  *this = TraceFile();
  if (std::strlen(path) >= sizeof(path_)) return ENAMETOOLONG;
  const int descriptor = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (descriptor < 0) return errno;
  int error = allocate(descriptor, 0, kHeaderBytes);
  struct stat status {};
  if (error == 0 && fstat(descriptor, &status) != 0) error = errno;
  void* page = MAP_FAILED;
  if (error == 0) {
    page = mmap(nullptr, kHeaderBytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    if (page == MAP_FAILED) error = errno;
  }
  ::close(descriptor);
  if (error != 0) {
    unlink(path);
    return error;
  }
  std::strcpy(path_, path);
  device_ = status.st_dev;
  inode_ = status.st_ino;
  header_ = static_cast<FileHeader*>(page);
  used_ = allocated_ = window_begin_ = window_end_ = kHeaderBytes;
  next_chunk_ = kFirstChunk;
  return 0;
}

int TraceFile::open_again() const noexcept {
  const int descriptor = open(path_, O_RDWR | O_CLOEXEC);
  struct stat status {};
  if (descriptor >= 0 && fstat(descriptor, &status) == 0 && status.st_dev == device_ && status.st_ino == inode_)
    return descriptor;
  if (descriptor >= 0) ::close(descriptor);
  return -1;
}

void TraceFile::unmap_window() noexcept {
  if (window_ != nullptr) munmap(window_, window_end_ - window_begin_);
  window_ = nullptr;
  window_begin_ = window_end_ = used_;
}

bool TraceFile::grow(size_t bytes) noexcept {
  if (header_ == nullptr) return false;
  const int descriptor = open_again();
  if (descriptor < 0) return false;

  const uint64_t page = page_bytes();
  const uint64_t needed = (used_ + bytes + page - 1) / page * page;
  uint64_t chunk = next_chunk_;
  uint64_t end = allocated_;
  while (end < needed) {
    const uint64_t wanted = std::max(needed, (allocated_ + chunk) / page * page);
    if (allocate(descriptor, allocated_, wanted) == 0) {
      end = wanted;
    } else if (chunk > kSmallestChunk) {
      chunk /= 2;  // the disk may have room for less
    } else {
      ::close(descriptor);
      return false;
    }
  }
  const uint64_t begin = used_ / page * page;
  void* window = mmap(nullptr, end - begin, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, static_cast<off_t>(begin));
  ::close(descriptor);
  allocated_ = end;
  if (window == MAP_FAILED) return false;
  unmap_window();
  window_ = static_cast<std::byte*>(window);
  window_begin_ = begin;
  window_end_ = end;
  next_chunk_ = std::min(next_chunk_ * 2, kLargestChunk);
  return true;
}

void TraceFile::trim() noexcept {
  if (header_ == nullptr) return;
  unmap_window();
  const int descriptor = open_again();
  if (descriptor < 0) return;
  if (ftruncate(descriptor, static_cast<off_t>(used_)) == 0) allocated_ = used_;
  ::close(descriptor);
}

void TraceFile::abandon() noexcept {
  unmap_window();
  if (header_ != nullptr) munmap(header_, kHeaderBytes);
  *this = TraceFile();
}

}  // namespace drydock::trace
