#include <vector>

#include "base/saturating.h"
#include "ops/kernel_access.h"
#include "ops/kernel_call.h"

// Rearrangements: each output element is one input element (or a constant), at another place.

namespace drydock::ops::kernels {
namespace {

/// A dense copy of a view, in row-major order.
struct DenseCopy {
  explicit DenseCopy(const TensorView& view)
      : bytes(static_cast<size_t>(bytes_of(view.dtype, view.numel())) + 16),
        view(contiguous_view(bytes.data(), view.dtype, view.dims)) {
    copy_view(this->view, view);
  }
  std::vector<char> bytes;
  TensorView view;
};

TensorView reshaped(const TensorView& dense, const Dims& dims) {
  return contiguous_view(dense.data, dense.dtype, dims);
}

TensorView permuted(const TensorView& view, const Dims& order) {
  TensorView result = view;
  for (int axis = 0; axis < order.size(); ++axis) {
    result.dims[axis] = view.dims[static_cast<int>(order[axis])];
    result.strides[axis] = view.strides[static_cast<int>(order[axis])];
  }
  return result;
}

Status copied(const KernelCall& call, bool fits) {
  return fits ? Status::ok() : invalid(call, "the output has not the shape that the arguments ask for");
}

Status expect_one_type(const KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect_defined(call, 1, 1));
  return call.operand(0).dtype == call.output(0).dtype ||
                 (is_real_element(call.operand(0).dtype) && is_real_element(call.output(0).dtype))
             ? Status::ok()
             : not_computed(call, "this conversion is not computed");
}

}  // namespace

Status flip(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect_one_type(call));
  TensorView self = call.operand(0);
  if (call.ints(0).empty()) return copied(call, copy_view(call.output(0), self));
  Dims axes;
  DRYDOCK_RETURN_IF_ERROR(axes_of(call, call.ints(0), self.dims.size(), &axes));
  if (self.numel() == 0) return Status::ok();
  for (int64_t axis : axes) {
    if (self.dims.empty()) break;
    self = narrow(self, static_cast<int>(axis), self.dims[static_cast<int>(axis)] - 1,
                  self.dims[static_cast<int>(axis)], -1);
  }
  return copied(call, copy_view(call.output(0), self));
}

Status roll(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect_one_type(call));
  const TensorView& self = call.operand(0);
  const std::span<const int64_t> shifts = call.ints(0);
  const std::span<const int64_t> dims = call.ints(1);
  if (dims.empty() ? shifts.size() != 1 : shifts.size() != dims.size()) {
    return invalid(call, "shifts and dims must have as many elements (one shift where dims is empty)");
  }
  if (self.numel() == 0) return Status::ok();
  DenseCopy current(self);
  const bool flat = dims.empty();
  if (flat) current.view = reshaped(current.view, Dims{self.numel()});
  for (size_t i = 0; i < shifts.size(); ++i) {
    int axis = 0;
    if (!flat) DRYDOCK_RETURN_IF_ERROR(wrap_dim(call, dims[i], self.dims.size(), &axis));
    if (current.view.dims.empty()) continue;
    const int64_t size = current.view.dims[axis];
    const int64_t shift = (shifts[i] % size + size) % size;
    DenseCopy before(current.view);
    copy_view(narrow(current.view, axis, shift, size - shift), narrow(before.view, axis, 0, size - shift));
    copy_view(narrow(current.view, axis, 0, shift), narrow(before.view, axis, size - shift, shift));
  }
  return copied(call, copy_view(call.output(0), reshaped(current.view, self.dims)));
}

Status repeat(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect_one_type(call));
  const std::span<const int64_t> repeats = call.ints(0);
  const int rank = static_cast<int>(repeats.size());
  TensorView self = call.operand(0);
  if (rank < self.dims.size() || 2 * rank > kMaxRank || call.output(0).dims.size() != rank) {
    return invalid(call, "repeats must have at least as many elements as the tensor has dimensions");
  }
  while (self.dims.size() < rank) self = unsqueeze(self, 0);
  // The output as (repeat, size) pairs, the tensor as (1, size) pairs: then it is a broadcast.
  TensorView out = call.output(0);
  const TensorView& full = call.output(0);
  out.dims.clear();
  out.strides.clear();
  for (int axis = 0; axis < rank; ++axis) {
    const int64_t size = self.dims[axis];
    const int64_t times = repeats[static_cast<size_t>(axis)];
    // A quotient instead of a product, which could overflow.
    if (size > 0 ? times != full.dims[axis] / size || full.dims[axis] % size != 0 : full.dims[axis] != 0) {
      return copied(call, false);
    }
    out.dims.push_back(size > 0 ? times : 1);
    out.dims.push_back(size);
    out.strides.push_back(full.strides[axis] * size);
    out.strides.push_back(full.strides[axis]);
  }
  for (int axis = 0; axis < rank; ++axis) self = unsqueeze(self, 2 * axis);
  return copied(call, copy_view(out, self));
}

