#include "values/extents.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <iterator>
#include <map>
#include <mutex>
#include <vector>

#include "values/policy.h"

namespace drydock::values {
namespace {

struct Range {
  uint64_t end;
  Knowledge knowledge;
};

// Holds only what is not ghost, so that the tensors of a large model cost nothing. Neighbours of equal knowledge
// are merged: the map stays as small as the program's masks, lengths and ids.
class ExtentMap {
 public:
  Knowledge worst(uint64_t begin, uint64_t end) const {
    auto range = find_from(begin);
    Knowledge worst = Knowledge::kKnown;
    uint64_t covered = begin;
    while (covered < end) {
      if (range == ranges_.end() || range->first > covered) return Knowledge::kGhost;
      worst = std::min(worst, range->second.knowledge);
      covered = range->second.end;
      ++range;
    }
    return worst;
  }

  void set(uint64_t begin, uint64_t end, Knowledge knowledge) {
    auto range = find_from(begin);
    if (knowledge == Knowledge::kGhost && (range == ranges_.end() || range->first >= end)) return;
    if (range != ranges_.end() && range->first <= begin && range->second.end >= end &&
        range->second.knowledge == knowledge) {
      return;
    }
    erase(range, begin, end);
    if (knowledge != Knowledge::kGhost) insert(begin, end, knowledge);
  }

  template <class Visit>
  void for_each(uint64_t begin, uint64_t end, Visit visit) const {
    for (auto range = find_from(begin); range != ranges_.end() && range->first < end; ++range) {
      const uint64_t part_begin = std::max(begin, range->first);
      visit(part_begin, std::min(end, range->second.end), range->second.knowledge);
    }
  }

  size_t size() const { return ranges_.size(); }

 private:
  using Map = std::map<uint64_t, Range>;

  // First range that ends behind `address`.
  Map::const_iterator find_from(uint64_t address) const {
    auto range = ranges_.upper_bound(address);
    if (range != ranges_.begin()) {
      auto before = std::prev(range);
      if (before->second.end > address) return before;
    }
    return range;
  }

  void erase(Map::const_iterator first, uint64_t begin, uint64_t end) {
    auto range = ranges_.erase(first, first);  // to a mutable iterator
    while (range != ranges_.end() && range->first < end) {
      const uint64_t old_begin = range->first;
      const Range old = range->second;
      if (old_begin < begin) {
        range->second.end = begin;
        ++range;
      } else {
        range = ranges_.erase(range);
      }
      if (old.end > end) {
        ranges_.emplace_hint(range, end, old);
        return;
      }
    }
  }

  void insert(uint64_t begin, uint64_t end, Knowledge knowledge) {
    auto next = ranges_.lower_bound(begin);
    if (next != ranges_.end() && next->first == end && next->second.knowledge == knowledge) {
      end = next->second.end;
      next = ranges_.erase(next);
    }
    if (next != ranges_.begin()) {
      auto before = std::prev(next);
      if (before->second.end == begin && before->second.knowledge == knowledge) {
        before->second.end = end;
        return;
      }
    }
    ranges_.emplace_hint(next, begin, Range{end, knowledge});
  }

