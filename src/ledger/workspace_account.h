#pragma once

#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "trace/reader.h"
#include "trace/recorder.h"

namespace drydock::ledger {

/// Calls of one shape from one line on one stream, and the workspace that they asked for.
struct WorkspaceTally {
  int32_t device = 0;
  uint32_t stream = 0;
  trace::CallId call = 0;
  trace::LineId line = 0;
  trace::WorkspaceBasis basis = trace::WorkspaceBasis::kUnknown;
  uint64_t uses = 0;
  uint64_t bytes = 0;  ///< the most that one of them asked for
};

/// Which operators asked for workspace, in one process. Not thread-safe.
class WorkspaceAccount {
 public:
  /// A record of kWorkspaceGiven, the trace's `number`-th.
  void given(const trace::Record& record, uint64_t number);

  /// Largest first.
  std::vector<WorkspaceTally> tallies() const;
  bool is_empty() const { return tallies_.empty(); }
  /// The workspace that could not be given because of the refusal that is the trace's `number`-th record, or null.
  const WorkspaceTally* refused_by(uint64_t number) const;

 private:
  using Key = std::tuple<int32_t, uint32_t, trace::CallId, trace::LineId>;
  std::map<Key, WorkspaceTally> tallies_;
  std::map<uint64_t, WorkspaceTally> refused_;  // by number of the refusal's record
  // Steps repeat their calls: the one that follows another last time often does so again.
  WorkspaceTally* last_ = nullptr;
};

}  // namespace drydock::ledger
