#include "ledger/workspace_account.h"

#include <algorithm>

namespace drydock::ledger {

void WorkspaceAccount::given(const trace::Record& record, uint64_t number) {
  if (record.size_bytes == 0) return;  // a trace of before: only the block is known
  const bool was_refused = record.address.tag == trace::ValueTag::kPlain && record.address.bits == 0;
  if (was_refused) {
    // The refusal's own record is the next one.
    refused_[number + 1] = {.device = record.device,
                            .stream = record.stream,
                            .call = record.call,
                            .line = record.line,
                            .basis = record.basis,
                            .uses = 1,
                            .bytes = record.size_bytes};
    return;
  }
  const Key key(record.device, record.stream, record.call, record.line);
  if (last_ == nullptr || Key(last_->device, last_->stream, last_->call, last_->line) != key) {
    last_ = &tallies_[key];
    last_->device = record.device;
    last_->stream = record.stream;
    last_->call = record.call;
    last_->line = record.line;
  }
  ++last_->uses;
  if (record.size_bytes <= last_->bytes) return;
  last_->bytes = record.size_bytes;
  last_->basis = record.basis;
}

std::vector<WorkspaceTally> WorkspaceAccount::tallies() const {
  std::vector<WorkspaceTally> tallies;
  for (const auto& [key, tally] : tallies_) tallies.push_back(tally);
  std::stable_sort(tallies.begin(), tallies.end(),
                   [](const WorkspaceTally& a, const WorkspaceTally& b) { return a.bytes > b.bytes; });
  return tallies;
}

const WorkspaceTally* WorkspaceAccount::refused_by(uint64_t number) const {
  const auto found = refused_.find(number);
  return found == refused_.end() ? nullptr : &found->second;
}

}  // namespace drydock::ledger
