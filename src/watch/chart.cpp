#include "watch/chart.h"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

#include "ledger/sizes.h"

namespace drydock::watch {
namespace {

constexpr int kAxis = 12;                     // columns of the sizes at the left
constexpr int kDotRows = 4, kDotColumns = 2;  // of a braille character
constexpr const char* kFillColor = "\x1b[36m";
constexpr const char* kLineColor = "\x1b[33m";
constexpr const char* kLimitColor = "\x1b[31m";
constexpr const char* kPlain = "\x1b[0m";

// What a cell shows, by priority of its colour.
struct Cell {
  uint8_t dots = 0;
  bool has_fill = false, has_line = false, has_limit = false;
};

std::string braille(uint8_t dots) {
  // U+2800 and above, in UTF-8.
  const unsigned code = 0x2800U + dots;
  return {static_cast<char>(0xe0 | (code >> 12)), static_cast<char>(0x80 | ((code >> 6) & 0x3f)),
          static_cast<char>(0x80 | (code & 0x3f))};
}

// Bits of the dots, by column and by row from the top.
constexpr std::array<std::array<uint8_t, kDotRows>, kDotColumns> kDotBits = {
    {{0x01, 0x02, 0x04, 0x40}, {0x08, 0x10, 0x20, 0x80}}};

}  // namespace

int chart_points(const Chart& chart) { return std::max(1, chart.width - kAxis) * kDotColumns; }

std::vector<std::string> draw_chart(const Chart& chart, const std::vector<ChartPoint>& points) {
  const int columns = std::max(1, chart.width - kAxis), rows = std::max(1, chart.height);
  uint64_t top = chart.limit_bytes;
  for (const ChartPoint& point : points) top = std::max({top, point.filled, point.line});
  if (top == 0) top = 1;
  const int dot_rows = rows * kDotRows;
  // From 0 dots (nothing) to all of them.
  const auto height_of = [&](uint64_t bytes) {
    const auto dots = static_cast<int>(std::lround(static_cast<double>(bytes) / static_cast<double>(top) * dot_rows));
    return bytes == 0 ? 0 : std::clamp(dots, 1, dot_rows);
  };
  std::vector<std::vector<Cell>> cells(static_cast<size_t>(rows), std::vector<Cell>(static_cast<size_t>(columns)));
  const auto set = [&](int column, int height) -> Cell* {  // height from the bottom, from 1
    const int row = dot_rows - height;
    if (row < 0 || row >= dot_rows || column >= columns * kDotColumns) return nullptr;
    Cell& cell = cells[static_cast<size_t>(row / kDotRows)][static_cast<size_t>(column / kDotColumns)];
    cell.dots |= kDotBits[static_cast<size_t>(column % kDotColumns)][static_cast<size_t>(row % kDotRows)];
    return &cell;
  };
  for (size_t index = 0; index < points.size(); ++index) {
    const int column = static_cast<int>(index);
    for (int height = 1; height <= height_of(points[index].filled); ++height)
      if (Cell* cell = set(column, height)) cell->has_fill = true;
    if (const int height = height_of(points[index].line); height > 0)
      if (Cell* cell = set(column, height)) cell->has_line = true;
    if (chart.limit_bytes > 0 && index % 4 == 0)
      if (Cell* cell = set(column, height_of(chart.limit_bytes))) cell->has_limit = true;
  }

  std::vector<std::string> lines;
  for (int row = 0; row < rows; ++row) {
    const bool has_label = row == 0 || row == rows - 1 || row == rows / 2;
    const uint64_t at = row == rows - 1 ? 0 : static_cast<uint64_t>(static_cast<double>(top) * (rows - row) / rows);
    std::string line = fmt::format("{:>{}} ", has_label ? ledger::human_size(at) : "", kAxis - 2);
    line += chart.use_braille ? "│" : "|";
    const char* color = kPlain;
    for (const Cell& cell : cells[static_cast<size_t>(row)]) {
      const char* wanted = cell.has_line    ? kLineColor
                           : cell.has_limit ? kLimitColor
                           : cell.has_fill  ? kFillColor
                                            : kPlain;
      if (chart.use_color && wanted != color) line += wanted;
      color = wanted;
      if (chart.use_braille) {
        line += cell.dots == 0 ? std::string(" ") : braille(cell.dots);
      } else {
        line += cell.has_fill ? '#' : cell.has_line ? '-' : cell.has_limit ? '.' : ' ';
      }
    }
    if (chart.use_color && color != kPlain) line += kPlain;
    lines.push_back(std::move(line));
  }
  return lines;
}

}  // namespace drydock::watch
