#pragma once

#include <cstdint>
#include <span>

#include "ops/kernel_call.h"

// Which type a call computes in. The rules are PyTorch's, which torch_npu's operators follow.

namespace drydock::ops::kernels {

/// The four types that kernels compute in; every real element type converts to one of them without loss.
enum class ComputeType : uint8_t { kInt64, kUInt64, kFloat, kDouble };

/// True for the element types that kernels convert and compute: bool, integers of 8 to 64 bits, fp16, bf16, fp32, fp64.
bool is_real_element(DataType type) noexcept;

/// The compute type that holds every value of `type`: int64 for bool and integers (uint64 for uint64), fp32 for fp16,
/// bf16 and fp32, fp64 for fp64.
ComputeType compute_type_of(DataType type) noexcept;

/// The smallest type that both convert to: int8 with uint8 is int16, fp16 with bf16 is fp32, int64 with fp16 is fp16.
DataType promote_types(DataType a, DataType b) noexcept;

/// A tensor or scalar argument as type promotion sees it.
struct Operand {
  const TensorView* view = nullptr;
  bool is_scalar = false;  ///< an aclScalar: a number without a type of its own, weaker than any tensor
};

/// Operand `index` of the call, with its kind taken from the row's signature.
Operand operand_of(const KernelCall& call, int index);

/// Type of an expression of these operands. Tensors with dimensions outweigh tensors of rank 0, which outweigh scalars,
/// unless the lighter one is of a higher category (bool < integer < floating). A floating scalar alone is fp32.
DataType result_type(std::span<const Operand> operands) noexcept;

}  // namespace drydock::ops::kernels
