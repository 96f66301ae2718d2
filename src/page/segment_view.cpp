#include "page/segment_view.h"

#include <algorithm>

namespace drydock::page {

std::vector<SegmentView> view_segments(const Layout& layout, size_t& outside) {
  std::vector<SegmentView> views;
  views.reserve(layout.segments.size());
  size_t next = 0;
  outside = 0;
  for (const PlacedSegment& segment : layout.segments) {
    while (next < layout.blocks.size() && layout.blocks[next].address < segment.address) {
      ++next;
      ++outside;
    }
    SegmentView view{.segment = segment, .first_block = next};
    uint64_t free_from = segment.address;
    const uint64_t end = segment.address + segment.size_bytes;
    for (; next < layout.blocks.size() && layout.blocks[next].address < end; ++next) {
      const PlacedBlock& block = layout.blocks[next];
      if (block.address > free_from)
        view.largest_hole_bytes = std::max(view.largest_hole_bytes, block.address - free_from);
      free_from = std::max(free_from, block.address + block.size_bytes);
      view.used_bytes += block.size_bytes;
      ++view.blocks;
    }
    if (end > free_from) view.largest_hole_bytes = std::max(view.largest_hole_bytes, end - free_from);
    views.push_back(view);
  }
  outside += layout.blocks.size() - next;
  return views;
}

}  // namespace drydock::page
