#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "ledger/flat_table.h"
#include "ledger/memory_account.h"
#include "ledger/races.h"
#include "ledger/workspace_account.h"
#include "trace/recorder.h"

namespace drydock::ledger {

/// A source line as the trace interned it.
struct SourceLine {
  std::string file;
  uint32_t line = 0;
  std::string function;
};

/// An operator call as the trace interned it, decoded: one text per distinct combination of dtypes, shapes and scalars.
struct CallText {
  std::string name;       ///< "aclnnAdd"
  std::string signature;  ///< "aclnnAdd(bf16[4, 512, 4096], bf16[4, 512, 4096], alpha=1)"
  bool on_aicpu = false;  ///< computed by the device's own CPU (aicpu.h)
};

inline constexpr size_t kOutcomes = 4;  ///< of trace::Outcome

/// Launches of one call from one line in one step.
struct Launches {
  uint32_t step = 0;  ///< counted from 1
  trace::CallId call = 0;
  trace::LineId line = 0;
  int32_t device = 0;
  std::array<uint32_t, kOutcomes> count{};
};

struct LineBytes {
  trace::LineId line = 0;
  uint64_t bytes = 0;
};

/// How things stood when a step ended, and what the step did.
struct StepEnd {
  uint32_t step = 0;  ///< counted from 1
  uint64_t record = 0;
  uint64_t time_ns = 0;  ///< since the process's first record; 0 if unknown
  uint64_t operators = 0;
  uint64_t allocated_bytes = 0;  ///< over all devices
  uint64_t reserved_bytes = 0;
  uint64_t peak_allocated_bytes = 0;
  uint64_t input_bytes = 0;          ///< copied from the host to devices within the step
  uint64_t returned_bytes = 0;       ///< driver memory that was given back within the step
  uint64_t collected_blocks = 0;     ///< blocks that Python's garbage collector freed within the step
  LineBytes returning{};             ///< the line that gave most of it back
  LineBytes falling{};               ///< the line that holds less than at the step before, and by how much: the largest
  LineBytes rising{};                ///< the same of those that hold more
  std::vector<LineBytes> largest{};  ///< what lines allocated within the step: the largest few, largest first
};

struct Exception {
  uint64_t record = 0;
  std::string type;
  std::string text;
  std::string file;
  uint32_t line = 0;
  uint32_t steps_ended = 0;
};

struct Tally {
  uint64_t count = 0;
  uint64_t bytes = 0;
};

struct CopyKey {
  trace::CopyKind kind;
  int32_t device;
  bool async;
  trace::LineId line;
  auto operator<=>(const CopyKey&) const = default;
};

struct ErrorKey {
  uint32_t entry;
  int32_t code;
  trace::LineId line;
  std::string message;
  auto operator<=>(const ErrorKey&) const = default;
};

struct AssumptionKey {
  trace::Assumption kind;
  trace::LineId line;
  auto operator<=>(const AssumptionKey&) const = default;
};

struct ErrorTally {
  uint64_t count = 0;
  uint64_t first_record = 0;
};

/// What a trace's entry numbers mean (trace::failed, trace::entry_called).
struct EntryMeaning {
  std::string name;  ///< "aclrtMalloc", "aclnnAdd"
  bool is_operator = false;
  bool is_refused = false;  ///< of class refused: always answers with an error
};
using EntryLookup = EntryMeaning (*)(uint32_t entry);

/// Everything one process did, from its trace. Ids of lines and calls are those of the trace.
/// Feed the records in order, then call `finish`. Not thread-safe.
class ProcessAccount {
 public:
  // What the trace says about itself.
  uint32_t process_id = 0;
  std::string trace_file;
  std::string command;  ///< arguments separated by blanks, cut at 1 KiB
  std::string values;   ///< the settings that the process saw
  std::string profile;
  int64_t start_wall_ns = 0;  ///< since 1970
  uint64_t records = 0;
  uint64_t bytes = 0;
  uint64_t lost = 0;                  ///< records that the writer could not write
  bool closed = false;                ///< the process ended in order
  bool is_running = false;            ///< it has not ended: the account is of its beginning
  bool truncated = false;             ///< records are missing at the end, or damaged there
  int python_minor = 0;               ///< 11 for Python 3.11; 0 if unknown
  std::vector<std::string> problems;  ///< sentences

