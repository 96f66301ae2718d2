#pragma once

#include <cstdint>
#include <vector>

#include "ops/kernel_access.h"
#include "ops/kernel_call.h"
#include "ops/quant/integer_rows.h"

// Rows of tokens that routing moves about: copied as bytes where they stay as they are, summed as floats where they
// meet.

namespace drydock::ops::kernels {

/// The slices along the first axis of a tensor, dense or not.
class TokenRows {
 public:
  explicit TokenRows(const TensorView& view);

  int64_t count() const { return count_; }
  /// Elements of a row.
  int64_t length() const { return length_; }

  /// Row `to` of this = row `from` of `source`, which has the same element type and length.
  void copy(int64_t to, const TokenRows& source, int64_t from) const;
  void clear(int64_t row) const;
  const float* read(int64_t row, float* buffer) const { return rows_.read<float>(row, buffer); }
  void write(int64_t row, const float* values) const { rows_.write<float>(row, values); }

 private:
  char* start_of(int64_t row) const { return view_.data + row * row_step_; }

  TensorView view_;
  Rows rows_;
  int64_t count_ = 0;
  int64_t length_ = 0;
  int64_t row_step_ = 0;  ///< bytes
  int64_t size_ = 0;      ///< bytes of an element
  bool dense_ = false;    ///< the elements of a row lie one behind the other
};

/// Fails unless both move the same kind of rows.
Status expect_same_rows(const KernelCall& call, const TensorView& a, const TensorView& b);

/// The elements of an integer tensor; fails for other types.
Status integers_of(const KernelCall& call, const TensorView& view, const char* name, std::vector<int64_t>* values);

/// Writes integers to a tensor with as many elements, in row-major order.
Status write_integers(const KernelCall& call, const TensorView& view, const char* name,
                      const std::vector<int64_t>& values);

/// Positions 0, 1, ... ordered by ascending key; equal keys keep their order.
std::vector<int64_t> stable_order(const std::vector<int64_t>& keys);

/// inverse[order[i]] = i.
std::vector<int64_t> inverse_of(const std::vector<int64_t>& order);

}  // namespace drydock::ops::kernels
