#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "base/export.h"
#include "base/status.h"
#include "comm/communicator.h"

namespace drydock::comm {

/// Between HcclGroupStart and the HcclGroupEnd that belongs to it, sends and receives of a thread are collected,
/// because one that waits inside a group would wait for ever. Groups nest: the outermost end starts all of them at
/// once.
DRYDOCK_API void start_group();
/// 1 (HCCL_E_PARA) without a group.
DRYDOCK_API Status end_group(std::string_view entry);

/// Submits messages, or keeps them for the end of this thread's group.
DRYDOCK_API Status submit_messages(std::shared_ptr<Communicator> communicator, device::Stream& stream,
                                   std::vector<Message> messages, trace::LineId line);

}  // namespace drydock::comm