  Map ranges_;
};

struct Extents {
  std::mutex mutex;
  ExtentMap map;
};

Extents& extents() {
  static Extents& extents = *new Extents;
  return extents;
}

// How ghosts read: a direct-mapped table by 512-byte granule. A lost entry only makes a ghost read as zero.
constexpr uint64_t kGranuleBytes = 512;
constexpr size_t kNoteCount = size_t{1} << 16;
constexpr uint64_t kNoteSearchGranules = 128;

std::array<std::atomic<uint64_t>, kNoteCount>& notes() {
  static auto& notes = *new std::array<std::atomic<uint64_t>, kNoteCount>;
  return notes;
}

struct Note {
  DataType dtype = DataType::kUndefined;
  StandIn stand_in = StandIn::kDefault;
};

uint64_t pack(uint64_t granule, DataType dtype, StandIn stand_in) {
  return granule << 16 | static_cast<uint64_t>(static_cast<uint8_t>(dtype)) << 8 | static_cast<uint64_t>(stand_in) |
         0x80;
}

// An element inside a tensor has no note of its own: look back to the tensor's start.
Note note_at(uint64_t address) {
  const uint64_t granule = address / kGranuleBytes;
  for (uint64_t back = 0; back < kNoteSearchGranules && back <= granule; ++back) {
    const uint64_t note = notes()[(granule - back) % kNoteCount].load(std::memory_order_relaxed);
    if (note != 0 && note >> 16 == granule - back) {
      return {static_cast<DataType>(note >> 8 & 0xff), static_cast<StandIn>(note & 0x7f)};
    }
  }
  return {};
}

std::array<unsigned char, 16> one_of(DataType dtype) {
  std::array<unsigned char, 16> bytes{};
  const auto put = [&bytes](auto value) { std::memcpy(bytes.data(), &value, sizeof value); };
  switch (dtype) {
    case DataType::kFloat: put(1.0F); break;
    case DataType::kDouble: put(1.0); break;
    case DataType::kFloat16: put(uint16_t{0x3C00}); break;
    case DataType::kBFloat16: put(uint16_t{0x3F80}); break;
    case DataType::kComplex64: put(1.0F); break;
    case DataType::kComplex128: put(1.0); break;
    case DataType::kComplex32: put(uint16_t{0x3C00}); break;
    case DataType::kFloat8E4M3FN: put(uint8_t{0x38}); break;
    case DataType::kFloat8E5M2: put(uint8_t{0x3C}); break;
    default: put(uint8_t{1}); break;  // integers are little-endian
  }
  return bytes;
}

void fill_ghost(unsigned char* host, uint64_t size_bytes, uint64_t address) {
  const Note note = note_at(address);
  const auto element_bytes = static_cast<uint64_t>(bits_of(note.dtype) / 8);
  const bool ones = note.stand_in == StandIn::kOne || (note.stand_in == StandIn::kDefault && is_floating(note.dtype));
  if (!ones || element_bytes == 0) {
    std::memset(host, 0, size_bytes);
    return;
  }
  const auto one = one_of(note.dtype);
  for (uint64_t at = 0; at < size_bytes; at += element_bytes) {
    std::memcpy(host + at, one.data(), std::min(element_bytes, size_bytes - at));
  }
}

}  // namespace

Knowledge knowledge_of(uint64_t address, uint64_t size_bytes) noexcept {
  Extents& all = extents();
  std::lock_guard lock(all.mutex);
  return all.map.worst(address, address + size_bytes);
}

void set_knowledge(uint64_t address, uint64_t size_bytes, Knowledge knowledge) noexcept {
  if (size_bytes == 0 || !policy().tracked) return;
  Extents& all = extents();
  std::lock_guard lock(all.mutex);
  all.map.set(address, address + size_bytes, knowledge);
}

void copy_knowledge(uint64_t to, uint64_t from, uint64_t size_bytes) noexcept {
  if (size_bytes == 0 || !policy().tracked) return;
  struct Part {
    uint64_t begin, end;
    Knowledge knowledge;
  };
  Extents& all = extents();
  std::lock_guard lock(all.mutex);
  std::vector<Part> parts;
  all.map.for_each(from, from + size_bytes, [&parts](uint64_t begin, uint64_t end, Knowledge knowledge) {
    parts.push_back({begin, end, knowledge});
  });
  all.map.set(to, to + size_bytes, Knowledge::kGhost);
  for (const Part& part : parts) all.map.set(part.begin - from + to, part.end - from + to, part.knowledge);
  const Note note = note_at(from);
  if (note.dtype != DataType::kUndefined) note_ghost(to, note.dtype, note.stand_in);
}

void forget(uint64_t address, uint64_t size_bytes) noexcept { set_knowledge(address, size_bytes, Knowledge::kGhost); }

void note_ghost(uint64_t address, DataType dtype, StandIn stand_in) noexcept {
  const uint64_t granule = address / kGranuleBytes;
  notes()[granule % kNoteCount].store(pack(granule, dtype, stand_in), std::memory_order_relaxed);
}

uint64_t fill_assumed(void* host, uint64_t device_address, uint64_t size_bytes) noexcept {
  if (!policy().tracked) return 0;
  auto* bytes = static_cast<unsigned char*>(host);
  const uint64_t end = device_address + size_bytes;
  Extents& all = extents();
  std::lock_guard lock(all.mutex);
  uint64_t made_up_bytes = 0;
  uint64_t covered = device_address;
  const auto fill_gap = [&](uint64_t gap_end) {
    if (gap_end <= covered) return;
    fill_ghost(bytes + (covered - device_address), gap_end - covered, covered);
    made_up_bytes += gap_end - covered;
  };
  all.map.for_each(device_address, end, [&](uint64_t part_begin, uint64_t part_end, Knowledge knowledge) {
    fill_gap(part_begin);
    if (knowledge == Knowledge::kAssumed) made_up_bytes += part_end - part_begin;
    covered = part_end;
  });
  fill_gap(end);
  return made_up_bytes;
}

void for_each_real_part(uint64_t address, uint64_t size_bytes, PartVisitor visit, void* context) noexcept {
  if (!policy().tracked) return;
  struct Part {
    uint64_t begin, end;
  };
  std::vector<Part> parts;
  {
    Extents& all = extents();
    std::lock_guard lock(all.mutex);
    all.map.for_each(address, address + size_bytes, [&parts](uint64_t begin, uint64_t end, Knowledge) {
      parts.push_back({begin, end});
    });
  }
  for (const Part& part : parts) visit(context, part.begin, part.end - part.begin);
}

uint64_t extent_count() noexcept {
  Extents& all = extents();
  std::lock_guard lock(all.mutex);
  return all.map.size();
}

}  // namespace drydock::values
