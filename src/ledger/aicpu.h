#pragma once

#include <string_view>

#include "trace/call_encoding.h"

namespace drydock::ledger {

/// True if a 910C computes this call on its own CPU (AICPU) in place of its cores: the operator has no kernel for them,
/// or none for the call's element types (spec/aicpu.csv). One fp64 or complex operand decides, as the others are
/// promoted to it; of other types all operands must be such.
bool runs_on_aicpu(std::string_view name, const trace::Call& call, const trace::Signature& signature);

}  // namespace drydock::ledger
