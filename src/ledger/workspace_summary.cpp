#include "ledger/workspace_summary.h"

#include <algorithm>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "ledger/database.h"
#include "ledger/process_account.h"
#include "ledger/sizes.h"
#include "ledger/verdict.h"
#include "ledger/workspace_account.h"

namespace drydock::ledger {
namespace {

constexpr size_t kMostRows = 10;

std::string basis_text(const std::string& basis) {
  if (basis == "high" || basis == "medium" || basis == "low") return fmt::format("by a rule of {} confidence", basis);
  if (basis == "assumed") return "assumed: no rule is known";
  return basis == "upper bound" ? "an upper bound" : "on an unknown basis";
}

std::string words_of(const WorkspaceRow& row) {
  return fmt::format("{} for {} at {} ({})", human_size(row.bytes), row.operator_name, row.line, basis_text(row.basis));
}

}  // namespace

void load_workspaces(Database& database, WorkspaceSummary& summary) {
  Statement rows = database.prepare(
      "SELECT o.name, c.signature, l.text, w.basis, w.device, w.stream, w.bytes, w.uses "
      "FROM workspaces w JOIN lines l ON l.id = w.line JOIN calls c ON c.id = w.call "
      "JOIN operators o ON o.id = c.operator ORDER BY w.bytes DESC, w.uses DESC, c.signature, l.text, w.stream");
  // The largest of all, and the largest of each stream.
  std::set<std::pair<int32_t, uint32_t>> streams;
  while (rows.step()) {
    const auto device = static_cast<int32_t>(rows.integer(4));
    const auto stream = static_cast<uint32_t>(rows.integer(5));
    if (!streams.insert({device, stream}).second && summary.largest.size() >= kMostRows) continue;
    if (summary.largest.size() >= 2 * kMostRows) break;
    summary.largest.push_back({.operator_name = rows.text(0),
                               .signature = rows.text(1),
                               .line = rows.text(2),
                               .basis = rows.text(3),
                               .device = device,
                               .stream = stream,
                               .bytes = rows.unsigned_integer(6),
                               .uses = rows.unsigned_integer(7)});
  }
  Statement mode = database.prepare("SELECT value FROM environment WHERE name = 'DRYDOCK_WORKSPACE'");
  if (mode.step()) summary.mode = mode.text(0);
  Statement without = database.prepare(
      "SELECT reason, peak_allocated_bytes, peak_reserved_bytes, fits FROM without_workspaces LIMIT 1");
  if (!without.step()) return;
  summary.without.reason = without.text(0);
  summary.without.is_known = summary.without.reason.empty();
  summary.without.peak_allocated_bytes = without.unsigned_integer(1);
  summary.without.peak_reserved_bytes = without.unsigned_integer(2);
  summary.without.fits = without.integer(3) != 0;
}

std::vector<std::string> sentences_of(const WorkspaceSummary& summary) {
  std::vector<std::string> sentences;
  if (summary.largest.empty()) {
    if (summary.mode == "none") sentences.emplace_back("none: --workspace none let no operator ask for any");
    return sentences;
  }
  const WorkspaceRow& largest = summary.largest.front();
  std::string text = fmt::format("at most {}", words_of(largest));
  std::set<std::pair<int32_t, uint32_t>> streams = {{largest.device, largest.stream}};
  for (const WorkspaceRow& row : summary.largest) {
    if (!streams.insert({row.device, row.stream}).second || streams.size() > 3) continue;
    text += fmt::format("; on stream {} of npu:{} {}", row.stream, row.device, words_of(row));
  }
  sentences.push_back(std::move(text));
  const WithoutWorkspaces& without = summary.without;
  if (without.is_known)
    sentences.push_back(fmt::format("with --workspace none the peak is {} reserved, {} allocated (replayed)",
                                    human_size(without.peak_reserved_bytes), human_size(without.peak_allocated_bytes)));
  return sentences;
}

void take_refused(const ProcessAccount& process, uint64_t refusal, std::string_view directory, MemoryEvidence& evidence,
                  Verdict& verdict) {
  const WorkspaceTally* refused = process.workspaces.refused_by(refusal);
  if (refused == nullptr) return;
  evidence.scratch_bytes = refused->bytes;
  WorkspaceRow row;
  row.operator_name = refused->call < process.calls.size() ? process.calls[refused->call].name : "an operator";
  row.line = line_text(process, refused->line, directory);
  row.basis = trace::name_of(refused->basis);
  row.bytes = refused->bytes;
  verdict.evidence.push_back(
      fmt::format("What could not be given was the workspace of an operator: {}.", words_of(row)));
}

std::string dependence_sentence(const WithoutWorkspaces& without) {
  if (!without.is_known) return "";
  return fmt::format(
      "Without workspaces the same requests come to a peak of {} reserved and {} allocated, and {} (replayed under the "
      "run's own settings, up to where it ended).",
      human_size(without.peak_reserved_bytes), human_size(without.peak_allocated_bytes),
      without.fits ? "the one that was refused is met" : "one is refused all the same");
}

}  // namespace drydock::ledger