Status constant_pad(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect_one_type(call));
  DRYDOCK_RETURN_IF_ERROR(expect_defined(call, 2, 1));
  const std::span<const int64_t> pad = call.ints(0);
  TensorView source = call.operand(0);
  TensorView target = call.output(0);
  const int rank = source.dims.size();
  if (pad.size() % 2 != 0 || static_cast<int>(pad.size() / 2) > rank || target.dims.size() != rank) {
    return invalid(call, "pad must hold two numbers for each of the last dimensions");
  }
  if (!fill_view(target, call.operand(1))) return not_computed(call, "the pad value does not convert");
  for (size_t pair = 0; pair < pad.size() / 2; ++pair) {
    const int axis = rank - 1 - static_cast<int>(pair);
    const int64_t before = pad[2 * pair];
    const int64_t after = pad[2 * pair + 1];
    constexpr int64_t kMost = int64_t{1} << 48;  // beyond any memory, and far from an overflow
    if (std::max(before, after) > kMost || std::min(before, after) < -kMost ||
        source.dims[axis] + before + after != target.dims[axis]) {
      return copied(call, false);
    }
    const int64_t kept = source.dims[axis] + std::min<int64_t>(before, 0) + std::min<int64_t>(after, 0);
    if (kept <= 0) return Status::ok();
    source = narrow(source, axis, std::max<int64_t>(-before, 0), kept);
    target = narrow(target, axis, std::max<int64_t>(before, 0), kept);
  }
  return copied(call, copy_view(target, source));
}

Status confusion_transpose(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect_one_type(call));
  const TensorView& self = call.operand(0);
  const Dims order(call.ints(0));
  const Dims shape(call.ints(1));
  const bool transpose_first = call.boolean(0);
  if (saturating_product(shape.span()) != self.numel() ||
      order.size() != (transpose_first ? self.dims : shape).size()) {
    return invalid(call, "perm or shape does not fit the tensor");
  }
  Dims axes;
  DRYDOCK_RETURN_IF_ERROR(axes_of(call, order.span(), order.size(), &axes));
  if (axes.size() != order.size() || std::any_of(order.begin(), order.end(), [](int64_t a) { return a < 0; })) {
    return invalid(call, "perm must name each dimension once");
  }
  if (transpose_first) {
    const DenseCopy transposed(permuted(self, order));
    return copied(call, copy_view(call.output(0), reshaped(transposed.view, shape)));
  }
  const DenseCopy dense(self);
  return copied(call, copy_view(call.output(0), permuted(reshaped(dense.view, shape), order)));
}

Status strided_slice(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect_one_type(call));
  const std::span<const int64_t> begin = call.ints(0);
  const std::span<const int64_t> end = call.ints(1);
  const std::span<const int64_t> strides = call.ints(2);
  if (begin.size() != end.size() || begin.size() != strides.size()) {
    return invalid(call, "begin, end and strides must have as many elements");
  }
  if (begin.size() + static_cast<size_t>(call.operand(0).dims.size()) > static_cast<size_t>(kMaxRank)) {
    return invalid(call, "more slices than a tensor can have dimensions");
  }
  const auto has_bit = [&](int mask, size_t bit) { return (call.integer(mask) >> bit & 1) != 0; };
  constexpr int kBeginMask = 0, kEndMask = 1, kEllipsisMask = 2, kNewAxisMask = 3, kShrinkMask = 4;
  TensorView view = call.operand(0);
  int indexed = 0;  // dimensions of the tensor that an entry other than the ellipsis consumes
  for (size_t i = 0; i < begin.size(); ++i) indexed += !has_bit(kEllipsisMask, i) && !has_bit(kNewAxisMask, i);
  if (indexed > view.dims.size()) return invalid(call, "more slices than the tensor has dimensions");
  int axis = 0;
  for (size_t i = 0; i < begin.size(); ++i) {
    if (has_bit(kEllipsisMask, i)) {
      axis += call.operand(0).dims.size() - indexed;
      continue;
    }
    if (has_bit(kNewAxisMask, i)) {
      view = unsqueeze(view, axis++);
      continue;
    }
    const int64_t size = view.dims[axis];
    if (strides[i] == 0) return invalid(call, "a stride must not be 0");
    const int64_t step = std::clamp(strides[i], -size - 1, size + 1);  // longer ones reach the first element alone
    if (has_bit(kShrinkMask, i)) {
      int64_t index = 0;
      DRYDOCK_RETURN_IF_ERROR(checked_index(call, begin[i], size, &index));
      view = select(view, axis, index);
      continue;
    }
    const int64_t lowest = step > 0 ? 0 : -1;
    const int64_t highest = step > 0 ? size : size - 1;
    const auto bounded = [&](int64_t at) { return std::clamp(at < 0 ? at + size : at, lowest, highest); };
    const int64_t first = has_bit(kBeginMask, i) ? (step > 0 ? 0 : size - 1) : bounded(begin[i]);
    const int64_t last = has_bit(kEndMask, i) ? (step > 0 ? size : -1) : bounded(end[i]);
    const int64_t length = std::max<int64_t>(0, (last - first + step - (step > 0 ? 1 : -1)) / step);
    view = narrow(view, axis++, length > 0 ? first : 0, length, step);
  }
  return copied(call, view.dims == call.output(0).dims && copy_view(call.output(0), view));
}

