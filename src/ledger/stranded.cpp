#include "ledger/stranded.h"

#include <algorithm>
#include <map>

namespace drydock::ledger {

Stranded find_stranded(std::vector<Extent> extents, std::vector<PlacedBlock> blocks) {
  const auto by_address = [](const auto& a, const auto& b) { return a.address < b.address; };
  std::sort(extents.begin(), extents.end(), by_address);
  std::sort(blocks.begin(), blocks.end(), by_address);
  Stranded stranded;
  std::map<trace::LineId, Pin> pins;
  auto next = blocks.begin();
  for (const Extent& extent : extents) {
    while (next != blocks.end() && next->address < extent.address) ++next;
    const auto first = next;
    uint64_t live_bytes = 0;
    uint64_t hole_begin = extent.address;
    uint64_t largest_hole = 0;
    for (; next != blocks.end() && next->address - extent.address < extent.size_bytes; ++next) {
      live_bytes += next->size_bytes;
      if (next->address > hole_begin) largest_hole = std::max(largest_hole, next->address - hole_begin);
      hole_begin = next->address + next->size_bytes;
    }
    if (first == next) {
      stranded.idle_bytes += extent.size_bytes;
      continue;
    }
    const uint64_t end = extent.address + extent.size_bytes;
    if (end > hole_begin) largest_hole = std::max(largest_hole, end - hole_begin);
    const uint64_t free_bytes = extent.size_bytes > live_bytes ? extent.size_bytes - live_bytes : 0;
    if (free_bytes == 0) continue;
    ++stranded.segments;
    stranded.bytes += free_bytes;
    stranded.largest_hole_bytes = std::max(stranded.largest_hole_bytes, largest_hole);
    for (auto block = first; block != next; ++block) {
      Pin& pin = pins[block->line];
      pin.line = block->line;
      ++pin.blocks;
      pin.held_bytes += block->size_bytes;
      const double share = static_cast<double>(block->size_bytes) / static_cast<double>(live_bytes);
      pin.stranded_bytes += static_cast<uint64_t>(share * static_cast<double>(free_bytes));
    }
  }
  for (const auto& [line, pin] : pins) stranded.pins.push_back(pin);
  std::stable_sort(stranded.pins.begin(), stranded.pins.end(),
                   [](const Pin& a, const Pin& b) { return a.stranded_bytes > b.stranded_bytes; });
  return stranded;
}

}  // namespace drydock::ledger
