#include "ops/tensor.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "base/element_types.h"
#include "base/saturating.h"

namespace drydock::ops {
namespace {

template <class T>
T load(const Scalar& scalar) {
  T value;
  std::memcpy(&value, scalar.bytes.data(), sizeof value);
  return value;
}

int64_t saturate(double value) {
  if (std::isnan(value)) return 0;
  if (value >= 9223372036854775807.0) return std::numeric_limits<int64_t>::max();
  if (value <= -9223372036854775808.0) return std::numeric_limits<int64_t>::min();
  return static_cast<int64_t>(value);
}

}  // namespace

std::string text_of(const Dims& dims) {
  std::string text = "[";
  for (int axis = 0; axis < dims.size(); ++axis) text += (axis > 0 ? ", " : "") + std::to_string(dims[axis]);
  return text + "]";
}

bool is_private_format(int32_t format) noexcept {
  switch (format) {
    case 3:   // NC1HWC0
    case 4:   // FRACTAL_Z
    case 29:  // FRACTAL_NZ
    case 32:  // NDC1HWC0
    case 33:  // FRACTAL_Z_3D
    case 50:  // FRACTAL_NZ_C0_16
    case 51:  // FRACTAL_NZ_C0_32
      return true;
    default: return false;
  }
}

bool Tensor::is_contiguous() const {
  int64_t expected = 1;
  for (int axis = dims.size() - 1; axis >= 0; --axis) {
    if (dims[axis] != 1 && strides[axis] != expected) return false;
    expected = saturating_product(expected, dims[axis]);
  }
  return true;
}

double Scalar::as_double() const {
  switch (dtype) {
    case DataType::kFloat:
    case DataType::kComplex64: return static_cast<double>(load<float>(*this));
    case DataType::kDouble:
    case DataType::kComplex128: return load<double>(*this);
    case DataType::kFloat16:
    case DataType::kComplex32: return static_cast<double>(float_of(load<Float16>(*this)));
    case DataType::kBFloat16: return static_cast<double>(float_of(load<BFloat16>(*this)));
    case DataType::kUInt64: return static_cast<double>(load<uint64_t>(*this));
    default: return static_cast<double>(as_int64());
  }
}

int64_t Scalar::as_int64() const {
  switch (dtype) {
    case DataType::kInt64: return load<int64_t>(*this);
    case DataType::kUInt64: return static_cast<int64_t>(load<uint64_t>(*this));
    case DataType::kInt32: return load<int32_t>(*this);
    case DataType::kUInt32: return load<uint32_t>(*this);
    case DataType::kInt16: return load<int16_t>(*this);
    case DataType::kUInt16: return load<uint16_t>(*this);
    case DataType::kInt8: return load<int8_t>(*this);
    case DataType::kUInt8: return load<uint8_t>(*this);
    case DataType::kBool: return load<uint8_t>(*this) != 0 ? 1 : 0;
    default: return is_floating(dtype) && bits_of(dtype) >= 16 ? saturate(as_double()) : 0;
  }
}

}  // namespace drydock::ops
