#include "ops/kernel_access.h"

#include "base/saturating.h"

namespace drydock::ops::kernels {
namespace {

std::string start_of_message(const KernelCall& call) { return std::string(call.row().name) + ": "; }

Status expect_views(const KernelCall& call, int operands, int outputs, bool real) {
  if (call.operand_count() < operands || call.output_count() < outputs) {
    return not_computed(call, "the row lists fewer tensors than the kernel needs");
  }
  for (int index = 0; index < operands + outputs; ++index) {
    const TensorView& view = index < operands ? call.operand(index) : call.output(index - operands);
    if (!view.defined) return not_computed(call, "an argument that this kernel needs is null");
    if (real ? !is_real_element(view.dtype) : bits_of(view.dtype) % 8 != 0 || bits_of(view.dtype) == 0) {
      return not_computed(call, "elements of type " + std::string(name_of(view.dtype)) + " are not computed");
    }
  }
  return Status::ok();
}

}  // namespace

Status invalid(const KernelCall& call, const std::string& what) {
  return Status::error(kParameterInvalid, start_of_message(call) + what);
}

Status device_fault(const KernelCall& call, const std::string& what) {
  return Status::error(kDeviceFault, start_of_message(call) + what);
}

Status not_computed(const KernelCall& call, const std::string& why) {
  return Status::error(kNotComputed, start_of_message(call) + why);
}

Status expect(const KernelCall& call, int operands, int outputs) { return expect_views(call, operands, outputs, true); }

Status expect_defined(const KernelCall& call, int operands, int outputs) {
  return expect_views(call, operands, outputs, false);
}

Status wrap_dim(const KernelCall& call, int64_t dim, int rank, int* axis) {
  const int64_t size = std::max(rank, 1);
  if (dim < -size || dim >= size) {
    return invalid(call, "dimension " + std::to_string(dim) + " does not exist in a tensor of rank " +
                             std::to_string(rank) + "; it must be in [" + std::to_string(-size) + ", " +
                             std::to_string(size - 1) + "]");
  }
  *axis = static_cast<int>(dim < 0 ? dim + size : dim);
  return Status::ok();
}

double as_double(const TensorView& view) noexcept { return as_value<double>(view); }
int64_t as_int64(const TensorView& view) noexcept { return as_value<int64_t>(view); }

Dims all_axes(int rank) {
  Dims axes;
  for (int axis = 0; axis < rank; ++axis) axes.push_back(axis);
  return axes;
}

Status axes_of(const KernelCall& call, std::span<const int64_t> dims, int rank, Dims* axes) {
  if (dims.empty()) {
    *axes = all_axes(rank);
    return Status::ok();
  }
  std::array<bool, kMaxRank> chosen{};
  for (int64_t dim : dims) {
    int axis = 0;
    DRYDOCK_RETURN_IF_ERROR(wrap_dim(call, dim, rank, &axis));
    chosen[static_cast<size_t>(axis)] = true;
  }
  axes->clear();
  for (int axis = 0; axis < rank; ++axis) {
    if (chosen[static_cast<size_t>(axis)]) axes->push_back(axis);
  }
  return Status::ok();
}

TensorView narrow(const TensorView& view, int axis, int64_t start, int64_t length, int64_t step) {
  TensorView part = view;
  if (part.data != nullptr) part.data += bytes_of(view.dtype, 1) * view.strides[axis] * start;
  part.dims[axis] = length;
  part.strides[axis] = view.strides[axis] * step;
  return part;
}

TensorView select(const TensorView& view, int axis, int64_t index) {
  TensorView part = view;
  if (part.data != nullptr) part.data += bytes_of(view.dtype, 1) * view.strides[axis] * index;
  part.dims.clear();
  part.strides.clear();
  for (int other = 0; other < view.dims.size(); ++other) {
    if (other == axis) continue;
    part.dims.push_back(view.dims[other]);
    part.strides.push_back(view.strides[other]);
  }
  return part;
}

TensorView unsqueeze(const TensorView& view, int axis) {
  TensorView wider = view;
  wider.dims.clear();
  wider.strides.clear();
  for (int other = 0; other <= view.dims.size(); ++other) {
    if (other == axis) {
      wider.dims.push_back(1);
      wider.strides.push_back(0);
    }
    if (other == view.dims.size()) break;
    wider.dims.push_back(view.dims[other]);
    wider.strides.push_back(view.strides[other]);
  }
  return wider;
}

bool broadcast_view(const TensorView& view, const Dims& dims, TensorView* result) {
  const int missing = dims.size() - view.dims.size();
  if (missing < 0) return false;
  TensorView wide = view;
  wide.dims = dims;
  wide.strides.clear();
  for (int axis = 0; axis < dims.size(); ++axis) {
    const int64_t size = axis >= missing ? view.dims[axis - missing] : 1;
    if (size != dims[axis] && size != 1) return false;
    wide.strides.push_back(axis >= missing && size != 1 ? view.strides[axis - missing] : 0);
  }
  *result = wide;
  return true;
}

bool broadcast_dims(const Dims& a, const Dims& b, Dims* result) {
  const int rank = std::max(a.size(), b.size());
  Dims dims;
  for (int axis = 0; axis < rank; ++axis) {
    const int in_a = axis - (rank - a.size());
    const int in_b = axis - (rank - b.size());
    const int64_t size_a = in_a >= 0 ? a[in_a] : 1;
    const int64_t size_b = in_b >= 0 ? b[in_b] : 1;
    if (size_a != size_b && size_a != 1 && size_b != 1) return false;
    dims.push_back(size_a == 1 ? size_b : size_a);
  }
  *result = dims;
  return true;
}

Dims contiguous_strides(const Dims& dims) {
  Dims strides = dims;
  int64_t stride = 1;
  for (int axis = dims.size() - 1; axis >= 0; --axis) {
    strides[axis] = stride;
    stride = saturating_product(stride, dims[axis]);
  }
  return strides;
}

TensorView contiguous_view(void* data, DataType dtype, const Dims& dims) {
  return {static_cast<char*>(data), dtype, dims, contiguous_strides(dims), true};
}

Dims strides_bytes(const TensorView& view) {
  const int64_t size = bytes_of(view.dtype, 1);
  Dims strides;
  for (int64_t stride : view.strides) strides.push_back(stride * size);
  return strides;
}

char* flat_element(const TensorView& view, int64_t number) noexcept {
  int64_t elements = 0;
  for (int axis = view.dims.size() - 1; axis >= 0; --axis) {
    elements += number % view.dims[axis] * view.strides[axis];
    number /= view.dims[axis];
  }
  return view.data + elements * bytes_of(view.dtype, 1);
}

Status checked_index(const KernelCall& call, int64_t index, int64_t size, int64_t* wrapped) {
  if (index < -size || index >= size) {
    return device_fault(
        call, "index " + std::to_string(index) + " is out of range for a dimension of size " + std::to_string(size));
  }
  *wrapped = index < 0 ? index + size : index;
  return Status::ok();
}

}  // namespace drydock::ops::kernels
