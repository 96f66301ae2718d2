#pragma once

#include <cstdint>
#include <vector>

#include "trace/recorder.h"

// Free bytes that nobody can have: they lie in segments that a live block keeps from going back to the driver.

namespace drydock::ledger {

/// A range of device memory: a segment, or mapped pages that follow each other.
struct Extent {
  uint64_t address = 0;
  uint64_t size_bytes = 0;
};

struct PlacedBlock {
  uint64_t address = 0;
  uint64_t size_bytes = 0;
  trace::LineId line = 0;
};

/// A source line whose blocks pin segments.
struct Pin {
  trace::LineId line = 0;
  uint64_t blocks = 0;
  uint64_t held_bytes = 0;      ///< of these blocks
  uint64_t stranded_bytes = 0;  ///< the line's share of the free bytes beside them, by its share of the live bytes
};

struct Stranded {
  uint64_t segments = 0;  ///< with live blocks and free bytes
  uint64_t bytes = 0;     ///< free in them
  uint64_t largest_hole_bytes = 0;
  uint64_t idle_bytes = 0;  ///< of segments without any block: those can go back
  std::vector<Pin> pins;    ///< most stranded bytes first
};

/// `extents` do not overlap. Blocks outside of all extents are left out. O(n log n).
Stranded find_stranded(std::vector<Extent> extents, std::vector<PlacedBlock> blocks);

}  // namespace drydock::ledger
