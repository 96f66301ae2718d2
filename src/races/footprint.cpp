#include "races/footprint.h"

#include <algorithm>

namespace drydock::races {
namespace {

constexpr uint64_t kMostRuns = uint64_t{1} << 16;
constexpr int kMostSteps = 1 << 20;  // of one comparison

uint64_t runs_of(const Footprint& footprint) noexcept {
  uint64_t runs = 1;
  for (int axis = 0; axis < footprint.axis_count; ++axis) {
    runs *= footprint.axes[static_cast<size_t>(axis)].count;
    if (runs > kMostRuns) return kMostRuns + 1;
  }
  return runs;
}

/// Whether the part of `footprint` from `axis` on, moved to `base`, touches [begin, end).
bool touches(const Footprint& footprint, int axis, uint64_t base, uint64_t begin, uint64_t end, int& steps) noexcept {
  if (--steps < 0) return false;
  if (axis == footprint.axis_count) return base < end && begin < base + footprint.run_bytes;
  uint64_t span = footprint.run_bytes;  // of what one index of this axis reaches
  for (int inner = axis + 1; inner < footprint.axis_count; ++inner) {
    const Footprint::Axis& each = footprint.axes[static_cast<size_t>(inner)];
    span += (each.count - 1) * each.stride_bytes;
  }
  const Footprint::Axis& outer = footprint.axes[static_cast<size_t>(axis)];
  if (end <= base || begin >= base + span + (outer.count - 1) * outer.stride_bytes) return false;
  const uint64_t first = begin >= base + span ? (begin - base - span) / outer.stride_bytes + 1 : 0;
  const uint64_t last = std::min(outer.count - 1, (end - 1 - base) / outer.stride_bytes);
  for (uint64_t index = first; index <= last; ++index)
    if (touches(footprint, axis + 1, base + index * outer.stride_bytes, begin, end, steps)) return true;
  return false;
}

}  // namespace

bool Footprint::operator==(const Footprint& other) const noexcept {
  return begin == other.begin && end == other.end && run_bytes == other.run_bytes && axis_count == other.axis_count &&
         std::equal(axes.begin(), axes.begin() + axis_count, other.axes.begin());
}

Footprint footprint_of(uint64_t address, uint64_t element_bytes, const int64_t* sizes, const int64_t* strides,
                       int rank) noexcept {
  constexpr int kMostRank = 32;
  std::array<Footprint::Axis, kMostRank> axes;
  int count = 0;
  uint64_t reach = 0;
  for (int axis = 0; axis < rank && count < kMostRank; ++axis) {
    if (sizes[axis] == 0) return Footprint::dense(address, address);
    if (sizes[axis] == 1 || strides[axis] == 0) continue;  // the same bytes again
    axes[static_cast<size_t>(count++)] = {static_cast<uint64_t>(sizes[axis]),
                                          static_cast<uint64_t>(strides[axis]) * element_bytes};
    reach += static_cast<uint64_t>(sizes[axis] - 1) * static_cast<uint64_t>(strides[axis]) * element_bytes;
  }
  Footprint footprint = Footprint::dense(address, address + reach + element_bytes);
  std::sort(axes.begin(), axes.begin() + count, [](const Footprint::Axis& left, const Footprint::Axis& right) {
    return left.stride_bytes < right.stride_bytes;
  });
  uint64_t run = element_bytes;
  int inner = 0;
  // Overlapping windows (unfold) leave no gaps either.
  const auto fold = [&] {
    const Footprint::Axis& each = axes[static_cast<size_t>(inner++)];
    run += (each.count - 1) * each.stride_bytes;
  };
  while (inner < count && axes[static_cast<size_t>(inner)].stride_bytes <= run) fold();
  while (count - inner > Footprint::kMostAxes) fold();
  footprint.run_bytes = run;
  for (int axis = count - 1; axis >= inner; --axis)
    footprint.axes[static_cast<size_t>(footprint.axis_count++)] = axes[static_cast<size_t>(axis)];
  return footprint;
}

bool overlap(const Footprint& left, const Footprint& right) noexcept {
  if (left.begin >= right.end || right.begin >= left.end) return false;
  if (left.is_dense() && right.is_dense()) return true;
  const bool left_is_smaller = runs_of(left) <= runs_of(right);
  const Footprint& few = left_is_smaller ? left : right;
  const Footprint& many = left_is_smaller ? right : left;
  if (runs_of(few) > kMostRuns) return false;
  int steps = kMostSteps;
  std::array<uint64_t, Footprint::kMostAxes> index{};
  uint64_t base = few.begin;
  while (steps > 0) {
    if (touches(many, 0, many.begin, base, base + few.run_bytes, steps)) return true;
    int axis = few.axis_count - 1;
    for (; axis >= 0; --axis) {
      const auto at = static_cast<size_t>(axis);
      base += few.axes[at].stride_bytes;
      if (++index[at] < few.axes[at].count) break;
      base -= few.axes[at].stride_bytes * few.axes[at].count;
      index[at] = 0;
    }
    if (axis < 0) return false;
  }
  return false;
}

}  // namespace drydock::races
