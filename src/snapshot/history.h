#pragma once

#include <vector>

#include "replay/events.h"
#include "snapshot/snapshot.h"

namespace drydock::snapshot {

/// The events of a snapshot's history with the state before the first of them, which is found by walking back from the
/// state at the end: the ring buffer may have lost any number of events. Devices come one after the other.
///
/// Sizes of blocks that were made before the history and freed within it are not told by the snapshot. They are what
/// the allocator's rounding gives, and more where a remainder was too small to be split off and no later event shows a
/// border.
replay::History history_of(const Snapshot& snapshot);

/// Whether the blocks were rounded as torch_npu does (32 bytes are added before rounding to 512), and not as CUDA's
/// allocator does: told by the settings, or else by the sizes of the blocks.
bool is_of_npu(const Snapshot& snapshot);

}  // namespace drydock::snapshot
