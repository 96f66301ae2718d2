#include "ops/pooling/windows.h"

namespace drydock::ops::kernels {
namespace {

// Larger numbers than any axis; keeps the arithmetic below free of overflow.
constexpr int64_t kMostSteps = int64_t{1} << 31;

/// Number `axis` of an int array with one number or `rank`.
Status number_of(const KernelCall& call, int array, int rank, int axis, int64_t otherwise, int64_t least,
                 int64_t* number) {
  const std::span<const int64_t> numbers = call.ints(array);
  if (numbers.empty()) {
    *number = otherwise;
    return Status::ok();
  }
  if (numbers.size() != 1 && numbers.size() != static_cast<size_t>(rank)) {
    return invalid(call, "kernelSize, stride, padding and dilation need 1 or " + std::to_string(rank) + " numbers");
  }
  *number = numbers[numbers.size() == 1 ? 0 : static_cast<size_t>(axis)];
  if (*number < least || *number >= kMostSteps) {
    return invalid(
        call, "kernelSize, stride and dilation must be positive, padding not negative, not " + std::to_string(*number));
  }
  return Status::ok();
}

}  // namespace

Status windows_of(const KernelCall& call, int rank, const Extent& input, const Extent& output, bool has_dilation,
                  bool ceil_mode, Windows* windows) {
  for (int axis = 0; axis < rank; ++axis) {
    const auto place = static_cast<size_t>(3 - rank + axis);
    WindowAxis& window = (*windows)[place];
    window.inputs = input[place];
    window.outputs = output[place];
    DRYDOCK_RETURN_IF_ERROR(number_of(call, 0, rank, axis, 0, 1, &window.kernel));
    if (window.kernel == 0) return invalid(call, "kernelSize must not be empty");
    DRYDOCK_RETURN_IF_ERROR(number_of(call, 1, rank, axis, window.kernel, 1, &window.stride));
    DRYDOCK_RETURN_IF_ERROR(number_of(call, 2, rank, axis, 0, 0, &window.padding));
    if (has_dilation) DRYDOCK_RETURN_IF_ERROR(number_of(call, 3, rank, axis, 1, 1, &window.dilation));
    const int64_t reach = (window.kernel - 1) * window.dilation + 1;
    if (window.padding > reach / 2) {
      return invalid(
          call, "padding " + std::to_string(window.padding) + " exceeds half of a window of " + std::to_string(reach));
    }
    const int64_t room = window.inputs + 2 * window.padding - reach;
    int64_t expected = 0;
    if (room >= 0 || ceil_mode) {
      expected = (room + (ceil_mode ? window.stride - 1 : 0)) / window.stride + 1;
      // The last window must not start behind the input.
      if (ceil_mode && (expected - 1) * window.stride >= window.inputs + window.padding) --expected;
    }
    if (expected <= 0 || expected != window.outputs) {
      return invalid(call, "an axis of " + std::to_string(window.inputs) + " gives " + std::to_string(expected) +
                               " windows, but the output has " + std::to_string(window.outputs));
    }
  }
  return Status::ok();
}

WindowRanges ranges_of(const WindowAxis& axis) {
  WindowRanges ranges;
  ranges.step = axis.dilation;
  for (int64_t output = 0; output < axis.outputs; ++output) {
    int64_t begin = axis.start(output);
    const int64_t end = std::min(begin + (axis.kernel - 1) * axis.dilation + 1, axis.inputs);
    if (begin < 0) begin += (-begin + axis.dilation - 1) / axis.dilation * axis.dilation;
    ranges.begin.push_back(begin);
    ranges.end.push_back(end);
  }
  return ranges;
}

WindowRanges adaptive_ranges(int64_t inputs, int64_t outputs) {
  WindowRanges ranges;
  for (int64_t output = 0; output < outputs; ++output) {
    ranges.begin.push_back(output * inputs / outputs);
    ranges.end.push_back(((output + 1) * inputs + outputs - 1) / outputs);
  }
  return ranges;
}

Status expect_output_size(const KernelCall& call, int rank, const Extent& output) {
  const std::span<const int64_t> sizes = call.ints(0);
  if (sizes.size() != static_cast<size_t>(rank)) {
    return invalid(call, "outputSize needs " + std::to_string(rank) + " numbers");
  }
  for (int axis = 0; axis < rank; ++axis) {
    const int64_t size = sizes[static_cast<size_t>(axis)];
    if (size > 0 && size != output[static_cast<size_t>(3 - rank + axis)]) {
      return invalid(call, "outputSize says " + std::to_string(size) + ", but the output has " +
                               std::to_string(output[static_cast<size_t>(3 - rank + axis)]));
    }
  }
  return Status::ok();
}

}  // namespace drydock::ops::kernels
