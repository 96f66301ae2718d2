#pragma once

#include <string>

#include "base/export.h"

namespace drydock {

/// The sentence of the calling thread's last failed call, for aclGetRecentErrMsg. Per thread; never throws: where there
/// is no memory for the sentence, the thread has none.
DRYDOCK_API void set_recent_error(std::string message) noexcept;

/// The sentence, or "" where nothing failed since it was last taken. Valid until the thread's next failure or take.
DRYDOCK_API const char* peek_recent_error() noexcept;

/// As peek_recent_error, and the next call on this thread answers "". The pointer stays valid until the thread's next
/// take.
DRYDOCK_API const char* take_recent_error() noexcept;

}  // namespace drydock
