#pragma once

#include <string>

#include "ops/kernel_access.h"
#include "ops/kernel_call.h"
#include "ops/matmul/gemm.h"

// Operators of the form out = beta * self + alpha * (a @ b), whatever their shapes are called.

namespace drydock::ops::kernels {

/// The pieces of one product after shapes are checked: `a` [batch..., rows, depth], `b` [batch..., depth, columns],
/// `out` [batch..., rows, columns], `self` broadcast to out. All of one rank; batches are equal or of stride 0.
struct ProductViews {
  TensorView a, b, out;
  TensorView self;  ///< undefined if nothing is added
  double alpha = 1;
  double beta = 1;
  InputRounding rounding = InputRounding::kNone;
};

/// Rounding that a cubeMathType asks for; fails for values that the vendor does not list.
Status rounding_of(const KernelCall& call, int64_t cube_math_type, DataType a, DataType b, InputRounding* rounding);

/// Computes in fp64 if any input is fp64, in int64 if all are integers, else in fp32, and rounds once.
Status multiply_views(const KernelCall& call, ProductViews views);

}  // namespace drydock::ops::kernels
