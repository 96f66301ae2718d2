#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>

#include "base/export.h"
#include "base/status.h"
#include "device/profile.h"
#include "trace/recorder.h"

namespace drydock::device {

/// Bytes as aclrtGetMemInfo shows them.
struct MemoryInfo {
  uint64_t free_bytes = 0;
  uint64_t total_bytes = 0;
  uint64_t peak_used_bytes = 0;
};

/// What is taken of one device's memory, and by which source lines. Thread-safe.
class DRYDOCK_API MemoryAccount {
 public:
  MemoryAccount(int32_t device, const DieMemory& memory);

  /// Takes `size_bytes` for an allocation made at `line`; false if that much is not free.
  bool charge(uint64_t size_bytes, trace::LineId line);
  void release(uint64_t size_bytes, trace::LineId line);

  /// Takes bytes that belong to no allocation of the client ("context", "hccl"), and records them. 207001 if they are
  /// not free.
  Status charge_overhead(std::string_view what, uint64_t size_bytes);
  void release_overhead(uint64_t size_bytes);

  MemoryInfo info() const;

  /// What allocations of the client hold on all devices of the process.
  static uint64_t held_bytes_of_all() noexcept;

  /// The failure for `asked_bytes` that did not fit, with the numbers and the lines that hold most; records it.
  /// `page_bytes` is what `asked_bytes` takes in whole pages.
  Status out_of_memory(std::string_view entry, trace::DriverMemory kind, uint64_t asked_bytes, uint64_t page_bytes,
                       trace::LineId line) const;

 private:
  std::string largest_holders() const;

  const int32_t device_;
  const uint64_t total_bytes_;
  mutable std::mutex mutex_;
  uint64_t used_bytes_;
  uint64_t overhead_bytes_;
  uint64_t peak_used_bytes_;
  std::map<trace::LineId, uint64_t> bytes_by_line_;
};

/// "2097152 bytes (2.00 MiB)".
DRYDOCK_API std::string bytes_text(uint64_t size_bytes);
/// "train.py:12", or "an unknown line".
DRYDOCK_API std::string line_text(trace::LineId line);

}  // namespace drydock::device
