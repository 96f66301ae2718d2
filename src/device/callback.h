#pragma once

#include <cstdint>
#include <string_view>

#include "base/export.h"
#include "base/status.h"

namespace drydock::device {

class Stream;

/// A function of the client that runs in a stream's order (contract F8).
using HostFunction = void (*)(void*);

/// Ties the thread `thread_id` to the stream: its callbacks run inside that thread's `process_callbacks`. The id is
/// what pthread_self() or gettid() gives in that thread; clients use either. 107011 if the stream has a thread already.
DRYDOCK_API Status subscribe_callbacks(std::string_view entry, uint64_t thread_id, Stream& stream);
/// 107011 if the stream is not tied to this thread. Callbacks that wait for the thread are dropped.
DRYDOCK_API Status unsubscribe_callbacks(std::string_view entry, uint64_t thread_id, Stream& stream);
/// Runs the next callback of the calling thread's streams; waits for one for `timeout_ms` (-1 = for ever).
/// 107012 if no stream is tied to this thread, 507012 when the time runs out, 107000 for 0 and below -1.
DRYDOCK_API Status process_callbacks(std::string_view entry, int32_t timeout_ms);
/// Puts a callback on the stream. With `blocks` what comes after it waits until it ran. 107015 if no thread is tied to
/// the stream.
DRYDOCK_API Status launch_callback(std::string_view entry, Stream& stream, HostFunction function, void* argument,
                                   bool blocks);

/// Puts `function` on the stream, to run on a thread of the runtime, one per stream, started at the first use; what
/// comes after it waits until it ran. No lock is held while it runs, so it may take the client's locks (and Python's).
DRYDOCK_API Status launch_host_function(std::string_view entry, Stream& stream, HostFunction function, void* argument);

/// The stream ends: its subscription and its runtime thread go, what has not begun is dropped.
void forget_callbacks(Stream& stream) noexcept;

}  // namespace drydock::device
