#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "base/status.h"
#include "comm/settings.h"

namespace drydock::comm {

/// Takes what a communicator of `ranks` holds of its device for its buffers, until the last copy of `lease` goes.
/// Communicators whose settings give the same buffer name share. 24 (HCCL_E_OOM) where the device is full.
Status take_buffers(std::string_view entry, int32_t device, uint32_t ranks, const CommunicatorSettings& settings,
                    std::shared_ptr<void>& lease);

}  // namespace drydock::comm
