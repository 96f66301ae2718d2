#pragma once

#include <cstdint>

#include "base/status.h"
#include "comm/collective.h"
#include "comm/meeting.h"

namespace drydock::comm {

/// Fills in what this rank brings to `call`. The caller holds MemoryInUse.
void fill_offer(Offer& offer, const Collective& call) noexcept;

/// Lets the other ranks reach the buffers of `call`, where that is worth it and the host can. The caller holds no
/// MemoryInUse.
void share_buffers_of(const Collective& call) noexcept;

/// Copies bytes of another rank's memory. 507057 with a sentence where they can't be had.
Status read_peer(const Meeting& meeting, uint32_t rank, void* to, uint64_t from, uint64_t size_bytes);

}  // namespace drydock::comm
