#pragma once

#include <cstdint>
#include <span>

#include "base/export.h"
#include "races/access_history.h"

// `--check streams`: finds streams that touch the same memory without a wait between them. Doors and the device tell
// what is submitted, where, and what waits for what, in the order of the calls; nothing here depends on when work runs.
// Everything is told under one lock; without the check each door costs one branch.

namespace drydock::races {

namespace detail {
DRYDOCK_API extern bool is_on;
}

/// DRYDOCK_CHECK=streams, and a trace is kept. Fixed before main.
inline bool is_on() noexcept { return detail::is_on; }

/// One range that submitted work touches.
struct Use {
  Footprint footprint;
  uint16_t argument = 0;  ///< of the operator
  bool writes = false;
  bool is_host = false;  ///< host memory: torch's cache of pinned memory tells nobody when it hands it out again
};

/// Who submits: `call` of an operator, or `what`, the name of anything else ("aclrtMemcpyAsync", a collective).
struct Work {
  int32_t device = 0;
  uint32_t line = 0;
  uint32_t call = 0;
  const char* what = nullptr;
};

/// Work was submitted to a stream. Collectives come through here too: a piece of work on the stream that carries them.
DRYDOCK_API void submitted(uint32_t stream, const Work& work, std::span<const Use> uses) noexcept;
/// The host touches memory, within a call that returns only when that is over.
DRYDOCK_API void touched_by_host(const Work& work, std::span<const Use> uses) noexcept;

// What orders work. Events and notifies are named by their ids.
DRYDOCK_API void event_recorded(uint32_t event, uint32_t stream) noexcept;
DRYDOCK_API void event_waited_for(uint32_t event, uint32_t stream) noexcept;
/// A stream waits for a record that was not submitted yet. Its work is not looked at until that comes.
DRYDOCK_API void event_awaited(uint32_t event, uint32_t stream) noexcept;
DRYDOCK_API void notify_recorded(uint32_t notify, uint32_t stream) noexcept;
DRYDOCK_API void notify_waited_for(uint32_t notify, uint32_t stream) noexcept;
/// The host knows that the event was reached: it waited.
DRYDOCK_API void host_waited_for_event(uint32_t event) noexcept;
/// The host asked, and was told that the event was reached. What torch_npu's allocators ask for themselves orders only
/// what they hand out again: on hardware the answer might have been another one.
DRYDOCK_API void host_saw_event(uint32_t event) noexcept;
/// The host knows that the stream's work is over: it waited, asked, or runs in the stream's place (a callback).
DRYDOCK_API void host_waited_for_stream(uint32_t stream) noexcept;
DRYDOCK_API void stream_ended(uint32_t stream) noexcept;
DRYDOCK_API void event_ended(uint32_t event) noexcept;

// The lives of memory.
DRYDOCK_API void block_born(uint64_t address, uint64_t size_bytes) noexcept;
DRYDOCK_API void block_freed(uint64_t address, uint32_t line) noexcept;
/// The driver took the memory back.
DRYDOCK_API void memory_returned(uint64_t address, uint64_t size_bytes) noexcept;

}  // namespace drydock::races
