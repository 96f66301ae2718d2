#pragma once

#include "ops/kernel_access.h"

namespace drydock::ops::kernels {

/// All elements of `out` = 0; false, as of fill_view(), if its type has no compute values.
inline bool clear_view(const TensorView& out) {
  int64_t zero = 0;
  return fill_view(out, contiguous_view(&zero, DataType::kInt64, Dims()));
}

}  // namespace drydock::ops::kernels
