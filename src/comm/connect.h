#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "base/export.h"
#include "base/status.h"
#include "comm/communicator.h"
#include "comm/settings.h"

// How the ranks of a communicator find one another. All of them block until every rank is there, or until
// HCCL_CONNECT_TIMEOUT: 9 (HCCL_E_TIMEOUT) with the ranks that did not come. Codes are HCCL's.

namespace drydock::comm {

/// HcclRootInfo: opaque to clients, who carry it to all ranks.
inline constexpr size_t kRootInfoBytes = 4108;

/// Makes the place where ranks meet and writes into `root_info` where it is.
DRYDOCK_API Status make_root_info(std::string_view entry, void* root_info);

/// Which rank of how many joins, with which device.
struct Member {
  uint32_t ranks = 0;
  uint32_t rank = 0;
  int32_t device = -1;
};

DRYDOCK_API Status join_root_info(std::string_view entry, const void* root_info, const Member& member,
                                  CommunicatorSettings settings, std::shared_ptr<Communicator>& joined);

/// Ranks that have no root info but the same rank table file, which says how many they are (`member.ranks` is not
/// read).
DRYDOCK_API Status join_rank_table(std::string_view entry, const char* path, Member member,
                                   CommunicatorSettings settings, std::shared_ptr<Communicator>& joined);

/// A communicator of some ranks of another. `ids` are the members' ranks there; `id` is the same for all members.
DRYDOCK_API Status join_sub_communicator(std::string_view entry, const Communicator& parent,
                                         std::span<const uint32_t> ids, uint64_t id, const Member& member,
                                         CommunicatorSettings settings, std::shared_ptr<Communicator>& joined);

/// All ranks in this process, one for each of `devices`.
DRYDOCK_API Status join_all(std::string_view entry, std::span<const int32_t> devices,
                            const CommunicatorSettings& settings, std::span<std::shared_ptr<Communicator>> joined);

}  // namespace drydock::comm
