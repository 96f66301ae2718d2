#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "abi/entry_arguments.h"
#include "abi/generated/entries.h"
#include "base/generated/error_codes.h"
#include "comm/collective.h"
#include "comm/communicator.h"
#include "comm/data_types.h"
#include "comm/group.h"
#include "device/heap.h"
#include "device/memory_account.h"
#include "device/stream.h"

// Collectives: arguments are checked here, the rest is the communicator's.

namespace drydock::entries {
namespace {

using comm::Collective;
using comm::Communicator;
using comm::HcclType;
using comm::Kind;
using comm::Message;
using comm::ReduceOp;
using comm::Share;

/// A call while it is checked.
class Call {
 public:
  Call(abi::EntryId id, std::string_view entry, Kind kind) : id_(id), entry_(entry) {
    call_.kind = kind;
    call_.line = trace::current_line();
  }

  Status find(const void* communicator, const void* stream) {
    DRYDOCK_RETURN_IF_ERROR(comm::find_communicator(entry_, communicator, communicator_));
    const Status found = device::find_stream(entry_, stream, stream_);
    if (!found.is_ok()) return Status::error(code::HCCL_E_PARA, found.message());
    if (stream_->device() == communicator_->device()) return Status::ok();
    return bad(fmt::format("stream {} is of device {}, and {} of device {}", stream_->id(), stream_->device(),
                           communicator_->name(), communicator_->device()));
  }

  Status take_type(int32_t type) {
    DRYDOCK_RETURN_IF_ERROR(comm::check_type(entry_, type));
    call_.type = static_cast<HcclType>(type);
    return Status::ok();
  }

  Status take_reduction(int32_t type, int32_t op) {
    DRYDOCK_RETURN_IF_ERROR(comm::check_reduction(entry_, type, op));
    call_.type = static_cast<HcclType>(type);
    call_.op = static_cast<ReduceOp>(op);
    return Status::ok();
  }

  Status take_root(uint32_t root) {
    DRYDOCK_RETURN_IF_ERROR(check_rank(root));
    call_.root = root;
    return Status::ok();
  }

  Status check_rank(uint32_t rank) const {
    if (rank < ranks()) return Status::ok();
    return bad(fmt::format("there is no rank {} in {}, which has {}", rank, communicator_->name(), ranks()));
  }

  void take_count(uint64_t count) { call_.count = count; }

  Status send_from(const void* buffer, uint64_t count) {
    call_.send_bytes = count * element_bytes();
    call_.send = reinterpret_cast<uint64_t>(buffer);
    return check_buffer("send", buffer, count);
  }
  Status receive_to(const void* buffer, uint64_t count) {
    call_.receive_bytes = count * element_bytes();
    call_.receive = reinterpret_cast<uint64_t>(buffer);
    return check_buffer("receive", buffer, count);
  }

  /// Turns counts and displacements, in elements, into shares. Returns the elements up to the end of the last.
  uint64_t shares_of(const void* counts, const void* displacements, std::vector<Share>& shares) const {
    uint64_t end = 0;
    for (uint32_t rank = 0; rank < ranks(); ++rank) {
      const uint64_t count = element(counts, rank);
      const uint64_t offset = element(displacements, rank);
      shares.push_back({offset * element_bytes(), count * element_bytes()});
      if (count != 0) end = std::max(end, offset + count);
    }
    return end;
  }
  static uint64_t element(const void* numbers, uint64_t index) {
    uint64_t number = 0;
    std::memcpy(&number, static_cast<const char*>(numbers) + index * sizeof number, sizeof number);
    return number;
  }

  Status require_numbers(std::string_view argument, const void* numbers) const {
    if (numbers != nullptr) return Status::ok();
    return Status::error(code::HCCL_E_PTR, fmt::format("{}: the argument `{}` is null.", entry_, argument));
  }

