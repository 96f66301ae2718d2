#include "values/extents.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>
#include <map>
#include <mutex>
#include <vector>

#include "values/element.h"
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

// How the ghosts of a device read, by range. A younger note replaces the older ones that it overlaps.
class GhostNotes {
 public:
  void set(uint64_t begin, uint64_t end, const GhostReading& reading) {
    auto note = first_behind(begin);
    // The usual case: the memory is used again for a tensor of the same size.
    if (note != notes_.end() && note->first == begin && note->second.end == end) {
      note->second.reading = reading;
      return;
    }
    erase(note, begin, end);
    notes_.emplace(begin, Note{end, reading});
  }

  void forget(uint64_t begin, uint64_t end) { erase(first_behind(begin), begin, end); }

  GhostReading at(uint64_t address) const {
    auto note = notes_.upper_bound(address);
    if (note == notes_.begin()) return {};
    --note;
    return note->second.end > address ? note->second.reading : GhostReading{};
  }

 private:
  struct Note {
    uint64_t end;
    GhostReading reading;
  };
  using Map = std::map<uint64_t, Note>;

  // First note that ends behind `address`.
  Map::iterator first_behind(uint64_t address) {
    auto note = notes_.upper_bound(address);
    if (note != notes_.begin() && std::prev(note)->second.end > address) --note;
    return note;
  }

  void erase(Map::iterator note, uint64_t begin, uint64_t end) {
    while (note != notes_.end() && note->first < end) {
      const uint64_t old_begin = note->first;
      const Note old = note->second;
      note = notes_.erase(note);
      if (old_begin < begin) notes_.emplace(old_begin, Note{begin, old.reading});
      if (old.end > end) note = notes_.emplace(end, old).first;
    }
  }

  Map notes_;
};

struct Extents {
  std::mutex mutex;
  ExtentMap map;
  GhostNotes notes;
};

Extents& extents() {
  static Extents& extents = *new Extents;
  return extents;
}

void fill_ghost(unsigned char* host, uint64_t size_bytes, const GhostReading& reading) {
  const auto element_bytes = static_cast<uint64_t>(bits_of(reading.dtype) / 8);
  if (element_bytes == 0 || reading.value == 0) {
    std::memset(host, 0, size_bytes);
    return;
  }
  std::array<unsigned char, 16> element{};
  put_element(element.data(), reading.dtype, reading.value);
  for (uint64_t at = 0; at < size_bytes; at += element_bytes) {
    std::memcpy(host + at, element.data(), std::min(element_bytes, size_bytes - at));
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
  all.notes.set(to, to + size_bytes, all.notes.at(from));
}

void forget(uint64_t address, uint64_t size_bytes) noexcept {
  if (size_bytes == 0 || !policy().tracked) return;
  Extents& all = extents();
  std::lock_guard lock(all.mutex);
  all.map.set(address, address + size_bytes, Knowledge::kGhost);
  all.notes.forget(address, address + size_bytes);
}

double default_reading(DataType dtype) noexcept { return is_floating(dtype) ? 1.0 : 0.0; }

void note_ghost(uint64_t address, uint64_t size_bytes, const GhostReading& reading) noexcept {
  if (size_bytes == 0 || !policy().tracked) return;
  Extents& all = extents();
  std::lock_guard lock(all.mutex);
  all.notes.set(address, address + size_bytes, reading);
}

GhostReading ghost_reading(uint64_t address) noexcept {
  Extents& all = extents();
  std::lock_guard lock(all.mutex);
  return all.notes.at(address);
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
    fill_ghost(bytes + (covered - device_address), gap_end - covered, all.notes.at(covered));
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
