#include "races/access_history.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace drydock::races {
namespace {

/// Accesses of one stretch beyond which the oldest go: a race with those is missed, none is made up.
constexpr size_t kMostAccesses = 24;

bool is_same_place(const Site& left, const Site& right) {
  return left.line == right.line && left.call == right.call && left.what == right.what &&
         left.stream_id == right.stream_id;
}

// Two arguments of one call may meet the same earlier access, and one argument many pieces of it.
void note(std::vector<Conflict>& conflicts, const Access& earlier, uint64_t begin, uint64_t end) {
  for (Conflict& known : conflicts) {
    if (!is_same_place(known.earlier.site, earlier.site) || known.earlier.is_over != earlier.is_over) continue;
    known.begin = std::min(known.begin, begin);
    known.end = std::max(known.end, end);
    return;
  }
  conflicts.push_back({earlier, begin, end});
}

bool do_overlap(const Access& earlier, const Footprint& footprint, uint64_t begin, uint64_t end) {
  if (earlier.sparse == nullptr && footprint.is_dense()) return true;
  if (earlier.sparse == nullptr) return overlap(Footprint::dense(begin, end), footprint);
  return overlap(*earlier.sparse, footprint);
}

}  // namespace

void AccessHistory::cut(Stretches::iterator place, uint64_t at) {
  Stretch rest = place->second;
  place->second.end = at;
  stretches_.emplace_hint(std::next(place), at, std::move(rest));
}

AccessHistory::Stretches::iterator AccessHistory::first_from(uint64_t begin) {
  auto place = stretches_.upper_bound(begin);
  if (place == stretches_.begin()) return place;
  const auto before = std::prev(place);
  if (before->second.end <= begin) return place;
  if (before->first == begin) return before;
  cut(before, begin);
  return std::next(before);
}

void AccessHistory::add_to(uint64_t begin, Stretch& stretch, const Access& access, const Footprint& footprint,
                           const VectorClock& clock, const VectorClock& everyone, std::vector<Conflict>& conflicts) {
  std::erase_if(stretch.accesses, [&](const Access& earlier) {
    if (everyone.covers(earlier.stream, earlier.tick)) return true;
    const bool is_ordered = earlier.stream == access.stream || clock.covers(earlier.stream, earlier.tick);
    const bool collide = earlier.writes || access.writes;
    if (!is_ordered && collide && do_overlap(earlier, footprint, begin, stretch.end)) {
      note(conflicts, earlier, begin, stretch.end);
      return true;  // told once
    }
    const bool is_covered = footprint.is_dense() || (earlier.sparse != nullptr && *earlier.sparse == footprint);
    if (!is_covered || !is_ordered) return false;
    // Who conflicts with the earlier one conflicts with the later one too.
    return access.writes || (!earlier.writes && earlier.stream == access.stream);
  });
  if (stretch.accesses.size() >= kMostAccesses) stretch.accesses.erase(stretch.accesses.begin());
  stretch.accesses.push_back(access);
}

void AccessHistory::add(const Access& access, const Footprint& footprint, const VectorClock& clock,
                        const VectorClock& everyone, std::vector<Conflict>& conflicts) {
  if (footprint.begin >= footprint.end) return;
  Access kept = access;
  if (!footprint.is_dense()) kept.sparse = std::make_shared<const Footprint>(footprint);
  uint64_t at = footprint.begin;
  auto place = first_from(at);
  while (at < footprint.end) {
    if (place == stretches_.end() || place->first > at) {
      const uint64_t end = place == stretches_.end() ? footprint.end : std::min(place->first, footprint.end);
      place = stretches_.emplace_hint(place, at, Stretch{end, {kept}});
    } else {
      if (place->second.end > footprint.end) cut(place, footprint.end);
      add_to(at, place->second, kept, footprint, clock, everyone, conflicts);
    }
    at = place->second.end;
    // A write leaves one stretch where there were many.
    if (access.writes && footprint.is_dense() && place->first > footprint.begin && place->second.accesses.size() == 1) {
      const auto before = std::prev(place);
      if (before->first >= footprint.begin && before->second.end == place->first &&
          before->second.accesses.size() == 1) {
        before->second.end = at;
        place = stretches_.erase(place);
        continue;
      }
    }
    ++place;
  }
}

void AccessHistory::forget(uint64_t begin, uint64_t end, const VectorClock& over) {
  for (auto place = first_from(begin); place != stretches_.end() && place->first < end;) {
    if (place->second.end > end) cut(place, end);
    std::erase_if(place->second.accesses,
                  [&](const Access& access) { return over.covers(access.stream, access.tick); });
    place = place->second.accesses.empty() ? stretches_.erase(place) : std::next(place);
  }
}

void AccessHistory::forget(uint64_t begin, uint64_t end) {
  for (auto place = first_from(begin); place != stretches_.end() && place->first < end;) {
    if (place->second.end > end) cut(place, end);
    place = stretches_.erase(place);
  }
}

void AccessHistory::give_back(uint64_t begin, uint64_t end, uint32_t line) {
  for (auto place = first_from(begin); place != stretches_.end() && place->first < end; ++place) {
    if (place->second.end > end) cut(place, end);
    for (Access& access : place->second.accesses) {
      if (access.is_over) continue;
      access.is_over = true;
      access.freed_line = line;
    }
  }
}

}  // namespace drydock::races
