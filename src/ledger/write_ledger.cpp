#include "ledger/write_ledger.h"

#include <algorithm>
#include <array>
#include <map>
#include <tuple>
#include <unordered_map>

#include <nlohmann/json.hpp>

#include "base/generated/error_codes.h"
#include "ledger/database.h"
#include "ledger/schema.h"
#include "trace/text.h"

namespace drydock::ledger {
namespace {

constexpr size_t kGhost = 0;
constexpr size_t kComputed = 1;
constexpr size_t kAssumed = 2;
constexpr size_t kRefused = 3;

using Counts = std::array<uint64_t, kOutcomes>;

uint64_t sum(const Counts& counts) {
  uint64_t total = 0;
  for (uint64_t count : counts) total += count;
  return total;
}

class Writer {
 public:
  Writer(const std::filesystem::path& path, const LedgerSources& sources)
      : sources_(sources), database_(path, Database::Mode::kCreate) {
    // A ledger that could not be written to its end is thrown away, so no journal is needed.
    database_.execute("PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; BEGIN");
    database_.execute(kSchema);
  }

  void write() {
    write_run();
    for (size_t index = 0; index < sources_.processes.size(); ++index) write_process(index);
    write_operators();
    write_lines();
    write_verdict();
    write_without_workspaces();
    database_.execute("COMMIT");
    // Last: a file without them is not a ledger.
    const std::string pragmas = "PRAGMA application_id=" + std::to_string(kApplicationId) +
                                "; PRAGMA user_version=" + std::to_string(kSchemaVersion);
    database_.execute(pragmas.c_str());
  }

 private:
  struct CallRow {
    std::string_view name;
    std::string_view signature;
    bool on_aicpu = false;
    Counts counts{};
  };

  uint32_t global_line(const SourceLine& line) {
    auto key = std::tuple(line.file, line.line, line.function);
    auto [found, is_new] = line_ids_.try_emplace(std::move(key), static_cast<uint32_t>(lines_.size()));
    if (is_new) lines_.push_back(line);
    return found->second;
  }

  // Calls with one text are one call, whichever process made them.
  uint32_t global_call(const CallText& call) {
    auto [found, is_new] = call_ids_.try_emplace(call.signature, static_cast<uint32_t>(calls_.size()));
    if (is_new) calls_.push_back({call.name, call.signature, call.on_aicpu, {}});
    return found->second;
  }

  void write_run() {
    const RunInfo& run = sources_.run;
    Statement put = database_.prepare("INSERT INTO run VALUES(?, ?)");
    put.run("command", std::string_view(
                           nlohmann::json(run.command).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)));
    put.run("working_directory", std::string_view(run.working_directory));
    put.run("started", std::string_view(run.started));
    if (run.exit_code)
      put.run("exit_code", *run.exit_code);
    else
      put.run("exit_code", nullptr);
    put.run("wall_s", run.wall_s);
    put.run("profile", std::string_view(run.profile));
    put.run("devices", run.devices);
    put.run("values", std::string_view(run.values));
    put.run("record", std::string_view(run.record));
    put.run("drydock", std::string_view(run.drydock_version));
    Statement variable = database_.prepare("INSERT INTO environment VALUES(?, ?, ?)");
    for (const auto& [name, value] : run.environment) {
      const bool chosen = std::find(run.chosen.begin(), run.chosen.end(), name) != run.chosen.end();
      variable.run(std::string_view(name), std::string_view(value), chosen);
    }
    Statement problem = database_.prepare("INSERT INTO problems VALUES(NULL, ?)");
    for (const std::string& sentence : sources_.problems) problem.run(std::string_view(sentence));
  }

  void write_process(size_t index) {
    const ProcessAccount& process = sources_.processes[index];
    line_map_.clear();
    for (const SourceLine& line : process.lines) line_map_.push_back(global_line(line));
    if (line_map_.empty()) line_map_.push_back(global_line({}));
    call_map_.clear();
    for (const CallText& call : process.calls) call_map_.push_back(global_call(call));

    database_.prepare("INSERT INTO processes VALUES(?, ?, ?, ?, ?, ?, ?, ?)")
        .run(index, process.process_id, std::string_view(process.trace_file), process.records, process.bytes,
             process.lost, process.closed, process.steps_ended());
    Statement problem = database_.prepare("INSERT INTO problems VALUES(?, ?)");
    for (const std::string& sentence : process.problems) problem.run(index, std::string_view(sentence));

    write_launches(index, process);
    for (const auto& [device, memory] : process.memories()) {
      write_memory(index, memory);
      write_moment(index, process, memory.device(), "peak", memory.at_peak());
      write_moment(index, process, memory.device(), "out of memory", memory.at_out_of_memory());
      write_moment(index, process, memory.device(), "end", memory.at_end());
    }
    write_workspaces(index, process);
    write_races(index, process);
    write_events(index, process);
  }

