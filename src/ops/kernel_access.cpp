#include "ops/kernel_access.h"

#include <cstring>

#include "base/element_types.h"

namespace drydock::ops::kernels {
namespace {

template <class C, class S>
const C* load_elements(const char* from, int64_t stride_bytes, int64_t count, C* buffer) {
  if (stride_bytes == static_cast<int64_t>(sizeof(S))) {
    const S* elements = reinterpret_cast<const S*>(from);
    if constexpr (std::is_same_v<C, S>) return elements;
    for (int64_t k = 0; k < count; ++k) buffer[k] = to_compute<C>(elements[k]);
    return buffer;
  }
  if (stride_bytes == 0 && count > 0) {
    std::fill_n(buffer, count, to_compute<C>(*reinterpret_cast<const S*>(from)));
    return buffer;
  }
  for (int64_t k = 0; k < count; ++k, from += stride_bytes) {
    buffer[k] = to_compute<C>(*reinterpret_cast<const S*>(from));
  }
  return buffer;
}

template <class C, class S>
void store_elements(char* to, int64_t stride_bytes, int64_t count, const C* values) {
  if (stride_bytes == static_cast<int64_t>(sizeof(S))) {
    S* elements = reinterpret_cast<S*>(to);
    for (int64_t k = 0; k < count; ++k) elements[k] = to_element<S>(values[k]);
    return;
  }
  for (int64_t k = 0; k < count; ++k, to += stride_bytes) *reinterpret_cast<S*>(to) = to_element<S>(values[k]);
}

template <class C>
void copy_strided(char* to, int64_t to_stride, const char* from, int64_t from_stride, int64_t count) {
  for (int64_t k = 0; k < count; ++k) std::memcpy(to + k * to_stride, from + k * from_stride, sizeof(C));
}

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

template <class C>
Loader<C> loader_of(DataType type) noexcept {
  switch (type) {
    case DataType::kBool: return load_elements<C, Bool>;
    case DataType::kInt8: return load_elements<C, int8_t>;
    case DataType::kInt16: return load_elements<C, int16_t>;
    case DataType::kInt32: return load_elements<C, int32_t>;
    case DataType::kInt64: return load_elements<C, int64_t>;
    case DataType::kUInt8: return load_elements<C, uint8_t>;
    case DataType::kUInt16: return load_elements<C, uint16_t>;
    case DataType::kUInt32: return load_elements<C, uint32_t>;
    case DataType::kUInt64: return load_elements<C, uint64_t>;
    case DataType::kFloat16: return load_elements<C, Float16>;
    case DataType::kBFloat16: return load_elements<C, BFloat16>;
    case DataType::kFloat: return load_elements<C, float>;
    case DataType::kDouble: return load_elements<C, double>;
    default: return nullptr;
  }
}

template <class C>
Storer<C> storer_of(DataType type) noexcept {
  switch (type) {
    case DataType::kBool: return store_elements<C, Bool>;
    case DataType::kInt8: return store_elements<C, int8_t>;
    case DataType::kInt16: return store_elements<C, int16_t>;
    case DataType::kInt32: return store_elements<C, int32_t>;
    case DataType::kInt64: return store_elements<C, int64_t>;
    case DataType::kUInt8: return store_elements<C, uint8_t>;
    case DataType::kUInt16: return store_elements<C, uint16_t>;
    case DataType::kUInt32: return store_elements<C, uint32_t>;
    case DataType::kUInt64: return store_elements<C, uint64_t>;
    case DataType::kFloat16: return store_elements<C, Float16>;
    case DataType::kBFloat16: return store_elements<C, BFloat16>;
    case DataType::kFloat: return store_elements<C, float>;
    case DataType::kDouble: return store_elements<C, double>;
    default: return nullptr;
  }
}

template <class C>
void round_through(DataType type, C* values, int64_t count) noexcept {
  std::array<uint64_t, kChunk> elements;  // room for kChunk elements of any type, aligned for all
  const int64_t size = bytes_of(type, 1);
  char* bytes = reinterpret_cast<char*>(elements.data());
  for (int64_t done = 0; done < count; done += kChunk) {
    const int64_t length = std::min(kChunk, count - done);
    storer_of<C>(type)(bytes, size, length, values + done);
    const C* rounded = loader_of<C>(type)(bytes, size, length, values + done);
    if (rounded != values + done) std::copy_n(rounded, length, values + done);
  }
}

template Loader<int64_t> loader_of<int64_t>(DataType type) noexcept;
template Storer<int64_t> storer_of<int64_t>(DataType type) noexcept;
template void round_through<int64_t>(DataType type, int64_t* values, int64_t count) noexcept;
template Loader<uint64_t> loader_of<uint64_t>(DataType type) noexcept;
template Storer<uint64_t> storer_of<uint64_t>(DataType type) noexcept;
template void round_through<uint64_t>(DataType type, uint64_t* values, int64_t count) noexcept;
template Loader<float> loader_of<float>(DataType type) noexcept;
template Storer<float> storer_of<float>(DataType type) noexcept;
template void round_through<float>(DataType type, float* values, int64_t count) noexcept;
template Loader<double> loader_of<double>(DataType type) noexcept;
template Storer<double> storer_of<double>(DataType type) noexcept;
template void round_through<double>(DataType type, double* values, int64_t count) noexcept;

double as_double(const TensorView& view) noexcept { return as_value<double>(view); }
int64_t as_int64(const TensorView& view) noexcept { return as_value<int64_t>(view); }

StridedWalk::StridedWalk(const Dims& dims) : dims_(dims) {}

bool StridedWalk::add(const TensorView& view) {
  TensorView wide;
  if (!broadcast_view(view, dims_, &wide)) return false;
  add(wide.data, kernels::strides_bytes(wide));
  return true;
}

void StridedWalk::add(char* data, const Dims& strides_bytes) {
  starts_[static_cast<size_t>(view_count_)] = data;
  strides_[static_cast<size_t>(view_count_++)] = strides_bytes;
}

void StridedWalk::merge() {
  merged_ = true;
  Dims dims;
  std::array<Dims, kMaxViews> strides;
  for (int axis = 0; axis < dims_.size(); ++axis) {
    if (dims_[axis] == 1) continue;
    const int last = dims.size() - 1;
    bool joins = last >= 0;
    for (size_t view = 0; joins && view < static_cast<size_t>(view_count_); ++view) {
      joins = strides[view][last] == strides_[view][axis] * dims_[axis];
    }
    if (joins) {
      dims[last] *= dims_[axis];
    } else {
      dims.push_back(dims_[axis]);
    }
    for (size_t view = 0; view < static_cast<size_t>(view_count_); ++view) {
      if (joins) {
        strides[view][last] = strides_[view][axis];
      } else {
        strides[view].push_back(strides_[view][axis]);
      }
    }
  }
  dims_ = dims;
  strides_ = strides;
  for (size_t view = 0; view < static_cast<size_t>(view_count_); ++view) {
    inner_strides_[view] = dims.empty() ? 0 : strides[view][dims.size() - 1];
  }
}

Rows::Rows(const TensorView& view, const Dims& axes) : dtype_(view.dtype), data_(view.data) {
  const Dims strides = strides_bytes(view);
  int next = 0;
  for (int axis = 0; axis < view.dims.size(); ++axis) {
    const bool inside = next < axes.size() && axes[next] == axis;
    if (!inside) {
      outer_.push_back(view.dims[axis]);
      outer_strides_.push_back(strides[axis]);
      continue;
    }
    ++next;
    const int last = inner_.size() - 1;
    if (last >= 0 && inner_strides_[last] == strides[axis] * view.dims[axis]) {
      inner_[last] *= view.dims[axis];
      inner_strides_[last] = strides[axis];
    } else {
      inner_.push_back(view.dims[axis]);
      inner_strides_.push_back(strides[axis]);
    }
  }
}

char* Rows::start_of(int64_t row) const {
  char* start = data_;
  for (int axis = outer_.size() - 1; axis >= 0; --axis) {
    start += row % outer_[axis] * outer_strides_[axis];
    row /= outer_[axis];
  }
  return start;
}

void Rows::copy_in(int64_t row, const char* from, int64_t stride_bytes) const {
  const int64_t size = bytes_of(dtype_, 1);
  for_each_run(row, [&](char* to, int64_t stride, int64_t count) {
    copy_elements(to, stride, from, stride_bytes, count, size);
    from += count * stride_bytes;
  });
}

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
    stride *= dims[axis];
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

void copy_elements(char* to, int64_t to_stride, const char* from, int64_t from_stride, int64_t count,
                   int64_t size) noexcept {
  if (to_stride == size && from_stride == size) {
    std::memmove(to, from, static_cast<size_t>(count * size));
    return;
  }
  switch (size) {
    case 1: return copy_strided<uint8_t>(to, to_stride, from, from_stride, count);
    case 2: return copy_strided<uint16_t>(to, to_stride, from, from_stride, count);
    case 4: return copy_strided<uint32_t>(to, to_stride, from, from_stride, count);
    case 8: return copy_strided<uint64_t>(to, to_stride, from, from_stride, count);
    default:
      for (int64_t k = 0; k < count; ++k) {
        std::memcpy(to + k * to_stride, from + k * from_stride, static_cast<size_t>(size));
      }
  }
}

void copy_element(char* to, const char* from, int64_t size) noexcept { copy_elements(to, 0, from, 0, 1, size); }

char* flat_element(const TensorView& view, int64_t number) noexcept {
  int64_t elements = 0;
  for (int axis = view.dims.size() - 1; axis >= 0; --axis) {
    elements += number % view.dims[axis] * view.strides[axis];
    number /= view.dims[axis];
  }
  return view.data + elements * bytes_of(view.dtype, 1);
}

bool copy_view(const TensorView& out, const TensorView& in) {
  if (out.dtype == in.dtype) {
    const int64_t size = bytes_of(out.dtype, 1);
    if (bits_of(out.dtype) != size * 8) return false;
    StridedWalk walk(out.dims);
    if (!walk.add(out) || !walk.add(in)) return false;
    walk.for_each_run([&](char* const* pointers, const int64_t* strides, int64_t count) {
      copy_elements(pointers[0], strides[0], pointers[1], strides[1], count, size);
    });
    return true;
  }
  if (!is_real_element(out.dtype) || !is_real_element(in.dtype)) return false;
  bool fits = false;
  const auto convert = [&]<class C>() {
    fits = map_elements<C, 1>(out, {&in}, {DataType::kUndefined}, [](C value) { return value; });
    return Status::ok();
  };
  return with_compute_type(compute_type_of(in.dtype), convert).is_ok() && fits;
}

bool fill_view(const TensorView& out, const TensorView& value) {
  TensorView one = value;
  one.dims.clear();
  one.strides.clear();
  alignas(16) std::array<char, 16> converted;
  TensorView cell = contiguous_view(converted.data(), out.dtype, Dims());
  return copy_view(cell, one) && copy_view(out, cell);
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
