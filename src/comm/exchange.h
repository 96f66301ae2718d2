#pragma once

#include "base/export.h"
#include "base/status.h"
#include "comm/collective.h"
#include "comm/meeting.h"
#include "comm/peer_windows.h"

namespace drydock::comm {

/// The first half of one rank's part of a collective: offers to the others what it brings. Waits for nobody.
DRYDOCK_API Status arrive(Meeting& meeting, const Collective& call);

/// True if all ranks have arrived, given a moment, and nothing is left that one of them waits for another in: all that
/// they bring is in the segment.
DRYDOCK_API bool can_end_at_once(Meeting& meeting, const Collective& call, bool wait_briefly);

/// The second half, after `arrive`: meets the others, compares what all of them called, and moves or
/// reduces the bytes that are known and that the policy of values lets move. Results whose inputs are ghosts are
/// ghosts.
///
/// Failures are those of a stream: 507018 with both sides where two ranks called different things, and those of
/// Meeting::wait.
DRYDOCK_API Status exchange(Meeting& meeting, PeerWindows& windows, const Collective& call);

/// The same for a batch of sends and receives. They make progress together, in the order of calls for each pair of
/// ranks. A send is over when it was received.
DRYDOCK_API Status exchange_messages(Meeting& meeting, PeerWindows& windows, const Collective& call);

}  // namespace drydock::comm
