#include "ledger/report.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <string_view>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ledger/database.h"
#include "ledger/schema.h"

namespace drydock::ledger {
namespace {

constexpr int kMostRows = 1000;
constexpr int kMostHolders = 10;

MemoryClass memory_class_of(std::string_view name) {
  for (MemoryClass each : {MemoryClass::kOversize, MemoryClass::kWorkspace, MemoryClass::kGrowth,
                           MemoryClass::kFragmentation, MemoryClass::kExternal, MemoryClass::kCapacity})
    if (name_of(each) == name) return each;
  return MemoryClass::kNone;
}

VerdictKind verdict_kind_of(std::string_view name) {
  for (VerdictKind each : {VerdictKind::kRan, VerdictKind::kOutOfMemory})
    if (name_of(each) == name) return each;
  return VerdictKind::kFailed;
}

void load_run(Database& database, RunInfo& run) {
  Statement rows = database.prepare("SELECT key, value FROM run");
  while (rows.step()) {
    const std::string key = rows.text(0);
    if (key == "command") {
      const auto command = nlohmann::json::parse(rows.text(1), nullptr, false);
      if (command.is_array()) run.command = command.get<std::vector<std::string>>();
    } else if (key == "exit_code") {
      if (!rows.is_null(1)) run.exit_code = static_cast<int32_t>(rows.integer(1));
    } else if (key == "wall_s") {
      run.wall_s = rows.number(1);
    } else if (key == "devices") {
      run.devices = static_cast<int32_t>(rows.integer(1));
    } else if (key == "working_directory") {
      run.working_directory = rows.text(1);
    } else if (key == "started") {
      run.started = rows.text(1);
    } else if (key == "profile") {
      run.profile = rows.text(1);
    } else if (key == "values") {
      run.values = rows.text(1);
    } else if (key == "record") {
      run.record = rows.text(1);
    } else if (key == "drydock") {
      run.drydock_version = rows.text(1);
    }
  }
  Statement variables = database.prepare("SELECT name, value, chosen FROM environment");
  while (variables.step()) {
    run.environment[variables.text(0)] = variables.text(1);
    if (variables.integer(2) != 0) run.chosen.push_back(variables.text(0));
  }
}

void load_trend(const std::string& key, const Statement& rows, TrendRow& row) {
  const auto count = [&] { return static_cast<uint32_t>(rows.integer(1)); };
  Trend& trend = row.trend;
  if (key == "trend_growth") trend.growth = static_cast<Growth>(std::clamp<int64_t>(rows.integer(1), 0, 3));
  if (key == "trend_grown_bytes") trend.grown_bytes = rows.unsigned_integer(1);
  if (key == "trend_grown_steps") trend.grown_steps = count();
  if (key == "trend_bytes_per_step") trend.bytes_per_step = rows.unsigned_integer(1);
  if (key == "trend_full_at_step") trend.full_at_step = count();
  if (key == "trend_growing_line") row.growing_line = rows.text(1);
  if (key == "trend_tooth") trend.tooth = static_cast<ToothCause>(std::clamp<int64_t>(rows.integer(1), 0, 5));
  if (key == "trend_period_steps") trend.period_steps = count();
  if (key == "trend_tooth_bytes") trend.tooth_bytes = rows.unsigned_integer(1);
  if (key == "trend_tooth_line") row.tooth_line = rows.text(1);
}

void load_verdict(Database& database, Verdict& verdict) {
  Statement rows = database.prepare("SELECT key, value FROM verdict");
  while (rows.step()) {
    const std::string key = rows.text(0);
    load_trend(key, rows, verdict.trend);
    if (key == "kind") verdict.kind = verdict_kind_of(rows.text(1));
    if (key == "class") verdict.memory_class = memory_class_of(rows.text(1));
    if (key == "is_running") verdict.is_running = rows.integer(1) != 0;
    if (key == "device_unknown") verdict.device_unknown = rows.text(1);
    if (key == "unreadable_traces") verdict.unreadable_traces = rows.unsigned_integer(1);
    if (key == "truncated_traces") verdict.truncated_traces = rows.unsigned_integer(1);
    if (key == "process") verdict.process = static_cast<int>(rows.integer(1));
    if (key == "device") verdict.device = static_cast<int32_t>(rows.integer(1));
    if (key == "step") verdict.step = static_cast<uint32_t>(rows.integer(1));
    if (key == "line") verdict.line = rows.text(1);
    if (key == "exception_type") verdict.exception_type = rows.text(1);
    if (key == "exception_text") verdict.exception_text = rows.text(1);
    if (key == "requested_bytes") verdict.requested_bytes = rows.unsigned_integer(1);
    if (key == "allocated_bytes") verdict.allocated_bytes = rows.unsigned_integer(1);
    if (key == "reserved_bytes") verdict.reserved_bytes = rows.unsigned_integer(1);
    if (key == "free_bytes") verdict.free_bytes = rows.unsigned_integer(1);
    if (key == "capacity_bytes") verdict.capacity_bytes = rows.unsigned_integer(1);
    if (key == "workspace_bytes") verdict.workspace_bytes = rows.unsigned_integer(1);
  }
  Statement evidence = database.prepare("SELECT sentence FROM verdict_evidence ORDER BY position");
  while (evidence.step()) verdict.evidence.push_back(evidence.text(0));
  Statement holders = database.prepare("SELECT line, bytes, blocks, workspace FROM verdict_holders ORDER BY position");
  while (holders.step())
    verdict.holders.push_back(
        {holders.text(0), holders.unsigned_integer(1), holders.unsigned_integer(2), holders.integer(3) != 0});
  Statement advice = database.prepare("SELECT action, reason, env FROM verdict_advice ORDER BY position");
  while (advice.step()) {
    Advice row{advice.text(0), advice.text(1), {}};
    const auto environment = nlohmann::json::parse(advice.text(2), nullptr, false);
    if (environment.is_object()) row.environment = environment.get<std::map<std::string, std::string>>();
    verdict.advice.push_back(std::move(row));
  }
}

void load_account(Database& database, Report& report) {
  constexpr const char* kDevice =
      "(SELECT process, device FROM memory ORDER BY peak_allocated_bytes DESC, process, device LIMIT 1) m "
      "ON m.process = a.process AND m.device = a.device";
  for (const char* name : {"peak", "out of memory", "end"}) {
    AccountMoment moment{.name = name, .capacity_bytes = 0, .parts = {}, .holders = {}};
    Statement parts = database.prepare(
        fmt::format("SELECT part, is_blocks, bytes, requested_bytes, blocks FROM account a JOIN {} WHERE moment = ? "
                    "ORDER BY a.rowid",
                    kDevice));
    parts.bind(std::string_view(name));
    while (parts.step()) {
      if (parts.text(0) == "capacity")
        moment.capacity_bytes = parts.unsigned_integer(2);
      else
        moment.parts.push_back({parts.text(0), parts.integer(1) != 0, parts.unsigned_integer(2),
                                parts.unsigned_integer(3), parts.unsigned_integer(4)});
    }
    if (moment.parts.empty()) continue;
    Statement holders = database.prepare(
        fmt::format("SELECT kind, l.text, module, phase, sum(bytes), sum(blocks) FROM account_holders a "
                    "JOIN {} JOIN lines l ON l.id = a.line WHERE moment = ? "
                    "GROUP BY kind, l.text, module, phase ORDER BY sum(bytes) DESC, l.text, module LIMIT {}",
                    kDevice, kMostHolders));
    holders.bind(std::string_view(name));
    while (holders.step())
      moment.holders.push_back({holders.text(0), holders.text(1), holders.text(2), holders.text(3),
                                holders.unsigned_integer(4), holders.unsigned_integer(5)});
    report.account.push_back(std::move(moment));
  }
}

void load_memory(Database& database, Report& report) {
  Statement sums = database.prepare(
      "SELECT max(peak_allocated_bytes), max(peak_reserved_bytes), max(peak_workspace_bytes), max(peak_host_bytes), "
      "sum(blocks), sum(segments) FROM memory");
  if (sums.step()) {
    report.peak_allocated_bytes = sums.unsigned_integer(0);
    report.peak_reserved_bytes = sums.unsigned_integer(1);
    report.peak_workspace_bytes = sums.unsigned_integer(2);
    report.peak_host_bytes = sums.unsigned_integer(3);
    report.blocks = sums.unsigned_integer(4);
    report.segments = sums.unsigned_integer(5);
  }
  Statement holders = database.prepare(
      "SELECT l.text, sum(h.bytes_at_peak), sum(h.blocks_at_peak), h.workspace "
      "FROM holders h JOIN lines l ON l.id = h.line JOIN "
      "(SELECT process, device, CASE WHEN blocks > 0 THEN 'block' ELSE 'driver' END AS what FROM memory "
      " ORDER BY peak_allocated_bytes DESC, process, device LIMIT 1) m "
      "ON m.process = h.process AND m.device = h.device AND m.what = h.what "
      "GROUP BY l.text, h.workspace HAVING sum(h.bytes_at_peak) > 0 "
      "ORDER BY sum(h.bytes_at_peak) DESC, l.text LIMIT ?");
  holders.bind(kMostHolders);
  while (holders.step())
    report.peak_holders.push_back(
        {holders.text(0), holders.unsigned_integer(1), holders.unsigned_integer(2), holders.integer(3) != 0});
  load_account(database, report);
  report.survived_out_of_memories = static_cast<uint64_t>(database.integer("SELECT count(*) FROM out_of_memories"));
}

void load_operators(Database& database, Report& report) {
  Statement sums = database.prepare(
      "SELECT sum(calls), count(*), sum(distinct_calls), sum(computed), sum(ghost), sum(assumed) "
      "FROM operators");
  if (sums.step()) {
    report.operator_calls = sums.unsigned_integer(0);
    report.distinct_operators = sums.unsigned_integer(1);
    report.distinct_calls = sums.unsigned_integer(2);
    report.computed = sums.unsigned_integer(3);
    report.ghost = sums.unsigned_integer(4);
    report.assumed = sums.unsigned_integer(5);
  }
  // A refused call is never launched.
  report.refused_calls = static_cast<uint64_t>(database.integer("SELECT sum(calls) FROM refusals"));
  report.operator_calls += report.refused_calls;
  Statement fallbacks = database.prepare(
      "SELECT f.name, sum(f.calls), l.text FROM host_fallbacks f JOIN lines l ON l.id = f.line "
      "GROUP BY f.name, l.text ORDER BY sum(f.calls) DESC, f.name, l.text LIMIT ?");
  fallbacks.bind(kMostRows);
  while (fallbacks.step())
    report.host_fallbacks.push_back({fallbacks.text(0), fallbacks.unsigned_integer(1), fallbacks.text(2)});
  report.aicpu_calls = static_cast<uint64_t>(database.integer("SELECT sum(calls) FROM calls WHERE on_aicpu"));
  Statement on_aicpu = database.prepare(
      "SELECT o.name, sum(n.ghost + n.computed + n.assumed) AS launched, l.text FROM launches n "
      "JOIN calls c ON c.id = n.call JOIN operators o ON o.id = c.operator JOIN lines l ON l.id = n.line "
      "WHERE c.on_aicpu GROUP BY o.name, l.text ORDER BY launched DESC, o.name, l.text LIMIT ?");
  on_aicpu.bind(kMostRows);
  while (on_aicpu.step()) report.on_aicpu.push_back({on_aicpu.text(0), on_aicpu.unsigned_integer(1), on_aicpu.text(2)});
  Statement refusals = database.prepare(
      "SELECT r.name, r.reason, l.text, sum(r.calls) FROM refusals r JOIN lines l ON l.id = r.line "
      "GROUP BY r.name, r.reason, l.text ORDER BY sum(r.calls) DESC, r.name, l.text LIMIT ?");
  refusals.bind(kMostRows);
  while (refusals.step())
    report.refusals.push_back({refusals.text(0), refusals.text(1), refusals.text(2), refusals.unsigned_integer(3)});
  Statement assumptions = database.prepare(
      "SELECT l.text, a.kind, sum(a.count), sum(a.bytes) FROM assumptions a JOIN lines l ON l.id = a.line "
      "GROUP BY l.text, a.kind ORDER BY sum(a.count) DESC, l.text, a.kind LIMIT ?");
  assumptions.bind(kMostRows);
  while (assumptions.step())
    report.assumptions.push_back(
        {assumptions.text(0), assumptions.text(1), assumptions.unsigned_integer(2), assumptions.unsigned_integer(3)});
  Statement errors = database.prepare(
      "SELECT e.entry, e.code, e.message, l.text, sum(e.count) FROM errors e JOIN lines l ON l.id = e.line "
      "GROUP BY e.entry, e.code, e.message, l.text ORDER BY sum(e.count) DESC, e.entry, l.text LIMIT ?");
  errors.bind(kMostRows);
  while (errors.step())
    report.errors.push_back({errors.text(0), static_cast<int32_t>(errors.integer(1)), errors.text(2), errors.text(3),
                             errors.unsigned_integer(4)});
}

// SQLite notices a missing end only where it reads, so the file's size is held against its header (big endian: bytes
// of a page at 16, where 1 means 65536, and pages at 28).
bool is_cut(const std::filesystem::path& ledger) {
  std::array<unsigned char, 32> header{};
  std::ifstream file(ledger, std::ios::binary);
  if (!file.read(reinterpret_cast<char*>(header.data()), header.size())) return file.gcount() > 0;
  uint64_t page_bytes = uint64_t{header[16]} << 8 | header[17];
  if (page_bytes == 1) page_bytes = 65536;
  uint64_t pages = 0;
  for (size_t index = 28; index < 32; ++index) pages = pages << 8 | header[index];
  std::error_code error;
  return std::filesystem::file_size(ledger, error) < pages * page_bytes;
}

Status damaged(std::string_view what) {
  return Status::error(kUnreadable, fmt::format("The ledger is damaged: {}. Give the run folder with --rebuild, and it "
                                                "is made again from the traces.",
                                                what));
}

}  // namespace

bool Report::streams_were_checked() const {
  const auto check = run.environment.find("DRYDOCK_CHECK");
  return check != run.environment.end() && check->second == "streams";
}

Status load_report(const std::filesystem::path& ledger, Report& report) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(ledger, error))
    return Status::error(kUnreadable, fmt::format("There is no ledger {}.", ledger.string()));
  if (is_cut(ledger)) return damaged(fmt::format("the end of {} is missing", ledger.string()));
  try {
    Database database(ledger, Database::Mode::kRead);
    const int64_t application = database.integer("PRAGMA application_id");
    const int64_t version = database.integer("PRAGMA user_version");
    if (application != kApplicationId)
      return Status::error(kUnreadable, fmt::format("{} is not a ledger of Drydock, or was not written to its end. "
                                                    "Give the run folder, and it is made again from the traces.",
                                                    ledger.string()));
    if (version != kSchemaVersion)
      return Status::error(kUnreadable,
                           fmt::format("{} is a ledger of version {}; this drydock reads version {}. Give the run "
                                       "folder with --rebuild, and it is made again from the traces.",
                                       ledger.string(), version, kSchemaVersion));
    report.ledger = ledger;
    load_run(database, report.run);
    load_verdict(database, report.verdict);
    load_memory(database, report);
    load_workspaces(database, report.workspaces);
    load_races(database, report.races);
    load_operators(database, report);
    Statement sums =
        database.prepare("SELECT count(*), max(steps), sum(records), sum(bytes), sum(lost) FROM processes");
    if (sums.step()) {
      report.processes = sums.unsigned_integer(0);
      report.steps = sums.unsigned_integer(1);
      report.records = sums.unsigned_integer(2);
      report.bytes = sums.unsigned_integer(3);
      report.lost = sums.unsigned_integer(4);
    }
    Statement problems = database.prepare("SELECT sentence FROM problems");
    while (problems.step()) report.problems.push_back(problems.text(0));
  } catch (const DatabaseError& failure) {
    return damaged(failure.what());
  }
  return Status::ok();
}

}  // namespace drydock::ledger
