#pragma once

#include "base/export.h"
#include "base/status.h"
#include "comm/collective.h"
#include "comm/meeting.h"

namespace drydock::comm {

/// Carries out one rank's part of a collective: meets the others, compares what all of them called, and moves or
/// reduces the bytes that are known and that the policy of values lets move. Results whose inputs are ghosts are
/// ghosts.
///
/// Failures are those of a stream: 507018 with both sides where two ranks called different things, and those of
/// Meeting::wait.
DRYDOCK_API Status exchange(Meeting& meeting, const Collective& call);

/// The same for a batch of sends and receives. They make progress together, in the order of calls for each pair of
/// ranks. A send is over when it was received.
DRYDOCK_API Status exchange_messages(Meeting& meeting, const Collective& call);

}  // namespace drydock::comm
