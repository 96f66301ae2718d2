#include "device/memory_account.h"

#include <algorithm>
#include <atomic>
#include <vector>

#include <fmt/format.h>

#include "base/generated/error_codes.h"

namespace drydock::device {
namespace {

constinit std::atomic<uint64_t> held_bytes{0};

}  // namespace

MemoryAccount::MemoryAccount(int32_t device, const DieMemory& memory)
    : device_(device),
      total_bytes_(memory.usable_bytes),
      used_bytes_(memory.idle_bytes),
      overhead_bytes_(memory.idle_bytes),
      peak_used_bytes_(memory.idle_bytes) {
  trace::capacity_told(device, memory.usable_bytes);
  trace::overhead_charged(device, "idle", memory.idle_bytes);
}

bool MemoryAccount::charge(uint64_t size_bytes, trace::LineId line) {
  std::lock_guard lock(mutex_);
  if (size_bytes > total_bytes_ - used_bytes_) return false;
  used_bytes_ += size_bytes;
  peak_used_bytes_ = std::max(peak_used_bytes_, used_bytes_);
  bytes_by_line_[line] += size_bytes;
  held_bytes.fetch_add(size_bytes, std::memory_order_relaxed);
  return true;
}

void MemoryAccount::release(uint64_t size_bytes, trace::LineId line) {
  std::lock_guard lock(mutex_);
  used_bytes_ -= size_bytes;
  held_bytes.fetch_sub(size_bytes, std::memory_order_relaxed);
  auto holder = bytes_by_line_.find(line);
  if (holder == bytes_by_line_.end()) return;
  holder->second -= std::min(holder->second, size_bytes);
  if (holder->second == 0) bytes_by_line_.erase(holder);
}

Status MemoryAccount::charge_overhead(std::string_view what, uint64_t size_bytes) {
  {
    std::lock_guard lock(mutex_);
    if (size_bytes > total_bytes_ - used_bytes_) {
      return Status::error(
          code::ACL_ERROR_RT_MEMORY_ALLOCATION,
          fmt::format("device {}: {} needs {}, and {} of {} are free", device_, what, bytes_text(size_bytes),
                      bytes_text(total_bytes_ - used_bytes_), bytes_text(total_bytes_)));
    }
    used_bytes_ += size_bytes;
    overhead_bytes_ += size_bytes;
    peak_used_bytes_ = std::max(peak_used_bytes_, used_bytes_);
  }
  trace::overhead_charged(device_, what, size_bytes);
  return Status::ok();
}

void MemoryAccount::release_overhead(uint64_t size_bytes) {
  std::lock_guard lock(mutex_);
  used_bytes_ -= size_bytes;
  overhead_bytes_ -= size_bytes;
}

MemoryInfo MemoryAccount::info() const {
  std::lock_guard lock(mutex_);
  return {total_bytes_ - used_bytes_, total_bytes_, peak_used_bytes_};
}

uint64_t MemoryAccount::held_bytes_of_all() noexcept { return held_bytes.load(std::memory_order_relaxed); }

Status MemoryAccount::out_of_memory(std::string_view entry, trace::DriverMemory kind, uint64_t asked_bytes,
                                    uint64_t page_bytes, trace::LineId line) const {
  std::string holders;
  uint64_t used = 0;
  uint64_t overhead = 0;
  {
    std::lock_guard lock(mutex_);
    used = used_bytes_;
    overhead = overhead_bytes_;
    holders = largest_holders();
  }
  const uint64_t free = total_bytes_ - used;
  trace::driver_out_of_memory(kind, device_, asked_bytes, free, total_bytes_, line);
  const std::string pages =
      page_bytes == asked_bytes ? "" : fmt::format(", which takes {} in whole pages", bytes_text(page_bytes));
  return Status::error(
      code::ACL_ERROR_RT_MEMORY_ALLOCATION,
      fmt::format("{}: device {} is out of memory at {}: asked {}{}, free {} of {} ({} belong to the device itself). "
                  "Largest holders: {}",
                  entry, device_, line_text(line), bytes_text(asked_bytes), pages, bytes_text(free),
                  bytes_text(total_bytes_), bytes_text(overhead), holders));
}

std::string MemoryAccount::largest_holders() const {
  constexpr size_t kMost = 3;
  std::vector<std::pair<uint64_t, trace::LineId>> holders;
  for (const auto& [line, size_bytes] : bytes_by_line_) holders.emplace_back(size_bytes, line);
  const size_t shown = std::min(kMost, holders.size());
  std::partial_sort(holders.begin(), holders.begin() + static_cast<std::ptrdiff_t>(shown), holders.end(),
                    [](const auto& a, const auto& b) { return a.first > b.first; });
  if (shown == 0) return "none, nothing is allocated";
  std::string text;
  for (size_t i = 0; i < shown; ++i) {
    text += fmt::format("{}{} from {}", i == 0 ? "" : ", ", bytes_text(holders[i].first), line_text(holders[i].second));
  }
  return text;
}

std::string bytes_text(uint64_t size_bytes) {
  constexpr double kKibi = 1024.0;
  const auto value = static_cast<double>(size_bytes);
  if (size_bytes == 1) return "1 byte";
  if (size_bytes < 1024) return fmt::format("{} bytes", size_bytes);
  if (size_bytes < (1U << 20)) return fmt::format("{} bytes ({:.2f} KiB)", size_bytes, value / kKibi);
  if (size_bytes < (1U << 30)) return fmt::format("{} bytes ({:.2f} MiB)", size_bytes, value / kKibi / kKibi);
  return fmt::format("{} bytes ({:.2f} GiB)", size_bytes, value / kKibi / kKibi / kKibi);
}

std::string line_text(trace::LineId line) { return line == 0 ? "an unknown line" : trace::describe_line(line); }

}  // namespace drydock::device
