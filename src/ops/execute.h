#pragma once

#include <cstdint>

#include "base/status.h"
#include "ops/executor.h"
#include "trace/recorder.h"

namespace drydock::ops {

/// Runs one call on the device: decides by the values policy whether it is computed, computes it or lets its outputs
/// become ghosts, and says what became of them. Called from inside a stream's work, so calls of one stream come in
/// order. The aclnn objects of the call must be alive.
/// Fails with 507035 for memory that is not allocated, 161002 where known indices or lengths are wrong.
Status execute(Executor& executor, trace::Outcome& outcome);

/// Records a fault that `execute` met, with the operator and the line of the call: the client hears of it at a later
/// synchronise, on another line.
void record_fault(const Executor& executor, const Status& fault) noexcept;

}  // namespace drydock::ops
