#include <vector>

#include "ops/clear_view.h"
#include "ops/complex/complex.h"
#include "ops/kernel_access.h"
#include "ops/kernel_call.h"
#include "ops/shapes.h"

// Copies, conversions, and the joining and splitting of tensors. All are copies between views.

namespace drydock::ops::kernels {
namespace {

Status copied(const KernelCall& call, bool fits) {
  return fits ? Status::ok()
              : invalid(call, "the shapes of source and destination do not fit, or their types do not convert: " +
                                  shapes_of(call));
}

/// False for types that neither convert nor have whole bytes.
bool is_movable(const TensorView& view) { return bits_of(view.dtype) > 0 && bits_of(view.dtype) % 8 == 0; }

Status expect_convertible(const KernelCall& call, const TensorView& out, const TensorView& in) {
  if (!is_movable(in) || !is_movable(out)) return not_computed(call, "packed and untyped elements are not copied");
  if (in.dtype != out.dtype && (!is_complex_or_real(in.dtype) || !is_complex_or_real(out.dtype))) {
    return not_computed(call, "conversion from " + std::string(name_of(in.dtype)) + " to " +
                                  std::string(name_of(out.dtype)) + " is not computed");
  }
  return Status::ok();
}

}  // namespace

/// The source is the last operand: the destination is one too where its row declares it as read.
Status copy(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect_defined(call, 1, 1));
  const TensorView& source = call.operand(call.operand_count() - 1);
  DRYDOCK_RETURN_IF_ERROR(expect_convertible(call, call.output(0), source));
  return copied(call, copy_view(call.output(0), source));
}

Status concatenate(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect_defined(call, 0, 1));
  const TensorView& out = call.output(0);
  if (out.dims.empty()) return invalid(call, "tensors of rank 0 cannot be joined");
  int axis = 0;
  DRYDOCK_RETURN_IF_ERROR(wrap_dim(call, call.integer(0), out.dims.size(), &axis));
  int64_t start = 0;
  for (const TensorView& part : call.operand_list(0)) {
    if (!part.defined) return invalid(call, "the list of tensors has a null element");
    if (part.dims == Dims{0} && out.dims.size() != 1) continue;  // PyTorch lets an empty vector join anything
    DRYDOCK_RETURN_IF_ERROR(expect_convertible(call, out, part));
    if (part.dims.size() != out.dims.size() || part.dims[axis] > out.dims[axis] - start) {
      return invalid(call, "the tensors do not add up to the shape of the output: " + shapes_of(call));
    }
    DRYDOCK_RETURN_IF_ERROR(copied(call, copy_view(narrow(out, axis, start, part.dims[axis]), part)));
    start += part.dims[axis];
  }
  return Status::ok();
}

Status stack(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect_defined(call, 0, 1));
  const TensorView& out = call.output(0);
  int axis = 0;
  DRYDOCK_RETURN_IF_ERROR(wrap_dim(call, call.integer(0), out.dims.size(), &axis));
  int64_t index = 0;
  for (const TensorView& part : call.operand_list(0)) {
    if (!part.defined) return invalid(call, "the list of tensors has a null element");
    DRYDOCK_RETURN_IF_ERROR(expect_convertible(call, out, part));
    if (out.dims.empty() || index >= out.dims[axis]) {
      return invalid(call, "the output has room for fewer tensors than the list has");
    }
    DRYDOCK_RETURN_IF_ERROR(copied(call, copy_view(select(out, axis, index++), part)));
  }
  return Status::ok();
}

Status split_with_size(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect_defined(call, 1, 0));
  const TensorView& self = call.operand(0);
  int axis = 0;
  DRYDOCK_RETURN_IF_ERROR(wrap_dim(call, call.integer(0), self.dims.size(), &axis));
  if (self.dims.empty()) return invalid(call, "a tensor of rank 0 cannot be split");
  int64_t start = 0;
  for (const TensorView& part : call.output_list(0)) {
    if (!part.defined) return invalid(call, "the list of outputs has a null element");
    DRYDOCK_RETURN_IF_ERROR(expect_convertible(call, part, self));
    if (part.dims.size() != self.dims.size() || part.dims[axis] > self.dims[axis] - start) {
      return invalid(call, "the outputs ask for more than the tensor has along the split dimension");
    }
    DRYDOCK_RETURN_IF_ERROR(copied(call, copy_view(part, narrow(self, axis, start, part.dims[axis]))));
    start += part.dims[axis];
  }
  return Status::ok();
}

/// Each tensor is cut into `numChunks` equal pieces along dim (the last padded with zeros); piece c of every tensor,
/// flattened from dim on, follows in row c of the output.
Status chunk_cat(KernelCall& call) {
  DRYDOCK_RETURN_IF_ERROR(expect_defined(call, 0, 1));
  const TensorView& out = call.output(0);
  const int64_t chunks = call.integer(1);
  int axis = 0;
  DRYDOCK_RETURN_IF_ERROR(wrap_dim(call, call.integer(0), out.dims.size() - 1, &axis));
  if (out.dims.size() != axis + 2 || chunks <= 0 || out.dims[axis] != chunks) {
    return invalid(call, "the output must have the dimensions before dim, numChunks, and one more");
  }
  if (is_real_element(out.dtype) && !clear_view(out)) return copied(call, false);
  int64_t column = 0;
  for (const TensorView& part : call.operand_list(0)) {
    if (!part.defined || part.dims.size() <= axis) return invalid(call, "a tensor of the list has too few dimensions");
    DRYDOCK_RETURN_IF_ERROR(expect_convertible(call, out, part));
    const int64_t length = part.dims[axis];
    const int64_t rows = (length + chunks - 1) / chunks;
    Dims tail;
    for (int other = axis + 1; other < part.dims.size(); ++other) tail.push_back(part.dims[other]);
    const int64_t width = tail.product();
    if (column + rows * width > out.dims[axis + 1]) return invalid(call, "the output is too narrow for the list");
    for (int64_t row = 0; row < length; ++row) {
      // Row r of the part is a dense stretch of the output's last dimension, seen with the part's trailing sizes.
      TensorView target = narrow(select(out, axis, row / rows), axis, column + row % rows * width, width);
      const int64_t element_stride = target.strides[axis];
      Dims dims, strides;
      for (int other = 0; other < axis; ++other) {
        dims.push_back(target.dims[other]);
        strides.push_back(target.strides[other]);
      }
      const Dims dense = contiguous_strides(tail);
      for (int other = 0; other < tail.size(); ++other) {
        dims.push_back(tail[other]);
        strides.push_back(dense[other] * element_stride);
      }
      target.dims = dims;
      target.strides = strides;
      DRYDOCK_RETURN_IF_ERROR(copied(call, copy_view(target, select(part, axis, row))));
    }
    column += rows * width;
  }
  return Status::ok();
}

}  // namespace drydock::ops::kernels
