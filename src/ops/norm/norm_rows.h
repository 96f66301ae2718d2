#pragma once

#include "ops/kernel_call.h"

// Layer norm and RMS norm, alone and with an addition before: rows of the last dimensions are normalised. One function
// goes forward for all of them and one back.

namespace drydock::ops::kernels {

/// The rows to normalise: first * scale + second + bias, where the latter two may be null.
struct NormInput {
  const TensorView* first = nullptr;
  const TensorView* second = nullptr;
  const TensorView* bias = nullptr;
  double scale = 1;
};

struct NormForm {
  bool centred = true;  ///< subtracts the mean: layer norm; otherwise RMS norm
  int inner = 1;        ///< number of dimensions inside a row
  double epsilon = 0;
  double gamma_offset = 0;  ///< added to gamma
};

/// Null or undefined views are not written.
struct NormOutput {
  const TensorView* y = nullptr;
  const TensorView* second_y = nullptr;  ///< y once more, in another element type
  const TensorView* mean = nullptr;
  const TensorView* rstd = nullptr;
  const TensorView* sum = nullptr;  ///< the rows that were normalised
};

/// y = (x - mean) * rstd * (gamma + gamma_offset) + beta; gamma and beta may be undefined.
Status normalize_rows(const KernelCall& call, const NormForm& form, const NormInput& input, const TensorView& gamma,
                      const TensorView& beta, const NormOutput& output);

/// What the forward operator saw and gave.
struct NormTape {
  const TensorView* gradient = nullptr;  ///< of y
  NormInput input;
  const TensorView* mean = nullptr;  ///< null for RMS norm
  const TensorView* rstd = nullptr;
  const TensorView* gamma = nullptr;  ///< may be undefined
};

/// Null or undefined views are not written.
struct NormGradient {
  const TensorView* first = nullptr;   ///< of input.first
  const TensorView* second = nullptr;  ///< of input.second
  const TensorView* gamma = nullptr;
  const TensorView* beta = nullptr;
  const TensorView* added = nullptr;  ///< read: one more gradient of the sum, added to it
};

Status normalize_rows_backward(const KernelCall& call, const NormForm& form, const NormTape& tape,
                               const NormGradient& gradient);

}  // namespace drydock::ops::kernels
