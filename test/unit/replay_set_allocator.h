#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "replay/driver.h"
#include "replay/settings.h"

// The rules of the caching allocator once more, as plainly as they can be said: blocks are objects that point at each
// other, cached ones stand in std::set. What the fast model is tested against, and timed beside.

namespace drydock::replay {

class SetAllocator {
 public:
  struct Block {
    uint64_t address = 0;
    uint64_t size = 0;
    uint32_t stream = 0;
    bool is_small = false;
    bool is_held = false;  // by the program, or by other streams
    bool is_mapped = true;
    int age = 0;
    Block* previous = nullptr;
    Block* next = nullptr;
    uint64_t segment = 0;  // address of the expandable segment
  };

  SetAllocator(const Settings& settings, Driver& driver) : settings_(settings), driver_(driver) {
    if (settings.memory_fraction < 1)
      limit_ = static_cast<uint64_t>(settings.memory_fraction * static_cast<double>(driver.total_bytes()));
  }
  ~SetAllocator() {
    for (Block* block : all_) delete block;
  }
  SetAllocator(const SetAllocator&) = delete;
  SetAllocator& operator=(const SetAllocator&) = delete;

  Block* allocate(uint64_t bytes, uint32_t stream) {
    const uint64_t size = round_request(settings_, bytes);
    const bool is_small = size <= kMib;
    Block* block = from_cache(size, stream, is_small);
    if (block == nullptr && settings_.lazy_reclaim) {
      for (Block* completed : std::exchange(completed_, {}))
        if (pending_.erase(completed) > 0) free(completed);
      block = from_cache(size, stream, is_small);
    }
    if (block == nullptr) {
      if (ages()) collect();
      block = from_driver(size, stream, is_small);
      if (block == nullptr && !rejected_ && release_available(size, stream, is_small))
        block = from_driver(size, stream, is_small);
      if (block == nullptr && !rejected_) {
        release_cached();
        block = from_driver(size, stream, is_small);
      }
    }
    if (block == nullptr) return nullptr;
    if (settings_.expandable_segments && settings_.policy == Policy::kNpu && size >= 2 * kMib &&
        settings_.base_alignment_bytes != 0 && block->address % settings_.base_alignment_bytes != 0) {
      const uint64_t offset = settings_.base_alignment_bytes - block->address % settings_.base_alignment_bytes;
      if (offset + size <= block->size) {
        Block* rest = cut(block, offset);
        pool(is_small).insert(block);
        block = rest;
      }
    }
    const uint64_t rest = block->size - size;
    const bool splits =
        is_small || settings_.expandable_segments ? rest >= 512 : size < settings_.max_split_bytes && rest > kMib;
    if (splits) pool(is_small).insert(cut(block, size));
    block->is_held = true;
    return block;
  }

  void free(Block* block) {
    block->is_held = false;
    block->age = 0;
    join(block);
    pool(block->is_small).insert(block);
  }
  void free_later(Block* block) { pending_.insert(block); }
  void complete(Block* block) {
    if (!pending_.contains(block)) return;
    if (settings_.lazy_reclaim) {
      completed_.push_back(block);
    } else {
      pending_.erase(block);
      free(block);
    }
  }

  void release_cached() {
    const std::set<Block*> pending = std::exchange(pending_, {});
    completed_.clear();
    for (Block* block : pending) free(block);
    release(large_);
    release(small_);
  }

  uint64_t reserved() const { return reserved_; }

 private:
  struct BySize {
    bool operator()(const Block* a, const Block* b) const {
      return std::tie(a->stream, a->size, a->address) < std::tie(b->stream, b->size, b->address);
    }
  };
  struct ByAddress {
    bool operator()(const Block* a, const Block* b) const {
      return std::tie(a->stream, a->address) < std::tie(b->stream, b->address);
    }
  };
  using Pool = std::set<Block*, BySize>;
  using Unmapped = std::set<Block*, ByAddress>;

  Pool& pool(bool is_small) { return is_small ? small_ : large_; }
  Unmapped& unmapped(bool is_small) { return is_small ? unmapped_small_ : unmapped_large_; }
  bool ages() const { return limit_ != kUnlimited && settings_.garbage_collection_threshold > 0; }

  Block* create(const Block& like) {
    auto* block = new Block(like);
    all_.insert(block);
    return block;
  }
  void destroy(Block* block) {
    all_.erase(block);
    delete block;
  }

