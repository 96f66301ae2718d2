#include "replay/driver.h"

#include <algorithm>
#include <iterator>

namespace drydock::replay {
namespace {

constexpr uint64_t kPage = uint64_t{2} << 20;
constexpr uint64_t kHeapEnd = uint64_t{1} << 44;
constexpr uint64_t kReservationEnd = uint64_t{1} << 47;

uint64_t round_up(uint64_t bytes, uint64_t unit) { return (bytes + unit - 1) / unit * unit; }

}  // namespace

SimulatedDriver::SimulatedDriver(uint64_t total_bytes, uint64_t external_bytes)
    : total_bytes_(total_bytes), used_bytes_(std::min(total_bytes, external_bytes)) {
  heap_.emplace(kPage, kHeapEnd);
  reservations_.emplace(kHeapEnd, kReservationEnd);
}

uint64_t SimulatedDriver::take(Ranges& ranges, uint64_t bytes, uint64_t alignment) {
  for (auto range = ranges.begin(); range != ranges.end(); ++range) {
    const auto [range_begin, range_end] = *range;
    const uint64_t begin = round_up(range_begin, alignment);
    if (begin > range_end || range_end - begin < bytes) continue;
    ranges.erase(range);
    if (begin != range_begin) ranges.emplace(range_begin, begin);
    if (begin + bytes != range_end) ranges.emplace(begin + bytes, range_end);
    return begin;
  }
  return 0;
}

void SimulatedDriver::give_back(Ranges& ranges, uint64_t begin, uint64_t bytes) {
  uint64_t end = begin + bytes;
  auto after = ranges.lower_bound(begin);
  if (after != ranges.end() && after->first == end) {
    end = after->second;
    after = ranges.erase(after);
  }
  if (after != ranges.begin()) {
    if (auto before = std::prev(after); before->second == begin) {
      before->second = end;
      return;
    }
  }
  ranges.emplace(begin, end);
}

void SimulatedDriver::describe(std::vector<uint64_t>& words) const {
  words.push_back(used_bytes_);
  for (const Ranges* ranges : {&heap_, &reservations_}) {
    words.push_back(ranges->size());
    for (const auto& [begin, end] : *ranges) words.insert(words.end(), {begin, end});
  }
}

bool SimulatedDriver::allocate(uint64_t bytes, uint64_t& address) {
  ++calls_;
  const uint64_t pages = round_up(bytes, kPage);
  if (pages > total_bytes_ - used_bytes_) return false;
  address = take(heap_, pages, kPage);
  if (address == 0) return false;
  used_bytes_ += pages;
  return true;
}

void SimulatedDriver::free(uint64_t address, uint64_t bytes) {
  ++calls_;
  const uint64_t pages = round_up(bytes, kPage);
  used_bytes_ -= pages;
  give_back(heap_, address, pages);
}

bool SimulatedDriver::reserve(uint64_t bytes, uint64_t& address) {
  ++calls_;
  // One page more, as Drydock's device has it between two reservations.
  address = take(reservations_, round_up(bytes, kPage) + kPage, kPage);
  return address != 0;
}

void SimulatedDriver::unreserve(uint64_t address, uint64_t bytes) {
  ++calls_;
  give_back(reservations_, address, round_up(bytes, kPage) + kPage);
}

bool SimulatedDriver::map(uint64_t, uint64_t bytes, uint64_t piece_bytes) {
  const uint64_t fit = (total_bytes_ - used_bytes_) / piece_bytes;
  const uint64_t pieces = bytes / piece_bytes;
  if (fit < pieces) {
    calls_ += 2 * fit + 1;  // what fitted is got and given back
    return false;
  }
  calls_ += 2 * pieces;
  used_bytes_ += bytes;
  return true;
}

void SimulatedDriver::unmap(uint64_t, uint64_t bytes, uint64_t piece_bytes) {
  calls_ += 2 * (bytes / piece_bytes);
  used_bytes_ -= bytes;
}

}  // namespace drydock::replay
