#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/export.h"
#include "comm/data_types.h"
#include "comm/segment.h"
#include "trace/recorder.h"

namespace drydock::comm {

/// What the ranks of a communicator do together. The numbers are those of the trace.
enum class Kind : int32_t {
  kAllReduce = 0,
  kReduce = 1,
  kReduceScatter = 2,
  kReduceScatterV = 3,
  kAllGather = 4,
  kAllGatherV = 5,
  kBroadcast = 6,
  kScatter = 7,
  kAllToAll = 8,
  kAllToAllV = 9,
  kBarrier = 10,
  kSendRecv = 11,  ///< sends and receives, one or a batch
};

/// "all_reduce"
DRYDOCK_API std::string_view name_of(Kind kind) noexcept;

/// One send or receive.
struct Message {
  bool is_send = false;
  uint32_t peer = 0;
  HcclType type = HcclType::kInt8;
  uint64_t count = 0;
  uint64_t address = 0;

  uint64_t size_bytes() const noexcept { return count * bytes_of(type); }
};

/// A call of one rank, checked: buffers are allocated, types and ranks exist.
struct Collective {
  Kind kind = Kind::kBarrier;
  HcclType type = HcclType::kInt8;
  ReduceOp op = ReduceOp::kSum;
  uint32_t root = 0;
  uint64_t count = 0;  ///< as the vendor counts it for the kind; 0 where counts differ between ranks
  uint64_t send = 0;   ///< device address; 0 where the rank sends nothing
  uint64_t send_bytes = 0;
  uint64_t receive = 0;
  uint64_t receive_bytes = 0;
  /// For kinds with different sizes: what goes to each rank, and where what comes from each rank goes.
  std::vector<Share> send_shares;
  std::vector<Share> receive_shares;
  std::vector<Message> messages;  ///< of kSendRecv
  trace::LineId line = 0;
  uint32_t stream_id = 0;
  uint64_t sequence = 0;  ///< 1, 2, ... of the communicator, in the order of calls

  bool reduces() const noexcept { return kind <= Kind::kReduceScatterV; }
  /// Bytes that this rank gives and takes, whichever is more: what the trace and the ledger count.
  uint64_t size_bytes() const noexcept;
};

/// "all_reduce of 8 fp32, sum"
DRYDOCK_API std::string describe(const Collective& call);
/// The same of what another rank offers.
DRYDOCK_API std::string describe(const Offer& offer);

}  // namespace drydock::comm
