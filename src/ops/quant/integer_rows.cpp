#include "ops/quant/integer_rows.h"

#include <algorithm>
#include <string>

#include "ops/shapes.h"

namespace drydock::ops::kernels {

Status rounding_of(const KernelCall& call, std::string_view name, Rounding* rounding) {
  if (name.empty() || name == "rint" || name == "round") {
    *rounding = Rounding::kNearestEven;
  } else if (name == "floor") {
    *rounding = Rounding::kFloor;
  } else if (name == "ceil") {
    *rounding = Rounding::kCeil;
  } else if (name == "trunc") {
    *rounding = Rounding::kTrunc;
  } else {
    return invalid(call, "roundMode \"" + std::string(name) + "\" is not one of rint, round, floor, ceil, trunc");
  }
  return Status::ok();
}

Status IntegerRows::make(const KernelCall& call, const TensorView& out, const Dims& shape, bool packs_int32,
                         IntegerRows* made) {
  if (!out.defined) return not_computed(call, "an output that this kernel needs is null");
  made->out_ = out;
  made->packed_ = false;
  switch (out.dtype) {
    case DataType::kInt8: made->lowest_ = -128, made->highest_ = 127; break;
    case DataType::kUInt8: made->lowest_ = 0, made->highest_ = 255; break;
    case DataType::kInt4: made->lowest_ = -8, made->highest_ = 7; break;
    case DataType::kInt32:
      made->packed_ = packs_int32;
      made->lowest_ = packs_int32 ? -8.0f : -0x1p31f;
      made->highest_ = packs_int32 ? 7.0f : 0x1p31f;  // the store saturates at the largest int32
      break;
    default: return not_computed(call, "no integers of type " + std::string(name_of(out.dtype)) + " are written");
  }
  Dims expected = shape;
  made->length_ = shape.empty() ? 1 : shape[shape.size() - 1];
  if (made->packed_) {
    if (shape.empty() || made->length_ % kInt4PerInt32 != 0) {
      return invalid(call, "the last axis must be a multiple of 8 for int4 values packed into int32");
    }
    expected[shape.size() - 1] = made->length_ / kInt4PerInt32;
  }
  if (!(out.dims == expected)) return invalid(call, "the quantised output does not have the shape of the input");
  if (out.dtype == DataType::kInt4) {
    if (made->length_ % 2 != 0) return invalid(call, "the last axis must be even for int4");
    if (!is_contiguous(out) && out.numel() > 0) {
      return not_computed(call, "an int4 output that is not contiguous");
    }
  }
  made->count_ = made->length_ > 0 ? shape.product() / made->length_ : 0;
  made->rows_ = out.dims.empty() || out.dtype == DataType::kInt4 ? Rows(out, Dims{}) : Rows(out, out.dims.size() - 1);
  return Status::ok();
}

void IntegerRows::store(int64_t row, const float* values) const {
  if (out_.dtype == DataType::kInt4) {
    char* to = out_.data + row * length_ / 2;
    for (int64_t k = 0; k < length_; k += 2) {
      const unsigned low = static_cast<unsigned>(static_cast<int>(values[k])) & 0xfu;
      const unsigned high = static_cast<unsigned>(static_cast<int>(values[k + 1])) & 0xfu;
      to[k / 2] = static_cast<char>(low | high << 4);
    }
    return;
  }
  if (!packed_) return rows_.write<float>(row, values);
  std::vector<int64_t> words(static_cast<size_t>(length_ / kInt4PerInt32));
  for (size_t word = 0; word < words.size(); ++word) {
    uint32_t bits = 0;
    for (unsigned part = 0; part < kInt4PerInt32; ++part) {
      const int value = static_cast<int>(values[word * kInt4PerInt32 + part]);
      bits |= (static_cast<uint32_t>(value) & 0xfu) << (4 * part);
    }
    words[word] = static_cast<int32_t>(bits);
  }
  rows_.write<int64_t>(row, words.data());
}

void IntegerRows::write(int64_t row, float* values, Rounding rounding) const {
  for (int64_t k = 0; k < length_; ++k) {
    const float value = std::isnan(values[k]) ? 0.0f : rounded(values[k], rounding);
    values[k] = std::clamp(value, lowest_, highest_);
  }
  store(row, values);
}

void IntegerRows::clear(int64_t row) const {
  const std::vector<float> zeros(static_cast<size_t>(length_));
  store(row, zeros.data());
}

namespace {

template <class T>
void read_int4(const TensorView& view, std::vector<T>* values) {
  std::array<int64_t, kMaxRank> position{};
  const int64_t count = view.numel();
  int64_t offset = 0;
  values->reserve(static_cast<size_t>(count));
  for (int64_t element = 0; element < count; ++element) {
    values->push_back(static_cast<T>(int4_at(view.data, offset)));
    for (int axis = view.dims.size() - 1; axis >= 0; --axis) {
      offset += view.strides[axis];
      if (++position[static_cast<size_t>(axis)] < view.dims[axis]) break;
      offset -= view.strides[axis] * view.dims[axis];
      position[static_cast<size_t>(axis)] = 0;
    }
  }
}

template <class T>
void read_elements(const TensorView& view, std::vector<T>* values) {
  values->resize(static_cast<size_t>(view.numel()));
  StridedWalk walk(view.dims);
  walk.add(view);
  const Loader<T> load = loader_of<T>(view.dtype);
  T* next = values->data();
  walk.for_each_run([&](char* const* pointers, const int64_t* strides, int64_t count) {
    const T* loaded = load(pointers[0], strides[0], count, next);
    if (loaded != next) std::copy_n(loaded, count, next);
    next += count;
  });
}

}  // namespace

bool read_floats(const TensorView& view, std::vector<float>* values) {
  values->clear();
  if (view.numel() == 0) return true;
  if (view.dtype == DataType::kInt4) {
    read_int4(view, values);
    return true;
  }
  if (!is_real_element(view.dtype)) return false;
  read_elements(view, values);
  return true;
}

bool read_integers(const TensorView& view, std::vector<int64_t>* values) {
  values->clear();
  if (view.numel() == 0) return true;
  if (view.dtype == DataType::kInt4) {
    read_int4(view, values);
    return true;
  }
  if (!is_real_element(view.dtype) || is_floating(view.dtype)) return false;
  read_elements(view, values);
  return true;
}

TensorView unpacked_int4(const TensorView& view) {
  if (view.dtype != DataType::kInt32 || view.dims.empty()) return view;
  int dense = view.dims.size() - 1;
  if (view.strides[dense] != 1 && dense > 0 && view.strides[dense - 1] == 1) dense -= 1;
  TensorView unpacked = view;
  unpacked.dtype = DataType::kInt4;
  for (int axis = 0; axis < view.dims.size(); ++axis) unpacked.strides[axis] = view.strides[axis] * kInt4PerInt32;
  unpacked.dims[dense] = view.dims[dense] * kInt4PerInt32;
  unpacked.strides[dense] = 1;
  return unpacked;
}

TensorView slice_at(const TensorView& view, int64_t index) {
  if (view.dtype != DataType::kInt4) return select(view, 0, index);
  TensorView slice = select(view, 0, 0);
  slice.data = view.data + index * view.strides[0] / 2;
  return slice;
}

TensorView rows_between(const TensorView& view, int64_t begin, int64_t end) {
  if (view.dtype != DataType::kInt4) return narrow(view, 0, begin, end - begin);
  TensorView rows = view;
  rows.dims[0] = end - begin;
  rows.data = view.data + begin * view.strides[0] / 2;
  return rows;
}

Status along_axis(const KernelCall& call, const TensorView& parameter, std::string_view name, const Dims& dims,
                  int axis, TensorView* view) {
  TensorView spread = parameter;
  spread.dims = dims;
  spread.strides = dims;
  for (int k = 0; k < dims.size(); ++k) spread.strides[k] = 0;
  const int64_t count = parameter.numel();
  const bool alone = parameter.dims.size() <= 1;
  const bool same_rank = parameter.dims.size() == dims.size();
  const int own_axis = alone ? 0 : axis;
  const bool per_index = !dims.empty() && count == dims[axis] && (alone || same_rank) &&
                         (parameter.dims.empty() || parameter.dims[own_axis] == count);
  if (!parameter.dims.empty() && per_index) {
    spread.strides[axis] = parameter.strides[own_axis];
  } else if (count != 1) {
    return invalid(call, std::string(name) + " must have one element, or one for each index of axis " +
                             std::to_string(axis) + "; it has " + std::to_string(count));
  }
  *view = spread;
  return Status::ok();
}

}  // namespace drydock::ops::kernels
