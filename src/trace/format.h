#pragma once

#include <cstddef>
#include <cstdint>

// Layout of a trace file (docs/trace-format.md). Little endian. One header page, then records.

namespace drydock::trace {

inline constexpr char kFileMagic[8] = {'D', 'R', 'Y', 'D', 'O', 'C', 'K', 'T'};
inline constexpr uint32_t kFormatVersion = 2;
/// Version 2 added kinds of records and changed none: what version 1 wrote is read.
inline constexpr uint32_t kOldestReadableVersion = 1;
inline constexpr size_t kHeaderBytes = 4096;
inline constexpr size_t kMaxTextBytes = 16 * 1024;
inline constexpr size_t kMaxCallBytes = 64 * 1024;
inline constexpr int kMaxTracedDevices = 64;
/// Block addresses and sizes are counted in these (device/heap.h).
inline constexpr uint64_t kAddressGranuleBytes = 512;

/// What the recorder knew about the running interpreter when it last looked.
enum class PythonState : uint32_t {
  kUntried = 0,         ///< no door asked for a line yet
  kReading = 1,         ///< lines are read from the interpreter's frames
  kNoPython = 2,        ///< the process has no interpreter
  kUnknownVersion = 3,  ///< no layout for this version: all lines are unknown
  kLayoutMismatch = 4,  ///< the self-check failed: all lines are unknown
};

/// First page of a trace file. `magic` is written last, so that a file without it was never in use.
struct FileHeader {
  char magic[8];
  uint32_t version;
  uint32_t header_bytes;
  int32_t pid;
  int32_t parent_pid;
  int64_t start_wall_ns;       ///< since 1970
  int64_t start_monotonic_ns;  ///< CLOCK_MONOTONIC; record times are relative to it
  uint64_t used_bytes;         ///< of records; may lag behind the file by a record after a kill
  uint64_t records;            ///< without escapes
  uint64_t lost_records;
  uint64_t lost_bytes;
  uint32_t closed;  ///< 1 after an orderly end
  uint32_t python_state;
  char python_version[16];
  char values[16];     ///< DRYDOCK_VALUES
  char profile[128];   ///< DRYDOCK_PROFILE
  char command[1024];  ///< of the process, arguments separated by blanks, cut
  uint64_t
      arena_bases[kMaxTracedDevices];  ///< address space of each device; 0 where unused. Records are relative to it.
};
static_assert(sizeof(FileHeader) <= kHeaderBytes);

/// Kinds of records. Numbers are part of the format. The payload of each is listed as 32- or 64-bit fields.
enum class Kind : uint8_t {
  kEnd = 0,  ///< never written: where the records end

  // Escapes: they change how the following records are read, and are no records of their own.
  kGap = 1,     ///< u64 ns since the previous record, where 32 bits are too few
  kThread = 2,  ///< the records that follow come from thread `operand` (or u64, if operand is 0xffff)

  // Definitions: written once, before the first use of the id.
  kDefineString = 8,     ///< u32 id, u32 bytes; the text, padded to 8 bytes
  kDefineLine = 9,       ///< u32 id, u32 line; u32 file string, u32 function string
  kDefineCall = 10,      ///< u32 id, u32 bytes; the encoded call, padded to 8 bytes
  kDefineOperator = 11,  ///< u32 operator id, u32 string (its signature)

