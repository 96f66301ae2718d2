#include "page/holder_moments.h"

#include <algorithm>
#include <utility>

namespace drydock::page {

uint32_t HolderMoments::add_group() {
  groups_.emplace_back();
  return static_cast<uint32_t>(groups_.size() - 1);
}

uint32_t HolderMoments::add_holder(bool counts, uint32_t group) {
  holders_.push_back({.counts = counts, .group = group});
  // Before its first block the holder held nothing.
  saved_.push_back({.height = height_});
  return static_cast<uint32_t>(holders_.size() - 1);
}

void HolderMoments::changing(uint32_t holder, uint64_t time_ns) {
  HolderTotals& totals = holders_[holder];
  // A clock that goes back adds nothing.
  if (time_ns > totals.changed_ns) {
    totals.byte_seconds +=
        static_cast<double>(totals.live_bytes) * static_cast<double>(time_ns - totals.changed_ns) * 1e-9;
    totals.changed_ns = time_ns;
  }
  Saved& saved = saved_[holder];
  if (saved.height != height_) saved = {height_, totals.live_bytes, totals.live_blocks};
  window_changed_ = true;
}

void HolderMoments::take(uint32_t holder, uint64_t bytes) {
  HolderTotals& totals = holders_[holder];
  totals.live_bytes += bytes;
  ++totals.live_blocks;
  GroupTotals& group = groups_[totals.group];
  group.live_bytes += bytes;
  group.peak_bytes = std::max(group.peak_bytes, group.live_bytes);
  if (totals.counts) total_ += bytes;
}

void HolderMoments::drop(uint32_t holder, uint64_t bytes) {
  HolderTotals& totals = holders_[holder];
  GroupTotals& group = groups_[totals.group];
  group.live_bytes -= std::min(bytes, group.live_bytes);
  totals.live_bytes -= std::min(bytes, totals.live_bytes);
  if (totals.live_blocks > 0) --totals.live_blocks;
  if (totals.counts) total_ -= std::min(bytes, total_);
}

void HolderMoments::add(uint32_t holder, uint64_t bytes, uint64_t event, uint64_t time_ns) {
  changing(holder, time_ns);
  ++holders_[holder].allocations;
  holders_[holder].allocated_bytes += bytes;
  take(holder, bytes);
  if (!holders_[holder].counts || total_ <= height_bytes_) return;
  ++height_;
  height_bytes_ = total_;
  height_event_ = event;
  height_ns_ = time_ns;
}

void HolderMoments::remove(uint32_t holder, uint64_t bytes, uint64_t time_ns) {
  changing(holder, time_ns);
  drop(holder, bytes);
}

void HolderMoments::move(uint32_t from, uint32_t to, uint64_t bytes, uint64_t time_ns) {
  changing(from, time_ns);
  changing(to, time_ns);
  drop(from, bytes);
  take(to, bytes);
  ++holders_[to].allocations;
  holders_[to].allocated_bytes += bytes;
  if (holders_[from].allocations > 0) --holders_[from].allocations;
  holders_[from].allocated_bytes -= std::min(bytes, holders_[from].allocated_bytes);
}

void HolderMoments::close_window(uint32_t step, uint64_t event, uint64_t time_ns) {
  if (!window_changed_) return;
  if (height_bytes_ > best_.total_bytes) {
    best_ = {.event = height_event_, .time_ns = height_ns_, .step = step, .total_bytes = height_bytes_, .held = {}};
    for (uint32_t holder = 0; holder < holders_.size(); ++holder) {
      const HolderTotals& totals = holders_[holder];
      const Saved& saved = saved_[holder];
      const bool is_saved = saved.height == height_;
      const Held held{holder, is_saved ? saved.bytes : totals.live_bytes, is_saved ? saved.blocks : totals.live_blocks};
      if (held.bytes > 0) best_.held.push_back(held);
    }
  }
  if (++windows_in_group_ >= windows_per_moment_) keep_best();
  // The next window is at least as high as it begins.
  ++height_;
  height_bytes_ = total_;
  height_event_ = event;
  height_ns_ = time_ns;
  window_changed_ = false;
}

void HolderMoments::keep_best() {
  windows_in_group_ = 0;
  if (best_.total_bytes == 0) return;
  if (!moments_.empty() && moments_.back().event == best_.event) {
    // A window that only fell is as high as the end of the one before.
    best_ = {};
    return;
  }
  moments_.push_back(std::exchange(best_, {}));
  if (moments_.size() > 2 * most_moments_) halve();
}

void HolderMoments::halve() {
  size_t kept = 0;
  for (size_t index = 0; index < moments_.size(); index += 2) {
    size_t higher = index;
    if (index + 1 < moments_.size() && moments_[index + 1].total_bytes > moments_[index].total_bytes) ++higher;
    if (kept != higher) moments_[kept] = std::move(moments_[higher]);
    ++kept;
  }
  moments_.resize(kept);
  windows_per_moment_ *= 2;
}

void HolderMoments::shrink_to(size_t most_moments) {
  while (moments_.size() > std::max<size_t>(most_moments, 1)) halve();
}

void HolderMoments::finish(uint32_t step, uint64_t event, uint64_t time_ns) {
  close_window(step, event, time_ns);
  keep_best();
  for (uint32_t holder = 0; holder < holders_.size(); ++holder) changing(holder, time_ns);
  shrink_to(most_moments_);
}

Moment HolderMoments::now(uint32_t step, uint64_t event, uint64_t time_ns) const {
  Moment moment{.event = event, .time_ns = time_ns, .step = step, .total_bytes = total_, .held = {}};
  for (uint32_t holder = 0; holder < holders_.size(); ++holder)
    if (holders_[holder].live_bytes > 0)
      moment.held.push_back({holder, holders_[holder].live_bytes, holders_[holder].live_blocks});
  return moment;
}

}  // namespace drydock::page
