#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/export.h"
#include "trace/workspace_basis.h"

// How the rest of the library writes into the trace. All functions are cheap no-ops when recording is off, take no
// lock of the caller's, never throw, never block on another process, and may be called from any thread, also under
// the client's own allocator lock.

namespace drydock::trace {

using LineId = uint32_t;    ///< interned (file, line, function); 0 = unknown
using CallId = uint32_t;    ///< interned operator call: operator, dtypes, shapes, scalar arguments; 0 = unknown
using StringId = uint32_t;  ///< interned text; 0 = empty

/// False with DRYDOCK_RECORD=null, when no run folder is set (DRYDOCK_RUN_DIR), or when the trace file could not be
/// created. Stays true when the disk fills up later: what comes then is counted as lost. The environment is read at the
/// first call in a process, and again in a child made by fork, which gets a file of its own.
DRYDOCK_API bool enabled() noexcept;

/// The user's source line that this thread is executing: innermost Python frame outside site-packages and the
/// standard library. On a thread without Python frames (autograd engine, task queue) the line of the Python thread
/// that last called the device. 0 where neither is known, and always with DRYDOCK_RECORD=null. Takes no interpreter
/// lock and needs none. Works without a run folder, so that error messages can name the line.
DRYDOCK_API LineId current_line() noexcept;

/// Id of a place in the user's program. 0 if `file` is empty or memory ran out.
DRYDOCK_API LineId intern_line(std::string_view file, uint32_t line, std::string_view function) noexcept;
/// "file:line (function)", or "unknown line" for 0 and ids that were never given out.
DRYDOCK_API std::string describe_line(LineId line);
/// Id of a text. Texts longer than 16 KiB are cut.
DRYDOCK_API StringId intern_string(std::string_view text) noexcept;

/// Id of an encoded call (call_encoding.h). The first use of a new encoding writes its definition. 0 when recording is
/// off. Lock-free for encodings that are known.
DRYDOCK_API CallId intern_call(std::span<const std::byte> encoded) noexcept;

/// What became of an operator's values.
enum class Outcome : uint8_t {
  kGhost = 0,     ///< outputs hold no values
  kComputed = 1,  ///< outputs are known
  kAssumed = 2,   ///< outputs were made up or rest on made-up values
  kRefused = 3,
};

DRYDOCK_API void operator_launched(int32_t device, uint32_t stream_id, CallId call, LineId line,
                                   Outcome outcome) noexcept;

/// A block of torch_npu's caching allocator, as it comes through the mstx hooks: `size_bytes` is the rounded size.
DRYDOCK_API void block_allocated(int32_t device, uint64_t address, uint64_t size_bytes, bool is_workspace,
                                 LineId line) noexcept;
DRYDOCK_API void block_freed(int32_t device, uint64_t address) noexcept;
/// The bytes that were asked for the block at `address`, once they are known (the storage size that operators are
/// given).
DRYDOCK_API void block_requested(int32_t device, uint64_t address, uint64_t requested_bytes) noexcept;
/// Who is given a workspace, and how much of it.
struct WorkspaceUse {
  uint64_t size_bytes = 0;  ///< as the operator asked
  CallId call = 0;
  LineId line = 0;
  uint32_t stream = 0;
  WorkspaceBasis basis = WorkspaceBasis::kUnknown;
};
/// The block at `address` is given to an operator as its workspace: torch_npu takes those from the same allocator.
DRYDOCK_API void workspace_given(int32_t device, uint64_t address, const WorkspaceUse& use) noexcept;
/// What the calling thread's last first phase answered (size 0: nothing): should the client be refused memory before
/// it gives the workspace, the refusal's record is preceded by one that says for whom it was. Writes nothing itself.
DRYDOCK_API void workspace_wanted(const WorkspaceUse& use) noexcept;

enum class DriverMemory : uint8_t { kMalloc, kPhysical, kReservation, kMapping, kHost, kHostRegistered };
/// Device memory handed out by the driver. `address` is 0 for physical handles; `handle` identifies those.
DRYDOCK_API void driver_allocated(DriverMemory kind, int32_t device, uint64_t address, uint64_t handle,
                                  uint64_t size_bytes, LineId line) noexcept;
DRYDOCK_API void driver_freed(DriverMemory kind, int32_t device, uint64_t address, uint64_t handle, uint64_t size_bytes,
                              LineId line) noexcept;
/// The driver had no room: 207001 went back to the client.
DRYDOCK_API void driver_out_of_memory(DriverMemory kind, int32_t device, uint64_t requested_bytes, uint64_t free_bytes,
                                      uint64_t capacity_bytes, LineId line) noexcept;
/// Bytes in use on the device that belong to no client allocation (idle, context, HCCL).
DRYDOCK_API void overhead_charged(int32_t device, std::string_view what, uint64_t size_bytes) noexcept;

/// What the device has in all, idle use included: once per device and process, when the device is opened.
DRYDOCK_API void capacity_told(int32_t device, uint64_t capacity_bytes) noexcept;

enum class CopyKind : uint8_t { kHostToHost, kHostToDevice, kDeviceToHost, kDeviceToDevice, kMemset };
DRYDOCK_API void copied(CopyKind kind, int32_t device, uint64_t device_address, uint64_t size_bytes, bool async,
                        uint32_t stream_id, LineId line) noexcept;

/// A host read of values nobody computed.
enum class Assumption : uint8_t {
  kHostRead,        ///< ghost bytes copied to the host
  kOperatorResult,  ///< integers or booleans made up because an operator's inputs were ghosts
  kOutputShape,     ///< a data-dependent shape made up
};
DRYDOCK_API void assumed(Assumption kind, uint64_t size_bytes, LineId line) noexcept;

/// Any other door that changed state (stream, event, context, device...). `entry` is the row index in spec/entries.csv.
DRYDOCK_API void entry_called(uint32_t entry, uint64_t subject, uint64_t detail, LineId line) noexcept;
/// Operators follow the entries in the numbering of error records: this plus the row index in spec/operators.csv.
inline constexpr uint32_t kFirstOperatorEntry = 1U << 16;
/// A door answered with an error.
DRYDOCK_API void failed(uint32_t entry, int32_t code, std::string_view message, LineId line) noexcept;

/// One optimizer update ended (python/drydock hooks torch.optim), or drydock.step() was called.
DRYDOCK_API void step_ended() noexcept;
/// Blocks that the process has given back so far; for `garbage_collected`.
DRYDOCK_API uint64_t blocks_freed() noexcept;
/// Python's garbage collector went through `generation` (0 to 2) and freed so many blocks of device memory.
DRYDOCK_API void garbage_collected(uint32_t generation, uint64_t freed_blocks, LineId line) noexcept;
/// An operator has no NPU kernel; torch_npu ran it on the host CPU.
DRYDOCK_API void host_fallback(std::string_view aten_name, LineId line) noexcept;
/// A Python exception left the program.
DRYDOCK_API void python_exception(std::string_view type, std::string_view text, std::string_view file,
                                  uint32_t line) noexcept;

/// What this process has written so far.
struct Counters {
  uint64_t records = 0;       ///< in the file, without escapes (gaps of time, changes of thread)
  uint64_t bytes = 0;         ///< of all records in the file, without the header page
  uint64_t lost_records = 0;  ///< could not be written: disk full, file limit
  uint64_t lost_bytes = 0;
};
DRYDOCK_API Counters counters() noexcept;

/// Marks the file as closed in order and trims it to its used size. Records made afterwards, by threads that outlive
/// the call, are still appended (the file grows again and is marked open): nothing is dropped. Runs by itself at
/// exit().
DRYDOCK_API void close() noexcept;

}  // namespace drydock::trace
