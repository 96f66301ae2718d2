#include "comm/peer_bytes.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include <fmt/format.h>

#include "base/generated/error_codes.h"
#include "comm/device_buffer.h"
#include "device/address_space.h"
#include "device/device.h"
#include "device/memory_account.h"

namespace drydock::comm {

namespace {

void share_buffers(Offer& offer, const Collective& call) noexcept {
  const auto place_of = [](uint64_t address, uint64_t size_bytes) {
    return size_bytes == 0 ? device::SharedPlace{}
                           : device::shared_place_of(reinterpret_cast<const void*>(address), size_bytes)
                                 .value_or(device::SharedPlace{});
  };
  const device::SharedPlace send = place_of(call.send, call.send_bytes);
  const device::SharedPlace receive = place_of(call.receive, call.receive_bytes);
  const bool is_shared = (call.send_bytes == 0 || send.file >= 0) && (call.receive_bytes == 0 || receive.file >= 0);
  offer.file = is_shared ? std::max(send.file, receive.file) : -1;
  offer.offset = send.offset;
  offer.result_offset = receive.offset;
}

}  // namespace

void fill_offer(Offer& offer, const Collective& call) noexcept {
  offer.sequence = call.sequence;
  offer.kind = static_cast<int32_t>(call.kind);
  offer.type = static_cast<int32_t>(call.type);
  offer.op = static_cast<int32_t>(call.op);
  offer.root = call.root;
  offer.count = call.count;
  offer.size_bytes = call.send_bytes;
  offer.address = call.send_bytes == 0 ? 0 : reinterpret_cast<uint64_t>(host_bytes(call.send));
  offer.result_address = call.receive_bytes == 0 ? 0 : reinterpret_cast<uint64_t>(host_bytes(call.receive));
  offer.result_bytes = call.receive_bytes;
  share_buffers(offer, call);
  offer.moves = moves(call.send_bytes) ? 1 : 0;
  const values::Knowledge knowledge = call.send_bytes == 0
                                          ? values::Knowledge::kKnown
                                          : knowledge_to_send(call.send, call.send_bytes, call.type, call.line);
  offer.knowledge = static_cast<int32_t>(knowledge);
  offer.is_inline = call.send_bytes != 0 && call.send_bytes <= kInlineBytes ? 1 : 0;
  const std::string line = device::line_text(call.line);
  const size_t length = std::min(line.size(), sizeof offer.line - 1);
  std::memcpy(offer.line, line.data() + (line.size() - length), length);
  offer.line[length] = '\0';
}

void share_buffers_of(const Collective& call) noexcept {
  // Buffers move to other pages when they are shared for the first time, which small ones don't make up for.
  constexpr uint64_t kLeastBytes = uint64_t{64} << 10;
  const auto share = [](uint64_t address, uint64_t size_bytes) {
    if (size_bytes >= kLeastBytes && moves(size_bytes)) static_cast<void>(device::share_memory(address, size_bytes));
  };
  share(call.send, call.send_bytes);
  share(call.receive, call.receive_bytes);
}

Status read_peer(const Meeting& meeting, uint32_t rank, void* to, uint64_t from, uint64_t size_bytes) {
  if (size_bytes == 0 || meeting.segment().read(rank, to, from, size_bytes)) return Status::ok();
  const int error = errno;
  const char* why = error == EPERM
                        ? "The host does not let processes read one another (process_vm_readv): allow ptrace "
                          "among the ranks, for example with --cap-add=SYS_PTRACE."
                    : error == ESRCH ? "It has ended."
                                     : "Did it free the buffer before the call was over?";
  return Status::error(code::ACL_ERROR_RT_SUSPECT_REMOTE_ERROR,
                       fmt::format("{}: {} bytes of {} could not be read: {}. {}", meeting.what(), size_bytes,
                                   meeting.name_of(rank), std::strerror(error), why));
}

}  // namespace drydock::comm