  // Cuts `size` off the front; the rest is a new block behind it.
  Block* cut(Block* block, uint64_t size) {
    Block* rest = create(*block);
    rest->address += size;
    rest->size -= size;
    rest->previous = block;
    if (rest->next != nullptr) rest->next->previous = rest;
    block->next = rest;
    block->size = size;
    rest->age = 0;
    return rest;
  }

  void join(Block* block) {
    for (Block* other : {block->previous, block->next}) {
      if (other == nullptr || other->is_held || other->is_mapped != block->is_mapped) continue;
      if (other->is_mapped) {
        pool(other->is_small).erase(other);
      } else {
        unmapped(other->is_small).erase(other);
      }
      if (other == block->previous) {
        block->address = other->address;
        block->previous = other->previous;
        if (block->previous != nullptr) block->previous->next = block;
      } else {
        block->next = other->next;
        if (block->next != nullptr) block->next->previous = block;
      }
      block->size += other->size;
      destroy(other);
    }
  }

  Block* from_cache(uint64_t size, uint32_t stream, bool is_small) {
    Pool& cached = pool(is_small);
    if (ages())
      for (Block* block : cached) ++block->age;
    Block key;
    key.stream = stream;
    key.size = size;
    auto found = cached.lower_bound(&key);
    if (found == cached.end() || (*found)->stream != stream) return nullptr;
    if (settings_.expandable_segments) {
      const auto grown = [](const Block* block) {
        return block->size + (block->next != nullptr && !block->next->is_mapped ? block->next->size : 0);
      };
      for (auto next = std::next(found);
           next != cached.end() && (*next)->stream == stream && grown(*next) < grown(*found); ++next)
        found = next;
    }
    Block* block = *found;
    const bool is_oversize = size >= settings_.max_split_bytes;
    if (!is_oversize && block->size >= settings_.max_split_bytes) return nullptr;
    if (is_oversize && block->size >= size + settings_.max_non_split_rounding_bytes) return nullptr;
    block->age = 0;
    cached.erase(found);
    return block;
  }

  uint64_t segment_bytes(uint64_t size, bool is_small) const {
    if (is_small) return 2 * kMib;
    if (settings_.giant_pages) return (size + 1024 * kMib - 1) / (1024 * kMib) * (1024 * kMib);
    if (size < 10 * kMib) return settings_.large_segment_bytes;
    return (size + 2 * kMib - 1) / (2 * kMib) * (2 * kMib);
  }

  Block* from_driver(uint64_t size, uint32_t stream, bool is_small) {
    const uint64_t bytes = segment_bytes(size, is_small);
    rejected_ = false;
    if (limit_ != kUnlimited && reserved_ + bytes > limit_) return nullptr;
    if (settings_.throw_on_oom &&
        reserved_ + bytes >
            static_cast<uint64_t>(settings_.memory_fraction * static_cast<double>(driver_.total_bytes()))) {
      rejected_ = true;
      return nullptr;
    }
    if (settings_.expandable_segments) return grow(size, stream, is_small);
    Block fresh;
    if (!driver_.allocate(bytes, fresh.address)) return nullptr;
    fresh.size = bytes;
    fresh.stream = stream;
    fresh.is_small = is_small;
    reserved_ += bytes;
    return create(fresh);
  }

  uint64_t piece(bool is_small) const {
    if (is_small) return 2 * kMib;
    if (settings_.giant_pages) return 1024 * kMib;
    if (settings_.large_segment_bytes != 20 * kMib) return settings_.large_segment_bytes;
    return settings_.segment_bytes != 0 ? settings_.segment_bytes : 20 * kMib;
  }

  Block* candidate(uint64_t size, uint32_t stream, bool is_small) {
    for (Block* block : unmapped(is_small)) {
      if (block->stream != stream) continue;
      Block* first = block->previous != nullptr && !block->previous->is_held ? block->previous : block;
      uint64_t room = 0;
      for (Block* at = first; at != nullptr && !at->is_held; at = at->next) room += at->size;
      if (room >= size) return first;
    }
    const uint64_t unit = piece(is_small);
    const uint64_t bytes = (driver_.total_bytes() + driver_.total_bytes() / 8 + unit - 1) / unit * unit;
    Block fresh;
    if (!driver_.reserve(bytes, fresh.address)) return nullptr;
    fresh.size = bytes;
    fresh.stream = stream;
    fresh.is_small = is_small;
    fresh.is_mapped = false;
    fresh.segment = fresh.address;
    segments_[fresh.address] = bytes;
    Block* block = create(fresh);
    unmapped(is_small).insert(block);
    return block;
  }

