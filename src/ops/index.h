#pragma once

#include <cstdint>
#include <vector>

#include "ops/elementwise.h"
#include "ops/kernel_access.h"

// Common to operators that read or write at places given by an index tensor.

namespace drydock::ops::kernels {

/// What becomes of an element and the value that comes to it. The numbers are the vendor's reduce argument.
enum class Combination : int64_t { kReplace = 0, kAdd = 1, kMultiply = 2, kMaximum = 3, kMinimum = 4, kMean = 5 };

/// The real type of a complex element's two parts, or the type itself.
inline DataType part_type(DataType type) {
  switch (type) {
    case DataType::kComplex32: return DataType::kFloat16;
    case DataType::kComplex64: return DataType::kFloat;
    case DataType::kComplex128: return DataType::kDouble;
    default: return type;
  }
}

/// Complex elements as real ones, with their two parts as one more dimension behind the others.
inline TensorView parts_of(const TensorView& view) {
  TensorView parts = view;
  parts.dtype = part_type(view.dtype);
  for (int axis = 0; axis < parts.strides.size(); ++axis) parts.strides[axis] *= 2;
  parts.dims.push_back(2);
  parts.strides.push_back(1);
  return parts;
}

/// The element that comes of an element and the value that comes to it.
template <class C>
C combined(C old_value, C new_value, Combination combination) {
  switch (combination) {
    case Combination::kReplace: return new_value;
    case Combination::kMultiply: return wrapping_multiply(old_value, new_value);
    case Combination::kMaximum: return larger(old_value, new_value);
    case Combination::kMinimum: return smaller(old_value, new_value);
    case Combination::kAdd:
    case Combination::kMean: break;
  }
  return wrapping_add(old_value, new_value);
}

/// All elements of an index tensor, wrapped into [0, size) and checked.
Status checked_indices(const KernelCall& call, const TensorView& index, int64_t size, std::vector<int64_t>* indices);

/// output(`output`) starts as operand(`operand`), unless both are the same memory.
Status start_from(const KernelCall& call, int output, int operand);

/// Fails unless one operand's element type is the output's (elements are moved, not converted).
Status expect_same_type(const KernelCall& call, const TensorView& a, const TensorView& b);

/// Matching slices of two tensors, at places that the caller finds.
class SlicePair {
 public:
  /// Sizes of a slice, and strides of its dimensions in bytes.
  SlicePair(const Dims& dims, const Dims& to_strides, const Dims& from_strides) : walk_(dims) {
    walk_.add(nullptr, to_strides);
    walk_.add(nullptr, from_strides);
  }
  /// Calls `run(to, to_stride, from, from_stride, count)` for the slices that start there.
  template <class Run>
  void at(char* to, char* from, Run&& run) {
    walk_.for_each_run_at({to, from}, [&](char* const* pointers, const int64_t* strides, int64_t count) {
      run(pointers[0], strides[0], pointers[1], strides[1], count);
    });
  }
  void copy(char* to, char* from, int64_t element_size) {
    at(to, from, [element_size](char* to_run, int64_t to_stride, char* from_run, int64_t from_stride, int64_t count) {
      copy_elements(to_run, to_stride, from_run, from_stride, count, element_size);
    });
  }

 private:
  StridedWalk walk_;
};

/// to = combination(to, alpha * from) for `count` elements of real types, strides in bytes. kMean adds.
void combine_elements(char* to, int64_t to_stride, DataType to_type, const char* from, int64_t from_stride,
                      DataType from_type, int64_t count, Combination combination, double alpha = 1.0);

}  // namespace drydock::ops::kernels