  void write_workspaces(size_t index, const ProcessAccount& process) {
    Statement put = database_.prepare("INSERT INTO workspaces VALUES(?, ?, ?, ?, ?, ?, ?, ?)");
    for (const WorkspaceTally& row : process.workspaces.tallies()) {
      const uint32_t call = row.call < call_map_.size() ? call_map_[row.call] : global_call(unknown_call_);
      put.run(index, row.device, row.stream, call, line(row.line), trace::name_of(row.basis), row.uses, row.bytes);
    }
  }

  void write_races(size_t index, const ProcessAccount& process) {
    Statement put =
        database_.prepare("INSERT INTO races VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
    for (const Race& race : process.races) {
      const RaceSide& first = race.first;
      const RaceSide& second = race.second;
      put.run(index, race.device, std::string_view(race.is_reuse ? "reuse" : "order"), race.is_host,
              line(race.freed_line_id), race.offset, race.size_bytes, line(first.line_id), std::string_view(first.what),
              std::string_view(first.tensor), std::string_view(first.call), first.stream, first.writes,
              line(second.line_id), std::string_view(second.what), std::string_view(second.tensor),
              std::string_view(second.call), second.stream, second.writes);
    }
  }

  void write_without_workspaces() {
    if (sources_.without_workspaces == nullptr) return;
    const WithoutWorkspaces& without = *sources_.without_workspaces;
    database_.prepare("INSERT INTO without_workspaces VALUES(?, ?, ?, ?, ?, ?)")
        .run(sources_.without_process, sources_.without_device, std::string_view(without.reason),
             without.peak_allocated_bytes, without.peak_reserved_bytes, without.fits);
  }

  uint32_t line(trace::LineId id) const { return id < line_map_.size() ? line_map_[id] : line_map_[0]; }

  void write_launches(size_t index, const ProcessAccount& process) {
    Statement put = database_.prepare("INSERT INTO launches VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?)");
    for (const Launches& launches : process.launches()) {
      const uint32_t call = launches.call < call_map_.size() ? call_map_[launches.call] : global_call(unknown_call_);
      for (size_t outcome = 0; outcome < kOutcomes; ++outcome) calls_[call].counts[outcome] += launches.count[outcome];
      put.run(index, launches.step, call, line(launches.line), launches.device, launches.count[kGhost],
              launches.count[kComputed], launches.count[kAssumed], launches.count[kRefused]);
    }
  }

  void write_memory(size_t index, const MemoryAccount& memory) {
    const uint64_t not_listed = memory.segments() - memory.segment_rows().size();
    database_.prepare("INSERT INTO memory VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)")
        .run(index, memory.device(), memory.peak_allocated_bytes(), memory.peak_reserved_bytes(),
             memory.peak_workspace_bytes(), memory.peak_host_bytes(), memory.allocated_bytes(), memory.reserved_bytes(),
             memory.blocks(), memory.segments(), not_listed, memory.distinct_block_sizes(), memory.requested_blocks(),
             memory.padding_bytes(), memory.unknown_frees(), memory.uses_virtual_memory());
    Statement holder = database_.prepare("INSERT INTO holders VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
    for (const auto& [what, tally] : {std::pair("block", &memory.block_lines()), {"driver", &memory.driver_lines()}}) {
      for (const LineTally& row : tally->lines())
        holder.run(index, memory.device(), what, line(row.line), row.is_workspace, row.allocations, row.allocated_bytes,
                   row.peak_bytes, row.bytes_at_peak, row.blocks_at_peak, row.live_bytes, row.live_blocks);
    }
    Statement put_segment = database_.prepare("INSERT INTO segments VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?)");
    for (const Segment& segment : memory.segment_rows())
      put_segment.run(index, memory.device(), trace::name_of(segment.kind), segment.address, segment.handle,
                      segment.size_bytes, line(segment.line), segment.allocated_record, segment.freed_record);
    Statement overhead = database_.prepare("INSERT INTO overheads VALUES(?, ?, ?, ?)");
    for (const auto& [what, bytes] : memory.overheads())
      overhead.run(index, memory.device(), std::string_view(what), bytes);
    Statement event = database_.prepare("INSERT INTO out_of_memories VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
    for (const OutOfMemory& row : memory.out_of_memories())
      event.run(index, memory.device(), row.record, row.steps_ended + 1, line(row.line), trace::name_of(row.kind),
                row.requested_bytes, row.allocated_bytes, row.reserved_bytes, row.workspace_bytes, row.free_bytes,
                row.capacity_bytes);
  }

  void write_moment(size_t index, const ProcessAccount& process, int32_t device, std::string_view name,
                    const DeviceMoment& moment) {
    if (!moment.is_known) return;
    Statement part = database_.prepare("INSERT INTO account VALUES(?, ?, ?, ?, ?, ?, ?, ?)");
    for (size_t kind = 0; kind < kBlockKinds; ++kind)
      part.run(index, device, name, ledger::name_of(static_cast<BlockKind>(kind)), true, moment.blocks.bytes[kind],
               moment.blocks.requested_bytes[kind], moment.blocks.blocks[kind]);
    const std::pair<std::string_view, uint64_t> rest[] = {
        {"cached", moment.cached_bytes},     {"direct", moment.direct_bytes},   {"workspaces", moment.workspace_bytes},
        {"unmapped", moment.unmapped_bytes}, {"context", moment.context_bytes}, {"hccl", moment.hccl_bytes},
        {"idle", moment.idle_bytes},         {"other", moment.other_bytes},     {"free", moment.free_bytes},
        {"capacity", moment.capacity_bytes}};
    for (const auto& [what, bytes] : rest) part.run(index, device, name, what, false, bytes, bytes, uint64_t{0});
    Statement put = database_.prepare("INSERT INTO account_holders VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
    for (const KindHolder& row : moment.blocks.holders) {
      const auto label = process.names.find(row.name);
      const std::string_view owned = label == process.names.end() ? std::string_view() : label->second;
      const std::string_view owner = owner_of(owned);
      const std::string_view module = owner.empty() ? process.module_name(row.module) : owner;
      put.run(index, device, name, ledger::name_of(row.kind), ledger::name_of(row.phase), line(row.line), module, owned,
              row.first_step, row.last_step, row.bytes, row.requested_bytes, row.blocks);
    }
  }

  void write_events(size_t index, const ProcessAccount& process) {
    Statement step = database_.prepare("INSERT INTO steps VALUES(?, ?, ?, ?, ?, ?, ?, ?)");
    for (const StepEnd& row : process.steps())
      step.run(index, row.step, row.record, row.time_ns, row.operators, row.allocated_bytes, row.reserved_bytes,
               row.peak_allocated_bytes);
    Statement copy = database_.prepare("INSERT INTO copies VALUES(?, ?, ?, ?, ?, ?, ?)");
    for (const auto& [key, tally] : process.copies())
      copy.run(index, key.device, trace::name_of(key.kind), key.async, line(key.line), tally.count, tally.bytes);
    Statement assumption = database_.prepare("INSERT INTO assumptions VALUES(?, ?, ?, ?, ?)");
    for (const auto& [key, tally] : process.assumptions())
      assumption.run(index, trace::name_of(key.kind), line(key.line), tally.count, tally.bytes);
    Statement error = database_.prepare("INSERT INTO errors VALUES(?, ?, ?, ?, ?, ?)");
    for (const auto& [key, tally] : process.errors()) {
      const EntryMeaning entry = sources_.entry_of(key.entry);
      error.run(index, std::string_view(entry.name), key.code, std::string_view(key.message), line(key.line),
                tally.count);
      if (entry.is_refused || (entry.is_operator && key.code == code::ACLNN_ERR_PARAM_INVALID))
        refusals_[{entry.name, key.message, line(key.line)}] += tally.count;
    }
    Statement entry = database_.prepare("INSERT INTO entries VALUES(?, ?, ?)");
    for (const auto& [key, count] : process.entries())
      entry.run(index, std::string_view(sources_.entry_of(key).name), count);
    Statement exception = database_.prepare("INSERT INTO exceptions VALUES(?, ?, ?, ?, ?, ?, ?)");
    for (const Exception& row : process.exceptions())
      exception.run(index, row.record, row.steps_ended + 1, std::string_view(row.type), std::string_view(row.text),
                    std::string_view(row.file), row.line);
    Statement fallback = database_.prepare("INSERT INTO host_fallbacks VALUES(?, ?, ?, ?)");
    for (const auto& [key, count] : process.host_fallbacks())
      fallback.run(index, std::string_view(std::get<0>(key)), line(std::get<1>(key)), count);
  }

  void write_operators() {
    struct Total {
      uint64_t distinct = 0;
      Counts counts{};
    };
    std::map<std::string_view, Total> totals;
    for (const CallRow& call : calls_) {
      if (sum(call.counts) == 0) continue;
      Total& total = totals[call.name];
      ++total.distinct;
      for (size_t outcome = 0; outcome < kOutcomes; ++outcome) total.counts[outcome] += call.counts[outcome];
    }
    Statement put = database_.prepare("INSERT INTO operators VALUES(?, ?, ?, ?, ?, ?, ?, ?)");
    std::map<std::string_view, size_t> ids;
    for (const auto& [name, total] : totals) {
      const size_t id = ids.size();
      ids[name] = id;
      put.run(id, name, sum(total.counts), total.distinct, total.counts[kGhost], total.counts[kComputed],
              total.counts[kAssumed], total.counts[kRefused]);
    }
    Statement put_call = database_.prepare("INSERT INTO calls VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?)");
    for (size_t id = 0; id < calls_.size(); ++id) {
      const CallRow& call = calls_[id];
      if (sum(call.counts) == 0) continue;
      put_call.run(id, ids[call.name], call.signature, sum(call.counts), call.counts[kGhost], call.counts[kComputed],
                   call.counts[kAssumed], call.counts[kRefused], call.on_aicpu);
    }
    Statement refusal = database_.prepare("INSERT INTO refusals VALUES(?, ?, ?, ?)");
    for (const auto& [key, count] : refusals_) {
      const auto& [name, reason, line] = key;
      refusal.run(std::string_view(name), std::string_view(reason), line, count);
    }
  }

  void write_lines() {
    Statement put = database_.prepare("INSERT INTO lines VALUES(?, ?, ?, ?, ?)");
    for (size_t id = 0; id < lines_.size(); ++id)
      put.run(id, std::string_view(lines_[id].file), lines_[id].line, std::string_view(lines_[id].function),
              std::string_view(line_text(lines_[id], sources_.run.working_directory)));
  }

  void write_verdict() {
    const Verdict& verdict = sources_.verdict;
    Statement put = database_.prepare("INSERT INTO verdict VALUES(?, ?)");
    put.run("kind", ledger::name_of(verdict.kind));
    put.run("class", ledger::name_of(verdict.memory_class));
    put.run("is_running", verdict.is_running);
    put.run("device_unknown", std::string_view(verdict.device_unknown));
    put.run("unreadable_traces", verdict.unreadable_traces);
    put.run("truncated_traces", verdict.truncated_traces);
    put.run("process", verdict.process);
    put.run("device", verdict.device);
    put.run("step", verdict.step);
    put.run("line", std::string_view(verdict.line));
    put.run("exception_type", std::string_view(verdict.exception_type));
    put.run("exception_text", std::string_view(verdict.exception_text));
    put.run("requested_bytes", verdict.requested_bytes);
    put.run("allocated_bytes", verdict.allocated_bytes);
    put.run("reserved_bytes", verdict.reserved_bytes);
    put.run("free_bytes", verdict.free_bytes);
    put.run("capacity_bytes", verdict.capacity_bytes);
    put.run("workspace_bytes", verdict.workspace_bytes);
    const TrendRow& trend = verdict.trend;
    put.run("trend_growth", static_cast<int64_t>(trend.trend.growth));
    put.run("trend_grown_bytes", trend.trend.grown_bytes);
    put.run("trend_grown_steps", trend.trend.grown_steps);
    put.run("trend_bytes_per_step", trend.trend.bytes_per_step);
    put.run("trend_full_at_step", trend.trend.full_at_step);
    put.run("trend_growing_line", std::string_view(trend.growing_line));
    put.run("trend_tooth", static_cast<int64_t>(trend.trend.tooth));
    put.run("trend_period_steps", trend.trend.period_steps);
    put.run("trend_tooth_bytes", trend.trend.tooth_bytes);
    put.run("trend_tooth_line", std::string_view(trend.tooth_line));
    Statement evidence = database_.prepare("INSERT INTO verdict_evidence VALUES(NULL, ?)");
    for (const std::string& sentence : verdict.evidence) evidence.run(std::string_view(sentence));
    Statement holder = database_.prepare("INSERT INTO verdict_holders VALUES(NULL, ?, ?, ?, ?)");
    for (const HolderLine& row : verdict.holders)
      holder.run(std::string_view(row.line), row.bytes, row.blocks, row.is_workspace);
    Statement advice = database_.prepare("INSERT INTO verdict_advice VALUES(NULL, ?, ?, ?)");
    for (const Advice& row : verdict.advice)
      advice.run(std::string_view(row.action), std::string_view(row.reason),
                 std::string_view(nlohmann::json(row.environment).dump()));
  }

  const CallText unknown_call_{"unknown", "unknown", false};
  const LedgerSources& sources_;
  Database database_;
  std::map<std::tuple<std::string, uint32_t, std::string>, uint32_t> line_ids_;
  std::vector<SourceLine> lines_;
  std::unordered_map<std::string_view, uint32_t> call_ids_;  // texts live in the accounts
  std::vector<CallRow> calls_;
  std::vector<uint32_t> line_map_;  // of the process being written: its ids to ours
  std::vector<uint32_t> call_map_;
  std::map<std::tuple<std::string, std::string, uint32_t>, uint64_t> refusals_;  // name, reason, line
};

}  // namespace

void write_ledger(const std::filesystem::path& path, const LedgerSources& sources) { Writer(path, sources).write(); }

}  // namespace drydock::ledger
