#include "replay/caching_allocator.h"

#include <algorithm>
#include <bit>
#include <iterator>

namespace drydock::replay {
namespace {

constexpr uint32_t kPage = static_cast<uint32_t>(2 * kMib / kUnit);
constexpr uint32_t kSharedBelow = static_cast<uint32_t>(10 * kMib / kUnit);  // such requests share a large segment
constexpr uint32_t kGiant = static_cast<uint32_t>(1024 * kMib / kUnit);
constexpr uint64_t kNpuPadding = 32;

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
  is_expandable_ = settings.expandable_segments;
  if (is_expandable_ && settings.base_alignment_bytes != 0 && settings.policy == Policy::kNpu) aligned_from_ = kPage;
  if (std::has_single_bit(settings.base_alignment_bytes)) alignment_mask_ = settings.base_alignment_bytes / kUnit - 1;
  shelves_.reserve(size_t{2} * pools * streams);
  for (uint32_t pool = 0; pool < pools; ++pool)
    for (const bool is_small : {false, true})
      for (uint32_t stream = 0; stream < streams; ++stream) {
        Shelf& shelf = shelves_.emplace_back();
        shelf.pool = pool;
        shelf.stream = stream;
        shelf.is_small = is_small;
        const bool splits_any = is_small || is_expandable_;
        shelf.least_rest = splits_any ? 1 : kSmallRequest + 1;
        shelf.split_below = splits_any ? 0xffffffff : max_split_;
      }
  blocks_.emplace_back();
  blocks_.reserve(4096);
  if (settings.memory_fraction < 1)
    limit(static_cast<uint64_t>(settings.memory_fraction * static_cast<double>(driver.total_bytes())));
}

void CachingAllocator::limit(uint64_t allowed_bytes) {
  has_limit_ = allowed_bytes != kUnlimited;
  allowed_bytes_ = allowed_bytes;
  allowed_units_ = allowed_bytes / kUnit;
  collects_ = has_limit_ && settings_.garbage_collection_threshold > 0;
}

Speciality CachingAllocator::speciality() const {
  if (!has_simple_rounding_ || max_split_ != 0xffffffff || settings_.garbage_collection_threshold > 0 ||
      settings_.lazy_reclaim)
    return Speciality::kNone;
  return is_expandable_ ? Speciality::kExpandable : Speciality::kNative;
}

uint64_t CachingAllocator::collection_threshold() const {
  if (!collects_) return kUnlimited;
  return static_cast<uint64_t>(settings_.garbage_collection_threshold * static_cast<double>(allowed_bytes_));
}

void CachingAllocator::note_split(const Request& request) {
  indifference_.split(request.size, request.size < max_split_);
  const FreeBlocks& cached = shelves_[request.shelf].cached;
  const FreeBlocks::Position place = cached.lower_bound(request.size);
  if (FreeBlocks::is_end(place)) return;
  const uint32_t size = blocks_[cached.at(place)].size;
  indifference_.split(size, size < max_split_);
}

uint32_t CachingAllocator::segment_size_of(const Request& request) const {
  if (request.size <= kSmallRequest) return kPage;
  if (settings_.giant_pages) return round_up(request.size, kGiant);
  if (request.size < kSharedBelow) return units_or_most(settings_.large_segment_bytes);
  return round_up(request.size, kPage);
}

uint32_t CachingAllocator::piece_of(bool is_small) const {
  if (is_small) return kPage;
  if (settings_.giant_pages) return kGiant;
  if (settings_.large_segment_bytes != 20 * kMib || settings_.segment_bytes == 0)
    return units_or_most(settings_.large_segment_bytes);
  return units_or_most(settings_.segment_bytes);
}

// --- the array of blocks ---

uint32_t CachingAllocator::add_block() {
  blocks_.emplace_back();
  return static_cast<uint32_t>(blocks_.size() - 1);
}

void CachingAllocator::add_unmapped(uint32_t index) {
  Block& block = blocks_[index];
  block.state = State::kUnmapped;
  auto& unmapped = shelves_[block.shelf].unmapped;
  unmapped.insert(std::lower_bound(unmapped.begin(), unmapped.end(), std::pair(block.address, uint32_t{0})),
                  {block.address, index});
}

void CachingAllocator::remove_unmapped(uint32_t index) {
  const Block& block = blocks_[index];
  auto& unmapped = shelves_[block.shelf].unmapped;
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

// --- requests ---

// In an expandable segment, a block that can grow counts with the size it can grow to.
void CachingAllocator::prefer_growing(const FreeBlocks& cached, FreeBlocks::Position& place) const {
  const auto full_size = [&](const FreeBlocks::Position& at) {
    const Block& block = blocks_[cached.at(at)];
    return uint64_t{block.size} + (blocks_[block.next].state == State::kUnmapped ? blocks_[block.next].size : 0);
  };
  FreeBlocks::Position next = cached.next(place);
  while (!FreeBlocks::is_end(next) && full_size(next) < full_size(place)) {
    place = next;
    next = cached.next(next);
  }
}

uint32_t CachingAllocator::allocate_new(const Request& request) {
  // Lazy reclaim asks for completed blocks only now, and searches once more.
  if (settings_.lazy_reclaim && !has_reclaimed_) {
    reclaim();
    const uint32_t block = take_cached(request);
    if (block != kNoBlock) return finish(block, request);
  }
  indifference_.threshold(total_units_ * kUnit, would_collect());
  if (collects_) collect_garbage();
  bool was_rejected = false;
  uint32_t block = take_new(request, false, was_rejected);
  if (block == kNoBlock && !was_rejected) {
    if (release_available(request)) block = take_new(request, false, was_rejected);
    if (block == kNoBlock && !was_rejected) {
      release_workspaces();
      release_cached();
      block = take_new(request, true, was_rejected);
    }
  }
  return block == kNoBlock ? kNoBlock : finish(block, request);
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

// --- new memory ---

void CachingAllocator::reserved_more(uint64_t units) {
  total_units_ += units;
  ++tally_.segments;
  tally_.reserved_bytes += units * kUnit;
  if (tally_.reserved_bytes > tally_.peak_reserved_bytes) {
    tally_.peak_reserved_bytes = tally_.reserved_bytes;
    tally_.allocated_at_peak_bytes = allocated_units_ * kUnit;
  }
}

uint32_t CachingAllocator::take_new(const Request& request, bool is_retry, bool& was_rejected) {
  if (is_retry) ++tally_.retries;
  const uint32_t segment_size = segment_size_of(request);
  // No block is larger than the segment that it came from.
  if (max_split_ == 0xffffffff) indifference_.split(segment_size, true);
  const bool is_too_many = has_limit_ && total_units_ + segment_size > allowed_units_;
  indifference_.allowed(total_units_ + segment_size, is_too_many);
  if (is_too_many) return kNoBlock;
  if (settings_.throw_on_oom) {
    const auto most = static_cast<uint64_t>(settings_.memory_fraction * static_cast<double>(driver_.total_bytes()));
    if ((total_units_ + segment_size) * kUnit > most) {
      ++tally_.rejections;
      was_rejected = true;
      return kNoBlock;
    }
  }
  return settings_.expandable_segments ? take_new_expandable(request) : take_new_native(request);
}

uint32_t CachingAllocator::take_new_native(const Request& request) {
  const uint32_t segment_size = segment_size_of(request);
  uint64_t address = 0;
  if (!driver_.allocate(uint64_t{segment_size} * kUnit, address)) return kNoBlock;
  const uint32_t index = new_block();
  Block& block = blocks_[index];
  block = {};
  block.address = address / kUnit;
  block.size = segment_size;
  block.shelf = static_cast<uint16_t>(request.shelf);
  reserved_more(segment_size);
  return index;
}

// The lowest place of the stream where free and unmapped blocks in a row make up the size; a new segment if there is
// none.
uint32_t CachingAllocator::expandable_candidate(const Request& request) {
  Shelf& shelf = shelves_[request.shelf];
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

}  // namespace drydock::replay