namespace {

/// out along `axis` = each slice of `self` as often as `repeats` (its elements, or one for all) says.
Status repeat_slices(const KernelCall& call, const TensorView& self, const std::vector<int64_t>& repeats, int axis) {
  const TensorView& out = call.output(0);
  const int64_t size = self.dims[axis];
  if (repeats.size() != 1 && static_cast<int64_t>(repeats.size()) != size) {
    return invalid(call, "repeats must have one element, or one for each index of the dimension");
  }
  if (out.dims.size() != self.dims.size()) return copied(call, false);
  int64_t at = 0;
  for (int64_t index = 0; index < size; ++index) {
    const int64_t times = repeats[repeats.size() == 1 ? 0 : static_cast<size_t>(index)];
    if (times < 0) return invalid(call, "repeats must not be negative");
    if (times > out.dims[axis] - at) return copied(call, false);
    if (!copy_view(narrow(out, axis, at, times), narrow(self, axis, index, 1))) return copied(call, false);
    at += times;
  }
  return copied(call, at == out.dims[axis]);
}

Status integers_of(const KernelCall& call, const TensorView& view, std::vector<int64_t>* values) {
  if (!is_real_element(view.dtype) || is_floating(view.dtype)) return invalid(call, "repeats must be integers");
  for_each_value<int64_t>(view, [&](int64_t value) { values->push_back(value); });
  return Status::ok();
}

Status repeat_flat(KernelCall& call, const std::vector<int64_t>& repeats) {
  DenseCopy flat(call.operand(0));
  flat.view = reshaped(flat.view, Dims{call.operand(0).numel()});
  return repeat_slices(call, flat.view, repeats, 0);
}

Status repeat_along(KernelCall& call, const std::vector<int64_t>& repeats, int64_t dim) {
  TensorView self = call.operand(0);
  if (self.dims.empty()) self = unsqueeze(self, 0);
  int axis = 0;
  DRYDOCK_RETURN_IF_ERROR(wrap_dim(call, dim, self.dims.size(), &axis));
  return repeat_slices(call, self, repeats, axis);
}

}  // namespace

Status repeat_interleave(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect_one_type(call));
  DRYDOCK_RETURN_IF_ERROR(expect_defined(call, 2, 1));
  std::vector<int64_t> repeats;
  DRYDOCK_RETURN_IF_ERROR(integers_of(call, call.operand(1), &repeats));
  return repeat_flat(call, repeats);
}

Status repeat_interleave_with_dim(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect_one_type(call));
  DRYDOCK_RETURN_IF_ERROR(expect_defined(call, 2, 1));
  std::vector<int64_t> repeats;
  DRYDOCK_RETURN_IF_ERROR(integers_of(call, call.operand(1), &repeats));
  return repeat_along(call, repeats, call.integer(0));
}

Status repeat_interleave_int(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect_one_type(call));
  return repeat_flat(call, {call.integer(0)});
}

Status repeat_interleave_int_with_dim(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect_one_type(call));
  return repeat_along(call, {call.integer(0)}, call.integer(1));
}

/// Index i as often as repeats[i] says.
Status repeat_interleave_indices(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 1, 1));
  std::vector<int64_t> repeats;
  DRYDOCK_RETURN_IF_ERROR(integers_of(call, call.operand(0), &repeats));
  std::vector<int64_t> indices(repeats.size());
  for (size_t i = 0; i < indices.size(); ++i) indices[i] = static_cast<int64_t>(i);
  const TensorView self = contiguous_view(indices.data(), DataType::kInt64, Dims{static_cast<int64_t>(indices.size())});
  if (repeats.empty()) return Status::ok();
  return repeat_slices(call, self, repeats, 0);
}

}  // namespace drydock::ops::kernels
