#include <nlohmann/json.hpp>

#include "ledger/report.h"

namespace drydock::ledger {
namespace {

using Json = nlohmann::ordered_json;

Json or_null(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

Json holders_json(const std::vector<HolderLine>& holders) {
  Json list = Json::array();
  for (const HolderLine& holder : holders)
    list.push_back({{"line", holder.line},
                    {"bytes", holder.bytes},
                    {"blocks", holder.blocks},
                    {"workspace", holder.is_workspace}});
  return list;
}

Json run_json(const Report& report) {
  const RunInfo& run = report.run;
  Json json;
  json["command"] = run.command;
  json["exit_code"] = run.exit_code ? Json(*run.exit_code) : Json(nullptr);
  json["wall_s"] = run.wall_s;
  json["processes"] = report.processes;
  json["steps"] = report.steps;
  json["running"] = report.verdict.is_running;
  json["values"] = run.values;
  json["profile"] = run.profile;
  json["devices"] = run.devices;
  json["record"] = run.record;
  json["started"] = run.started;
  json["working_directory"] = run.working_directory;
  json["environment"] = run.environment;
  json["chosen"] = run.chosen;
  json["drydock"] = run.drydock_version;
  return json;
}

Json trend_json(const TrendRow& row) {
  const Trend& trend = row.trend;
  const auto or_none = [](uint64_t value) { return value == 0 ? Json(nullptr) : Json(value); };
  Json json;
  json["growth"] = or_null(std::string(name_of(trend.growth)));
  json["grown_bytes"] = trend.grown_bytes;
  json["grown_steps"] = trend.grown_steps;
  json["bytes_per_step"] = trend.bytes_per_step;
  json["full_at_step"] = or_none(trend.full_at_step);
  json["growing_line"] = or_null(row.growing_line);
  json["tooth"] = or_null(std::string(name_of(trend.tooth)));
  json["period_steps"] = or_none(trend.period_steps);
  json["tooth_bytes"] = trend.tooth_bytes;
  json["tooth_line"] = or_null(row.tooth_line);
  return json;
}

Json verdict_json(const Report& report) {
  const Verdict& verdict = report.verdict;
  const bool is_memory = verdict.kind == VerdictKind::kOutOfMemory;
  auto bytes = [is_memory](uint64_t size) { return is_memory ? Json(size) : Json(nullptr); };
  Json json;
  json["kind"] = name_of(verdict.kind);
  json["class"] = or_null(std::string(name_of(verdict.memory_class)));
  json["device"] = verdict.device >= 0 ? Json(verdict.device) : Json(nullptr);
  json["step"] = verdict.step > 0 ? Json(verdict.step) : Json(nullptr);
  json["line"] = or_null(verdict.line);
  json["requested_bytes"] = bytes(verdict.requested_bytes);
  json["allocated_bytes"] = bytes(verdict.allocated_bytes);
  json["reserved_bytes"] = bytes(verdict.reserved_bytes);
  json["free_bytes"] = bytes(verdict.free_bytes);
  json["capacity_bytes"] = bytes(verdict.capacity_bytes);
  json["workspace_bytes"] = bytes(verdict.workspace_bytes);
  json["exception"] = verdict.exception_type.empty()
                          ? Json(nullptr)
                          : Json{{"type", verdict.exception_type}, {"text", verdict.exception_text}};
  json["trend"] = trend_json(verdict.trend);
  json["evidence"] = verdict.evidence;
  json["holders"] = holders_json(verdict.holders);
  json["advice"] = Json::array();
  for (const Advice& advice : verdict.advice)
    json["advice"].push_back({{"action", advice.action}, {"reason", advice.reason}, {"env", Json(advice.environment)}});
  return json;
}

Json moment_json(const AccountMoment& moment) {
  Json json;
  json["moment"] = moment.name;
  json["capacity_bytes"] = moment.capacity_bytes != 0 ? Json(moment.capacity_bytes) : Json(nullptr);
  json["blocks"] = Json::array();
  json["rest"] = Json::object();
  for (const AccountPart& part : moment.parts) {
    if (part.is_blocks)
      json["blocks"].push_back({{"kind", part.name},
                                {"bytes", part.bytes},
                                {"requested_bytes", part.requested_bytes},
                                {"blocks", part.blocks}});
    else
      json["rest"][part.name] = part.bytes;
  }
  json["holders"] = Json::array();
  for (const AccountHolder& row : moment.holders)
    json["holders"].push_back({{"kind", row.kind},
                               {"line", row.line},
                               {"module", or_null(row.module)},
                               {"phase", row.phase},
                               {"bytes", row.bytes},
                               {"blocks", row.blocks}});
  return json;
}

Json workspaces_json(const WorkspaceSummary& summary) {
  Json json;
  json["mode"] = summary.mode;
  json["largest"] = Json::array();
  for (const WorkspaceRow& row : summary.largest)
    json["largest"].push_back({{"operator", row.operator_name},
                               {"call", row.signature},
                               {"line", row.line},
                               {"basis", row.basis},
                               {"device", row.device},
                               {"stream", row.stream},
                               {"bytes", row.bytes},
                               {"uses", row.uses}});
  const WithoutWorkspaces& without = summary.without;
  json["without"] = without.is_known ? Json{{"peak_allocated_bytes", without.peak_allocated_bytes},
                                            {"peak_reserved_bytes", without.peak_reserved_bytes},
                                            {"fits", without.fits}}
                                     : Json(nullptr);
  json["without_unknown"] = or_null(without.reason);
  return json;
}

Json races_json(const Report& report) {
  if (!report.streams_were_checked()) return nullptr;
  Json json = Json::array();
  const auto side = [](const RaceSide& each) {
    return Json{{"line", each.line},
                {"what", each.what},
                {"tensor", or_null(each.tensor)},
                {"call", or_null(each.call)},
                {"stream", each.stream == 0 ? Json(nullptr) : Json(each.stream)},
                {"writes", each.writes}};
  };
  for (const Race& race : report.races)
    json.push_back({{"kind", race.is_reuse ? "reuse" : "order"},
                    {"memory", race.is_host ? "host" : "device"},
                    {"device", race.device},
                    {"offset", race.offset},
                    {"bytes", race.size_bytes},
                    {"first", side(race.first)},
                    {"second", side(race.second)},
                    {"freed_line", race.is_reuse ? Json(race.freed_line) : Json(nullptr)},
                    {"says", sentence_of(race)},
                    {"cure", cure_of(race)}});
  return json;
}

Json operators_json(const Report& report) {
  Json json;
  json["calls"] = report.operator_calls;
  json["distinct"] = report.distinct_calls;
  json["distinct_names"] = report.distinct_operators;
  json["computed"] = report.computed;
  json["ghost"] = report.ghost;
  json["assumed"] = report.assumed;
  json["refused_calls"] = report.refused_calls;
  json["host_fallback"] = Json::array();
  for (const FallbackRow& row : report.host_fallbacks)
    json["host_fallback"].push_back({{"name", row.name}, {"calls", row.calls}, {"line", row.line}});
  json["aicpu_calls"] = report.aicpu_calls;
  json["on_aicpu"] = Json::array();
  for (const FallbackRow& row : report.on_aicpu)
    json["on_aicpu"].push_back({{"name", row.name}, {"calls", row.calls}, {"line", row.line}});
  json["refused"] = Json::array();
  for (const RefusalRow& row : report.refusals)
    json["refused"].push_back({{"name", row.name}, {"reason", row.reason}, {"line", row.line}, {"calls", row.calls}});
  return json;
}

}  // namespace

std::string report_json(const Report& report) {
  Json json;
  json["run"] = run_json(report);
  json["verdict"] = verdict_json(report);
  json["memory"] = {{"peak_allocated_bytes", report.peak_allocated_bytes},
                    {"peak_reserved_bytes", report.peak_reserved_bytes},
                    {"peak_workspace_bytes", report.peak_workspace_bytes},
                    {"peak_pinned_host_bytes", report.peak_host_bytes},
                    {"blocks", report.blocks},
                    {"segments", report.segments},
                    {"out_of_memory_answers", report.survived_out_of_memories},
                    {"peak_holders", holders_json(report.peak_holders)}};
  json["account"] = Json::array();
  for (const AccountMoment& moment : report.account) json["account"].push_back(moment_json(moment));
  json["workspaces"] = workspaces_json(report.workspaces);
  json["races"] = races_json(report);
  json["operators"] = operators_json(report);
  json["assumptions"] = Json::array();
  for (const AssumptionRow& row : report.assumptions)
    json["assumptions"].push_back({{"line", row.line}, {"kind", row.kind}, {"count", row.count}, {"bytes", row.bytes}});
  json["errors"] = Json::array();
  for (const ErrorRow& row : report.errors)
    json["errors"].push_back(
        {{"entry", row.entry}, {"code", row.code}, {"message", row.message}, {"line", row.line}, {"count", row.count}});
  json["trace"] = {{"records", report.records},
                   {"bytes", report.bytes},
                   {"lost", report.lost},
                   {"truncated", report.verdict.truncated_traces},
                   {"unreadable", report.verdict.unreadable_traces}};
  json["problems"] = report.problems;
  json["ledger"] = or_null(report.ledger.string());
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace drydock::ledger
