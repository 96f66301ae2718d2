#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "trace/hash.h"

namespace drydock::trace {

/// Byte strings numbered 1, 2, 3... in order of insertion. Lookups take no lock and may run while another thread
/// inserts; insertions need a lock of the caller's. Entries live as long as the process, in memory mapped by the table
/// itself (no malloc: the table is used under foreign allocators' locks). Trivially destructible on purpose.
class InternTable {
 public:
  struct Entry {
    uint64_t hash;
    uint32_t id;
    uint32_t size_bytes;
    const std::byte* data() const noexcept { return reinterpret_cast<const std::byte*>(this + 1); }
    std::span<const std::byte> bytes() const noexcept { return {data(), size_bytes}; }
  };

  /// Id of `bytes`, or 0. `hash` is hash_bytes(bytes).
  uint32_t find(std::span<const std::byte> bytes, uint64_t hash) const noexcept;
  /// Id of `bytes`, which must not be in the table yet; 0 if memory ran out. The caller holds its lock.
  uint32_t insert(std::span<const std::byte> bytes, uint64_t hash) noexcept;
  /// Null if `id` was never given out.
  const Entry* by_id(uint32_t id) const noexcept;
  /// Largest id given out.
  uint32_t size() const noexcept { return size_.load(std::memory_order_acquire); }

 private:
  struct Slots {
    uint64_t mask;
    std::atomic<const Entry*>* entries() noexcept { return reinterpret_cast<std::atomic<const Entry*>*>(this + 1); }
  };
  using Reference = std::atomic<const Entry*>;

  bool grow() noexcept;
  Reference* place_of(uint32_t id) noexcept;
  static void* map(size_t bytes) noexcept;

  // Segment n of the id table holds ids of kFirstSegment << n entries.
  static constexpr uint32_t kFirstSegmentBits = 10;
  std::array<std::atomic<Reference*>, 32 - kFirstSegmentBits> by_id_{};
  std::atomic<Slots*> slots_{nullptr};
  std::atomic<uint32_t> size_{0};
  std::byte* arena_ = nullptr;  // guarded by the caller's lock
  size_t arena_left_ = 0;
};

}  // namespace drydock::trace
