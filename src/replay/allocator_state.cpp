#include <algorithm>

#include "replay/caching_allocator.h"

// The model's state: taken over where a history began mid-run, shown for comparisons, asked about by them.

namespace drydock::replay {

void CachingAllocator::adopt_blocks(const std::vector<const StateSegment*>& pieces, uint32_t segment,
                                    std::vector<std::pair<uint64_t, uint32_t>>& held) {
  const auto shelf =
      static_cast<uint16_t>(shelf_of(pieces.front()->pool, pieces.front()->is_small, pieces.front()->stream));
  uint32_t last = kNoBlock;
  uint64_t end = segment == kNoSegment ? pieces.front()->address / kUnit : segments_[segment].address;
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
      allocated_units_ += given.size / kUnit;
      held.emplace_back(given.address, index);
    }
    reserved_more(piece->size / kUnit);
  }
  if (segment != kNoSegment && segments_[segment].address + segments_[segment].size > end)
    add_unmapped(append(end, segments_[segment].address + segments_[segment].size - end, State::kUnmapped));
  peak_allocated_units_ = allocated_units_;
}

void CachingAllocator::adopt(const std::vector<StateSegment>& segments,
                             std::vector<std::pair<uint64_t, uint32_t>>& held) {
  std::vector<const StateSegment*> sorted;
  sorted.reserve(segments.size());
  for (const StateSegment& segment : segments) sorted.push_back(&segment);
  std::sort(sorted.begin(), sorted.end(),
            [](const StateSegment* a, const StateSegment* b) { return a->address < b->address; });
  // Mapped stretches of one expandable segment come as segments of their own. Where it begins is not known where its
  // first pages are unmapped: it is taken to begin with the first stretch.
  std::vector<std::vector<const StateSegment*>> groups(shelves_.size());
  for (const StateSegment* segment : sorted) {
    if (segment->is_expandable) {
      groups[shelf_of(segment->pool, segment->is_small, segment->stream)].push_back(segment);
    } else {
      adopt_blocks({segment}, kNoSegment, held);
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

void CachingAllocator::repeat_tally(const AllocatorTally& before, uint64_t times) {
  tally_.retries += (tally_.retries - before.retries) * times;
  tally_.collections += (tally_.collections - before.collections) * times;
  tally_.rejections += (tally_.rejections - before.rejections) * times;
  tally_.segments += (tally_.segments - before.segments) * times;
}

// Peaks only grow, and what was compared with settings stays so: neither decides an answer.
bool CachingAllocator::describe(const std::vector<uint64_t>& ids, std::vector<uint64_t>& words) const {
  if (!pending_.empty()) return false;
  words.insert(words.end(), {has_limit_ ? allowed_bytes_ : kUnlimited, total_units_, allocated_units_});
  for (const Workspace& workspace : workspaces_) words.insert(words.end(), {workspace.address, workspace.bytes});
  std::vector<uint32_t> used;
  for (uint32_t index = 1; index < blocks_.size(); ++index)
    if (blocks_[index].state != State::kUnused) used.push_back(index);
  std::sort(used.begin(), used.end(),
            [&](uint32_t one, uint32_t other) { return blocks_[one].address < blocks_[other].address; });
  for (const uint32_t index : used) {
    const Block& block = blocks_[index];
    // With garbage collection, blocks of another age are other blocks. A block is followed by what stands next to it in
    // its segment, or by none.
    const uint64_t age = block.state == State::kFree && settings_.garbage_collection_threshold > 0
                             ? lookups_[block.shelf / streams_] - block.born
                             : 0;
    words.insert(words.end(),
                 {block.address,
                  uint64_t{block.size} << 32 | uint64_t{block.shelf} << 8 | uint64_t{block.previous == kNoBlock} << 7 |
                      uint64_t{block.next == kNoBlock} << 6 | static_cast<uint64_t>(block.state),
                  age, block.state == State::kActive ? ids[index] : 0});
    if (is_expandable(block)) {
      const Segment& segment = segments_[block.segment];
      words.insert(words.end(), {segment.address, segment.size, segment.piece});
    }
  }
  return true;
}

bool CachingAllocator::would_hit(uint64_t bytes, uint32_t stream, uint32_t pool) const {
  const Request request = request_of(bytes, stream, pool);
  return !shelves_[request.shelf].cached.is_end(find_cached(request));
}

bool CachingAllocator::would_exceed_limit(uint64_t bytes, uint32_t stream, uint32_t pool) const {
  return has_limit_ && total_units_ + segment_size_of(request_of(bytes, stream, pool)) > allowed_units_;
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
        const Shelf& shelf = shelves_[block.shelf];
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
