#include "comm/device_buffer.h"

#include <fmt/format.h>

#include "base/generated/error_codes.h"
#include "device/heap.h"
#include "device/memory_account.h"
#include "values/policy.h"

namespace drydock::comm {
namespace {

const void* pointer(uint64_t address) { return reinterpret_cast<const void*>(address); }

}  // namespace

bool moves(uint64_t size_bytes) noexcept {
  const values::Policy& policy = values::policy();
  return policy.mode == values::Mode::kFull || size_bytes <= policy.budget_bytes;
}

values::Knowledge knowledge_to_send(uint64_t address, uint64_t size_bytes, HcclType type, trace::LineId line) noexcept {
  const values::Knowledge knowledge = values::knowledge_of(address, size_bytes);
  if (knowledge != values::Knowledge::kGhost || !is_integral(data_type_of(type)) || !moves(size_bytes))
    return knowledge;
  values::fill_assumed(host_bytes(address), address, size_bytes);
  values::set_knowledge(address, size_bytes, values::Knowledge::kAssumed);
  trace::assumed(trace::Assumption::kOperatorResult, size_bytes, line);
  return values::Knowledge::kAssumed;
}

void make_ghost(uint64_t address, uint64_t size_bytes, HcclType type) noexcept {
  if (size_bytes == 0) return;
  values::set_knowledge(address, size_bytes, values::Knowledge::kGhost);
  const DataType dtype = data_type_of(type);
  values::note_ghost(address, size_bytes, {dtype, values::default_reading(dtype)});
}

unsigned char* host_bytes(uint64_t device_address) noexcept {
  return reinterpret_cast<unsigned char*>(device::host_address(pointer(device_address)));
}

Status check_still_allocated(const Collective& call) {
  const auto check = [&](uint64_t address, uint64_t size_bytes) {
    if (size_bytes == 0 || device::is_allocated(pointer(address), size_bytes)) return Status::ok();
    return Status::error(code::ACL_ERROR_RT_INTERNAL_ERROR,
                         fmt::format("{}: a buffer of {} went away before it ran: {}", describe(call),
                                     device::line_text(call.line), device::describe_address(pointer(address))));
  };
  DRYDOCK_RETURN_IF_ERROR(check(call.send, call.send_bytes));
  DRYDOCK_RETURN_IF_ERROR(check(call.receive, call.receive_bytes));
  for (const Message& message : call.messages) DRYDOCK_RETURN_IF_ERROR(check(message.address, message.size_bytes()));
  return Status::ok();
}

}  // namespace drydock::comm
