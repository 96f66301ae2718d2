#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "ledger/process_account.h"
#include "ledger/run_info.h"
#include "ledger/trend.h"

// Did it finish, and if not, why: decided from the accounts of all processes of a run.

namespace drydock::ledger {

enum class VerdictKind { kRan, kOutOfMemory, kFailed };
std::string_view name_of(VerdictKind kind);

/// Why the device had no room. Decided in this order: the first that holds.
enum class MemoryClass {
  kNone,           ///< the run did not end out of memory
  kOversize,       ///< the request alone is larger than the device
  kWorkspace,      ///< an operator's scratch memory did not fit
  kGrowth,         ///< each step kept more than the one before
  kFragmentation,  ///< the bytes were there, reserved and unused, in pieces that were too small
  kExternal,       ///< other use of the device (HCCL buffers, other processes) took what was asked
  kCapacity,       ///< the program needs more than the device has
};
/// "" for kNone, "fragmentation" and so on.
std::string_view name_of(MemoryClass memory_class);

struct HolderLine {
  std::string line;
  uint64_t bytes = 0;
  uint64_t blocks = 0;
  bool is_workspace = false;
};

struct Advice {
  std::string action;
  std::string reason;  ///< one sentence
  /// Settings that carry the action out: run the same command with them.
  std::map<std::string, std::string> environment;
};

/// A trend with its lines as text.
struct TrendRow {
  Trend trend;  ///< its line ids mean nothing once a ledger was read
  std::string growing_line;
  std::string tooth_line;
};
/// What a trend says, in sentences: none if there is none. `died`: the run did not survive it.
std::vector<std::string> sentences_of(const TrendRow& row, uint32_t steps, bool died);

struct Verdict {
  VerdictKind kind = VerdictKind::kRan;
  MemoryClass memory_class = MemoryClass::kNone;
  std::vector<std::string> evidence;  ///< sentences
  std::vector<Advice> advice;
  TrendRow trend;  ///< of the device with the highest peak

  bool is_running = false;  ///< nobody waited for the run, and it has not ended: kRan means so far

  /// What can't be said about the device, and why: a sentence, which `evidence` has too. Empty if all traces were read.
  std::string device_unknown;
  uint64_t unreadable_traces = 0;
  uint64_t truncated_traces = 0;  ///< read, but records are missing at the end

  /// Index of the process that decided, or -1.
  int process = -1;
  int32_t device = -1;
  uint32_t step = 0;  ///< in which it ended, counted from 1; 0 if the program has no device
  std::string line;
  std::string exception_type;
  std::string exception_text;  ///< first line

  // Out of memory only.
  uint64_t requested_bytes = 0;
  uint64_t allocated_bytes = 0;
  uint64_t reserved_bytes = 0;
  uint64_t free_bytes = 0;
  uint64_t capacity_bytes = 0;
  uint64_t workspace_bytes = 0;
  std::vector<HolderLine> holders;  ///< largest first
};

/// The traces that are known of but could not be read.
struct UnreadTraces {
  uint64_t count = 0;          ///< files
  std::string folder_failure;  ///< why the folder of traces can't be read; empty if it can
  std::string first_reason;    ///< a sentence with the file and what is wrong
};

/// The accounts must be finished. Entry numbers are named by `entry_of`.
Verdict judge(const RunInfo& run, const std::vector<ProcessAccount>& processes, const UnreadTraces& unread,
              EntryLookup entry_of);

/// True if the process exists and has not ended, be it waited for or not.
bool is_alive(int64_t process_id);

/// "train.py:42": relative to the run's working directory where the file lies below it; "unknown line" for none.
std::string line_text(const SourceLine& line, std::string_view working_directory);
std::string line_text(const ProcessAccount& process, trace::LineId line, std::string_view working_directory);

/// What is wrong with the memory, as numbers: input of the classification, apart from `judge` for tests.
struct MemoryEvidence {
  uint64_t requested_bytes = 0;
  uint64_t allocated_bytes = 0;
  uint64_t reserved_bytes = 0;
  uint64_t workspace_bytes = 0;
  uint64_t direct_bytes = 0;
  uint64_t free_bytes = 0;
  uint64_t capacity_bytes = 0;
  uint64_t idle_bytes = 0;
  uint64_t hccl_bytes = 0;
  uint64_t limit_bytes = 0;          ///< most that the program lets itself reserve; 0 if it set no limit
  bool asked_for_workspace = false;  ///< torch_npu's workspace allocator did
  uint64_t scratch_bytes = 0;  ///< of the workspace that the refused request was for, where blocks serve as workspace
  uint64_t grown_bytes = 0;    ///< kept from step to step, since the second step
  uint32_t grown_steps = 0;    ///< in how many steps
  Growth growth = Growth::kNone;

  uint64_t cached_bytes() const;
  /// What other processes hold.
  uint64_t foreign_bytes() const;
};
MemoryClass classify(const MemoryEvidence& evidence);

/// What to try, most promising first. `allocator_settings`: PYTORCH_NPU_ALLOC_CONF of the run.
std::vector<Advice> advise(MemoryClass memory_class, const MemoryEvidence& evidence, bool expandable_segments,
                           const std::string& allocator_settings, const std::vector<HolderLine>& holders,
                           const std::string& growing_line);
/// The sentence that says why the class holds.
std::string explain(MemoryClass memory_class, const MemoryEvidence& evidence);
/// Adds what the line that asked works on, if the hook of Python's exceptions (python/drydock/_hooks.py) put it behind
/// the message.
void tell_operands(const std::string& exception_text, std::vector<std::string>& evidence);

}  // namespace drydock::ledger
