#include <algorithm>

#include "ledger/verdict.h"

namespace drydock::ledger {
namespace {

uint64_t minus(uint64_t from, uint64_t what) { return from > what ? from - what : 0; }

}  // namespace

std::string_view name_of(VerdictKind kind) {
  switch (kind) {
    case VerdictKind::kRan: return "ran";
    case VerdictKind::kOutOfMemory: return "oom";
    case VerdictKind::kFailed: return "failed";
  }
  return "failed";
}

std::string_view name_of(MemoryClass memory_class) {
  switch (memory_class) {
    case MemoryClass::kNone: return "";
    case MemoryClass::kOversize: return "oversize";
    case MemoryClass::kWorkspace: return "workspace";
    case MemoryClass::kGrowth: return "growth";
    case MemoryClass::kFragmentation: return "fragmentation";
    case MemoryClass::kExternal: return "external";
    case MemoryClass::kCapacity: return "capacity";
  }
  return "";
}

uint64_t MemoryEvidence::cached_bytes() const { return minus(reserved_bytes, allocated_bytes + direct_bytes); }

uint64_t MemoryEvidence::foreign_bytes() const {
  return minus(capacity_bytes, free_bytes + reserved_bytes + workspace_bytes + idle_bytes + hccl_bytes);
}

MemoryClass classify(const MemoryEvidence& given) {
  MemoryEvidence evidence = given;
  // Free beyond the program's own limit is not free for it.
  if (evidence.limit_bytes > 0)
    evidence.free_bytes = std::min(evidence.free_bytes, minus(evidence.limit_bytes, evidence.reserved_bytes));
  const uint64_t cached = evidence.cached_bytes();
  if (evidence.capacity_bytes > 0 && evidence.requested_bytes > minus(evidence.capacity_bytes, evidence.idle_bytes))
    return MemoryClass::kOversize;
  if (evidence.asked_for_workspace) return MemoryClass::kWorkspace;
  // Of two causes the one with more bytes: what steps keep, or what lies idle.
  if (evidence.grown_bytes > 0 && evidence.grown_bytes >= evidence.capacity_bytes / 20 && evidence.grown_bytes > cached)
    return MemoryClass::kGrowth;
  // Where free and idle bytes only suffice together, the larger part must be idle ones.
  if (cached > 0 && cached + evidence.free_bytes >= evidence.requested_bytes && cached >= evidence.free_bytes)
    return MemoryClass::kFragmentation;
  const uint64_t external = given.hccl_bytes + given.foreign_bytes();
  if (external > 0 && evidence.limit_bytes == 0 && evidence.free_bytes < evidence.requested_bytes &&
      evidence.requested_bytes <= evidence.free_bytes + external)
    return MemoryClass::kExternal;
  // A small workspace that does not fit any more says that the device is full, not that the workspace is too large.
  if (evidence.scratch_bytes > evidence.capacity_bytes / 100) return MemoryClass::kWorkspace;
  if (evidence.workspace_bytes > evidence.reserved_bytes) return MemoryClass::kWorkspace;
  return MemoryClass::kCapacity;
}

}  // namespace drydock::ledger
