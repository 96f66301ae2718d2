#include "trace/intern_table.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <new>

#include <sys/mman.h>

namespace drydock::trace {
namespace {

constexpr size_t kFirstSlots = 1024;
constexpr size_t kArenaBytes = 256 * 1024;

// Segment and index within it for a number counted from 0.
struct Position {
  uint32_t segment;
  uint32_t index;
};

Position position_of(uint32_t number, uint32_t first_bits) noexcept {
  const uint32_t shifted = number + (1U << first_bits);
  const uint32_t top = static_cast<uint32_t>(std::bit_width(shifted)) - 1;
  return {top - first_bits, shifted - (1U << top)};
}

}  // namespace

void* InternTable::map(size_t bytes) noexcept {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return memory == MAP_FAILED ? nullptr : memory;
}

uint32_t InternTable::find(std::span<const std::byte> bytes, uint64_t hash) const noexcept {
  Slots* slots = slots_.load(std::memory_order_acquire);
  if (slots == nullptr) return 0;
  for (uint64_t index = hash & slots->mask;; index = (index + 1) & slots->mask) {
    const Entry* entry = slots->entries()[index].load(std::memory_order_acquire);
    if (entry == nullptr) return 0;
    if (entry->hash == hash && entry->size_bytes == bytes.size() &&
        std::memcmp(entry->data(), bytes.data(), bytes.size()) == 0)
      return entry->id;
  }
}

uint32_t InternTable::insert(std::span<const std::byte> bytes, uint64_t hash) noexcept {
  const uint32_t count = size_.load(std::memory_order_relaxed);
  if (count == 0x7fffffff) return 0;
  Slots* slots = slots_.load(std::memory_order_relaxed);
  if (slots == nullptr || (static_cast<uint64_t>(count) + 1) * 2 > slots->mask + 1) {
    if (!grow()) return 0;
    slots = slots_.load(std::memory_order_relaxed);
  }
  const uint32_t id = count + 1;
  Reference* place = place_of(id);
  if (place == nullptr) return 0;

  const size_t needed = (sizeof(Entry) + bytes.size() + 7) / 8 * 8;
  if (needed > arena_left_) {
    const size_t chunk = std::max(needed, kArenaBytes);
    void* memory = map(chunk);
    if (memory == nullptr) return 0;
    arena_ = static_cast<std::byte*>(memory);
    arena_left_ = chunk;
  }
  auto* entry = new (arena_) Entry{hash, id, static_cast<uint32_t>(bytes.size())};
  if (!bytes.empty()) std::memcpy(arena_ + sizeof(Entry), bytes.data(), bytes.size());
  arena_ += needed;
  arena_left_ -= needed;

  place->store(entry, std::memory_order_release);
  size_.store(id, std::memory_order_release);
  uint64_t index = hash & slots->mask;
  while (slots->entries()[index].load(std::memory_order_relaxed) != nullptr) index = (index + 1) & slots->mask;
  slots->entries()[index].store(entry, std::memory_order_release);
  return id;
}

const InternTable::Entry* InternTable::by_id(uint32_t id) const noexcept {
  if (id == 0 || id > size()) return nullptr;
  const Position position = position_of(id - 1, kFirstSegmentBits);
  return by_id_[position.segment].load(std::memory_order_acquire)[position.index].load(std::memory_order_acquire);
}

InternTable::Reference* InternTable::place_of(uint32_t id) noexcept {
  const Position position = position_of(id - 1, kFirstSegmentBits);
  Reference* segment = by_id_[position.segment].load(std::memory_order_relaxed);
  if (segment == nullptr) {
    segment = static_cast<Reference*>(map(sizeof(Reference) << (kFirstSegmentBits + position.segment)));
    if (segment == nullptr) return nullptr;
    by_id_[position.segment].store(segment, std::memory_order_release);
  }
  return segment + position.index;
}

// Readers may still search the old slots: they are left in place, at most as many again as are in use.
bool InternTable::grow() noexcept {
  Slots* old = slots_.load(std::memory_order_relaxed);
  const uint64_t count = old == nullptr ? kFirstSlots : (old->mask + 1) * 2;
  auto* slots = static_cast<Slots*>(map(sizeof(Slots) + count * sizeof(Reference)));
  if (slots == nullptr) return false;
  slots->mask = count - 1;
  for (uint64_t from = 0; old != nullptr && from <= old->mask; ++from) {
    const Entry* entry = old->entries()[from].load(std::memory_order_relaxed);
    if (entry == nullptr) continue;
    uint64_t index = entry->hash & slots->mask;
    while (slots->entries()[index].load(std::memory_order_relaxed) != nullptr) index = (index + 1) & slots->mask;
    slots->entries()[index].store(entry, std::memory_order_relaxed);
  }
  slots_.store(slots, std::memory_order_release);
  return true;
}

}  // namespace drydock::trace