  // Events.
  kOperator = 16,            ///< operand stream, flags outcome | device << 2; u32 call, u32 line
  kOperatorWide = 17,        ///< flags outcome; u32 call, u32 line; u32 device, u32 stream
  kBlockAllocated = 18,      ///< operand device, flags workspace | granule >> 32 << 1; u32 granule, u32 granules;
                             ///< u32 line, u32 bytes that were not asked for, plus 1 (0: unknown)
  kBlockAllocatedWide = 19,  ///< operand device, flags workspace | tag << 4; u64 address; u64 bytes; u32 line, u32 as
                             ///< kBlockAllocated
  kBlockFreed = 20,          ///< operand device, flags pending | tag << 4; u64 address. Pending: other streams use it
                             ///< yet
  kBlockRequestedLast = 21,  ///< operand slack in bytes, for the block that was allocated last
  kBlockRequested = 22,      ///< operand device, flags granule >> 32; u32 granule, u32 requested bytes
  kBlockRequestedWide = 23,  ///< operand device, flags tag << 4; u64 address; u64 requested bytes
  kDriverAllocated = 24,     ///< operand device, flags memory | address tag << 4 | handle tag << 6;
                             ///< u64 address; u64 handle; u64 bytes; u32 line, u32 0
  kDriverFreed = 25,         ///< as kDriverAllocated
  kDriverOutOfMemory = 26,   ///< operand device, flags memory; u64 requested; u64 free; u64 capacity; u32 line, u32 0
  kOverhead = 27,            ///< operand device; u64 bytes; u32 string, u32 0
  kCopy = 28,                ///< operand device, flags kind | async << 3 | tag << 4; u64 address; u64 bytes; u32 line,
                             ///< u32 stream
  kAssumed = 29,             ///< flags kind; u64 bytes; u32 line, u32 0
  kEntry = 30,               ///< operand entry; u32 line, u32 subject (plain)
  kEntryWide = 31,           ///< flags subject tag << 4 | detail tag << 6; u32 line, u32 entry; u64 subject; u64 detail
  kFailed = 32,              ///< u32 entry, i32 code; u32 line, u32 string
  kStep = 33,                ///< nothing
  kHostFallback = 34,        ///< u32 string, u32 line
  kPythonException = 35,     ///< u32 type string, u32 text string; u32 file string, u32 line
  kWorkspaceGiven = 36,      ///< operand device, flags tag << 4; u64 address of the block
  // Since version 2, as are the slack of kBlockAllocated and the flag of kBlockFreed.
  kBlockStream = 37,     ///< operand device, flags pool; u32 stream, u32 0: of the caching allocator's blocks that
                         ///< follow on the device (at first: stream 0, pool 0)
  kBlockCompleted = 38,  ///< operand device, flags tag << 4; u64 address: a block that was freed pending is free
  kAllocatorOutOfMemory = 39,  ///< operand device, flags pool; u64 bytes after rounding; u64 free; u32 line, u32 stream
  kCacheEmptied = 40,          ///< nothing: empty_cache of torch_npu was called, for all devices
  kFractionSet = 41,           ///< operand device; u64 bytes that the process may use, all ones: all
  kCapacity = 44,              ///< operand device; u64 bytes that the driver says the device has
  kGarbageCollected = 45,      ///< operand generation; u32 line, u32 blocks freed meanwhile
  kBlockBirth = 46,     ///< u32 module | gradients are recorded << 31, u32 0: of the blocks that follow (at first: 0)
  kPhase = 47,          ///< operand phase that begins
  kModuleNamed = 48,    ///< u32 module, u32 string
  kLabel = 49,          ///< operand device, flags label | tag << 4; u64 address; u64 bytes of the storage; u32 string,
                        ///< u32 0
  kWorkspaceUsed = 50,  ///< as kWorkspaceGiven, and who it is for: operand device, flags basis | tag << 4; u64
                        ///< address of the block (plain 0 before a refusal: it could not be given); u64 bytes
                        ///< that were asked for; u32 call, u32 line; u32 stream, u32 0
  kRace = 60,  ///< operand device, flags reuse | first writes << 1 | second writes << 2 | tag << 4; u32 first line, u32
               ///< second line; u32 call, u32 string of the first (one of them 0); the same of the second; u32 first
               ///< stream, u32 second stream (0: the host); u32 line of the free, u16 first argument, u16 second; u64
               ///< address; u64 bytes
};

/// Beside the module in a kBlockBirth.
inline constexpr uint32_t kRecordsGradients = uint32_t{1} << 31;

/// How a 64-bit value is to be read. Records hold no addresses of the process, so that two runs compare.
enum class ValueTag : uint8_t {
  kPlain = 0,     ///< a number
  kDevice = 1,    ///< device address: device << 48 | offset from the device's arena base
  kIdentity = 2,  ///< an address or handle of the process, by number in order of first sight
};

/// First word of every record. It is stored last, so a record whose first word is 0 was not completed.
struct RecordHeader {
  Kind kind;
  uint8_t flags;
  uint16_t operand;
  uint32_t delta_ns;  ///< since the previous record
};
static_assert(sizeof(RecordHeader) == 8);

/// Words of 8 bytes of a record of `kind`, its header included, without trailing bytes of definitions; 0 = no such
/// kind.
constexpr size_t fixed_words(Kind kind, uint16_t operand) noexcept {
  switch (kind) {
    case Kind::kEnd: return 0;
    case Kind::kThread: return operand == 0xffff ? 2 : 1;
    case Kind::kBlockRequestedLast:
    case Kind::kCacheEmptied:
    case Kind::kPhase:
    case Kind::kStep: return 1;
    case Kind::kGap:
    case Kind::kDefineString:
    case Kind::kDefineCall:
    case Kind::kDefineOperator:
    case Kind::kOperator:
    case Kind::kBlockFreed:
    case Kind::kWorkspaceGiven:
    case Kind::kBlockStream:
    case Kind::kBlockCompleted:
    case Kind::kFractionSet:
    case Kind::kBlockRequested:
    case Kind::kEntry:
    case Kind::kCapacity:
    case Kind::kBlockBirth:
    case Kind::kGarbageCollected:
    case Kind::kModuleNamed:
    case Kind::kHostFallback: return 2;
    case Kind::kDefineLine:
    case Kind::kOperatorWide:
    case Kind::kBlockAllocated:
    case Kind::kBlockRequestedWide:
    case Kind::kOverhead:
    case Kind::kAssumed:
    case Kind::kFailed:
    case Kind::kPythonException: return 3;
    case Kind::kBlockAllocatedWide:
    case Kind::kCopy:
    case Kind::kAllocatorOutOfMemory:
    case Kind::kLabel:
    case Kind::kEntryWide: return 4;
    case Kind::kWorkspaceUsed:
    case Kind::kDriverAllocated:
    case Kind::kDriverFreed:
    case Kind::kDriverOutOfMemory: return 5;
    case Kind::kRace: return 8;
  }
  return 0;
}

/// Words of the longest record.
constexpr size_t kMostFixedWords = [] {
  size_t most = 0;
  for (int kind = 0; kind < 256; ++kind)
    if (const size_t words = fixed_words(static_cast<Kind>(kind), 0xffff); words > most) most = words;
  return most;
}();

constexpr bool has_trailing_bytes(Kind kind) noexcept {
  return kind == Kind::kDefineString || kind == Kind::kDefineCall;
}

constexpr bool is_escape(Kind kind) noexcept { return kind == Kind::kGap || kind == Kind::kThread; }

}  // namespace drydock::trace
