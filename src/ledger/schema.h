#pragma once

#include <cstdint>

namespace drydock::ledger {

/// PRAGMA application_id of a ledger: "DDRD".
inline constexpr int64_t kApplicationId = 0x44445244;
/// PRAGMA user_version: one more with every change of the tables.
inline constexpr int64_t kSchemaVersion = 4;

/// Makes all tables. Columns named `line` refer to lines.id, `process` to processes.id, `call` to calls.id. Sizes are
/// in bytes. Integers over 2^63 - 1 (handles) are stored as SQLite's signed integers. See docs/ledger.md.
inline constexpr const char* kSchema = R"sql(
CREATE TABLE run(key TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE environment(name TEXT PRIMARY KEY, value TEXT, chosen INTEGER) WITHOUT ROWID;
CREATE TABLE processes(id INTEGER PRIMARY KEY, pid INTEGER, trace_file TEXT, records INTEGER, bytes INTEGER,
  lost INTEGER, closed INTEGER, steps INTEGER);
CREATE TABLE problems(process INTEGER, sentence TEXT);
CREATE TABLE lines(id INTEGER PRIMARY KEY, file TEXT, line INTEGER, function TEXT, text TEXT);

CREATE TABLE operators(id INTEGER PRIMARY KEY, name TEXT UNIQUE, calls INTEGER, distinct_calls INTEGER,
  ghost INTEGER, computed INTEGER, assumed INTEGER, refused INTEGER);
CREATE TABLE calls(id INTEGER PRIMARY KEY, operator INTEGER, signature TEXT, calls INTEGER,
  ghost INTEGER, computed INTEGER, assumed INTEGER, refused INTEGER, on_aicpu INTEGER);
CREATE TABLE launches(process INTEGER, step INTEGER, call INTEGER, line INTEGER, device INTEGER,
  ghost INTEGER, computed INTEGER, assumed INTEGER, refused INTEGER);
CREATE TABLE refusals(name TEXT, reason TEXT, line INTEGER, calls INTEGER);
CREATE TABLE host_fallbacks(process INTEGER, name TEXT, line INTEGER, calls INTEGER);

CREATE TABLE memory(process INTEGER, device INTEGER, peak_allocated_bytes INTEGER, peak_reserved_bytes INTEGER,
  peak_workspace_bytes INTEGER, peak_host_bytes INTEGER, allocated_bytes INTEGER, reserved_bytes INTEGER,
  blocks INTEGER, segments INTEGER, segments_not_listed INTEGER, distinct_block_sizes INTEGER,
  requested_blocks INTEGER, padding_bytes INTEGER, unknown_frees INTEGER, expandable_segments INTEGER);
CREATE TABLE holders(process INTEGER, device INTEGER, what TEXT, line INTEGER, workspace INTEGER,
  allocations INTEGER, allocated_bytes INTEGER, peak_bytes INTEGER, bytes_at_peak INTEGER, blocks_at_peak INTEGER,
  bytes_at_end INTEGER, blocks_at_end INTEGER);
CREATE TABLE account(process INTEGER, device INTEGER, moment TEXT, part TEXT, is_blocks INTEGER, bytes INTEGER,
  requested_bytes INTEGER, blocks INTEGER);
CREATE TABLE account_holders(process INTEGER, device INTEGER, moment TEXT, kind TEXT, phase TEXT, line INTEGER,
  module TEXT, name TEXT, first_step INTEGER, last_step INTEGER, bytes INTEGER, requested_bytes INTEGER,
  blocks INTEGER);
CREATE TABLE segments(process INTEGER, device INTEGER, kind TEXT, address INTEGER, handle INTEGER, bytes INTEGER,
  line INTEGER, allocated_record INTEGER, freed_record INTEGER);
CREATE TABLE workspaces(process INTEGER, device INTEGER, stream INTEGER, call INTEGER, line INTEGER, basis TEXT,
  uses INTEGER, bytes INTEGER);
CREATE TABLE without_workspaces(process INTEGER, device INTEGER, reason TEXT, peak_allocated_bytes INTEGER,
  peak_reserved_bytes INTEGER, fits INTEGER);
CREATE TABLE overheads(process INTEGER, device INTEGER, what TEXT, bytes INTEGER);
CREATE TABLE out_of_memories(process INTEGER, device INTEGER, record INTEGER, step INTEGER, line INTEGER, kind TEXT,
  requested_bytes INTEGER, allocated_bytes INTEGER, reserved_bytes INTEGER, workspace_bytes INTEGER,
  free_bytes INTEGER, capacity_bytes INTEGER);
CREATE TABLE steps(process INTEGER, step INTEGER, record INTEGER, time_ns INTEGER, operators INTEGER,
  allocated_bytes INTEGER, reserved_bytes INTEGER, peak_allocated_bytes INTEGER);
CREATE TABLE copies(process INTEGER, device INTEGER, kind TEXT, async INTEGER, line INTEGER, count INTEGER,
  bytes INTEGER);
CREATE TABLE assumptions(process INTEGER, kind TEXT, line INTEGER, count INTEGER, bytes INTEGER);
CREATE TABLE errors(process INTEGER, entry TEXT, code INTEGER, message TEXT, line INTEGER, count INTEGER);
CREATE TABLE races(process INTEGER, device INTEGER, kind TEXT, is_host INTEGER, freed_line INTEGER, offset INTEGER,
  bytes INTEGER, first_line INTEGER, first_what TEXT, first_tensor TEXT, first_call TEXT, first_stream INTEGER,
  first_writes INTEGER, second_line INTEGER, second_what TEXT, second_tensor TEXT, second_call TEXT,
  second_stream INTEGER, second_writes INTEGER);
CREATE TABLE entries(process INTEGER, entry TEXT, calls INTEGER);
CREATE TABLE exceptions(process INTEGER, record INTEGER, step INTEGER, type TEXT, text TEXT, file TEXT, line INTEGER);

CREATE TABLE verdict(key TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE verdict_evidence(position INTEGER PRIMARY KEY, sentence TEXT);
CREATE TABLE verdict_holders(position INTEGER PRIMARY KEY, line TEXT, bytes INTEGER, blocks INTEGER,
  workspace INTEGER);
CREATE TABLE verdict_advice(position INTEGER PRIMARY KEY, action TEXT, reason TEXT, env TEXT);
)sql";

}  // namespace drydock::ledger