  Status check_buffer(std::string_view role, const void* buffer, uint64_t count) const {
    if (count == 0) return Status::ok();
    if (buffer == nullptr)
      return Status::error(code::HCCL_E_PTR, fmt::format("{}: the {} buffer is null.", entry_, role));
    constexpr uint64_t kMostBytes = uint64_t{1} << 50;
    const bool is_whole = count <= kMostBytes && device::is_allocated(buffer, count * element_bytes());
    if (is_whole && device::device_of(buffer) == communicator_->device()) return Status::ok();
    return bad(fmt::format("the {} buffer, {} {} at {:#x}, is not all allocated on device {}: {}", role, count,
                           comm::name_of(call_.type), reinterpret_cast<uint64_t>(buffer), communicator_->device(),
                           device::describe_address(buffer)));
  }

  Status bad(const std::string& why) const {
    return Status::error(code::HCCL_E_PARA, fmt::format("{}: {}.", entry_, why));
  }

  Status submit() {
    record(call_.size_bytes());
    return as_hccl(communicator_->submit(std::move(call_), *stream_));
  }
  Status submit_messages(std::vector<Message> messages) {
    Collective batch;
    batch.messages = messages;
    record(batch.size_bytes());
    return as_hccl(comm::submit_messages(communicator_, *stream_, std::move(messages), call_.line));
  }

  Collective& collective() { return call_; }
  uint32_t ranks() const { return communicator_->ranks(); }
  uint32_t rank() const { return communicator_->rank(); }

 private:
  uint64_t element_bytes() const { return comm::bytes_of(call_.type); }

  /// The bytes that this rank gives or takes, whichever is more, and on which stream.
  void record(uint64_t size_bytes) const {
    if (trace::enabled()) trace::entry_called(static_cast<uint32_t>(id_), size_bytes, stream_->id(), call_.line);
  }

  /// A stream that takes no more work answers with the runtime's code.
  static Status as_hccl(Status status) {
    if (status.is_ok() || status.code() <= code::HCCL_E_RESERVED) return status;
    return Status::error(code::HCCL_E_RUNTIME, status.message());
  }

