#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/data_type.h"

// The objects behind aclTensor, aclScalar, the arrays and the lists. Plain data: the doors validate before they fill.

namespace drydock::ops {

/// Most dimensions of a tensor (source: the rank limit of CANN's own shape type).
inline constexpr int kMaxRank = 25;

/// Sizes or strides, in elements. A value type without allocation.
class Dims {
 public:
  Dims() = default;
  Dims(std::initializer_list<int64_t> values) { assign(std::span(values.begin(), values.size())); }
  explicit Dims(std::span<const int64_t> values) { assign(values); }

  /// Keeps the first kMaxRank values; the doors refuse more.
  void assign(std::span<const int64_t> values) {
    size_ = 0;
    for (int64_t value : values) push_back(value);
  }
  void push_back(int64_t value) {
    if (size_ < kMaxRank) values_[static_cast<size_t>(size_++)] = value;
  }
  void clear() { size_ = 0; }
  int size() const { return size_; }
  bool empty() const { return size_ == 0; }
  int64_t operator[](int index) const { return values_[static_cast<size_t>(index)]; }
  int64_t& operator[](int index) { return values_[static_cast<size_t>(index)]; }
  const int64_t* begin() const { return values_.data(); }
  const int64_t* end() const { return values_.data() + size_; }
  const int64_t* data() const { return values_.data(); }
  std::span<const int64_t> span() const { return {values_.data(), static_cast<size_t>(size_)}; }
  /// Product of all sizes; 1 for rank 0.
  int64_t product() const {
    int64_t product = 1;
    for (int64_t value : *this) product *= value;
    return product;
  }
  bool operator==(const Dims& other) const { return size_ == other.size_ && std::equal(begin(), end(), other.begin()); }

 private:
  int size_ = 0;
  std::array<int64_t, kMaxRank> values_;
};

/// True for the vendor's formats in which elements lie in blocks, padded (NZ, NC1HWC0, FRACTAL_Z and their like).
bool is_private_format(int32_t format) noexcept;

/// "[2, 3]", for messages.
std::string text_of(const Dims& dims);

/// Behind aclTensor: a strided view of a storage in device memory.
struct Tensor {
  DataType dtype = DataType::kUndefined;
  int32_t format = 2;       ///< vendor's aclFormat; 2 = ND
  Dims dims;                ///< view sizes
  Dims strides;             ///< in elements
  int64_t offset = 0;       ///< first element of the view, in elements from `storage`
  Dims storage_dims;        ///< torch_npu gives one number for base formats: elements of the storage
  void* storage = nullptr;  ///< device address; may be null for empty tensors

  int64_t numel() const { return dims.product(); }
  /// Device address of the view's first element.
  char* data() const { return static_cast<char*>(storage) + bytes_of(dtype, offset); }
  /// Bytes of the whole storage.
  int64_t storage_bytes() const { return bytes_of(dtype, storage_dims.product()); }
  /// True if the elements lie densely in row-major order.
  bool is_contiguous() const;
};

/// Behind aclScalar. Clients send double, int64, bool and complex128 (contract H12), others are taken too.
struct Scalar {
  DataType dtype = DataType::kUndefined;
  alignas(16) std::array<unsigned char, 16> bytes{};

  double as_double() const;  ///< real part for complex; bool as 0 or 1
  int64_t as_int64() const;  ///< truncates toward zero; saturates
};

struct IntArray {
  std::vector<int64_t> values;
};
struct FloatArray {
  std::vector<float> values;
};
struct BoolArray {
  std::vector<uint8_t> values;
};
/// Elements may be null (undefined optional tensors, contract H8). The list owns them.
struct TensorList {
  std::vector<Tensor*> tensors;
};
struct ScalarList {
  std::vector<Scalar*> scalars;
};

}  // namespace drydock::ops
