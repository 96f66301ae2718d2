#include <cmath>
#include <vector>

#include "base/data_type.h"
#include "ops/clear_view.h"
#include "ops/complex/complex.h"
#include "ops/kernel_access.h"
#include "ops/kernel_call.h"

// Tensors made from numbers alone: constants, sequences, identity, triangles.

namespace drydock::ops::kernels {
namespace {

TensorView integer_view(const int64_t* value) {
  return contiguous_view(const_cast<int64_t*>(value), DataType::kInt64, Dims());
}

Status fill_with(KernelCall& call, int64_t value) {
  DRYDOCK_RETURN_IF_ERROR(expect_defined(call, 0, 1));
  const TensorView& out = call.output(0);
  if (fill_view(out, integer_view(&value))) return Status::ok();
  if (value != 0) return not_computed(call, "this element type is not computed");
  // All-zero bytes are zero in every type.
  alignas(16) std::array<char, 16> zeros{};
  copy_view(out, contiguous_view(zeros.data(), out.dtype, Dims()));
  return Status::ok();
}

/// output(0)[i] = value(i) in row-major order, computed as C.
template <class C, class Value>
void generate(const TensorView& out, Value&& value) {
  StridedWalk walk(out.dims);
  walk.add(out);
  const Storer<C> store = storer_of<C>(out.dtype);
  int64_t index = 0;
  walk.for_each_run([&](char* const* pointers, const int64_t* strides, int64_t count) {
    C values[kChunk];
    for (int64_t done = 0; done < count; done += kChunk) {
      const int64_t length = std::min(kChunk, count - done);
      for (int64_t k = 0; k < length; ++k) values[k] = static_cast<C>(value(index++));
      store(pointers[0] + done * strides[0], strides[0], length, values);
    }
  });
}

Status keep_triangle(KernelCall& call, bool upper) {
  DRYDOCK_RETURN_IF_ERROR(expect_complex(call, 1, 1));
  const TensorView& self = call.operand(0);
  const TensorView& out = call.output(0);
  const int rank = self.dims.size();
  if (rank < 2 || !(self.dims == out.dims)) return invalid(call, "a matrix and an output of its shape are needed");
  if (self.numel() == 0) return Status::ok();
  const int64_t columns = self.dims[rank - 1];
  const int64_t rows = self.dims[rank - 2];
  // Diagonals outside the matrix are all alike.
  const int64_t diagonal = std::clamp<int64_t>(call.integer(0), -rows - 1, columns + 1);
  for (int64_t row = 0; row < rows; ++row) {
    const TensorView from = narrow(self, rank - 2, row, 1);
    const TensorView to = narrow(out, rank - 2, row, 1);
    // The diagonal is at column row + diagonal; a lower triangle ends with it, an upper one begins with it.
    const int64_t edge = std::clamp<int64_t>(row + diagonal + (upper ? 0 : 1), 0, columns);
    const int64_t kept_start = upper ? edge : 0;
    const int64_t kept = upper ? columns - edge : edge;
    const int64_t cleared_start = upper ? 0 : edge;
    copy_view(narrow(to, rank - 1, kept_start, kept), narrow(from, rank - 1, kept_start, kept));
    clear_view(narrow(to, rank - 1, cleared_start, columns - kept));
  }
  return Status::ok();
}

/// The scalars start, end, step of a sequence; step is 1 where the operator has none.
Status sequence(KernelCall& call) {
  const bool has_step = call.operand_count() > 2 && call.operand(2).defined;
  DRYDOCK_RETURN_IF_ERROR(expect(call, has_step ? 3 : 2, 1));
  const TensorView& out = call.output(0);
  if (!is_floating(out.dtype)) {
    const uint64_t start = static_cast<uint64_t>(as_int64(call.operand(0)));
    const uint64_t step = has_step ? static_cast<uint64_t>(as_int64(call.operand(2))) : 1;
    generate<int64_t>(out, [=](int64_t i) { return static_cast<int64_t>(start + static_cast<uint64_t>(i) * step); });
    return Status::ok();
  }
  const double start = as_double(call.operand(0));
  const double step = has_step ? as_double(call.operand(2)) : 1.0;
  generate<double>(out, [=](int64_t i) { return start + static_cast<double>(i) * step; });
  return Status::ok();
}

// Numbers at equal distances. The second half counts from the end, so that the last is the end exactly; between whole
// numbers the ends are whole.
class EvenSteps {
 public:
  EvenSteps(const TensorView& start, const TensorView& end, const TensorView& out)
      : start_(limit(start, out)), end_(limit(end, out)), count_(out.numel()) {
    if (count_ > 1) step_ = (end_ - start_) / static_cast<double>(count_ - 1);
  }

  double operator()(int64_t i) const {
    return i < count_ / 2 || count_ == 1 ? start_ + step_ * static_cast<double>(i)
                                         : end_ - step_ * static_cast<double>(count_ - 1 - i);
  }

