#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace drydock::watch {

/// A curve of one column of points: what is filled up to, and what is drawn as a line above.
struct ChartPoint {
  uint64_t filled = 0;
  uint64_t line = 0;
};

struct Chart {
  int width = 80;           ///< columns, the axis included
  int height = 12;          ///< rows, without the row of times
  bool use_braille = true;  ///< otherwise plain ASCII
  bool use_color = false;
  uint64_t limit_bytes = 0;  ///< a line across; 0 = none
};

/// How many points side by side a chart of this width has: ask for so many.
int chart_points(const Chart& chart);

/// Draws the points (chart_points of them) as rows of text, from the top, with an axis of sizes at the left.
std::vector<std::string> draw_chart(const Chart& chart, const std::vector<ChartPoint>& points);

}  // namespace drydock::watch
