#include "trace/reader.h"
#include "trace/record_words.h"

// What the fields of events mean; definitions and escapes are reader.cpp's.

namespace drydock::trace {
namespace {

int32_t device_of(uint16_t operand) { return static_cast<int16_t>(operand); }

TracedValue value_of(unsigned tag, uint64_t bits) {
  TracedValue value;
  value.tag = static_cast<ValueTag>(tag & 3);
  value.bits = bits;
  if (value.tag == ValueTag::kDevice) {
    value.device = static_cast<int32_t>(bits >> 48);
    value.bits = bits & ((uint64_t{1} << 48) - 1);
  }
  return value;
}

TracedValue granule_value(int32_t device, uint64_t low_bits, uint64_t high_bits) {
  return {ValueTag::kDevice, device, (low_bits | high_bits << 32) * kAddressGranuleBytes};
}

}  // namespace

void Reader::take_origin(Record& record, uint32_t slack) {
  record.module = birth_ & ~kRecordsGradients;
  record.gradients_are_recorded = (birth_ & kRecordsGradients) != 0;
  last_block_ = {record.device, record.address, record.size_bytes};
  if (record.device >= 0 && record.device < kMaxTracedDevices && !record.is_workspace) {
    const BlockStream& origin = block_streams_[static_cast<size_t>(record.device)];
    record.stream = origin.stream;
    record.pool = origin.pool;
  }
  record.has_request = slack != 0 && slack - 1 <= record.size_bytes;
  if (record.has_request) record.requested_bytes = record.size_bytes - (slack - 1);
}

bool Reader::decode(Kind kind, uint8_t flags, uint16_t operand, const uint64_t* words, Record& record) {
  const auto block_address = [&] { return value_of(flags >> 4, words[0]); };
  switch (kind) {
    case Kind::kOperator:
    case Kind::kOperatorWide:
      record.kind = Kind::kOperator;
      record.outcome = static_cast<Outcome>(flags & 3);
      record.call = low(words[0]);
      record.line = high(words[0]);
      record.device = kind == Kind::kOperator ? flags >> 2 : static_cast<int32_t>(low(words[1]));
      record.stream = kind == Kind::kOperator ? operand : high(words[1]);
      return true;
    case Kind::kBlockAllocated:
      record.device = device_of(operand);
      record.is_workspace = (flags & 1) != 0;
      record.address = granule_value(record.device, low(words[0]), flags >> 1);
      record.size_bytes = high(words[0]) * kAddressGranuleBytes;
      record.line = low(words[1]);
      take_origin(record, high(words[1]));
      return true;
    case Kind::kBlockAllocatedWide:
      record.kind = Kind::kBlockAllocated;
      record.device = device_of(operand);
      record.is_workspace = (flags & 1) != 0;
      record.address = block_address();
      record.size_bytes = words[1];
      record.line = low(words[2]);
      take_origin(record, high(words[2]));
      return true;
    case Kind::kBlockFreed:
    case Kind::kBlockCompleted:
    case Kind::kWorkspaceGiven:
      record.is_pending = kind == Kind::kBlockFreed && (flags & 1) != 0;
      record.device = device_of(operand);
      record.address = block_address();
      return true;
    case Kind::kWorkspaceUsed:
      record.kind = Kind::kWorkspaceGiven;
      record.device = device_of(operand);
      record.basis = static_cast<WorkspaceBasis>(flags & 15);
      record.address = block_address();
      record.size_bytes = words[1];
      record.call = low(words[2]);
      record.line = high(words[2]);
      record.stream = low(words[3]);
      return true;
    case Kind::kBlockRequestedLast:
      record.kind = Kind::kBlockRequested;
      if (last_block_.size_bytes < operand) return false;
      record.device = last_block_.device;
      record.address = last_block_.address;
      record.size_bytes = last_block_.size_bytes - operand;
      return true;
    case Kind::kBlockRequested:
      record.device = device_of(operand);
      record.address = granule_value(record.device, low(words[0]), flags);
      record.size_bytes = high(words[0]);
      return true;
    case Kind::kBlockRequestedWide:
      record.kind = Kind::kBlockRequested;
      record.device = device_of(operand);
      record.address = block_address();
      record.size_bytes = words[1];
      return true;
    case Kind::kDriverAllocated:
    case Kind::kDriverFreed:
      record.device = device_of(operand);
      record.memory = static_cast<DriverMemory>(flags & 7);
      record.address = value_of(flags >> 4, words[0]);
      record.detail = value_of(flags >> 6, words[1]);
      record.size_bytes = words[2];
      record.line = low(words[3]);
      return true;
    case Kind::kDriverOutOfMemory:
      record.device = device_of(operand);
      record.memory = static_cast<DriverMemory>(flags & 7);
      record.size_bytes = words[0];
      record.free_bytes = words[1];
      record.capacity_bytes = words[2];
      record.line = low(words[3]);
      return true;
    case Kind::kOverhead:
      record.device = device_of(operand);
      record.size_bytes = words[0];
      record.text = low(words[1]);
      return true;
    case Kind::kCapacity:
      record.device = device_of(operand);
      record.capacity_bytes = words[0];
      return true;
    case Kind::kPhase:
      record.phase = static_cast<Phase>(operand);
      return operand <= static_cast<uint16_t>(Phase::kExit);
    case Kind::kModuleNamed:
      record.module = low(words[0]);
      record.text = high(words[0]);
      return record.module != 0;
    case Kind::kLabel:
      record.device = device_of(operand);
      record.label = static_cast<Label>(flags & 15);
      record.address = block_address();
      record.size_bytes = words[1];
      record.text = low(words[2]);
      return (flags & 15) <= static_cast<uint8_t>(Label::kBuffer);
    case Kind::kGarbageCollected:
      record.generation = operand;
      record.line = low(words[0]);
      record.count = high(words[0]);
      return true;
    case Kind::kCopy:
      record.device = device_of(operand);
      record.copy = static_cast<CopyKind>(flags & 7);
      record.is_async = (flags & 8) != 0;
      record.address = value_of(flags >> 4, words[0]);
      record.size_bytes = words[1];
      record.line = low(words[2]);
      record.stream = high(words[2]);
      return true;
    case Kind::kAssumed:
      record.assumption = static_cast<Assumption>(flags);
      record.size_bytes = words[0];
      record.line = low(words[1]);
      return true;
    case Kind::kEntry:
      record.entry = operand;
      record.line = low(words[0]);
      record.address = value_of(0, high(words[0]));
      return true;
    case Kind::kEntryWide:
      record.kind = Kind::kEntry;
      record.line = low(words[0]);
      record.entry = high(words[0]);
      record.address = value_of(flags >> 4, words[1]);
      record.detail = value_of(flags >> 6, words[2]);
      return true;
    case Kind::kFailed:
      record.entry = low(words[0]);
      record.code = static_cast<int32_t>(high(words[0]));
      record.line = low(words[1]);
      record.text = high(words[1]);
      return true;
    case Kind::kCacheEmptied:
    case Kind::kStep: return true;
    case Kind::kRace: {
      record.device = device_of(operand);
      record.address = value_of(flags >> 4, words[5]);
      record.size_bytes = words[6];
      RaceRecord& race = record.race;
      const uint32_t arguments = high(words[4]);
      race.device = record.device;
      race.is_reuse = (flags & 1) != 0;
      race.first = {low(words[3]),   low(words[0]), low(words[1]), high(words[1]), static_cast<uint16_t>(arguments),
                    (flags & 2) != 0};
      race.second = {
          high(words[3]),  high(words[0]), low(words[2]), high(words[2]), static_cast<uint16_t>(arguments >> 16),
          (flags & 4) != 0};
      race.freed_line = low(words[4]);
      race.size_bytes = words[6];
      return true;
    }
    case Kind::kBlockBirth: birth_ = low(words[0]); return true;
    case Kind::kBlockStream:
      record.device = device_of(operand);
      record.stream = low(words[0]);
      record.pool = flags;
      if (record.device >= 0 && record.device < kMaxTracedDevices)
        block_streams_[static_cast<size_t>(record.device)] = {record.stream, record.pool};
      return true;
    case Kind::kAllocatorOutOfMemory:
      record.device = device_of(operand);
      record.pool = flags;
      record.size_bytes = words[0];
      record.free_bytes = words[1];
      record.line = low(words[2]);
      record.stream = high(words[2]);
      return true;
    case Kind::kFractionSet:
      record.device = device_of(operand);
      record.size_bytes = words[0];
      return true;
    case Kind::kHostFallback:
      record.text = low(words[0]);
      record.line = high(words[0]);
      return true;
    case Kind::kPythonException:
      record.type = low(words[0]);
      record.text = high(words[0]);
      record.file = low(words[1]);
      record.file_line = high(words[1]);
      return true;
    default: return false;
  }
}

}  // namespace drydock::trace
