#include <cmath>
#include <numbers>
#include <string_view>
#include <vector>

#include "base/thread_pool.h"
#include "ops/spatial/planes.h"

// How much boxes overlap.

namespace drydock::ops::kernels {
namespace {

/// Corners of a box.
struct Box {
  float left, top, right, bottom;
  float width() const { return right - left; }
  float height() const { return bottom - top; }
};

struct Overlap {
  bool by_second = false;  ///< divides by the second box's area instead of the union's
  float epsilon = 0;       ///< added to widths and heights

  float area(const Box& box) const { return (box.width() + epsilon) * (box.height() + epsilon); }
  float operator()(const Box& a, const Box& b) const {
    const float width = std::max(std::min(a.right, b.right) + epsilon - std::max(a.left, b.left), 0.0F);
    const float height = std::max(std::min(a.bottom, b.bottom) + epsilon - std::max(a.top, b.top), 0.0F);
    const float common = width * height;
    return common / (by_second ? area(b) : area(a) + area(b) - common);
  }
};

Status overlap_of(const KernelCall& call, float epsilon, Overlap* overlap) {
  const std::string_view mode = call.text(0);
  if (mode != "iou" && mode != "iof") return invalid(call, "mode must be \"iou\" or \"iof\"");
  if (!(epsilon >= 0)) return invalid(call, "eps must not be negative");
  *overlap = {mode == "iof", epsilon};
  return Status::ok();
}

/// Boxes along dimension `axis`, their four numbers along the other.
std::vector<Box> boxes_of(const TensorView& view, int axis, bool by_center) {
  const Rows rows(view, 1 - axis);
  std::vector<Box> boxes;
  std::array<float, 4> buffer{};
  for (int64_t k = 0; k < rows.count(); ++k) {
    const float* numbers = rows.read<float>(k, buffer.data());
    if (by_center) {
      const float half_width = numbers[2] / 2;
      const float half_height = numbers[3] / 2;
      boxes.push_back(
          {numbers[0] - half_width, numbers[1] - half_height, numbers[0] + half_width, numbers[1] + half_height});
    } else {
      boxes.push_back({numbers[0], numbers[1], numbers[2], numbers[3]});
    }
  }
  return boxes;
}

Status expect_boxes(const KernelCall& call, int numbers_axis) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 2, 1));
  for (int operand = 0; operand < 2; ++operand) {
    const TensorView& view = call.operand(operand);
    if (view.dims.size() != 2 || view.dims[numbers_axis] != 4) return invalid(call, "boxes need four numbers");
    if (!is_floating(view.dtype)) return not_computed(call, "boxes of integers are not computed");
  }
  if (call.output(0).dims.size() != 2) return invalid(call, "the output must be a matrix");
  return Status::ok();
}

}  // namespace

/// Operands: boxes [m, 4] and [n, 4]; the output is [m, n], or [m, 1] if they are compared one by one.
Status box_iou(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect_boxes(call, 1));
  const TensorView& out = call.output(0);
  Overlap overlap;
  DRYDOCK_RETURN_IF_ERROR(overlap_of(call, static_cast<float>(call.number(0)), &overlap));
  const int64_t count = call.operand(0).dims[0];
  const int64_t others = call.operand(1).dims[0];
  const bool aligned = call.boolean(0);
  if (out.dims[0] != count || out.dims[1] != (aligned ? 1 : others) || (aligned && count != others)) {
    return invalid(call, "the output must be [m, n], or [m, 1] for as many boxes on both sides");
  }
  const std::vector<Box> first = boxes_of(call.operand(0), 0, false);
  const std::vector<Box> second = boxes_of(call.operand(1), 0, false);
  const Rows rows(out, 1);
  base::parallel_for(count, plane_grain(rows.length() * 8), [&](int64_t begin, int64_t end) {
    const auto results = scratch<float>(rows.length());
    for (int64_t i = begin; i < end; ++i) {
      const Box& box = first[static_cast<size_t>(i)];
      for (int64_t j = 0; j < rows.length(); ++j) {
        results[static_cast<size_t>(j)] = overlap(box, second[static_cast<size_t>(aligned ? i : j)]);
      }
      rows.write<float>(i, results.get());
    }
  });
  return Status::ok();
}

/// Operands: boxes [4, m] and [4, n]. Outputs: the overlap, less what centres and proportions differ, and the
/// difference of the angles of both boxes; [1, m], or [m, n] if all are compared with all.
Status complete_box_iou(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect_boxes(call, 0));
  DRYDOCK_RETURN_IF_ERROR(expect(call, 2, 2));
  // Keeps apart from zero what is divided by, where boxes are empty.
  constexpr float kEpsilon = 1e-9F;
  Overlap overlap;
  DRYDOCK_RETURN_IF_ERROR(overlap_of(call, 0, &overlap));
  const TensorView& out = call.output(0);
  const int64_t count = call.operand(0).dims[1];
  const int64_t others = call.operand(1).dims[1];
  const bool crosses = call.boolean(1);
  if (out.dims[0] != (crosses ? count : 1) || out.dims[1] != (crosses ? others : count) ||
      (!crosses && count != others) || !(call.output(1).dims == out.dims)) {
    return invalid(call, "the outputs must be [1, m] for as many boxes on both sides, or [m, n]");
  }
  const std::vector<Box> first = boxes_of(call.operand(0), 1, call.boolean(0));
  const std::vector<Box> second = boxes_of(call.operand(1), 1, call.boolean(0));
  std::vector<float> overlaps;
  std::vector<float> angles;
  for (int64_t k = 0; k < out.numel(); ++k) {
    const Box& a = first[static_cast<size_t>(crosses ? k / others : k)];
    const Box& b = second[static_cast<size_t>(crosses ? k % others : k)];
    const float around_x = std::max(a.right, b.right) - std::min(a.left, b.left);
    const float around_y = std::max(a.bottom, b.bottom) - std::min(a.top, b.top);
    const float apart_x = (a.left + a.right - b.left - b.right) / 2;
    const float apart_y = (a.top + a.bottom - b.top - b.bottom) / 2;
    const float angle = std::atan(b.width() / (b.height() + kEpsilon)) - std::atan(a.width() / (a.height() + kEpsilon));
    const float iou = overlap(a, b);
    const auto pi = std::numbers::pi_v<float>;
    const float v = 4 / (pi * pi) * angle * angle;
    const float alpha = v / (1 - iou + v + kEpsilon);
    const float distance =
        (apart_x * apart_x + apart_y * apart_y) / (around_x * around_x + around_y * around_y + kEpsilon);
    overlaps.push_back(iou - distance - alpha * v);
    angles.push_back(angle);
  }
  if (out.numel() == 0) return Status::ok();
  Rows(out, Dims{0, 1}).write<float>(0, overlaps.data());
  Rows(call.output(1), Dims{0, 1}).write<float>(0, angles.data());
  return Status::ok();
}

}  // namespace drydock::ops::kernels
