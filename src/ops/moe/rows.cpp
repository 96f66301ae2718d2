#include "ops/moe/rows.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <string>

namespace drydock::ops::kernels {
namespace {

Dims inner_axes(const TensorView& view) {
  Dims axes;
  for (int axis = 1; axis < view.dims.size(); ++axis) axes.push_back(axis);
  return axes;
}

}  // namespace

TokenRows::TokenRows(const TensorView& view)
    : view_(view), rows_(view, inner_axes(view)), count_(rows_.count()), length_(rows_.length()) {
  size_ = bytes_of(view.dtype, 1);
  row_step_ = view.dims.empty() ? 0 : view.strides[0] * size_;
  dense_ = true;
  int64_t stride = 1;
  for (int axis = view.dims.size() - 1; axis > 0; --axis) {
    dense_ = dense_ && (view.strides[axis] == stride || view.dims[axis] == 1);
    stride *= view.dims[axis];
  }
}

void TokenRows::copy(int64_t to, const TokenRows& source, int64_t from) const {
  if (length_ == 0) return;
  if (dense_ && source.dense_) {
    std::memcpy(start_of(to), source.start_of(from), static_cast<size_t>(length_ * size_));
    return;
  }
  copy_view(select(view_, 0, to), select(source.view_, 0, from));
}

void TokenRows::clear(int64_t row) const {
  if (dense_) {
    std::memset(start_of(row), 0, static_cast<size_t>(length_ * size_));
    return;
  }
  const std::vector<float> zeros(static_cast<size_t>(length_));
  write(row, zeros.data());
}

Status expect_same_rows(const KernelCall& call, const TensorView& a, const TensorView& b) {
  if (a.dims.empty() || b.dims.empty()) return invalid(call, "tokens must have a dimension that counts them");
  if (a.dtype != b.dtype) return invalid(call, "the tokens that go in and come out must be of one type");
  const auto length = [](const TensorView& view) {
    int64_t product = 1;
    for (int axis = 1; axis < view.dims.size(); ++axis) product *= view.dims[axis];
    return product;
  };
  if (length(a) == length(b)) return Status::ok();
  return invalid(call, "tokens of " + std::to_string(length(a)) + " and " + std::to_string(length(b)) +
                           " elements go in and come out");
}

Status integers_of(const KernelCall& call, const TensorView& view, const char* name, std::vector<int64_t>* values) {
  if (!view.defined) return not_computed(call, std::string(name) + " is null");
  if (view.dtype == DataType::kBool || is_integral(view.dtype)) {
    if (read_integers(view, values)) return Status::ok();
  }
  return invalid(call, std::string(name) + " must be of integers");
}

Status write_integers(const KernelCall& call, const TensorView& view, const char* name,
                      const std::vector<int64_t>& values) {
  if (!view.defined) return not_computed(call, std::string(name) + " is null");
  if (view.numel() != static_cast<int64_t>(values.size())) {
    return invalid(call, std::string(name) + " must have " + std::to_string(values.size()) + " elements; it has " +
                             std::to_string(view.numel()));
  }
  if (!is_real_element(view.dtype)) return not_computed(call, std::string(name) + " of this type");
  if (!values.empty()) Rows(view, all_axes(view.dims.size())).write<int64_t>(0, values.data());
  return Status::ok();
}

std::vector<int64_t> stable_order(const std::vector<int64_t>& keys) {
  std::vector<int64_t> order(keys.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t a, int64_t b) { return keys[static_cast<size_t>(a)] < keys[static_cast<size_t>(b)]; });
  return order;
}

std::vector<int64_t> inverse_of(const std::vector<int64_t>& order) {
  std::vector<int64_t> inverse(order.size());
  for (size_t k = 0; k < order.size(); ++k) inverse[static_cast<size_t>(order[k])] = static_cast<int64_t>(k);
  return inverse;
}

}  // namespace drydock::ops::kernels
