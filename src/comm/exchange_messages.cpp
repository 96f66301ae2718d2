#include <cstring>
#include <map>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/generated/error_codes.h"
#include "comm/device_buffer.h"
#include "comm/exchange.h"
#include "comm/peer_bytes.h"
#include "device/address_space.h"

namespace drydock::comm {
namespace {

/// The messages of one batch that go one way between this rank and another, in the order of calls.
struct Lane {
  std::vector<const Message*> messages;
  size_t next = 0;
  bool is_posted = false;  ///< the next one is in the channel

  bool is_done() const { return next == messages.size(); }
};

std::string describe(const Message& message) { return fmt::format("{} {}", message.count, name_of(message.type)); }

class MessageExchange {
 public:
  MessageExchange(Meeting& meeting, PeerWindows& windows, const Collective& call)
      : meeting_(meeting), windows_(windows), segment_(meeting.segment()), call_(call), own_(segment_.rank()) {
    for (const Message& message : call.messages) lanes_[{message.peer, message.is_send}].messages.push_back(&message);
  }

  Status run() {
    Status failure = Status::ok();
    const auto first_missing = [&]() -> uint32_t {
      for (auto& [key, lane] : lanes_) {
        while (failure.is_ok() && !lane.is_done()) {
          bool has_moved = false;
          failure = key.second ? send(lane, key.first, has_moved) : receive(lane, key.first, has_moved);
          if (!has_moved) break;
        }
      }
      if (!failure.is_ok()) return segment_.ranks();
      for (const auto& [key, lane] : lanes_) {
        if (!lane.is_done()) return key.first;
      }
      return segment_.ranks();
    };
    DRYDOCK_RETURN_IF_ERROR(meeting_.wait_until(first_missing));
    return failure;
  }

 private:
  Collective as_call(const Message& message) const {
    Collective call;
    call.kind = Kind::kSendRecv;
    call.type = message.type;
    call.count = message.count;
    call.line = call_.line;
    (message.is_send ? call.send : call.receive) = message.address;
    (message.is_send ? call.send_bytes : call.receive_bytes) = message.size_bytes();
    return call;
  }

  Status send(Lane& lane, uint32_t peer, bool& has_moved) {
    Channel& channel = segment_.channel(own_, peer);
    const uint64_t sent = channel.sent.load(std::memory_order_relaxed);
    if (channel.received.load(std::memory_order_acquire) != sent) return Status::ok();
    const Message& message = *lane.messages[lane.next];
    has_moved = true;
    if (lane.is_posted) {
      lane.is_posted = false;
      ++lane.next;
      if (channel.is_refused.load(std::memory_order_acquire) == 0) return Status::ok();
      return Status::error(code::ACL_ERROR_RT_AICPU_EXCEPTION,
                           fmt::format("{}: a send of {} to {} met a receive of another size or type there.",
                                       meeting_.what(), describe(message), meeting_.name_of(peer)));
    }
    const Collective call = as_call(message);
    share_buffers_of(call);
    const device::MemoryInUse in_use;
    DRYDOCK_RETURN_IF_ERROR(check_still_allocated(call));
    fill_offer(channel.offer, call);
    if (channel.offer.is_inline != 0) std::memcpy(channel.bytes, host_bytes(call.send), call.send_bytes);
    lane.is_posted = true;
    channel.sent.store(sent + 1, std::memory_order_release);
    segment_.announce();
    return Status::ok();
  }

  Status receive(Lane& lane, uint32_t peer, bool& has_moved) {
    Channel& channel = segment_.channel(peer, own_);
    const uint64_t received = channel.received.load(std::memory_order_relaxed);
    if (channel.sent.load(std::memory_order_acquire) == received) return Status::ok();
    has_moved = true;
    Status status = take(*lane.messages[lane.next], channel, peer);
    ++lane.next;
    if (!status.is_ok()) channel.is_refused.store(1, std::memory_order_release);
    channel.received.store(received + 1, std::memory_order_release);
    segment_.announce();
    return status;
  }

  Status take(const Message& message, const Channel& channel, uint32_t peer) {
    const Offer& offer = channel.offer;
    if (offer.count != message.count || offer.type != static_cast<int32_t>(message.type)) {
      return Status::error(
          code::ACL_ERROR_RT_AICPU_EXCEPTION,
          fmt::format("{}: rank {} receives {}, and {} sends {} {} ({}).", meeting_.what(), own_, describe(message),
                      meeting_.name_of(peer), offer.count, name_of(static_cast<HcclType>(offer.type)), offer.line));
    }
    const uint64_t size_bytes = message.size_bytes();
    if (size_bytes == 0) return Status::ok();
    const device::MemoryInUse in_use;
    DRYDOCK_RETURN_IF_ERROR(check_still_allocated(as_call(message)));
    const auto knowledge = static_cast<values::Knowledge>(offer.knowledge);
    if (offer.moves == 0 || knowledge == values::Knowledge::kGhost) {
      make_ghost(message.address, size_bytes, message.type);
      return Status::ok();
    }
    unsigned char* to = host_bytes(message.address);
    if (offer.is_inline != 0) {
      std::memcpy(to, channel.bytes, size_bytes);
    } else if (const unsigned char* bytes = windows_.send_buffer(segment_, peer, offer)) {
      std::memcpy(to, bytes, size_bytes);
    } else {
      DRYDOCK_RETURN_IF_ERROR(read_peer(meeting_, peer, to, offer.address, size_bytes));
    }
    values::set_knowledge(message.address, size_bytes, knowledge);
    return Status::ok();
  }

  Meeting& meeting_;
  PeerWindows& windows_;
  const Segment& segment_;
  const Collective& call_;
  const uint32_t own_;
  std::map<std::pair<uint32_t, bool>, Lane> lanes_;
};

}  // namespace

Status exchange_messages(Meeting& meeting, PeerWindows& windows, const Collective& call) {
  return MessageExchange(meeting, windows, call).run();
}

}  // namespace drydock::comm
