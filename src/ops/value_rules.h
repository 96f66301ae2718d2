#pragma once

#include <optional>

#include "ops/executor.h"
#include "ops/operator_row.h"

namespace drydock::ops {

/// True if the operator's output shape depends on values: it is computed whatever it costs, else no shape is true.
bool has_data_dependent_shape(const OperatorRow& row) noexcept;

/// For a random fill from a range (aclnnInplaceUniform): the middle of the range, so that its ghosts read as draws.
std::optional<double> middle_of_random_range(const Executor& executor) noexcept;

}  // namespace drydock::ops
