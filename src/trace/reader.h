#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/export.h"
#include "base/status.h"
#include "trace/block_birth.h"
#include "trace/format.h"
#include "trace/race_record.h"
#include "trace/recorder.h"

namespace drydock::trace {

/// A 64-bit value of a record. For kDevice `bits` is the offset from the arena base of `device`.
struct TracedValue {
  ValueTag tag = ValueTag::kPlain;
  int32_t device = -1;
  uint64_t bits = 0;
  bool operator==(const TracedValue&) const = default;
};

/// What records have but for races. Fields that its kind does not have keep their defaults. The wide kinds come as the
/// plain ones: kOperatorWide as kOperator and so on; kBlockRequestedLast as kBlockRequested with its address.
struct RecordFields {
  Kind kind = Kind::kEnd;
  uint64_t position = 0;  ///< in the file, in bytes
  uint64_t time_ns = 0;   ///< since the start of the process's trace
  uint32_t thread = 0;    ///< in order of first records, from 0

  int32_t device = -1;
  uint32_t stream = 0;
  LineId line = 0;
  uint64_t size_bytes = 0;  ///< block, driver memory, copy, overhead, assumption; requested bytes of kBlockRequested
                            ///< and kDriverOutOfMemory
  TracedValue address;      ///< block, driver memory, copy; subject of kEntry
  TracedValue detail;       ///< handle of driver memory; detail of kEntry

  CallId call = 0;                      ///< kOperator, kWorkspaceGiven
  Outcome outcome = Outcome::kGhost;    ///< kOperator
  bool is_workspace = false;            ///< kBlockAllocated
  WorkspaceBasis basis{};               ///< kWorkspaceGiven; its size, call, line and stream are 0 in old traces
  bool has_request = false;             ///< kBlockAllocated: requested_bytes is known
  uint64_t requested_bytes = 0;         ///< kBlockAllocated
  uint8_t pool = 0;                     ///< kBlockAllocated, kAllocatorOutOfMemory
  bool is_pending = false;              ///< kBlockFreed
  DriverMemory memory{};                ///< kDriverAllocated, kDriverFreed, kDriverOutOfMemory
  uint64_t free_bytes = 0;              ///< kDriverOutOfMemory
  uint64_t capacity_bytes = 0;          ///< kDriverOutOfMemory, kCapacity
  uint32_t module = 0;                  ///< kBlockAllocated, kModuleNamed; 0 = none
  bool gradients_are_recorded = false;  ///< kBlockAllocated
  Phase phase{};                        ///< kPhase
  Label label{};                        ///< kLabel
  CopyKind copy{};                      ///< kCopy
  bool is_async = false;                ///< kCopy
  Assumption assumption{};              ///< kAssumed
  uint32_t entry = 0;                   ///< kEntry, kFailed
  int32_t code = 0;                     ///< kFailed
  StringId text = 0;                    ///< kOverhead, kFailed, kHostFallback, text of kPythonException, name of
                                        ///< kModuleNamed and kLabel
  StringId type = 0;                    ///< kPythonException
  StringId file = 0;                    ///< kPythonException
  uint32_t file_line = 0;               ///< kPythonException
  uint32_t generation = 0;              ///< kGarbageCollected
  uint32_t count = 0;                   ///< kGarbageCollected: blocks freed
  uint32_t defined_id = 0;              ///< kDefine*
};

/// One record, decoded.
struct Record : RecordFields {
  RaceRecord race;  ///< kRace, but for its address: that is `address`; of other kinds, whatever was there
};

/// What the header of a trace file says.
struct TraceInfo {
  std::string path;
  uint32_t version = 0;
  int32_t pid = 0;
  int32_t parent_pid = 0;
  int64_t start_wall_ns = 0;
  int64_t start_monotonic_ns = 0;
  uint64_t used_bytes = 0;
  uint64_t records = 0;
  uint64_t lost_records = 0;
  uint64_t lost_bytes = 0;
  bool closed = false;
  PythonState python_state = PythonState::kUntried;
  std::string python_version;
  std::string values;
  std::string profile;
  std::string command;
  std::vector<uint64_t> arena_bases;  ///< by device; 0 where a device was not used
};

/// A sentence for states that make lines unknown, empty for kReading and kUntried.
DRYDOCK_API std::string describe_python_state(const TraceInfo& info);

/// Reads one trace file from its beginning, in order, through a buffer: the file may still be written to, and be cut or
/// damaged anywhere. Ids are defined before their first use, so the tables are complete for the records read so far.
/// Not thread-safe.
class DRYDOCK_API Reader {
 public:
  /// 100003 if the file can't be opened, 100006 if it is no trace or one of another version; with a sentence.
  static Status open(const std::string& path, std::unique_ptr<Reader>& reader);
  ~Reader();
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  const TraceInfo& info() const { return info_; }