  const abi::EntryId id_;
  const std::string_view entry_;
  std::shared_ptr<Communicator> communicator_;
  device::Stream* stream_ = nullptr;
  Collective call_;
};

Status send_or_receive(abi::EntryId id, std::string_view entry, bool is_send, void* buffer, uint64_t count,
                       int32_t type, uint32_t peer, void* comm, void* stream) {
  Call call(id, entry, Kind::kSendRecv);
  DRYDOCK_RETURN_IF_ERROR(call.find(comm, stream));
  DRYDOCK_RETURN_IF_ERROR(call.take_type(type));
  DRYDOCK_RETURN_IF_ERROR(call.check_rank(peer));
  DRYDOCK_RETURN_IF_ERROR(call.check_buffer(is_send ? "send" : "receive", buffer, count));
  return call.submit_messages(
      {{is_send, peer, static_cast<HcclType>(type), count, reinterpret_cast<uint64_t>(buffer)}});
}

}  // namespace

Status HcclAllReduce(void* send, void* receive, uint64_t count, int32_t type, int32_t op, void* comm, void* stream) {
  Call call(abi::EntryId::HcclAllReduce, "HcclAllReduce", Kind::kAllReduce);
  DRYDOCK_RETURN_IF_ERROR(call.find(comm, stream));
  DRYDOCK_RETURN_IF_ERROR(call.take_reduction(type, op));
  call.take_count(count);
  DRYDOCK_RETURN_IF_ERROR(call.send_from(send, count));
  DRYDOCK_RETURN_IF_ERROR(call.receive_to(receive, count));
  return call.submit();
}

Status HcclReduce(void* send, void* receive, uint64_t count, int32_t type, int32_t op, uint32_t root, void* comm,
                  void* stream) {
  Call call(abi::EntryId::HcclReduce, "HcclReduce", Kind::kReduce);
  DRYDOCK_RETURN_IF_ERROR(call.find(comm, stream));
  DRYDOCK_RETURN_IF_ERROR(call.take_reduction(type, op));
  DRYDOCK_RETURN_IF_ERROR(call.take_root(root));
  call.take_count(count);
  DRYDOCK_RETURN_IF_ERROR(call.send_from(send, count));
  if (call.rank() == root) DRYDOCK_RETURN_IF_ERROR(call.receive_to(receive, count));
  return call.submit();
}

Status HcclReduceScatter(void* send, void* receive, uint64_t count, int32_t type, int32_t op, void* comm,
                         void* stream) {
  Call call(abi::EntryId::HcclReduceScatter, "HcclReduceScatter", Kind::kReduceScatter);
  DRYDOCK_RETURN_IF_ERROR(call.find(comm, stream));
  DRYDOCK_RETURN_IF_ERROR(call.take_reduction(type, op));
  call.take_count(count);
  DRYDOCK_RETURN_IF_ERROR(call.send_from(send, count * call.ranks()));
  DRYDOCK_RETURN_IF_ERROR(call.receive_to(receive, count));
  return call.submit();
}

Status HcclReduceScatterV(void* send, const void* counts, const void* displacements, void* receive, uint64_t count,
                          int32_t type, int32_t op, void* comm, void* stream) {
  Call call(abi::EntryId::HcclReduceScatterV, "HcclReduceScatterV", Kind::kReduceScatterV);
  DRYDOCK_RETURN_IF_ERROR(call.find(comm, stream));
  DRYDOCK_RETURN_IF_ERROR(call.take_reduction(type, op));
  DRYDOCK_RETURN_IF_ERROR(call.require_numbers("sendCounts", counts));
  DRYDOCK_RETURN_IF_ERROR(call.require_numbers("sendDispls", displacements));
  const uint64_t sent = call.shares_of(counts, displacements, call.collective().send_shares);
  if (Call::element(counts, call.rank()) != count) {
    return call.bad(
        fmt::format("recvCount is {}, and sendCounts has {} for this rank", count, Call::element(counts, call.rank())));
  }
  // Every rank has the same counts, so what they come to is compared.
  call.take_count(sent);
  DRYDOCK_RETURN_IF_ERROR(call.send_from(send, sent));
  DRYDOCK_RETURN_IF_ERROR(call.receive_to(receive, count));
  return call.submit();
}

Status HcclAllGather(void* send, void* receive, uint64_t count, int32_t type, void* comm, void* stream) {
  Call call(abi::EntryId::HcclAllGather, "HcclAllGather", Kind::kAllGather);
  DRYDOCK_RETURN_IF_ERROR(call.find(comm, stream));
  DRYDOCK_RETURN_IF_ERROR(call.take_type(type));
  call.take_count(count);
  DRYDOCK_RETURN_IF_ERROR(call.send_from(send, count));
  DRYDOCK_RETURN_IF_ERROR(call.receive_to(receive, count * call.ranks()));
  return call.submit();
}

Status HcclAllGatherV(void* send, uint64_t count, void* receive, const void* counts, const void* displacements,
                      int32_t type, void* comm, void* stream) {
  Call call(abi::EntryId::HcclAllGatherV, "HcclAllGatherV", Kind::kAllGatherV);
  DRYDOCK_RETURN_IF_ERROR(call.find(comm, stream));
  DRYDOCK_RETURN_IF_ERROR(call.take_type(type));
  DRYDOCK_RETURN_IF_ERROR(call.require_numbers("recvCounts", counts));
  DRYDOCK_RETURN_IF_ERROR(call.require_numbers("recvDispls", displacements));
  const uint64_t received = call.shares_of(counts, displacements, call.collective().receive_shares);
  DRYDOCK_RETURN_IF_ERROR(call.send_from(send, count));
  DRYDOCK_RETURN_IF_ERROR(call.receive_to(receive, received));
  return call.submit();
}

Status HcclBroadcast(void* buffer, uint64_t count, int32_t type, uint32_t root, void* comm, void* stream) {
  Call call(abi::EntryId::HcclBroadcast, "HcclBroadcast", Kind::kBroadcast);
  DRYDOCK_RETURN_IF_ERROR(call.find(comm, stream));
  DRYDOCK_RETURN_IF_ERROR(call.take_type(type));
  DRYDOCK_RETURN_IF_ERROR(call.take_root(root));
  call.take_count(count);
  DRYDOCK_RETURN_IF_ERROR(call.rank() == root ? call.send_from(buffer, count) : call.receive_to(buffer, count));
  return call.submit();
}

Status HcclScatter(void* send, void* receive, uint64_t count, int32_t type, uint32_t root, void* comm, void* stream) {
  Call call(abi::EntryId::HcclScatter, "HcclScatter", Kind::kScatter);
  DRYDOCK_RETURN_IF_ERROR(call.find(comm, stream));
  DRYDOCK_RETURN_IF_ERROR(call.take_type(type));
  DRYDOCK_RETURN_IF_ERROR(call.take_root(root));
  call.take_count(count);
  if (call.rank() == root) DRYDOCK_RETURN_IF_ERROR(call.send_from(send, count * call.ranks()));
  DRYDOCK_RETURN_IF_ERROR(call.receive_to(receive, count));
  return call.submit();
}

Status HcclAlltoAll(const void* send, uint64_t send_count, int32_t send_type, const void* receive,
                    uint64_t receive_count, int32_t receive_type, void* comm, void* stream) {
  Call call(abi::EntryId::HcclAlltoAll, "HcclAlltoAll", Kind::kAllToAll);
  DRYDOCK_RETURN_IF_ERROR(call.find(comm, stream));
  DRYDOCK_RETURN_IF_ERROR(call.take_type(send_type));
  if (send_type != receive_type || send_count != receive_count) {
    return call.bad(fmt::format("{} elements of type {} are sent to each rank, and {} of type {} received", send_count,
                                send_type, receive_count, receive_type));
  }
  call.take_count(send_count);
  DRYDOCK_RETURN_IF_ERROR(call.send_from(send, send_count * call.ranks()));
  DRYDOCK_RETURN_IF_ERROR(call.receive_to(receive, receive_count * call.ranks()));
  return call.submit();
}

Status HcclAlltoAllV(const void* send, const void* send_counts, const void* send_displacements, int32_t send_type,
                     const void* receive, const void* receive_counts, const void* receive_displacements,
                     int32_t receive_type, void* comm, void* stream) {
  Call call(abi::EntryId::HcclAlltoAllV, "HcclAlltoAllV", Kind::kAllToAllV);
  DRYDOCK_RETURN_IF_ERROR(call.find(comm, stream));
  DRYDOCK_RETURN_IF_ERROR(call.take_type(send_type));
  if (send_type != receive_type)
    return call.bad(fmt::format("type {} is sent, and type {} received", send_type, receive_type));
  DRYDOCK_RETURN_IF_ERROR(call.require_numbers("sendCounts", send_counts));
  DRYDOCK_RETURN_IF_ERROR(call.require_numbers("sdispls", send_displacements));
  DRYDOCK_RETURN_IF_ERROR(call.require_numbers("recvCounts", receive_counts));
  DRYDOCK_RETURN_IF_ERROR(call.require_numbers("rdispls", receive_displacements));
  const uint64_t sent = call.shares_of(send_counts, send_displacements, call.collective().send_shares);
  const uint64_t received = call.shares_of(receive_counts, receive_displacements, call.collective().receive_shares);
  DRYDOCK_RETURN_IF_ERROR(call.send_from(send, sent));
  DRYDOCK_RETURN_IF_ERROR(call.receive_to(receive, received));
  return call.submit();
}

Status HcclAlltoAllVC(const void* send, const void* matrix, int32_t send_type, const void* receive,
                      int32_t receive_type, void* comm, void* stream) {
  Call call(abi::EntryId::HcclAlltoAllVC, "HcclAlltoAllVC", Kind::kAllToAllV);
  DRYDOCK_RETURN_IF_ERROR(call.find(comm, stream));
  DRYDOCK_RETURN_IF_ERROR(call.take_type(send_type));
  if (send_type != receive_type)
    return call.bad(fmt::format("type {} is sent, and type {} received", send_type, receive_type));
  DRYDOCK_RETURN_IF_ERROR(call.require_numbers("sendCountMatrix", matrix));
  // Row i of the matrix is what rank i sends. Both buffers are without gaps.
  const uint32_t ranks = call.ranks();
  std::vector<uint64_t> numbers(size_t{4} * ranks);
  uint64_t sent = 0;
  uint64_t received = 0;
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    numbers[rank] = Call::element(matrix, uint64_t{call.rank()} * ranks + rank);
    numbers[ranks + rank] = sent;
    sent += numbers[rank];
    numbers[2 * ranks + rank] = Call::element(matrix, uint64_t{rank} * ranks + call.rank());
    numbers[3 * ranks + rank] = received;
    received += numbers[2 * ranks + rank];
  }
  call.shares_of(numbers.data(), numbers.data() + ranks, call.collective().send_shares);
  call.shares_of(numbers.data() + 2 * ranks, numbers.data() + 3 * ranks, call.collective().receive_shares);
  DRYDOCK_RETURN_IF_ERROR(call.send_from(send, sent));
  DRYDOCK_RETURN_IF_ERROR(call.receive_to(receive, received));
  return call.submit();
}

