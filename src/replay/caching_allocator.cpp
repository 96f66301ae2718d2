#include "replay/caching_allocator.h"

#include <algorithm>
#include <iterator>

namespace drydock::replay {
namespace {

constexpr uint32_t kSmallRequest = static_cast<uint32_t>(kMib / kUnit);  // the largest of the small pool
constexpr uint32_t kPage = static_cast<uint32_t>(2 * kMib / kUnit);
constexpr uint32_t kSharedBelow = static_cast<uint32_t>(10 * kMib / kUnit);  // such requests share a large segment
constexpr uint32_t kGiant = static_cast<uint32_t>(1024 * kMib / kUnit);
constexpr uint64_t kNpuPadding = 32;
constexpr size_t kLazyBacklog = 512;  // events from which on they are asked for at once

uint32_t round_up(uint32_t size, uint32_t unit) { return (size + unit - 1) / unit * unit; }

uint32_t units_or_most(uint64_t bytes) { return static_cast<uint32_t>(std::min<uint64_t>(bytes / kUnit, 0xffffffffU)); }

}  // namespace

CachingAllocator::CachingAllocator(const Settings& settings, Driver& driver, uint32_t streams, uint32_t pools)
    : settings_(settings),
      driver_(driver),
      streams_(streams),
      pools_(pools),
      max_split_(units_or_most(settings.max_split_bytes)),
      max_rounding_(units_or_most(settings.max_non_split_rounding_bytes)),
      padding_(settings.policy == Policy::kNpu ? kNpuPadding : 0),
      lookups_(size_t{2} * pools, 0),
      workspaces_(streams) {
  has_simple_rounding_ = std::all_of(settings.power2_divisions.begin(), settings.power2_divisions.end(),
                                     [](uint64_t divisions) { return divisions <= 1; });
  shelves_.reserve(size_t{2} * pools * streams);
  for (uint32_t pool = 0; pool < pools; ++pool)
    for (const bool is_small : {false, true})
      for (uint32_t stream = 0; stream < streams; ++stream) {
        shelves_.push_back(std::make_unique<Shelf>());
        shelves_.back()->pool = pool;
        shelves_.back()->stream = stream;
        shelves_.back()->is_small = is_small;
      }
  blocks_.reserve(4096);
  if (settings.memory_fraction < 1)
    limit(static_cast<uint64_t>(settings.memory_fraction * static_cast<double>(driver.total_bytes())));
}

void CachingAllocator::limit(uint64_t allowed_bytes) {
  has_limit_ = allowed_bytes != kUnlimited;
  allowed_bytes_ = allowed_bytes;
  allowed_units_ = allowed_bytes / kUnit;
}

uint32_t CachingAllocator::shelf_of(uint32_t size, uint32_t stream, uint32_t pool) const {
  return (pool * 2 + (size <= kSmallRequest ? 1 : 0)) * streams_ + stream;
}

CachingAllocator::Request CachingAllocator::request_of(uint64_t bytes, uint32_t stream, uint32_t pool) const {
  Request request;
  request.size = has_simple_rounding_
                     ? static_cast<uint32_t>(std::max<uint64_t>(1, (bytes + padding_ + kUnit - 1) / kUnit))
                     : static_cast<uint32_t>(round_request(settings_, bytes) / kUnit);
  request.shelf = shelf_of(request.size, stream, pool);
  if (request.size <= kSmallRequest) {
    request.segment_size = kPage;
  } else if (settings_.giant_pages) {
    request.segment_size = round_up(request.size, kGiant);
  } else if (request.size < kSharedBelow) {
    request.segment_size = units_or_most(settings_.large_segment_bytes);
  } else {
    request.segment_size = round_up(request.size, kPage);
  }
  return request;
}

uint32_t CachingAllocator::piece_of(bool is_small) const {
  if (is_small) return kPage;
  if (settings_.giant_pages) return kGiant;
  if (settings_.large_segment_bytes != 20 * kMib || settings_.segment_bytes == 0)
    return units_or_most(settings_.large_segment_bytes);
  return units_or_most(settings_.segment_bytes);
}

// --- the array of blocks ---

uint32_t CachingAllocator::new_block() {
  if (!unused_.empty()) {
    const uint32_t block = unused_.back();
    unused_.pop_back();
    return block;
  }
  blocks_.emplace_back();
  return static_cast<uint32_t>(blocks_.size() - 1);
}

void CachingAllocator::drop_block(uint32_t block) {
  blocks_[block].state = State::kUnused;
  unused_.push_back(block);
}

void CachingAllocator::link(uint32_t block, uint32_t previous, uint32_t next) {
  blocks_[block].previous = previous;
  blocks_[block].next = next;
  if (previous != kNoBlock) blocks_[previous].next = block;
  if (next != kNoBlock) blocks_[next].previous = block;
}

void CachingAllocator::cache(uint32_t index) {
  Block& block = blocks_[index];
  Shelf& shelf = *shelves_[block.shelf];
  block.state = State::kFree;
  block.born = lookups_[block.shelf / streams_];
  shelf.cached.insert(block.address, block.size, index);
}

void CachingAllocator::uncache(uint32_t index) {
  const Block& block = blocks_[index];
  shelves_[block.shelf]->cached.erase(block.address, block.size);
}

void CachingAllocator::add_unmapped(uint32_t index) {
  Block& block = blocks_[index];
  block.state = State::kUnmapped;
  auto& unmapped = shelves_[block.shelf]->unmapped;
  unmapped.insert(std::lower_bound(unmapped.begin(), unmapped.end(), std::pair(block.address, uint32_t{0})),
                  {block.address, index});
}

void CachingAllocator::remove_unmapped(uint32_t index) {
  const Block& block = blocks_[index];
  auto& unmapped = shelves_[block.shelf]->unmapped;
  unmapped.erase(std::lower_bound(unmapped.begin(), unmapped.end(), std::pair(block.address, uint32_t{0})));
}

// `into` is in no list; `from` is a neighbour, in the list of its state. Both mapped and free, or both unmapped.
bool CachingAllocator::merge(uint32_t into, uint32_t from) {
  if (from == kNoBlock) return false;
  const Block& source = blocks_[from];
  Block& block = blocks_[into];
  const State wanted = block.state == State::kUnmapped ? State::kUnmapped : State::kFree;
  if (source.state != wanted) return false;
  if (wanted == State::kFree) {
    uncache(from);
  } else {
    remove_unmapped(from);
  }
  block.size += source.size;
  if (block.previous == from) {
    block.address = source.address;
    block.previous = source.previous;
    if (block.previous != kNoBlock) blocks_[block.previous].next = into;
  } else {
    block.next = source.next;
    if (block.next != kNoBlock) blocks_[block.next].previous = into;
  }
  drop_block(from);
  return true;
}

void CachingAllocator::put_back(uint32_t block) {
  blocks_[block].state = State::kFree;
  merge(block, blocks_[block].previous);
  merge(block, blocks_[block].next);
  cache(block);
}

// --- requests ---

FreeBlocks::Position CachingAllocator::find_cached(const Request& request) const {
  const FreeBlocks& cached = shelves_[request.shelf]->cached;
  FreeBlocks::Position place = cached.lower_bound(request.size);
  if (cached.is_end(place)) return place;
  if (settings_.expandable_segments) {
    // A block that can grow counts with the size it can grow to.
    const auto full_size = [&](const FreeBlocks::Position& at) {
      const Block& block = blocks_[cached.at(at).block];
      const bool can_grow = block.next != kNoBlock && blocks_[block.next].state == State::kUnmapped;
      return uint64_t{block.size} + (can_grow ? blocks_[block.next].size : 0);
    };
    FreeBlocks::Position next = cached.next(place);
    while (!cached.is_end(next) && full_size(next) < full_size(place)) {
      place = next;
      next = cached.next(next);
    }
  }
  const uint32_t size = cached.at(place).size;
  // No oversize block for a smaller request, and none that is much too large for an oversize one.
  if (request.size < max_split_ ? size >= max_split_ : size >= uint64_t{request.size} + max_rounding_) return {};
  return place;
}

uint32_t CachingAllocator::take_cached(const Request& request) {
  if (has_limit_ && settings_.garbage_collection_threshold > 0) ++lookups_[request.shelf / streams_];
  const FreeBlocks::Position place = find_cached(request);
  FreeBlocks& cached = shelves_[request.shelf]->cached;
  if (cached.is_end(place)) return kNoBlock;
  const uint32_t block = cached.at(place).block;
  cached.erase(place);
  return block;
}

uint32_t CachingAllocator::allocate(uint64_t bytes, uint32_t stream, uint32_t pool) {
  Request request = request_of(bytes, stream, pool);
  uint32_t block = take_cached(request);
  if (block != kNoBlock) [[likely]]
    return finish(block, request);
  // Lazy reclaim asks for completed blocks only now, and searches once more.
  if (settings_.lazy_reclaim && pending_.size() <= kLazyBacklog) {
    block = take_cached(request);
    if (block != kNoBlock) return finish(block, request);
  }
  if (has_limit_ && settings_.garbage_collection_threshold > 0) collect_garbage();
  block = take_new(request, false);
  if (block == kNoBlock && !request.was_rejected) {
    if (release_available(request)) block = take_new(request, false);
    if (block == kNoBlock && !request.was_rejected) {
      release_workspaces();
      release_cached();
      block = take_new(request, true);
    }
  }
  return block == kNoBlock ? kNoBlock : finish(block, request);
}

bool CachingAllocator::should_split(const Block& block, uint32_t size) const {
  const uint32_t rest = block.size - size;
  if (settings_.expandable_segments || shelves_[block.shelf]->is_small) return rest >= 1;
  return size < max_split_ && rest > kSmallRequest;
}

uint32_t CachingAllocator::split_for_alignment(uint32_t index, const Request& request) {
  const uint64_t address = blocks_[index].address * kUnit;
  const uint64_t odd = address % settings_.base_alignment_bytes;
  if (odd == 0) return index;
  // Alignments are whole KiB.
  const auto offset = static_cast<uint32_t>((settings_.base_alignment_bytes - odd) / kUnit);
  if (uint64_t{offset} + request.size > blocks_[index].size) return index;
  const uint32_t rest = new_block();
  Block& front = blocks_[index];
  Block& block = blocks_[rest];
  block = front;
  block.address += offset;
  block.size -= offset;
  front.size = offset;
  link(rest, index, front.next);
  cache(index);
  return rest;
}

uint32_t CachingAllocator::finish(uint32_t index, const Request& request) {
  if (settings_.expandable_segments && request.size >= kPage && settings_.base_alignment_bytes != 0 &&
      settings_.policy == Policy::kNpu)
    index = split_for_alignment(index, request);
  if (should_split(blocks_[index], request.size)) {
    const uint32_t rest = new_block();
    Block& block = blocks_[index];
    Block& remainder = blocks_[rest];
    remainder = block;
    remainder.address += request.size;
    remainder.size -= request.size;
    block.size = request.size;
    link(rest, index, block.next);
    cache(rest);
  }
  Block& block = blocks_[index];
  block.state = State::kActive;
  tally_.allocated_bytes += uint64_t{block.size} * kUnit;
  tally_.peak_allocated_bytes = std::max(tally_.peak_allocated_bytes, tally_.allocated_bytes);
  return index;
}

void CachingAllocator::free(uint32_t block) {
  tally_.allocated_bytes -= uint64_t{blocks_[block].size} * kUnit;
  put_back(block);
}

uint64_t CachingAllocator::free_later(uint32_t block) {
  tally_.allocated_bytes -= uint64_t{blocks_[block].size} * kUnit;
  blocks_[block].state = State::kPending;
  pending_.push_back({next_number_, block});
  return next_number_++;
}

void CachingAllocator::complete(uint64_t number) {
  const auto found =
      std::find_if(pending_.begin(), pending_.end(), [&](const Pending& pending) { return pending.number == number; });
  if (found == pending_.end()) return;
  const uint32_t block = found->block;
  pending_.erase(found);
  put_back(block);
}

void CachingAllocator::complete_all() {
  for (const Pending& pending : pending_) put_back(pending.block);
  pending_.clear();
}

// --- new memory ---

void CachingAllocator::reserved_more(uint64_t units) {
  total_units_ += units;
  ++tally_.segments;
  tally_.reserved_bytes += units * kUnit;
  if (tally_.reserved_bytes > tally_.peak_reserved_bytes) {
    tally_.peak_reserved_bytes = tally_.reserved_bytes;
    tally_.allocated_at_peak_bytes = tally_.allocated_bytes;
  }
}

uint32_t CachingAllocator::take_new(Request& request, bool is_retry) {
  if (is_retry) ++tally_.retries;
  if (has_limit_ && total_units_ + request.segment_size > allowed_units_) return kNoBlock;
  if (settings_.throw_on_oom) {
    const auto most = static_cast<uint64_t>(settings_.memory_fraction * static_cast<double>(driver_.total_bytes()));
    if ((total_units_ + request.segment_size) * kUnit > most) {
      ++tally_.rejections;
      request.was_rejected = true;
      return kNoBlock;
    }
  }
  return settings_.expandable_segments ? take_new_expandable(request) : take_new_native(request);
}

uint32_t CachingAllocator::take_new_native(const Request& request) {
  uint64_t address = 0;
  if (!driver_.allocate(uint64_t{request.segment_size} * kUnit, address)) return kNoBlock;
  const uint32_t index = new_block();
  Block& block = blocks_[index];
  block = {};
  block.address = address / kUnit;
  block.size = request.segment_size;
  block.shelf = static_cast<uint16_t>(request.shelf);
  reserved_more(request.segment_size);
  return index;
}

// The lowest place of the stream where free and unmapped blocks in a row make up the size; a new segment if there is
// none.
uint32_t CachingAllocator::expandable_candidate(const Request& request) {
  Shelf& shelf = *shelves_[request.shelf];
  const auto can_use = [&](uint32_t index) {
    return index != kNoBlock && (blocks_[index].state == State::kFree || blocks_[index].state == State::kUnmapped);
  };
  for (const auto& [address, index] : shelf.unmapped) {
    const uint32_t before = blocks_[index].previous;
    const uint32_t first = can_use(before) ? before : index;
    uint64_t room = 0;
    for (uint32_t at = first; room < request.size && can_use(at); at = blocks_[at].next) room += blocks_[at].size;
    if (room >= request.size) return first;
  }
  const uint32_t piece = piece_of(shelf.is_small);
  // Address space for an eighth more than the device has.
  const uint64_t wanted = (driver_.total_bytes() + driver_.total_bytes() / 8) / kUnit;
  Segment segment;
  segment.piece = piece;
  segment.size = (wanted + piece - 1) / piece * piece;
  segment.is_live = true;
  uint64_t address = 0;
  if (!driver_.reserve(segment.size * kUnit, address)) return kNoBlock;
  segment.address = address / kUnit;
  segments_.push_back(segment);
  const uint32_t index = new_block();
  Block& block = blocks_[index];
  block = {};
  block.address = segment.address;
  block.size = static_cast<uint32_t>(segment.size);
  block.shelf = static_cast<uint16_t>(request.shelf);
  block.segment = static_cast<uint32_t>(segments_.size() - 1);
  add_unmapped(index);
  return index;
}

bool CachingAllocator::map_block(uint32_t index, uint32_t size) {
  const Segment& segment = segments_[blocks_[index].segment];
  const uint64_t address = blocks_[index].address;
  const uint32_t mapped = round_up(size, segment.piece);
  if (!driver_.map(address * kUnit, uint64_t{mapped} * kUnit, uint64_t{segment.piece} * kUnit)) return false;
  remove_unmapped(index);
  blocks_[index].state = State::kFree;
  if (mapped < blocks_[index].size) {
    const uint32_t rest = new_block();
    Block& remainder = blocks_[rest];
    remainder = blocks_[index];
    remainder.address += mapped;
    remainder.size -= mapped;
    blocks_[index].size = mapped;
    link(rest, index, blocks_[index].next);
    add_unmapped(rest);
  }
  merge(index, blocks_[index].previous);
  merge(index, blocks_[index].next);
  cache(index);
  reserved_more(mapped);
  return true;
}

uint32_t CachingAllocator::take_new_expandable(const Request& request) {
  uint32_t candidate = expandable_candidate(request);
  if (candidate == kNoBlock) return kNoBlock;
  if (blocks_[candidate].state == State::kUnmapped &&
      !map_block(candidate, std::min(blocks_[candidate].size, request.size)))
    return kNoBlock;
  while (blocks_[candidate].size < request.size) {
    const uint32_t more = request.size - blocks_[candidate].size;
    const uint32_t next = blocks_[candidate].next;
    if (next == kNoBlock || !map_block(next, std::min(more, blocks_[next].size))) return kNoBlock;
    candidate = next;
  }
  uncache(candidate);
  return candidate;
}

// --- giving memory back ---

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
  FreeBlocks& cached = shelves_[request.shelf]->cached;
  const auto is_whole = [&](uint32_t index) {
    return blocks_[index].previous == kNoBlock && blocks_[index].next == kNoBlock;
  };
  const FreeBlocks::Position first = cached.lower_bound(wanted);
  if (!cached.is_end(first)) {
    const uint32_t block = cached.at(first).block;
    if (!is_whole(block)) return false;
    release_block(block);
    return true;
  }
  // No single block is large enough: several, the largest first.
  uint64_t released = 0;
  while (released < wanted) {
    const FreeBlocks::Position last = cached.previous({});
    if (cached.is_end(last) || cached.at(last).size < max_split_ || !is_whole(cached.at(last).block)) break;
    released += cached.at(last).size;
    release_block(cached.at(last).block);
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
  const FreeBlocks& cached = shelves_[shelf]->cached;
  for (FreeBlocks::Position place = cached.begin(); !cached.is_end(place); place = cached.next(place)) {
    const uint32_t index = cached.at(place).block;
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
  // Blocks of graphs' and private pools stay: when those pools are let go is not in a history.
  for (const uint32_t small : {0U, 1U})
    for (uint32_t stream = 0; stream < streams_; ++stream) release_shelf(small * streams_ + stream);
}

void CachingAllocator::empty_cache() {
  release_workspaces();
  release_cached();
}

bool CachingAllocator::would_collect() const {
  return has_limit_ && settings_.garbage_collection_threshold > 0 &&
         total_units_ * kUnit >
             static_cast<uint64_t>(settings_.garbage_collection_threshold * static_cast<double>(allowed_bytes_));
}

void CachingAllocator::collect_garbage() {
  if (!would_collect()) return;
  const auto threshold =
      static_cast<uint64_t>(settings_.garbage_collection_threshold * static_cast<double>(allowed_bytes_));
  const uint64_t target = total_units_ * kUnit - threshold;
  const uint32_t now = lookups_[0];
  double total_age = 0;
  int count = 0;
  std::vector<uint32_t> candidates;
  for (uint32_t stream = 0; stream < streams_; ++stream) {
    const FreeBlocks& cached = shelves_[stream]->cached;
    for (FreeBlocks::Position place = cached.begin(); !cached.is_end(place); place = cached.next(place)) {
      const Block& block = blocks_[cached.at(place).block];
      if (block.previous != kNoBlock || block.next != kNoBlock) continue;
      total_age += now - block.born;
      ++count;
      candidates.push_back(cached.at(place).block);
    }
  }
  uint64_t reclaimed = 0;
  bool freed = true;
  bool freed_any = false;
  while (reclaimed < target && freed && count > 0) {
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

// --- the state before and after ---

void CachingAllocator::adopt_blocks(const std::vector<const StateSegment*>& pieces, uint32_t segment,
                                    std::vector<std::pair<uint64_t, uint32_t>>& held) {
  const auto shelf = static_cast<uint16_t>(
      (pieces.front()->pool * 2U + (pieces.front()->is_small ? 1U : 0U)) * streams_ + pieces.front()->stream);
  uint32_t last = kNoBlock;
  uint64_t end = segment == kNoBlock ? pieces.front()->address / kUnit : segments_[segment].address;
  const auto append = [&](uint64_t address, uint64_t size, State state) {
    const uint32_t index = new_block();
    Block& block = blocks_[index];
    block = {};
    block.address = address;
    block.size = static_cast<uint32_t>(size);
    block.shelf = shelf;
    block.segment = segment;
    block.state = state;
    link(index, last, kNoBlock);
    last = index;
    end = address + size;
    return index;
  };
  for (const StateSegment* piece : pieces) {
    const uint64_t begin = piece->address / kUnit;
    if (begin > end) add_unmapped(append(end, begin - end, State::kUnmapped));
    for (const StateBlock& given : piece->blocks) {
      const uint32_t index = append(given.address / kUnit, given.size / kUnit, State::kActive);
      if (given.state == BlockState::kFree) {
        cache(index);
        continue;
      }
      tally_.allocated_bytes += given.size;
      held.emplace_back(given.address, index);
    }
    reserved_more(piece->size / kUnit);
  }
  if (segment != kNoBlock && segments_[segment].address + segments_[segment].size > end)
    add_unmapped(append(end, segments_[segment].address + segments_[segment].size - end, State::kUnmapped));
  tally_.peak_allocated_bytes = tally_.allocated_bytes;
}

void CachingAllocator::adopt(const std::vector<StateSegment>& segments,
                             std::vector<std::pair<uint64_t, uint32_t>>& held) {
  std::vector<const StateSegment*> sorted;
  for (const StateSegment& segment : segments) sorted.push_back(&segment);
  std::sort(sorted.begin(), sorted.end(),
            [](const StateSegment* a, const StateSegment* b) { return a->address < b->address; });
  // Mapped stretches of one expandable segment come as segments of their own. Where it begins is not known where its
  // first pages are unmapped: it is taken to begin with the first stretch.
  std::vector<std::vector<const StateSegment*>> groups(shelves_.size());
  for (const StateSegment* segment : sorted) {
    if (segment->is_expandable) {
      groups[(segment->pool * 2U + (segment->is_small ? 1U : 0U)) * streams_ + segment->stream].push_back(segment);
    } else {
      adopt_blocks({segment}, kNoBlock, held);
    }
  }
  for (const auto& group : groups) {
    if (group.empty()) continue;
    Segment segment;
    segment.address = group.front()->address / kUnit;
    segment.piece = piece_of(group.front()->is_small);
    const uint64_t mapped = (group.back()->address + group.back()->size) / kUnit - segment.address;
    const uint64_t wanted = std::max((driver_.total_bytes() + driver_.total_bytes() / 8) / kUnit, mapped);
    segment.size = (wanted + segment.piece - 1) / segment.piece * segment.piece;
    segment.is_live = true;
    segments_.push_back(segment);
    adopt_blocks(group, static_cast<uint32_t>(segments_.size() - 1), held);
  }
}

bool CachingAllocator::would_hit(uint64_t bytes, uint32_t stream, uint32_t pool) const {
  const Request request = request_of(bytes, stream, pool);
  return !shelves_[request.shelf]->cached.is_end(find_cached(request));
}

bool CachingAllocator::would_exceed_limit(uint64_t bytes, uint32_t stream, uint32_t pool) const {
  return has_limit_ && total_units_ + request_of(bytes, stream, pool).segment_size > allowed_units_;
}

std::vector<StateSegment> CachingAllocator::state() const {
  std::vector<StateSegment> segments;
  for (uint32_t first = 0; first < blocks_.size(); ++first) {
    if (blocks_[first].state == State::kUnused || blocks_[first].previous != kNoBlock) continue;
    bool is_open = false;
    for (uint32_t index = first; index != kNoBlock; index = blocks_[index].next) {
      const Block& block = blocks_[index];
      if (block.state == State::kUnmapped) {
        is_open = false;
        continue;
      }
      if (!is_open) {
        const Shelf& shelf = *shelves_[block.shelf];
        segments.emplace_back();
        segments.back().address = block.address * kUnit;
        segments.back().stream = shelf.stream;
        segments.back().pool = static_cast<uint16_t>(shelf.pool);
        segments.back().is_small = shelf.is_small;
        segments.back().is_expandable = is_expandable(block);
        is_open = true;
      }
      StateBlock out;
      out.address = block.address * kUnit;
      out.size = uint64_t{block.size} * kUnit;
      out.state = block.state == State::kFree     ? BlockState::kFree
                  : block.state == State::kActive ? BlockState::kActive
                                                  : BlockState::kPendingFree;
      segments.back().size += out.size;
      segments.back().blocks.push_back(out);
    }
  }
  std::sort(segments.begin(), segments.end(),
            [](const StateSegment& a, const StateSegment& b) { return a.address < b.address; });
  return segments;
}

}  // namespace drydock::replay
