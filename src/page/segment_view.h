#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "page/address_space.h"

namespace drydock::page {

/// A segment with its blocks: `blocks` of the layout from `first_block` on.
struct SegmentView {
  PlacedSegment segment;
  size_t first_block = 0;
  size_t blocks = 0;
  uint64_t used_bytes = 0;
  uint64_t largest_hole_bytes = 0;
};

/// One for each segment, in the order of addresses. `outside`: blocks that lie in no segment, as in traces that lack
/// their beginning.
std::vector<SegmentView> view_segments(const Layout& layout, size_t& outside);

}  // namespace drydock::page
