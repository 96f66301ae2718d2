#pragma once

#include <cstdint>

#include "ledger/memory_account.h"
#include "trace/reader.h"

// What a trace's records of device memory mean to a device's account.

namespace drydock::ledger {

/// One number for what a record calls an address: offsets in device memory and numbers of identities don't mix.
uint64_t key_of(const trace::TracedValue& value);

/// Feeds a record of blocks, driver memory or overheads to the account of its device. False for records of another
/// kind, and for kDriverOutOfMemory (out_of_memory_of), whose event the process completes.
bool take_memory_record(const trace::Reader& reader, const trace::Record& record, MemoryAccount& account);

/// True for the kinds that `take_memory_record` takes, and kDriverOutOfMemory.
bool is_memory_record(trace::Kind kind);

/// What a record of kDriverOutOfMemory says.
OutOfMemory out_of_memory_of(const trace::Reader& reader, const trace::Record& record);

}  // namespace drydock::ledger
