#pragma once

#include <cstdint>

#include "ops/tensor.h"
#include "values/extents.h"

// Knowledge of strided tensors.

namespace drydock::values {

/// Bytes between the first and behind the last byte that the view touches; empty views give an empty span.
struct Span {
  uint64_t begin = 0;
  uint64_t size_bytes = 0;
  bool dense = false;  ///< every byte of the span belongs to the view
};

Span span_of(const ops::Tensor& tensor) noexcept;

/// Worst knowledge over the elements of `tensor` (its gaps do not count, up to 4,096 separate runs).
Knowledge knowledge_of_view(const ops::Tensor& tensor) noexcept;

/// Sets the knowledge of the elements of `tensor`. A ghost view of more than 4,096 separate runs takes its gaps along:
/// knowledge is lost there, never invented.
void set_knowledge_of_view(const ops::Tensor& tensor, Knowledge knowledge) noexcept;

}  // namespace drydock::values
