#pragma once

#include "ops/operator_row.h"

namespace drydock::ops {

/// True if the operator's output shape depends on values: it is computed whatever it costs, else no shape is true.
bool has_data_dependent_shape(const OperatorRow& row) noexcept;

}  // namespace drydock::ops
