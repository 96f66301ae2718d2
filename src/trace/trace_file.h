#pragma once

#include <cstddef>
#include <cstdint>

#include <sys/types.h>

#include "trace/format.h"

namespace drydock::trace {

/// A trace file that is being written: a header page that stays mapped, and a window over the end of the file that
/// moves as the file grows. Space is allocated before it is mapped, so that a full disk is an error, never a SIGBUS.
/// No descriptor stays open between calls: programs close descriptors they did not open (daemons), and the number
/// would then name a file of theirs. Not thread-safe. Trivially destructible: the process may end at any time.
class TraceFile {
 public:
  /// Makes the file (which must not exist) with a zeroed header page. Returns 0 or an errno; on error nothing is left.
  int create(const char* path) noexcept;
  /// Null before `create`, and after it failed.
  FileHeader* header() const noexcept { return header_; }
  /// At least `bytes` zeroed bytes at the end of the records, 8-byte aligned; null when the file can't grow.
  std::byte* reserve(size_t bytes) noexcept {
    if (bytes <= window_end_ - used_) return window_ + (used_ - window_begin_);
    return grow(bytes) ? window_ + (used_ - window_begin_) : nullptr;
  }
  /// Counts `bytes` of the reserved space as used.
  void advance(size_t bytes) noexcept { used_ += bytes; }
  /// Bytes of the header page and all records.
  uint64_t used_bytes() const noexcept { return used_; }
  /// Cuts the file to what is used and unmaps the window; the next `reserve` maps one again.
  void trim() noexcept;
  /// Forgets the file and its mappings without touching it: for the child after fork.
  void abandon() noexcept;

 private:
  bool grow(size_t bytes) noexcept;
  int open_again() const noexcept;
  void unmap_window() noexcept;

  char path_[4096] = {};
  dev_t device_ = 0;
  ino_t inode_ = 0;
  FileHeader* header_ = nullptr;
  std::byte* window_ = nullptr;
  uint64_t window_begin_ = 0;  // offsets in the file
  uint64_t window_end_ = 0;
  uint64_t used_ = 0;
  uint64_t allocated_ = 0;
  uint64_t next_chunk_ = 0;
};

}  // namespace drydock::trace
