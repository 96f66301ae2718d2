#pragma once

#include <cstdint>

#include "device/stream.h"
#include "ops/executor.h"

namespace drydock::ops {

/// Tells the stream check which memory a call reads and writes on `stream`, its workspace included.
void tell_stream_uses(const Executor& executor, const void* workspace, uint64_t workspace_bytes,
                      const device::Stream& stream);

}  // namespace drydock::ops
