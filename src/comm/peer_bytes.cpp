#include "comm/peer_bytes.h"

#include <cerrno>
#include <cstring>
#include <string>

#include <fmt/format.h>

#include "base/generated/error_codes.h"
#include "comm/device_buffer.h"
#include "device/memory_account.h"

namespace drydock::comm {

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
