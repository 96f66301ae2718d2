#pragma once

#include <algorithm>
#include <cstdint>

#include "replay/caching_allocator.h"

// What nearly every event comes to, compiled into the loops that replay events.

namespace drydock::replay {

template <Speciality kSpeciality>
[[gnu::always_inline]] inline CachingAllocator::Request CachingAllocator::request_of(uint64_t bytes, uint32_t stream,
                                                                                     uint32_t pool) const {
  Request request;
  const uint64_t asked = std::min(bytes, kMostUnits * kUnit - 2 * kUnit);
  if (kSpeciality != Speciality::kNone || has_simple_rounding_) {
    request.size = static_cast<uint32_t>(std::max<uint64_t>(1, (asked + padding_ + kUnit - 1) / kUnit));
  } else {
    request.size = static_cast<uint32_t>(std::min(round_request(settings_, asked) / kUnit, kMostUnits));
  }
  request.shelf = shelf_of(pool, request.size <= kSmallRequest, stream);
  return request;
}

[[gnu::always_inline]] inline uint32_t CachingAllocator::new_block() {
  const uint32_t block = unused_;
  if (block == kNoBlock) [[unlikely]]
    return add_block();
  unused_ = blocks_[block].next;
  return block;
}

[[gnu::always_inline]] inline void CachingAllocator::drop_block(uint32_t index) {
  Block& block = blocks_[index];
  block.state = State::kUnused;
  block.next = unused_;
  unused_ = index;
}

// What is linked to block 0 is not read.
[[gnu::always_inline]] inline void CachingAllocator::link(uint32_t block, uint32_t previous, uint32_t next) {
  blocks_[block].previous = previous;
  blocks_[block].next = next;
  blocks_[previous].next = block;
  blocks_[next].previous = block;
}

template <Speciality kSpeciality>
[[gnu::always_inline]] inline void CachingAllocator::cache(uint32_t index) {
  Block& block = blocks_[index];
  block.state = State::kFree;
  if (kSpeciality == Speciality::kNone) block.born = lookups_[block.shelf / streams_];
  shelves_[block.shelf].cached.insert(block.address, block.size, index);
}

[[gnu::always_inline]] inline void CachingAllocator::uncache(uint32_t index) {
  const Block& block = blocks_[index];
  shelves_[block.shelf].cached.erase(block.address, block.size);
}

template <Speciality kSpeciality>
[[gnu::always_inline]] inline FreeBlocks::Position CachingAllocator::find_cached(const Request& request) const {
  const FreeBlocks& cached = shelves_[request.shelf].cached;
  FreeBlocks::Position place = cached.lower_bound(request.size);
  if (FreeBlocks::is_end(place)) return place;
  // No block behind it can grow to less, unless it can grow itself.
  if ((kSpeciality == Speciality::kExpandable || (kSpeciality == Speciality::kNone && is_expandable_)) &&
      blocks_[blocks_[cached.at(place)].next].state == State::kUnmapped) [[unlikely]]
    prefer_growing(cached, place);
  if (kSpeciality != Speciality::kNone) return place;
  const uint32_t size = blocks_[cached.at(place)].size;
  // No oversize block for a smaller request, and none that is much too large for an oversize one.
  if (request.size < max_split_ ? size >= max_split_ : size >= uint64_t{request.size} + max_rounding_) return {};
  return place;
}

template <Speciality kSpeciality>
[[gnu::always_inline]] inline bool CachingAllocator::would_keep(uint32_t index, uint64_t bytes, uint32_t stream,
                                                                uint32_t pool) const {
  static_assert(kSpeciality != Speciality::kNone);
  const Request request = request_of<kSpeciality>(bytes, stream, pool);
  const Block& block = blocks_[index];
  if (block.size != request.size || block.shelf != request.shelf) return false;
  if (is_misaligned<kSpeciality>(block.address, request)) return false;
  const State before = blocks_[block.previous].state;
  const Block& behind = blocks_[block.next];
  if (before == State::kFree || behind.state == State::kUnmapped) return false;
  uint32_t size = block.size;
  if (behind.state == State::kFree) {
    // The two become one, which is to be the first that fits, and is split in the same place: no cached block is too
    // small for a rest.
    if (kSpeciality == Speciality::kExpandable && blocks_[behind.next].state == State::kUnmapped) return false;
    size += behind.size;
  }
  return shelves_[block.shelf].cached.would_be_first(block.address, size, block.size);
}

template <Speciality kSpeciality>
[[gnu::always_inline]] inline bool CachingAllocator::touch(uint64_t bytes, uint32_t stream, uint32_t pool) {
  static_assert(kSpeciality != Speciality::kNone);
  const Request request = request_of<kSpeciality>(bytes, stream, pool);
  const FreeBlocks::Position place = find_cached<kSpeciality>(request);
  if (FreeBlocks::is_end(place)) [[unlikely]]
    return false;
  const Shelf& shelf = shelves_[request.shelf];
  const Block& block = blocks_[shelf.cached.at(place)];
  // Where alignment moves the block, what is in front of it joins it again.
  const uint32_t size = is_split(shelf, block.size, request.size) ? request.size : block.size;
  peak_allocated_units_ = std::max(peak_allocated_units_, allocated_units_ + size);
  return true;
}

template <Speciality kSpeciality>
[[gnu::always_inline]] inline uint32_t CachingAllocator::take_cached(const Request& request) {
  if (kSpeciality == Speciality::kNone && collects_) ++lookups_[request.shelf / streams_];
  if (kSpeciality == Speciality::kNone && max_split_ != 0xffffffff) note_split(request);
  const FreeBlocks::Position place = find_cached<kSpeciality>(request);
  if (FreeBlocks::is_end(place)) return kNoBlock;
  FreeBlocks& cached = shelves_[request.shelf].cached;
  const uint32_t block = cached.at(place);
  cached.erase(place);
  return block;
}

// Cuts a block that is in no list down to `size`; the rest is cached.
template <Speciality kSpeciality>
[[gnu::always_inline]] inline void CachingAllocator::split(uint32_t index, uint32_t size) {
  const uint32_t rest = new_block();
  Block& block = blocks_[index];
  Block& remainder = blocks_[rest];
  // Field by field: a copy of all at once would wait for what was written a moment ago.
  remainder.address = block.address + size;
  remainder.size = block.size - size;
  remainder.segment = block.segment;
  remainder.shelf = block.shelf;
  block.size = size;
  link(rest, index, block.next);
  cache<kSpeciality>(rest);
}

template <Speciality kSpeciality>
[[gnu::always_inline]] inline uint32_t CachingAllocator::finish(uint32_t index, const Request& request) {
  if (is_misaligned<kSpeciality>(blocks_[index].address, request)) index = split_for_alignment(index, request);
  const Shelf& shelf = shelves_[request.shelf];
  if (is_split(shelf, blocks_[index].size, request.size)) split<kSpeciality>(index, request.size);
  Block& block = blocks_[index];
  block.state = State::kActive;
  allocated_units_ += block.size;
  peak_allocated_units_ = std::max(peak_allocated_units_, allocated_units_);
  return index;
}

// `into` is in no list and free; neighbours that are cached become part of it.
template <Speciality kSpeciality>
[[gnu::always_inline]] inline void CachingAllocator::put_back(uint32_t into) {
  Block& block = blocks_[into];
  FreeBlocks& cached = shelves_[block.shelf].cached;
  const uint32_t next = block.next;
  if (blocks_[next].state == State::kFree) {
    const Block& source = blocks_[next];
    cached.erase(source.address, source.size);
    block.size += source.size;
    block.next = source.next;
    blocks_[block.next].previous = into;
    drop_block(next);
  }
  const uint32_t previous = block.previous;
  if (blocks_[previous].state == State::kFree) {
    const Block& source = blocks_[previous];
    cached.erase(source.address, source.size);
    block.size += source.size;
    block.address = source.address;
    block.previous = source.previous;
    blocks_[block.previous].next = into;
    drop_block(previous);
  }
  cache<kSpeciality>(into);
}

}  // namespace drydock::replay
