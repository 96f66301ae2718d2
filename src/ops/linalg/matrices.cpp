#include "ops/linalg/matrices.h"

#include <cstring>
#include <type_traits>
#include <vector>

namespace drydock::ops::kernels {
namespace {

template <class Part>
std::complex<double> load_complex(const char* from) {
  Part parts[2];
  std::memcpy(parts, from, sizeof parts);
  return {static_cast<double>(parts[0]), static_cast<double>(parts[1])};
}

template <class Part>
void store_complex(char* to, const std::complex<double>& value) {
  const Part parts[2] = {static_cast<Part>(value.real()), static_cast<Part>(value.imag())};
  std::memcpy(to, parts, sizeof parts);
}

bool is_number(const TensorView& view) {
  return view.defined && (is_real_element(view.dtype) || is_complex_element(view.dtype));
}

}  // namespace

bool is_complex_element(DataType type) noexcept {
  return type == DataType::kComplex64 || type == DataType::kComplex128;
}

Status expect_numbers(const KernelCall& call, int operands, int outputs) {
  DRYDOCK_RETURN_IF_ERROR(expect_defined(call, operands, outputs));
  bool right = true;
  for (int k = 0; k < operands; ++k) right = right && is_number(call.operand(k));
  for (int k = 0; k < outputs; ++k) right = right && is_number(call.output(k));
  return right ? Status::ok() : not_computed(call, "an element type has no kernel");
}

Matrices::Matrices(const TensorView& view, int inner_rank) : view_(view) {
  const int64_t element_bytes = bits_of(view.dtype) / 8;
  const int outer_rank = view.dims.size() - inner_rank;
  for (int axis = 0; axis < outer_rank; ++axis) outer_.push_back(view.dims[axis]);
  if (inner_rank >= 1) {
    rows_ = view.dims[outer_rank];
    row_stride_ = view.strides[outer_rank] * element_bytes;
  }
  if (inner_rank == 2) {
    cols_ = view.dims[outer_rank + 1];
    col_stride_ = view.strides[outer_rank + 1] * element_bytes;
  }
}

char* Matrices::start_of(int64_t index) const {
  int64_t offset = 0;
  for (int axis = outer_.size() - 1; axis >= 0; --axis) {
    offset += index % outer_[axis] * view_.strides[axis];
    index /= outer_[axis];
  }
  return view_.data + offset * (bits_of(view_.dtype) / 8);
}

template <class S>
Matrix<S> Matrices::read(int64_t index) const {
  Matrix<S> values(rows_, cols_);
  const char* start = start_of(index);
  std::vector<double> row(static_cast<size_t>(cols_));
  for (int64_t r = 0; r < rows_; ++r) {
    const char* from = start + r * row_stride_;
    if constexpr (!std::is_same_v<S, double>) {
      if (is_complex_element(view_.dtype)) {
        const bool narrow = view_.dtype == DataType::kComplex64;
        for (int64_t c = 0; c < cols_; ++c) {
          const char* element = from + c * col_stride_;
          values(r, c) = narrow ? load_complex<float>(element) : load_complex<double>(element);
        }
        continue;
      }
    }
    const double* loaded = loader_of<double>(view_.dtype)(from, col_stride_, cols_, row.data());
    for (int64_t c = 0; c < cols_; ++c) values(r, c) = loaded[c];
  }
  return values;
}

template <class S>
void Matrices::write(int64_t index, const Matrix<S>& values) const {
  char* start = start_of(index);
  std::vector<double> row(static_cast<size_t>(cols_));
  for (int64_t r = 0; r < rows_; ++r) {
    char* to = start + r * row_stride_;
    if (is_complex_element(view_.dtype)) {
      const bool narrow = view_.dtype == DataType::kComplex64;
      for (int64_t c = 0; c < cols_; ++c) {
        const std::complex<double> value = values(r, c);
        char* element = to + c * col_stride_;
        narrow ? store_complex<float>(element, value) : store_complex<double>(element, value);
      }
      continue;
    }
    for (int64_t c = 0; c < cols_; ++c) row[static_cast<size_t>(c)] = std::real(values(r, c));
    storer_of<double>(view_.dtype)(to, col_stride_, cols_, row.data());
  }
}

template Matrix<double> Matrices::read(int64_t) const;
template Matrix<std::complex<double>> Matrices::read(int64_t) const;
template void Matrices::write(int64_t, const Matrix<double>&) const;
template void Matrices::write(int64_t, const Matrix<std::complex<double>>&) const;

}  // namespace drydock::ops::kernels