  // Definitions.
  std::vector<SourceLine> lines;                 ///< by LineId; [0] is the unknown line
  std::vector<CallText> calls;                   ///< by CallId
  std::map<trace::StringId, std::string> names;  ///< of what labels named

  WorkspaceAccount workspaces;  ///< which operators asked for workspace
  std::vector<Race> races;      ///< of the stream check

  void operator_launched(int32_t device, trace::CallId call, trace::LineId line, trace::Outcome outcome);
  void copied(trace::CopyKind kind, int32_t device, uint64_t size_bytes, bool async, trace::LineId line);
  void assumed(trace::Assumption kind, uint64_t size_bytes, trace::LineId line);
  void phase_began(trace::Phase phase);
  void module_named(uint32_t module, std::string_view name);
  void entry_called(uint32_t entry);
  void failed(uint64_t record, uint32_t entry, int32_t code, std::string_view message, trace::LineId line);
  void out_of_memory(int32_t device, OutOfMemory event);
  void step_ended(uint64_t record, uint64_t time_ns);
  void driver_returned(trace::DriverMemory kind, uint64_t size_bytes, trace::LineId line);
  void garbage_collected(uint64_t freed_blocks) { step_.collected_blocks += freed_blocks; }
  void host_fallback(std::string_view name, trace::LineId line);
  void python_exception(Exception exception);
  void finish();

  MemoryAccount& memory(int32_t device);
  const std::map<int32_t, MemoryAccount>& memories() const { return memories_; }
  /// What the device has in all; 0 if the trace does not say.
  uint64_t capacity_bytes(int32_t device) const;
  /// The step that had not ended when the trace did: what is known of it.
  const StepEnd& unfinished_step() const { return step_; }

  /// Path of a module; empty for 0 and where it was never told.
  std::string_view module_name(uint32_t module) const;

  uint32_t steps_ended() const { return static_cast<uint32_t>(steps_.size()); }
  const std::vector<StepEnd>& steps() const { return steps_; }
  const std::vector<Launches>& launches() const { return launches_; }
  const std::map<CopyKey, Tally>& copies() const { return copies_; }
  const std::map<ErrorKey, ErrorTally>& errors() const { return errors_; }
  const std::map<AssumptionKey, Tally>& assumptions() const { return assumptions_; }
  const std::map<uint32_t, uint64_t>& entries() const { return entries_; }
  const std::map<std::tuple<std::string, trace::LineId>, uint64_t>& host_fallbacks() const { return host_fallbacks_; }
  const std::vector<Exception>& exceptions() const { return exceptions_; }

 private:
  std::map<int32_t, MemoryAccount> memories_;
  MemoryAccount* last_memory_ = nullptr;
  trace::Phase phase_ = trace::Phase::kOther;
  std::map<uint32_t, std::string> modules_;
  FlatTable<uint32_t> launch_index_;  // of this step's launches, by call and line and device
  struct LineState {
    uint64_t live_bytes = 0;
    uint64_t allocated_bytes = 0;
  };
  void compare_lines(int32_t device, const HolderTally& tally);

  StepEnd step_;                                           // the one that goes on
  std::map<trace::LineId, uint64_t> returns_;              // of driver memory within it
  std::map<int32_t, std::vector<LineState>> line_states_;  // by device and index in the tally, when the last step ended
  std::vector<Launches> launches_;
  std::vector<StepEnd> steps_;
  std::map<CopyKey, Tally> copies_;
  std::map<ErrorKey, ErrorTally> errors_;
  std::map<AssumptionKey, Tally> assumptions_;
  std::map<uint32_t, uint64_t> entries_;
  std::map<std::tuple<std::string, trace::LineId>, uint64_t> host_fallbacks_;
  std::vector<Exception> exceptions_;
};

}  // namespace drydock::ledger