  bool map(Block* block, uint64_t size) {
    const uint64_t unit = piece(block->is_small);
    const uint64_t bytes = (size + unit - 1) / unit * unit;
    if (!driver_.map(block->address, bytes, unit)) return false;
    unmapped(block->is_small).erase(block);
    if (bytes < block->size) unmapped(block->is_small).insert(cut(block, bytes));
    block->is_mapped = true;
    join(block);
    pool(block->is_small).insert(block);
    reserved_ += bytes;
    return true;
  }

  Block* grow(uint64_t size, uint32_t stream, bool is_small) {
    Block* block = candidate(size, stream, is_small);
    if (block == nullptr) return nullptr;
    if (!block->is_mapped && !map(block, std::min(size, block->size))) return nullptr;
    while (block->size < size) {
      Block* next = block->next;
      if (next == nullptr || !map(next, std::min(size - block->size, next->size))) return nullptr;
      block = next;
    }
    pool(is_small).erase(block);
    return block;
  }

  void give_back(Block* block) {
    pool(block->is_small).erase(block);
    driver_.free(block->address, block->size);
    reserved_ -= block->size;
    destroy(block);
  }

  bool release_available(uint64_t size, uint32_t stream, bool is_small) {
    if (settings_.max_split_bytes == kUnlimited) return false;
    const uint64_t wanted = std::max(size, settings_.max_split_bytes);
    std::vector<Block*> candidates;
    for (Block* block : pool(is_small))
      if (block->stream == stream && block->size >= settings_.max_split_bytes) candidates.push_back(block);
    for (Block* block : candidates)
      if (block->size >= wanted) {
        give_back(block);
        return true;
      }
    uint64_t released = 0;
    while (released < wanted && !candidates.empty()) {
      released += candidates.back()->size;
      give_back(candidates.back());
      candidates.pop_back();
    }
    return released >= wanted;
  }

  void collect() {
    const auto threshold = static_cast<uint64_t>(settings_.garbage_collection_threshold * static_cast<double>(limit_));
    if (reserved_ <= threshold) return;
    const uint64_t target = reserved_ - threshold;
    uint64_t released = 0;
    bool has_released = true;
    double total_age = 0;
    int count = 0;
    for (const Block* block : large_)
      if (block->previous == nullptr && block->next == nullptr) {
        total_age += block->age;
        ++count;
      }
    while (released < target && has_released && count > 0) {
      const double oldest = total_age / count;
      has_released = false;
      const std::vector<Block*> blocks(large_.begin(), large_.end());
      for (Block* block : blocks) {
        if (block->previous != nullptr || block->next != nullptr || block->age < oldest) continue;
        has_released = true;
        released += block->size;
        total_age -= block->age;
        --count;
        give_back(block);
      }
    }
  }

  void unmap(Block* block) {
    const uint64_t unit = piece(block->is_small);
    const uint64_t begin = block->segment + (block->address - block->segment + unit - 1) / unit * unit;
    const uint64_t end = block->segment + (block->address + block->size - block->segment) / unit * unit;
    if (begin >= end) return;
    driver_.unmap(begin, end - begin, unit);
    Pool& cached = pool(block->is_small);
    cached.erase(block);
    if (begin > block->address) {
      Block* rest = cut(block, begin - block->address);
      cached.insert(block);
      block = rest;
    }
    if (block->address + block->size > end) cached.insert(cut(block, end - block->address));
    block->is_mapped = false;
    join(block);
    unmapped(block->is_small).insert(block);
    reserved_ -= end - begin;
    if (block->previous != nullptr || block->next != nullptr) return;
    unmapped(block->is_small).erase(block);
    driver_.unreserve(block->segment, segments_[block->segment]);
    destroy(block);
  }

  void release(Pool& cached) {
    const std::vector<Block*> blocks(cached.begin(), cached.end());
    for (Block* block : blocks)
      if (block->segment == 0 && block->previous == nullptr && block->next == nullptr) give_back(block);
    if (!settings_.expandable_segments) return;
    for (Block* block : blocks) unmap(block);
  }

  Settings settings_;
  Driver& driver_;
  uint64_t limit_ = kUnlimited;
  uint64_t reserved_ = 0;
  bool rejected_ = false;
  Pool small_;
  Pool large_;
  Unmapped unmapped_small_;
  Unmapped unmapped_large_;
  std::set<Block*> pending_;
  std::vector<Block*> completed_;  // of pending_, not yet seen
  std::set<Block*> all_;
  std::map<uint64_t, uint64_t> segments_;
};

}  // namespace drydock::replay
