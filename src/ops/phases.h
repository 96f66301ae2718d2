#pragma once

#include <cstdint>

#include "base/export.h"
#include "ops/operator_row.h"

// The two phases of every aclnn operator. The generated doors pack their typed arguments and come here.

namespace drydock::ops {

/// aclnn<Op>GetWorkspaceSize: checks the arguments and makes an executor.
/// `args`: in signature order, handles as the client gave them (checked here). `workspace_size` and `executor` are the
/// client's out-parameters. On failure writes 0 and null (contract H21) and returns the vendor's code: 161001 for a
/// missing pointer, 161002 for an argument the device does not take. Thread-safe.
DRYDOCK_API int32_t phase1(uint32_t operator_index, Arg* args, uint32_t count, uint64_t* workspace_size,
                           void** executor) noexcept;

/// aclnn<Op>: submits the call to `stream` (null = default stream of the thread's context) and consumes the executor
/// unless it is repeatable. 161001 for a null or stale executor, or a null workspace with a size. Thread-safe.
DRYDOCK_API int32_t phase2(uint32_t operator_index, void* workspace, uint64_t workspace_size, void* executor,
                           void* stream) noexcept;

}  // namespace drydock::ops
