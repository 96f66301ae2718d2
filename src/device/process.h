#pragma once

#include "base/export.h"

namespace drydock::device {

/// From now on a child made by fork is known as one. Called where the process first uses a device; nothing is
/// registered before (contract C14: a fork before the first device call must leave both sides working).
void watch_forks() noexcept;

/// True in a process that was forked from one that had used a device: the driver's state is the parent's.
DRYDOCK_API bool is_forked_child() noexcept;

}  // namespace drydock::device
