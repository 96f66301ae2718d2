#include <algorithm>

#include "replay/caching_allocator.h"

// How the model gets blocks back that other streams used, and gives memory back to the driver.

namespace drydock::replay {
namespace {

constexpr uint64_t kLazyBacklog = 512;  // more events than this are asked for before the first search

}  // namespace

uint64_t CachingAllocator::free_later(uint32_t block, uint64_t events) {
  allocated_units_ -= blocks_[block].size;
  blocks_[block].state = State::kPending;
  pending_.push_back({next_number_, events, block, false});
  return next_number_++;
}

void CachingAllocator::complete(uint64_t number) {
  const auto found =
      std::find_if(pending_.begin(), pending_.end(), [&](const Pending& pending) { return pending.number == number; });
  if (found == pending_.end()) return;
  if (settings_.lazy_reclaim) {
    found->is_complete = true;
    return;
  }
  const uint32_t block = found->block;
  pending_.erase(found);
  put_back(block);
}

// What is reclaimed after the first search of a request is a search younger than what was cached before it.
void CachingAllocator::reclaim() {
  size_t kept = 0;
  for (const Pending& pending : pending_) {
    if (pending.is_complete) {
      put_back(pending.block);
    } else {
      pending_[kept++] = pending;
    }
  }
  pending_.resize(kept);
}

void CachingAllocator::reclaim_backlog() {
  uint64_t events = 0;
  for (const Pending& pending : pending_) events += pending.events;
  has_reclaimed_ = events > kLazyBacklog;
  if (has_reclaimed_) reclaim();
}

void CachingAllocator::complete_all() {
  for (const Pending& pending : pending_) put_back(pending.block);
  pending_.clear();
}

void CachingAllocator::release_block(uint32_t index) {
  const Block& block = blocks_[index];
  uncache(index);
  driver_.free(block.address * kUnit, uint64_t{block.size} * kUnit);
  total_units_ -= block.size;
  tally_.reserved_bytes -= uint64_t{block.size} * kUnit;
  drop_block(index);
}

bool CachingAllocator::release_available(const Request& request) {
  if (settings_.max_split_bytes == kUnlimited) return false;
  const uint32_t wanted = std::max(request.size, max_split_);
  // What is given back here follows from the very number.
  indifference_.split(max_split_ - 1, true);
  indifference_.split(max_split_, false);
  FreeBlocks& cached = shelves_[request.shelf].cached;
  const auto is_whole = [&](uint32_t index) {
    return blocks_[index].previous == kNoBlock && blocks_[index].next == kNoBlock;
  };
  const FreeBlocks::Position first = cached.lower_bound(wanted);
  if (!cached.is_end(first)) {
    const uint32_t block = cached.at(first);
    if (!is_whole(block)) return false;
    release_block(block);
    return true;
  }
  // No single block is large enough: several, the largest first.
  uint64_t released = 0;
  while (released < wanted) {
    const FreeBlocks::Position last = cached.previous({});
    if (cached.is_end(last) || blocks_[cached.at(last)].size < max_split_ || !is_whole(cached.at(last))) break;
    released += blocks_[cached.at(last)].size;
    release_block(cached.at(last));
  }
  return released >= wanted;
}

void CachingAllocator::unmap_block(uint32_t index) {
  const Segment& segment = segments_[blocks_[index].segment];
  const uint64_t begin = blocks_[index].address - segment.address;
  const uint64_t end = begin + blocks_[index].size;
  const uint64_t first = (begin + segment.piece - 1) / segment.piece * segment.piece;
  const uint64_t last = end / segment.piece * segment.piece;
  if (first >= last) return;
  driver_.unmap((segment.address + first) * kUnit, (last - first) * kUnit, uint64_t{segment.piece} * kUnit);
  uncache(index);
  if (first > begin) {
    const uint32_t before = new_block();
    blocks_[before] = blocks_[index];
    blocks_[before].size = static_cast<uint32_t>(first - begin);
    link(before, blocks_[index].previous, index);
    cache(before);
  }
  if (end > last) {
    const uint32_t after = new_block();
    blocks_[after] = blocks_[index];
    blocks_[after].address = segment.address + last;
    blocks_[after].size = static_cast<uint32_t>(end - last);
    link(after, index, blocks_[index].next);
    cache(after);
  }
  Block& block = blocks_[index];
  block.address = segment.address + first;
  block.size = static_cast<uint32_t>(last - first);
  block.state = State::kUnmapped;
  total_units_ -= last - first;
  tally_.reserved_bytes -= (last - first) * kUnit;
  merge(index, blocks_[index].previous);
  merge(index, blocks_[index].next);
  add_unmapped(index);
}

void CachingAllocator::release_shelf(uint32_t shelf) {
  std::vector<uint32_t> whole;
  std::vector<uint32_t> expandable;
  const FreeBlocks& cached = shelves_[shelf].cached;
  for (FreeBlocks::Position place = cached.begin(); !cached.is_end(place); place = cached.next(place)) {
    const uint32_t index = cached.at(place);
    const Block& block = blocks_[index];
    if (is_expandable(block)) {
      expandable.push_back(index);
    } else if (block.previous == kNoBlock && block.next == kNoBlock) {
      whole.push_back(index);
    }
  }
  for (const uint32_t index : whole) release_block(index);
  for (const uint32_t index : expandable) {
    unmap_block(index);
    const Block& block = blocks_[index];
    if (block.state != State::kUnmapped || block.previous != kNoBlock || block.next != kNoBlock) continue;
    Segment& segment = segments_[block.segment];
    segment.is_live = false;
    remove_unmapped(index);
    driver_.unreserve(segment.address * kUnit, segment.size * kUnit);
    drop_block(index);
  }
}

void CachingAllocator::release_cached() {
  complete_all();
  for (const uint32_t small : {0U, 1U})
    for (uint32_t stream = 0; stream < streams_; ++stream) release_shelf(small * streams_ + stream);
  // Then pools that were let go, in the order of a hash table: both follow from what goes back.
  release_pools();
}

void CachingAllocator::release_pools() {
  uint64_t last = 0;
  while (const uint32_t pool = pool_released_next()) {
    if (last == driver_.given_back_next()) return;  // a history that contradicts itself
    last = driver_.given_back_next();
    release_pool(pool);
  }
}

void CachingAllocator::release_pool(uint32_t pool) {
  const auto is_mine = [&](const Pending& pending) { return blocks_[pending.block].shelf / streams_ / 2 == pool; };
  for (const Pending& pending : pending_)
    if (is_mine(pending)) put_back(pending.block);
  pending_.erase(std::remove_if(pending_.begin(), pending_.end(), is_mine), pending_.end());
  for (const uint32_t small : {1U, 0U})
    for (uint32_t stream = 0; stream < streams_; ++stream) release_shelf((pool * 2 + small) * streams_ + stream);
}

uint32_t CachingAllocator::pool_released_next() const {
  const uint64_t address = pools_ > 1 ? driver_.given_back_next() / kUnit : 0;
  if (address == 0) return 0;
  for (uint32_t shelf = 2 * streams_; shelf < shelves_.size(); ++shelf) {
    const FreeBlocks& cached = shelves_[shelf].cached;
    for (FreeBlocks::Position place = cached.begin(); !FreeBlocks::is_end(place); place = cached.next(place)) {
      const Block& block = blocks_[cached.at(place)];
      if (address >= block.address && address - block.address < block.size) return shelves_[shelf].pool;
    }
  }
  return 0;
}

void CachingAllocator::empty_cache() {
  release_workspaces();
  release_cached();
}

bool CachingAllocator::would_collect() const { return total_units_ * kUnit > collection_threshold(); }

void CachingAllocator::collect_garbage() {
  if (!would_collect()) return;
  const uint64_t total = total_units_ * kUnit;
  const uint64_t target = total - collection_threshold();
  const uint32_t now = lookups_[0];
  double total_age = 0;
  int count = 0;
  std::vector<uint32_t> candidates;
  for (uint32_t stream = 0; stream < streams_; ++stream) {
    const FreeBlocks& cached = shelves_[stream].cached;
    for (FreeBlocks::Position place = cached.begin(); !cached.is_end(place); place = cached.next(place)) {
      const Block& block = blocks_[cached.at(place)];
      if (block.previous != kNoBlock || block.next != kNoBlock) continue;
      total_age += now - block.born;
      ++count;
      candidates.push_back(cached.at(place));
    }
  }
  uint64_t reclaimed = 0;
  bool freed = true;
  bool freed_any = false;
  while (freed && count > 0) {
    indifference_.threshold(total - reclaimed, reclaimed < target);
    if (reclaimed >= target) break;
    const double threshold_age = total_age / count;
    freed = false;
    for (uint32_t& index : candidates) {
      if (index == kNoBlock) continue;
      const uint32_t age = now - blocks_[index].born;
      if (age < threshold_age) continue;
      freed = freed_any = true;
      reclaimed += uint64_t{blocks_[index].size} * kUnit;
      total_age -= age;
      --count;
      release_block(index);
      index = kNoBlock;
    }
  }
  if (freed_any) ++tally_.collections;
}

// --- workspaces ---

bool CachingAllocator::allocate_workspace(uint64_t bytes, uint32_t stream) {
  Workspace& workspace = workspaces_[stream];
  if (workspace.bytes >= bytes) return true;
  if (workspace.bytes > 0) {
    driver_.free(workspace.address, workspace.bytes);
    tally_.workspace_bytes -= workspace.bytes;
    workspace = {};
  }
  uint64_t address = 0;
  if (!driver_.allocate(bytes, address)) return false;
  workspace = {address, bytes};
  tally_.workspace_bytes += bytes;
  return true;
}

void CachingAllocator::release_workspaces() {
  for (Workspace& workspace : workspaces_) {
    if (workspace.bytes == 0) continue;
    driver_.free(workspace.address, workspace.bytes);
    tally_.workspace_bytes -= workspace.bytes;
    workspace = {};
  }
}

}  // namespace drydock::replay
