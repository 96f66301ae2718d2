#include "trace/recorder.h"

#include <algorithm>
#include <atomic>

#include <fmt/format.h>

#include "device/heap.h"
#include "trace/allocator_records.h"
#include "trace/block_birth.h"
#include "trace/writer.h"

namespace drydock::trace {
namespace {

static_assert(kAddressGranuleBytes == device::kGranuleBytes);

// Addresses of this process (mappings, shared libraries, heaps) lie in this range on 64-bit Linux; sizes and numbers
// that doors report do not.
constexpr uint64_t kFirstProcessAddress = uint64_t{1} << 44;
constexpr uint64_t kLastProcessAddress = uint64_t{1} << 47;
constexpr int kOffsetBits = 48;
constexpr uint64_t kMostOffset = (uint64_t{1} << kOffsetBits) - 1;
// Granules are split: 32 bits in the payload, the rest in the record's flags.
constexpr int kGranuleFlagBits = 7;

struct Value {
  ValueTag tag = ValueTag::kPlain;
  uint64_t bits = 0;
};

Value value_of(Writer& writer, uint64_t value) noexcept {
  const int32_t device = device::device_of(reinterpret_cast<const void*>(value));  // NOLINT: any number may be asked
  const uint64_t base = writer.arena_base(device);
  if (base != 0 && value >= base && value - base <= kMostOffset)
    return {ValueTag::kDevice, static_cast<uint64_t>(device) << kOffsetBits | (value - base)};
  if (value >= kFirstProcessAddress && value < kLastProcessAddress) return {ValueTag::kIdentity, value};
  return {ValueTag::kPlain, value};
}

// To be called with the writer's mutex held.
uint64_t settle(Writer::Append& append, const Value& value) noexcept {
  return value.tag == ValueTag::kIdentity ? append.identity_of(value.bits) : value.bits;
}

constinit std::atomic<uint64_t> freed_blocks_of_process{0};

uint8_t tag_bits(const Value& value, int shift) noexcept {
  return static_cast<uint8_t>(static_cast<unsigned>(value.tag) << shift);
}

uint16_t device_operand(int32_t device) noexcept { return static_cast<uint16_t>(device); }

struct Granule {
  uint32_t low = 0;
  uint8_t high = 0;
};

// Offset in granules, if the address is one of the device's and fits.
bool granule_of(Writer& writer, int32_t device, uint64_t address, Granule& granule) noexcept {
  const uint64_t base = writer.arena_base(device);
  const uint64_t offset = address - base;
  if (base == 0 || address < base || offset % kAddressGranuleBytes != 0) return false;
  const uint64_t number = offset / kAddressGranuleBytes;
  granule = {static_cast<uint32_t>(number), static_cast<uint8_t>(number >> 32)};
  return number >> 32 < 1U << kGranuleFlagBits;
}

void driver_record(Kind kind, DriverMemory memory, int32_t device, uint64_t address, uint64_t handle,
                   uint64_t size_bytes, LineId line) noexcept {
  Writer& writer = Writer::instance();
  if (!writer.is_recording()) return;
  const Value place = value_of(writer, address);
  const Value object = value_of(writer, handle);
  Writer::Append append(writer);
  const bool is_end = kind == Kind::kDriverFreed;
  append(kind, static_cast<uint8_t>(static_cast<uint8_t>(memory) | tag_bits(place, 4) | tag_bits(object, 6)),
         device_operand(device), {settle(append, place), settle(append, object), size_bytes, pair_of(line, 0)});
  // The address may come back for something else: that gets a new number, whatever address the system finds for it.
  // Registered host memory goes on to exist when its registration ends.
  if (is_end && memory != DriverMemory::kHostRegistered && place.tag == ValueTag::kIdentity)
    append.forget_identity(place.bits);
  if (is_end && memory == DriverMemory::kPhysical && object.tag == ValueTag::kIdentity)
    append.forget_identity(object.bits);
}

thread_local WorkspaceUse wanted_workspace;

// Address 0: nothing was given.
void tell_wanted_workspace(Writer::Append& append, int32_t device) noexcept {
  const WorkspaceUse& use = wanted_workspace;
  if (use.size_bytes == 0) return;
  append(Kind::kWorkspaceUsed, static_cast<uint8_t>(use.basis), device_operand(device),
         {0, use.size_bytes, pair_of(use.call, use.line), pair_of(use.stream, 0)});
}

}  // namespace

bool enabled() noexcept { return Writer::instance().is_recording(); }

LineId intern_line(std::string_view file, uint32_t line, std::string_view function) noexcept {
  return Writer::instance().line_id(file, line, function);
}

std::string describe_line(LineId line) {
  Writer::Line place;
  if (!Writer::instance().find_line(line, place)) return "unknown line";
  if (place.function.empty()) return fmt::format("{}:{}", place.file, place.line);
  return fmt::format("{}:{} ({})", place.file, place.line, place.function);
}

StringId intern_string(std::string_view text) noexcept { return Writer::instance().string_id(text); }

CallId intern_call(std::span<const std::byte> encoded) noexcept {
  Writer& writer = Writer::instance();
  return writer.is_recording() ? writer.call_id(encoded) : 0;
}

void operator_launched(int32_t device, uint32_t stream_id, CallId call, LineId line, Outcome outcome) noexcept {
  Writer& writer = Writer::instance();
  if (!writer.is_recording()) return;
  Writer::Append append(writer);
  if (device >= 0 && device < kMaxTracedDevices && stream_id <= 0xffff) {
    append(Kind::kOperator, static_cast<uint8_t>(static_cast<int32_t>(outcome) | device << 2),
           static_cast<uint16_t>(stream_id), {pair_of(call, line)});
  } else {
    append(Kind::kOperatorWide, static_cast<uint8_t>(outcome), 0,
           {pair_of(call, line), pair_of(static_cast<uint32_t>(device), stream_id)});
  }
}

void block_allocated(int32_t device, uint64_t address, uint64_t size_bytes, bool is_workspace, LineId line) noexcept {
  block_allocated(device, address, size_bytes, is_workspace, line, BlockOrigin{}, Birth{});
}

void block_allocated(int32_t device, uint64_t address, uint64_t size_bytes, bool is_workspace, LineId line,
                     const BlockOrigin& origin, const Birth& birth) noexcept {
  Writer& writer = Writer::instance();
  if (!writer.is_recording()) return;
  Granule granule;
  const auto workspace = static_cast<uint8_t>(is_workspace ? 1 : 0);
  const bool is_narrow = granule_of(writer, device, address, granule) && size_bytes % kAddressGranuleBytes == 0 &&
                         size_bytes / kAddressGranuleBytes <= 0xffffffffU;
  const Value place = is_narrow ? Value{} : value_of(writer, address);
  const uint64_t slack = size_bytes - origin.requested_bytes;
  const uint32_t slack_field = origin.is_known && slack < 0xffffffffU ? static_cast<uint32_t>(slack) + 1 : 0;
  Writer::Append append(writer);
  append.last_block() = {device, address, size_bytes};
  if (origin.is_known && !is_workspace && append.changes_stream(device, origin.stream, origin.pool))
    append(Kind::kBlockStream, origin.pool, device_operand(device), {pair_of(origin.stream, 0)});
  const uint32_t born = append.module_of(birth.module_object) | (birth.gradients_are_recorded ? kRecordsGradients : 0);
  if (append.changes_birth(born)) append(Kind::kBlockBirth, 0, 0, {pair_of(born, 0)});
  if (is_narrow) {
    append(
        Kind::kBlockAllocated, static_cast<uint8_t>(workspace | granule.high << 1), device_operand(device),
        {pair_of(granule.low, static_cast<uint32_t>(size_bytes / kAddressGranuleBytes)), pair_of(line, slack_field)});
  } else {
    append(Kind::kBlockAllocatedWide, static_cast<uint8_t>(workspace | tag_bits(place, 4)), device_operand(device),
           {settle(append, place), size_bytes, pair_of(line, slack_field)});
  }
}

namespace {

// A record of nothing but the block's address.
void address_record(Kind kind, int32_t device, uint64_t address) noexcept {
  Writer& writer = Writer::instance();
  if (!writer.is_recording()) return;
  const Value place = value_of(writer, address);
  Writer::Append append(writer);
  append(kind, tag_bits(place, 4), device_operand(device), {settle(append, place)});
}

void freed_record(int32_t device, uint64_t address, bool is_pending) noexcept {
  Writer& writer = Writer::instance();
  if (!writer.is_recording()) return;
  freed_blocks_of_process.fetch_add(1, std::memory_order_relaxed);
  const Value place = value_of(writer, address);
  Writer::Append append(writer);
  append(Kind::kBlockFreed, static_cast<uint8_t>((is_pending ? 1 : 0) | tag_bits(place, 4)), device_operand(device),
         {settle(append, place)});
  if (place.tag == ValueTag::kIdentity) append.forget_identity(place.bits);
}

}  // namespace

void block_freed(int32_t device, uint64_t address) noexcept { freed_record(device, address, false); }

void block_freed_pending(int32_t device, uint64_t address) noexcept { freed_record(device, address, true); }

void block_completed(int32_t device, uint64_t address) noexcept {
  address_record(Kind::kBlockCompleted, device, address);
}

void allocator_out_of_memory(int32_t device, uint32_t stream, uint8_t pool, uint64_t rounded_bytes, uint64_t free_bytes,
                             LineId line) noexcept {
  Writer& writer = Writer::instance();
  if (!writer.is_recording()) return;
  Writer::Append append(writer);
  tell_wanted_workspace(append, device);
  append(Kind::kAllocatorOutOfMemory, pool, device_operand(device), {rounded_bytes, free_bytes, pair_of(line, stream)});
}

void cache_emptied() noexcept {
  Writer& writer = Writer::instance();
  if (!writer.is_recording()) return;
  Writer::Append append(writer);
  append(Kind::kCacheEmptied, 0, 0);
}

void fraction_set(int32_t device, uint64_t allowed_bytes) noexcept {
  Writer& writer = Writer::instance();
  if (!writer.is_recording()) return;
  Writer::Append append(writer);
  append(Kind::kFractionSet, 0, device_operand(device), {allowed_bytes});
}

void block_requested(int32_t device, uint64_t address, uint64_t requested_bytes) noexcept {
  Writer& writer = Writer::instance();
  if (!writer.is_recording()) return;
  Granule granule;
  const bool is_narrow = granule_of(writer, device, address, granule) && requested_bytes <= 0xffffffffU;
  const Value place = is_narrow ? Value{} : value_of(writer, address);
  Writer::Append append(writer);
  const Writer::Append::LastBlock& last = append.last_block();
  const uint64_t slack = last.size_bytes - requested_bytes;
  if (last.device == device && last.address == address && slack <= 0xffff) {
    append(Kind::kBlockRequestedLast, 0, static_cast<uint16_t>(slack));
  } else if (is_narrow) {
    append(Kind::kBlockRequested, granule.high, device_operand(device),
           {pair_of(granule.low, static_cast<uint32_t>(requested_bytes))});
  } else {
    append(Kind::kBlockRequestedWide, tag_bits(place, 4), device_operand(device),
           {settle(append, place), requested_bytes});
  }
}

void workspace_given(int32_t device, uint64_t address, const WorkspaceUse& use) noexcept {
  wanted_workspace.size_bytes = 0;
  Writer& writer = Writer::instance();
  if (!writer.is_recording()) return;
  const Value place = value_of(writer, address);
  Writer::Append append(writer);
  append(Kind::kWorkspaceUsed, static_cast<uint8_t>(static_cast<uint8_t>(use.basis) | tag_bits(place, 4)),
         device_operand(device),
         {settle(append, place), use.size_bytes, pair_of(use.call, use.line), pair_of(use.stream, 0)});
}

void phase_began(Phase phase) noexcept {
  Writer& writer = Writer::instance();
  if (!writer.has_begun()) return;
  Writer::Append append(writer);
  append(Kind::kPhase, 0, static_cast<uint16_t>(phase));
}

void module_named(uint64_t object, std::string_view name) noexcept {
  Writer& writer = Writer::instance();
  if (!writer.has_begun()) return;
  const StringId text = writer.string_id(name);
  Writer::Append append(writer);
  if (const uint32_t module = append.name_module(object, text); module != 0)
    append(Kind::kModuleNamed, 0, 0, {pair_of(module, text)});
}

bool has_begun() noexcept { return Writer::instance().has_begun(); }

uint32_t modules_without_name() noexcept {
  Writer::Append append(Writer::instance());
  return append.modules_without_name();
}

void block_labelled(Label label, uint64_t address, uint64_t storage_bytes, StringId name) noexcept {
  Writer& writer = Writer::instance();
  const int32_t device = device::device_of(reinterpret_cast<const void*>(address));  // NOLINT: any number may be asked
  if (device < 0 || !writer.is_recording()) return;
  const Value place = value_of(writer, address);
  Writer::Append append(writer);
  append(Kind::kLabel, static_cast<uint8_t>(static_cast<uint8_t>(label) | tag_bits(place, 4)), device_operand(device),
         {settle(append, place), storage_bytes, pair_of(name, 0)});
}

void workspace_wanted(const WorkspaceUse& use) noexcept { wanted_workspace = use; }

void driver_allocated(DriverMemory kind, int32_t device, uint64_t address, uint64_t handle, uint64_t size_bytes,
                      LineId line) noexcept {
  driver_record(Kind::kDriverAllocated, kind, device, address, handle, size_bytes, line);
}

void driver_freed(DriverMemory kind, int32_t device, uint64_t address, uint64_t handle, uint64_t size_bytes,
                  LineId line) noexcept {
  driver_record(Kind::kDriverFreed, kind, device, address, handle, size_bytes, line);
}

void driver_out_of_memory(DriverMemory kind, int32_t device, uint64_t requested_bytes, uint64_t free_bytes,
                          uint64_t capacity_bytes, LineId line) noexcept {
  Writer& writer = Writer::instance();
  if (!writer.is_recording()) return;
  Writer::Append append(writer);
  tell_wanted_workspace(append, device);
  append(Kind::kDriverOutOfMemory, static_cast<uint8_t>(kind), device_operand(device),
         {requested_bytes, free_bytes, capacity_bytes, pair_of(line, 0)});
}

void overhead_charged(int32_t device, std::string_view what, uint64_t size_bytes) noexcept {
  Writer& writer = Writer::instance();
  if (!writer.is_recording()) return;
  const StringId text = writer.string_id(what);
  Writer::Append append(writer);
  append(Kind::kOverhead, 0, device_operand(device), {size_bytes, pair_of(text, 0)});
}

void capacity_told(int32_t device, uint64_t capacity_bytes) noexcept {
  Writer& writer = Writer::instance();
  if (!writer.is_recording()) return;
  Writer::Append append(writer);
  append(Kind::kCapacity, 0, device_operand(device), {capacity_bytes});
}

void copied(CopyKind kind, int32_t device, uint64_t device_address, uint64_t size_bytes, bool async, uint32_t stream_id,
            LineId line) noexcept {
  Writer& writer = Writer::instance();
  if (!writer.is_recording()) return;
  const Value place = value_of(writer, device_address);
  Writer::Append append(writer);
  append(Kind::kCopy, static_cast<uint8_t>(static_cast<uint8_t>(kind) | (async ? 8 : 0) | tag_bits(place, 4)),
         device_operand(device), {settle(append, place), size_bytes, pair_of(line, stream_id)});
}

void assumed(Assumption kind, uint64_t size_bytes, LineId line) noexcept {
  Writer& writer = Writer::instance();
  if (!writer.is_recording()) return;
  Writer::Append append(writer);
  append(Kind::kAssumed, static_cast<uint8_t>(kind), 0, {size_bytes, pair_of(line, 0)});
}

void entry_called(uint32_t entry, uint64_t subject, uint64_t detail, LineId line) noexcept {
  Writer& writer = Writer::instance();
  if (!writer.is_recording()) return;
  const Value first = value_of(writer, subject);
  const Value second = value_of(writer, detail);
  Writer::Append append(writer);
  const uint64_t first_bits = settle(append, first);
  const uint64_t second_bits = settle(append, second);
  if (entry <= 0xffff && first.tag == ValueTag::kPlain && first_bits <= 0xffffffffU && second.tag == ValueTag::kPlain &&
      second_bits == 0) {
    append(Kind::kEntry, 0, static_cast<uint16_t>(entry), {pair_of(line, static_cast<uint32_t>(first_bits))});
  } else {
    append(Kind::kEntryWide, static_cast<uint8_t>(tag_bits(first, 4) | tag_bits(second, 6)), 0,
           {pair_of(line, entry), first_bits, second_bits});
  }
}

void failed(uint32_t entry, int32_t code, std::string_view message, LineId line) noexcept {
  Writer& writer = Writer::instance();
  if (!writer.is_recording()) return;
  const StringId text = writer.string_id(message);
  Writer::Append append(writer);
  append(Kind::kFailed, 0, 0, {pair_of(entry, static_cast<uint32_t>(code)), pair_of(line, text)});
}

void step_ended() noexcept {
  Writer& writer = Writer::instance();
  if (!writer.is_recording()) return;
  Writer::Append append(writer);
  append(Kind::kStep, 0, 0);
}

uint64_t blocks_freed() noexcept { return freed_blocks_of_process.load(std::memory_order_relaxed); }

void garbage_collected(uint32_t generation, uint64_t freed_blocks, LineId line) noexcept {
  Writer& writer = Writer::instance();
  if (!writer.is_recording()) return;
  Writer::Append append(writer);
  append(Kind::kGarbageCollected, 0, static_cast<uint16_t>(generation),
         {pair_of(line, static_cast<uint32_t>(std::min<uint64_t>(freed_blocks, 0xffffffffU)))});
}

void host_fallback(std::string_view aten_name, LineId line) noexcept {
  Writer& writer = Writer::instance();
  if (!writer.is_recording()) return;
  const StringId name = writer.string_id(aten_name);
  Writer::Append append(writer);
  append(Kind::kHostFallback, 0, 0, {pair_of(name, line)});
}

void python_exception(std::string_view type, std::string_view text, std::string_view file, uint32_t line) noexcept {
  Writer& writer = Writer::instance();
  if (!writer.is_recording()) return;
  const StringId type_id = writer.string_id(type);
  const StringId text_id = writer.string_id(text);
  const StringId file_id = writer.string_id(file);
  Writer::Append append(writer);
  append(Kind::kPythonException, 0, 0, {pair_of(type_id, text_id), pair_of(file_id, line)});
}

Counters counters() noexcept { return Writer::instance().counters(); }

void close() noexcept { Writer::instance().close(); }

}  // namespace drydock::trace
