#include "ledger/holder_tally.h"

#include <algorithm>
#include <tuple>

namespace drydock::ledger {
namespace {

std::vector<Holder> largest_first(std::vector<Holder> holders) {
  std::erase_if(holders, [](const Holder& holder) { return holder.bytes == 0; });
  std::sort(holders.begin(), holders.end(), [](const Holder& a, const Holder& b) {
    return std::tuple(b.bytes, a.line, a.is_workspace) < std::tuple(a.bytes, b.line, b.is_workspace);
  });
  return holders;
}

}  // namespace

void HolderTally::changing(uint32_t index) {
  if (saved_epoch_[index] == epoch_) return;
  LineTally& line = lines_[index];
  line.bytes_at_peak = line.live_bytes;
  line.blocks_at_peak = line.live_blocks;
  saved_epoch_[index] = epoch_;
}

uint32_t HolderTally::add(trace::LineId line, bool is_workspace, uint64_t bytes) {
  uint32_t& slot = index_[uint64_t{line} * 2 + (is_workspace ? 1 : 0)];
  if (slot == 0) {  // 0 = new; indices are kept plus one
    lines_.push_back({.line = line, .is_workspace = is_workspace});
    // Before its first block the line held nothing at the peak.
    saved_epoch_.push_back(epoch_);
    slot = static_cast<uint32_t>(lines_.size());
  }
  const uint32_t index = slot - 1;
  changing(index);
  LineTally& tally = lines_[index];
  ++tally.allocations;
  ++tally.live_blocks;
  tally.allocated_bytes += bytes;
  tally.live_bytes += bytes;
  tally.peak_bytes = std::max(tally.peak_bytes, tally.live_bytes);
  return index;
}

void HolderTally::remove(uint32_t index, uint64_t bytes) {
  changing(index);
  LineTally& tally = lines_[index];
  tally.live_bytes -= std::min(bytes, tally.live_bytes);
  if (tally.live_blocks > 0) --tally.live_blocks;
}

void HolderTally::mark() {
  for (LineTally& tally : lines_) tally.bytes_at_mark = tally.live_bytes;
}

void HolderTally::finish() {
  for (uint32_t index = 0; index < lines_.size(); ++index) changing(index);
}

std::vector<Holder> HolderTally::now() const {
  std::vector<Holder> holders;
  for (const LineTally& tally : lines_)
    holders.push_back({tally.line, tally.is_workspace, tally.live_bytes, tally.live_blocks});
  return largest_first(std::move(holders));
}

std::vector<Holder> HolderTally::at_peak() const {
  std::vector<Holder> holders;
  for (const LineTally& tally : lines_)
    holders.push_back({tally.line, tally.is_workspace, tally.bytes_at_peak, tally.blocks_at_peak});
  return largest_first(std::move(holders));
}

std::vector<Holder> HolderTally::growth_since_mark() const {
  std::vector<Holder> holders;
  for (const LineTally& tally : lines_) {
    if (tally.live_bytes > tally.bytes_at_mark)
      holders.push_back({tally.line, tally.is_workspace, tally.live_bytes - tally.bytes_at_mark, tally.live_blocks});
  }
  return largest_first(std::move(holders));
}

}  // namespace drydock::ledger