Status HcclBarrier(void* comm, void* stream) {
  Call call(abi::EntryId::HcclBarrier, "HcclBarrier", Kind::kBarrier);
  DRYDOCK_RETURN_IF_ERROR(call.find(comm, stream));
  return call.submit();
}

Status HcclSend(void* buffer, uint64_t count, int32_t type, uint32_t peer, void* comm, void* stream) {
  return send_or_receive(abi::EntryId::HcclSend, "HcclSend", true, buffer, count, type, peer, comm, stream);
}

Status HcclRecv(void* buffer, uint64_t count, int32_t type, uint32_t peer, void* comm, void* stream) {
  return send_or_receive(abi::EntryId::HcclRecv, "HcclRecv", false, buffer, count, type, peer, comm, stream);
}

Status HcclBatchSendRecv(void* items, uint32_t item_count, void* comm, void* stream) {
  // HcclSendRecvItem, the vendor's layout.
  struct Item {
    int32_t kind;
    void* buffer;
    uint64_t count;
    int32_t type;
    uint32_t peer;
  };
  static_assert(sizeof(Item) == 32);
  Call call(abi::EntryId::HcclBatchSendRecv, "HcclBatchSendRecv", Kind::kSendRecv);
  DRYDOCK_RETURN_IF_ERROR(call.find(comm, stream));
  DRYDOCK_RETURN_IF_ERROR(call.require_numbers("sendRecvInfo", items));
  std::vector<Message> messages;
  for (uint32_t index = 0; index < item_count; ++index) {
    Item item{};
    std::memcpy(&item, static_cast<const char*>(items) + index * sizeof item, sizeof item);
    if (item.kind != 0 && item.kind != 1)
      return call.bad(fmt::format("item {} is of kind {}; they are 0 (send) and 1 (receive)", index, item.kind));
    DRYDOCK_RETURN_IF_ERROR(call.take_type(item.type));
    DRYDOCK_RETURN_IF_ERROR(call.check_rank(item.peer));
    DRYDOCK_RETURN_IF_ERROR(call.check_buffer(item.kind == 0 ? "send" : "receive", item.buffer, item.count));
    messages.push_back({item.kind == 0, item.peer, static_cast<HcclType>(item.type), item.count,
                        reinterpret_cast<uint64_t>(item.buffer)});
  }
  return call.submit_messages(std::move(messages));
}

}  // namespace drydock::entries
