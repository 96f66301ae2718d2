#include "comm/collective.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

namespace drydock::comm {
namespace {

constexpr std::array<std::string_view, 12> kNames = {"all_reduce", "reduce",       "reduce_scatter", "reduce_scatter_v",
                                                     "all_gather", "all_gather_v", "broadcast",      "scatter",
                                                     "all_to_all", "all_to_all_v", "barrier",        "send_recv"};

std::string describe(Kind kind, HcclType type, ReduceOp op, uint32_t root, uint64_t count) {
  if (kind == Kind::kBarrier || kind == Kind::kSendRecv) return std::string(name_of(kind));
  std::string text = fmt::format("{} of {} {}", name_of(kind), count, name_of(type));
  if (kind <= Kind::kReduceScatterV) text += fmt::format(", {}", name_of(op));
  if (kind == Kind::kReduce || kind == Kind::kScatter) text += fmt::format(", root {}", root);
  if (kind == Kind::kBroadcast) text += fmt::format(" from rank {}", root);
  return text;
}

}  // namespace

std::string_view name_of(Kind kind) noexcept {
  const auto number = static_cast<size_t>(kind);
  return number < kNames.size() ? kNames[number] : "unknown";
}

uint64_t Collective::size_bytes() const noexcept {
  uint64_t sent = send_bytes;
  uint64_t received = receive_bytes;
  for (const Message& message : messages) (message.is_send ? sent : received) += message.size_bytes();
  return std::max(sent, received);
}

std::string describe(const Collective& call) { return describe(call.kind, call.type, call.op, call.root, call.count); }

std::string describe(const Offer& offer) {
  return describe(static_cast<Kind>(offer.kind), static_cast<HcclType>(offer.type), static_cast<ReduceOp>(offer.op),
                  offer.root, offer.count);
}

}  // namespace drydock::comm
