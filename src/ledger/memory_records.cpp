#include "ledger/memory_records.h"

namespace drydock::ledger {

using trace::Kind;

uint64_t key_of(const trace::TracedValue& value) { return value.bits | (static_cast<uint64_t>(value.tag) << 62); }

bool is_memory_record(Kind kind) {
  switch (kind) {
    case Kind::kBlockAllocated:
    case Kind::kWorkspaceGiven:
    case Kind::kBlockFreed:
    case Kind::kBlockRequested:
    case Kind::kDriverAllocated:
    case Kind::kDriverFreed:
    case Kind::kDriverOutOfMemory:
    case Kind::kOverhead: return true;
    default: return false;
  }
}

bool take_memory_record(const trace::Reader& reader, const trace::Record& record, MemoryAccount& account) {
  switch (record.kind) {
    case Kind::kBlockAllocated:
      account.block_allocated(key_of(record.address), record.size_bytes, record.is_workspace, record.line,
                              record.module, record.gradients_are_recorded);
      if (record.has_request) account.block_requested(key_of(record.address), record.requested_bytes);
      return true;
    case Kind::kWorkspaceGiven: account.workspace_given(key_of(record.address)); return true;
    case Kind::kBlockFreed: account.block_freed(key_of(record.address)); return true;
    case Kind::kBlockRequested: account.block_requested(key_of(record.address), record.size_bytes); return true;
    case Kind::kDriverAllocated:
      account.driver_allocated({.kind = record.memory,
                                .address = key_of(record.address),
                                .handle = key_of(record.detail),
                                .size_bytes = record.size_bytes,
                                .line = record.line,
                                .allocated_record = reader.records()});
      return true;
    case Kind::kDriverFreed:
      account.driver_freed(record.memory, key_of(record.address), key_of(record.detail), reader.records());
      return true;
    case Kind::kOverhead: account.overhead_charged(reader.string(record.text), record.size_bytes); return true;
    default: return false;
  }
}

OutOfMemory out_of_memory_of(const trace::Reader& reader, const trace::Record& record) {
  OutOfMemory event;
  event.record = reader.records();
  event.kind = record.memory;
  event.requested_bytes = record.size_bytes;
  event.free_bytes = record.free_bytes;
  event.capacity_bytes = record.capacity_bytes;
  event.line = record.line;
  return event;
}

}  // namespace drydock::ledger