  /// False at the end. Definitions are records too (Kind::kDefine*); escapes are not.
  bool next(Record& record);

  /// From now on, calls of operators are counted, but not given out: for readers of memory.
  void skip_operators() { skips_operators_ = true; }

  /// After `next` gave false: lets it go on with what its process has written since. Reads anew whether that has closed
  /// the trace.
  void resume();

  /// After `next` gave false: true if records are missing at the end, or were damaged there.
  bool is_truncated() const { return !truncation_.empty(); }
  /// The sentence that says so, or empty.
  const std::string& truncation() const { return truncation_; }
  /// Records given out so far, and bytes of the file that they and their escapes take.
  uint64_t records() const { return records_; }
  uint64_t bytes() const { return position_ - kHeaderBytes; }

  struct Line {
    StringId file = 0;
    uint32_t line = 0;
    StringId function = 0;
  };
  /// Empty, zero or "unknown" for ids that are not defined. Views are valid until the next call of `next`.
  std::string_view string(StringId id) const;
  Line line(LineId id) const;
  /// "file:line (function)" or "unknown line".
  std::string describe_line(LineId id) const;
  std::span<const std::byte> call(CallId id) const;
  /// Text form of an operator's signature (call_encoding.h).
  std::string_view operator_signature(uint32_t operator_id) const;
  /// Largest ids defined so far.
  uint32_t strings() const { return static_cast<uint32_t>(strings_.size()); }
  uint32_t lines() const { return static_cast<uint32_t>(lines_.size()); }
  uint32_t calls() const { return static_cast<uint32_t>(calls_.size()); }

 private:
  Reader() = default;
  Status read_header();
  void take_state(const FileHeader& header);
  bool fill(size_t bytes);
  bool take_escape(Kind kind, const uint64_t* words, uint16_t operand);
  bool define(Kind kind, const uint64_t* words, std::span<const std::byte> tail, Record& record);
  bool decode(Kind kind, uint8_t flags, uint16_t operand, const uint64_t* words, Record& record);
  void take_origin(Record& record, uint32_t slack);
  void end(std::string_view what);

  TraceInfo info_;
  int descriptor_ = -1;
  std::vector<std::byte> buffer_;
  size_t buffer_begin_ = 0;  // unread part of the buffer
  size_t buffer_end_ = 0;
  bool at_end_ = false;  // of the file
  bool ended_ = false;   // of the records
  std::string truncation_;
  uint64_t position_ = kHeaderBytes;
  uint64_t records_ = 0;
  uint64_t time_ns_ = 0;
  uint32_t thread_ = 0;
  struct LastBlock {
    int32_t device = -1;
    TracedValue address;
    uint64_t size_bytes = 0;
  };
  LastBlock last_block_;
  const RecordFields nothing_{};
  bool skips_operators_ = false;
  uint32_t birth_ = 0;  // of the blocks that follow, as kBlockBirth has it
  struct BlockStream {
    uint32_t stream = 0;
    uint8_t pool = 0;
  };
  std::array<BlockStream, kMaxTracedDevices> block_streams_{};  // by device
  std::vector<std::string> strings_;                            // by id - 1
  std::vector<Line> lines_;
  std::vector<std::vector<std::byte>> calls_;
  std::vector<StringId> operators_;  // by operator id
};

}  // namespace drydock::trace
