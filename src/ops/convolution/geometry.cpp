#include "ops/convolution/geometry.h"

#include <string>

#include "base/saturating.h"

namespace drydock::ops::kernels {
namespace {

TensorView with_three_spatial(TensorView view) {
  while (view.dims.size() < 5) view = unsqueeze(view, 2);
  return view;
}

/// Value of spatial dimension `axis` of `rank`: one value stands for all.
bool value_at(std::span<const int64_t> values, int rank, int axis, int64_t* value) {
  if (values.size() != 1 && values.size() != static_cast<size_t>(rank)) return false;
  *value = values.size() == 1 ? values[0] : values[static_cast<size_t>(axis)];
  return true;
}

/// Paddings are one value per dimension, or one before and one after each.
bool paddings_at(std::span<const int64_t> values, int rank, int axis, Window* window) {
  if (rank < 3 && values.size() == 2 * static_cast<size_t>(rank)) {
    window->pad_before = values[2 * static_cast<size_t>(axis)];
    window->pad_after = values[2 * static_cast<size_t>(axis) + 1];
    return true;
  }
  if (!value_at(values, rank, axis, &window->pad_before)) return false;
  window->pad_after = window->pad_before;
  return true;
}

Status read_window(const KernelCall& call, const ConvolutionArguments& arguments, int rank, int axis, Window* window) {
  if (!value_at(arguments.stride, rank, axis, &window->stride) ||
      !value_at(arguments.dilation, rank, axis, &window->dilation) ||
      !paddings_at(arguments.padding, rank, axis, window)) {
    return invalid(call, "stride, padding and dilation need one value for each of the " + std::to_string(rank) +
                             " spatial dimensions");
  }
  // The limit keeps all products of sizes far from overflow.
  constexpr int64_t kMost = int64_t{1} << 31;
  if (window->stride < 1 || window->dilation < 1 || window->pad_before < 0 || window->pad_after < 0 ||
      window->stride > kMost || window->dilation > kMost || window->pad_before > kMost || window->pad_after > kMost) {
    return invalid(call, "stride and dilation must be positive, padding must not be negative");
  }
  return Status::ok();
}

Status check_size(const KernelCall& call, const ConvolutionArguments& arguments, const Window& window, int rank,
                  int axis, int64_t image, int64_t map) {
  const int64_t padded = image + window.pad_before + window.pad_after;
  if (!arguments.transposed) {
    if (padded < window.reach()) {
      return invalid(call, "the padded input has " + std::to_string(padded) + " positions, the filter covers " +
                               std::to_string(window.reach()));
    }
    const int64_t expected = (padded - window.reach()) / window.stride + 1;
    if (map == expected) return Status::ok();
    return invalid(call, "the output has " + std::to_string(map) + " positions along a dimension that gives " +
                             std::to_string(expected));
  }
  int64_t added = 0;
  if (!arguments.output_padding.empty() && !value_at(arguments.output_padding, rank, axis, &added)) {
    return invalid(call, "outputPadding needs one value for each spatial dimension");
  }
  if (added < 0 || (added > 0 && added >= window.stride && added >= window.dilation)) {
    return invalid(call, "outputPadding must be smaller than the stride or the dilation");
  }
  const int64_t expected = (map - 1) * window.stride + window.reach() + added;
  if (padded == expected) return Status::ok();
  return invalid(call, "the output has " + std::to_string(image) + " positions along a dimension that gives " +
                           std::to_string(expected - window.pad_before - window.pad_after));
}

}  // namespace

Status arrange(const KernelCall& call, const TensorView& input, const TensorView& filters, const TensorView& output,
               const ConvolutionArguments& arguments, ConvolutionViews* views) {
  const int rank = filters.dims.size() - 2;
  if (rank < 1 || rank > 3 || input.dims.size() != rank + 2 || output.dims.size() != rank + 2) {
    return invalid(call, "input " + text_of(input.dims) + ", weight " + text_of(filters.dims) + " and output " +
                             text_of(output.dims) + " must all have 3, 4 or 5 dimensions");
  }
  views->image = with_three_spatial(arguments.transposed ? output : input);
  views->map = with_three_spatial(arguments.transposed ? input : output);
  views->filters = with_three_spatial(filters);
  views->groups = arguments.groups;
  const Dims &image = views->image.dims, &map = views->map.dims, &taps = views->filters.dims;
  if (arguments.groups < 1 || taps[0] % arguments.groups != 0 || map[1] != taps[0] ||
      image[1] != saturating_product(taps[1], arguments.groups) || image[0] != map[0]) {
    return invalid(call, "input " + text_of(input.dims) + ", weight " + text_of(filters.dims) + " and output " +
                             text_of(output.dims) + " do not belong together in " + std::to_string(arguments.groups) +
                             " groups");
  }
  for (int axis = 0; axis < rank; ++axis) {
    const int spatial = 3 - rank + axis;
    Window& window = views->window[static_cast<size_t>(spatial)];
    window.size = taps[2 + spatial];
    if (window.size < 1 && views->filters.numel() > 0) return invalid(call, "the weight has no elements");
    DRYDOCK_RETURN_IF_ERROR(read_window(call, arguments, rank, axis, &window));
    if (map[2 + spatial] > 0 || !arguments.transposed) {
      DRYDOCK_RETURN_IF_ERROR(check_size(call, arguments, window, rank, axis, image[2 + spatial], map[2 + spatial]));
    }
  }
  return Status::ok();
}

}  // namespace drydock::ops::kernels
