#pragma once

#include <cstdint>

#include "base/status.h"
#include "comm/collective.h"
#include "values/extents.h"

// A rank's own device memory, as collectives use it.

namespace drydock::comm {

/// True if bytes of this size travel and are reduced: always in `full`, up to the budget of values otherwise, so that
/// the small tensors by which programs tell one another sizes and objects are real also among ghosts.
bool moves(uint64_t size_bytes) noexcept;

/// What is known of a send buffer. Ghosts of small integers become assumptions first, because an integer that decides a
/// shape on another rank needs a value.
values::Knowledge knowledge_to_send(uint64_t address, uint64_t size_bytes, HcclType type, trace::LineId line) noexcept;

/// A result that holds no values.
void make_ghost(uint64_t address, uint64_t size_bytes, HcclType type) noexcept;

/// Where this process may touch device bytes.
unsigned char* host_bytes(uint64_t device_address) noexcept;

/// Fails (507000) if the buffers of the call went away while it waited for its stream.
Status check_still_allocated(const Collective& call);

}  // namespace drydock::comm