 private:
  static double limit(const TensorView& scalar, const TensorView& out) {
    const double value = as_double(scalar);
    return is_floating(out.dtype) ? value : std::trunc(value);
  }

  double start_;
  double end_;
  int64_t count_;
  double step_ = 0.0;
};

}  // namespace

Status fill_zero(KernelCall& call) { return fill_with(call, 0); }
Status fill_one(KernelCall& call) { return fill_with(call, 1); }

/// The value is the last operand: the destination is one too where its row declares it as read.
Status fill(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect_defined(call, 1, 1));
  const TensorView& value = call.operand(call.operand_count() - 1);
  if (!value.defined) return not_computed(call, "the value is null");
  if (value.numel() != 1) return invalid(call, "value must have one element");
  return fill_view(call.output(0), value) ? Status::ok() : not_computed(call, "the value's type is not computed");
}

Status fill_diagonal(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 1, 1));
  const TensorView& value = call.operand(call.operand_count() - 1);
  if (!is_real_element(value.dtype)) return not_computed(call, "the value's type is not computed");
  const TensorView& out = call.output(0);
  const int rank = out.dims.size();
  if (rank < 2) return invalid(call, "a tensor of at least two dimensions is needed");
  int64_t shortest = out.dims[0];
  int64_t step = 0;
  for (int axis = 0; axis < rank; ++axis) {
    if (rank > 2 && out.dims[axis] != out.dims[0]) return invalid(call, "all dimensions must be of one size");
    shortest = std::min(shortest, out.dims[axis]);
    step += out.strides[axis];
  }
  if (shortest == 0) return Status::ok();
  TensorView diagonal = out;
  diagonal.dims = Dims{shortest};
  diagonal.strides = Dims{step};
  fill_view(diagonal, value);
  if (rank == 2 && call.boolean(0)) {
    // A tall matrix starts a new diagonal one row below the end of the last.
    for (int64_t row = out.dims[1] + 1; row < out.dims[0]; row += out.dims[1] + 1) {
      diagonal.data = narrow(out, 0, row, 1).data;
      diagonal.dims[0] = std::min(out.dims[1], out.dims[0] - row);
      fill_view(diagonal, value);
    }
  }
  return Status::ok();
}

Status arange(KernelCall& call) { return sequence(call); }

Status linspace(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 2, 1));
  const TensorView& out = call.output(0);
  generate<double>(out, EvenSteps(call.operand(0), call.operand(1), out));
  return Status::ok();
}

Status logspace(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 2, 1));
  const TensorView& out = call.output(0);
  const double base = call.number(0);
  const EvenSteps exponent(call.operand(0), call.operand(1), out);
  generate<double>(out, [=](int64_t i) { return std::pow(base, exponent(i)); });
  return Status::ok();
}

Status eye(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 0, 1));
  const TensorView& out = call.output(0);
  if (out.dims.size() != 2) return invalid(call, "the output must be a matrix");
  const int64_t columns = out.dims[1];
  generate<int64_t>(out, [=](int64_t i) { return i / columns == i % columns ? 1 : 0; });
  return Status::ok();
}

Status tril(KernelCall& call) { return keep_triangle(call, false); }
Status triu(KernelCall& call) { return keep_triangle(call, true); }

Status one_hot(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect(call, 3, 1));
  const TensorView& out = call.output(0);
  int axis = 0;
  DRYDOCK_RETURN_IF_ERROR(wrap_dim(call, call.integer(1), out.dims.size(), &axis));
  TensorView indices = call.operand(0);
  if (out.dims.size() != indices.dims.size() + 1) return invalid(call, "the output needs one dimension more than self");
  indices = unsqueeze(indices, axis);
  // The class of each output element, as a view of 0, 1, 2, ... along the axis.
  std::vector<int64_t> classes(static_cast<size_t>(out.dims[axis]));
  for (size_t i = 0; i < classes.size(); ++i) classes[i] = static_cast<int64_t>(i);
  TensorView along = contiguous_view(classes.data(), DataType::kInt64, Dims());
  for (int other = 0; other < out.dims.size(); ++other) {
    along.dims.push_back(other == axis ? out.dims[axis] : 1);
    along.strides.push_back(other == axis ? 1 : 0);
  }
  TensorView on = call.operand(1);
  TensorView off = call.operand(2);
  if (on.numel() != 1 || off.numel() != 1) return invalid(call, "onValue and offValue must have one element");
  const double on_value = as_double(on);
  const double off_value = as_double(off);
  const bool fits = map_elements<double, 2>(out, {&indices, &along}, {DataType::kUndefined, DataType::kUndefined},
                                            [=](double index, double c) { return index == c ? on_value : off_value; });
  return fits ? Status::ok() : invalid(call, "the output has not the shape of self with the classes inserted");
}

}  // namespace drydock::ops::kernels
