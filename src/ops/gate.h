#pragma once

#include "base/status.h"
#include "ops/operator_row.h"

// What the device refuses of a call before it looks at values: element types and ranks that the vendor's tables for
// Atlas A3 do not list (spec/dtypes.csv), and element types that the claimed chip does not have.

namespace drydock::ops {

/// 161002 with a sentence if a tensor of the call has a type or rank that the device does not take. `args` are live
/// objects in the order of `row.args`. Thread-safe.
Status check_gates(const OperatorRow& row, std::span<const Arg> args);

}  // namespace drydock::ops
