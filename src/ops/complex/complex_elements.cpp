#include <algorithm>

#include "base/element_types.h"
#include "ops/complex/complex.h"
#include "ops/run_kernel.h"

// Conversion of runs of elements to complex fp64 and back.

namespace drydock::ops::kernels {
namespace {

/// Complex elements: two parts of type P.
template <class P>
const Complex* load_parts(const char* from, int64_t stride_bytes, int64_t count, Complex* buffer) {
  if constexpr (std::is_same_v<P, double>) {
    if (stride_bytes == static_cast<int64_t>(sizeof(Complex))) return reinterpret_cast<const Complex*>(from);
  }
  for (int64_t k = 0; k < count; ++k, from += stride_bytes) {
    const P* parts = reinterpret_cast<const P*>(from);
    buffer[k] = {to_compute<double>(parts[0]), to_compute<double>(parts[1])};
  }
  return buffer;
}

template <class P>
void store_parts(char* to, int64_t stride_bytes, int64_t count, const Complex* values) {
  for (int64_t k = 0; k < count; ++k, to += stride_bytes) {
    P* parts = reinterpret_cast<P*>(to);
    parts[0] = to_element<P>(values[k].real());
    parts[1] = to_element<P>(values[k].imag());
  }
}

template <DataType type>
const Complex* load_real(const char* from, int64_t stride_bytes, int64_t count, Complex* buffer) {
  std::array<double, kChunk> parts;
  for (int64_t done = 0; done < count; done += kChunk) {
    const int64_t length = std::min(kChunk, count - done);
    const double* values = loader_of<double>(type)(from + done * stride_bytes, stride_bytes, length, parts.data());
    std::copy_n(values, length, buffer + done);
  }
  return buffer;
}

template <DataType type>
void store_real(char* to, int64_t stride_bytes, int64_t count, const Complex* values) {
  std::array<double, kChunk> parts;
  for (int64_t done = 0; done < count; done += kChunk) {
    const int64_t length = std::min(kChunk, count - done);
    for (int64_t k = 0; k < length; ++k) {
      const Complex value = values[done + k];
      // Either part makes a truth; every other real type takes the real part.
      parts[static_cast<size_t>(k)] = type == DataType::kBool ? (value != 0.0 ? 1.0 : 0.0) : value.real();
    }
    storer_of<double>(type)(to + done * stride_bytes, stride_bytes, length, parts.data());
  }
}

struct Conversions {
  Loader<Complex> load;
  Storer<Complex> store;
};

template <DataType type>
constexpr Conversions kReal = {load_real<type>, store_real<type>};

Conversions conversions_of(DataType type) {
  switch (type) {
    case DataType::kComplex32: return {load_parts<Float16>, store_parts<Float16>};
    case DataType::kComplex64: return {load_parts<float>, store_parts<float>};
    case DataType::kComplex128: return {load_parts<double>, store_parts<double>};
    case DataType::kBool: return kReal<DataType::kBool>;
    case DataType::kInt8: return kReal<DataType::kInt8>;
    case DataType::kInt16: return kReal<DataType::kInt16>;
    case DataType::kInt32: return kReal<DataType::kInt32>;
    case DataType::kInt64: return kReal<DataType::kInt64>;
    case DataType::kUInt8: return kReal<DataType::kUInt8>;
    case DataType::kUInt16: return kReal<DataType::kUInt16>;
    case DataType::kUInt32: return kReal<DataType::kUInt32>;
    case DataType::kUInt64: return kReal<DataType::kUInt64>;
    case DataType::kFloat16: return kReal<DataType::kFloat16>;
    case DataType::kBFloat16: return kReal<DataType::kBFloat16>;
    case DataType::kFloat: return kReal<DataType::kFloat>;
    case DataType::kDouble: return kReal<DataType::kDouble>;
    default: return {load_nothing<Complex>, store_nothing<Complex>};
  }
}

}  // namespace

template <>
Loader<Complex> loader_of<Complex>(DataType type) noexcept {
  return conversions_of(type).load;
}

template <>
Storer<Complex> storer_of<Complex>(DataType type) noexcept {
  return conversions_of(type).store;
}

template <>
void round_through<Complex>(DataType type, Complex* values, int64_t count) noexcept {
  alignas(16) std::array<char, sizeof(Complex)> element;
  for (int64_t k = 0; k < count; ++k) {
    storer_of<Complex>(type)(element.data(), 0, 1, values + k);
    Complex rounded;
    values[k] = *loader_of<Complex>(type)(element.data(), 0, 1, &rounded);
  }
}

}  // namespace drydock::ops::kernels
