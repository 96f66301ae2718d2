#include "device/blocks.h"

#include <array>
#include <atomic>
#include <cstddef>

#include "device/heap.h"

namespace drydock::device {
namespace {

constexpr size_t kSlots = size_t{1} << 16;

std::array<std::atomic<uint64_t>, kSlots>& slots() {
  static auto& slots = *new std::array<std::atomic<uint64_t>, kSlots>;
  return slots;
}

std::atomic<uint64_t>& slot_of(uint64_t address) {
  // Fibonacci hashing: neighbouring blocks of a segment spread over the table.
  const uint64_t granule = address / kGranuleBytes;
  return slots()[granule * 0x9E3779B97F4A7C15U >> 48];
}

}  // namespace

void block_handed_out(uint64_t address) noexcept { slot_of(address).store(address, std::memory_order_relaxed); }

bool take_unsized_block(uint64_t address) noexcept {
  std::atomic<uint64_t>& slot = slot_of(address);
  if (slot.load(std::memory_order_relaxed) != address) return false;
  return slot.exchange(0, std::memory_order_relaxed) == address;
}

}  // namespace drydock::device
