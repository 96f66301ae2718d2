#include <array>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "ledger/report.h"
#include "ledger_synthetic_run.h"
#include "trace/call_encoding.h"
#include "trace/format.h"

// What a reader of a ledger is told, as text and as JSON.

namespace drydock::ledger {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr uint64_t kCapacity = 61 * kGiB;

TEST(Report, CountsOperatorsFallbacksRefusalsAndAssumptions) {
  SyntheticRun run;
  run.info().exit_code = 0;
  run.info().environment["TASK_QUEUE_ENABLE"] = "0";
  run.info().chosen = {"TASK_QUEUE_ENABLE"};
  run.record([] {
    std::array<std::byte, 64> first{};
    std::array<std::byte, 64> second{};
    const trace::CallId one = trace::intern_call(trace::encode_call(3, {}, first));
    const trace::CallId two = trace::intern_call(trace::encode_call(4, {}, second));
    for (int turn = 0; turn < 10; ++turn) trace::operator_launched(0, 1, one, line(5), trace::Outcome::kGhost);
    trace::operator_launched(0, 1, one, line(6), trace::Outcome::kComputed);
    trace::step_ended();
    trace::operator_launched(0, 1, two, line(5), trace::Outcome::kAssumed);
    trace::host_fallback("aten::foo", line(7));
    trace::host_fallback("aten::foo", line(7));
    trace::failed(7, 161002, "aclnnRefused: dtype fp64 is not one a 910C takes", line(8));
    trace::failed(8, 207000, "aclopCompileAndExecute(X): not supported by the virtual device: no kernel.", line(9));
    trace::failed(2, 107000, "entry2: null pointer", line(9));
    trace::assumed(trace::Assumption::kHostRead, 4, line(11));
    trace::assumed(trace::Assumption::kHostRead, 4, line(11));
    trace::assumed(trace::Assumption::kOutputShape, 8, line(12));
    trace::close();
  });
  const Report report = run.report();
  EXPECT_EQ(report.operator_calls, 14U);
  EXPECT_EQ(report.distinct_operators, 2U);
  EXPECT_EQ(report.distinct_calls, 2U);
  EXPECT_EQ(report.ghost, 10U);
  EXPECT_EQ(report.computed, 1U);
  EXPECT_EQ(report.assumed, 1U);
  ASSERT_EQ(report.host_fallbacks.size(), 1U);
  EXPECT_EQ(report.host_fallbacks[0].name, "aten::foo");
  EXPECT_EQ(report.host_fallbacks[0].calls, 2U);
  EXPECT_EQ(report.host_fallbacks[0].line, "train.py:7");
  ASSERT_EQ(report.refusals.size(), 2U);
  EXPECT_EQ(report.refusals[0].name, "aclnnRefused");
  EXPECT_EQ(report.refusals[0].reason, "aclnnRefused: dtype fp64 is not one a 910C takes");
  EXPECT_EQ(report.refusals[0].line, "train.py:8");
  EXPECT_EQ(report.refusals[1].name, "aclopCompileAndExecute");
  EXPECT_EQ(report.refused_calls, 2U);
  ASSERT_EQ(report.assumptions.size(), 2U);
  EXPECT_EQ(report.assumptions[0].line, "train.py:11");
  EXPECT_EQ(report.assumptions[0].kind, "host-read");
  EXPECT_EQ(report.assumptions[0].count, 2U);
  ASSERT_EQ(report.errors.size(), 3U);

  const auto json = nlohmann::json::parse(report_json(report));
  EXPECT_EQ(json["run"]["command"], nlohmann::json({"python", "train.py"}));
  EXPECT_EQ(json["run"]["exit_code"], 0);
  EXPECT_EQ(json["run"]["processes"], 1);
  EXPECT_EQ(json["verdict"]["kind"], "ran");
  EXPECT_TRUE(json["verdict"]["class"].is_null());
  EXPECT_TRUE(json["verdict"]["requested_bytes"].is_null());
  EXPECT_EQ(json["operators"]["calls"], 14);
  EXPECT_EQ(json["operators"]["distinct"], 2);
  EXPECT_EQ(json["operators"]["host_fallback"][0]["calls"], 2);
  EXPECT_EQ(json["operators"]["refused"].size(), 2U);
  EXPECT_EQ(json["assumptions"][1]["kind"], "output-shape");
  EXPECT_EQ(json["trace"]["lost"], 0);
  EXPECT_GT(json["trace"]["records"], 20);

  const std::string text = report_text(report);
  EXPECT_THAT(text, HasSubstr("ran to its end (exit code 0, 2.5 s; 1 step)"));
  EXPECT_THAT(text, HasSubstr("aten::foo has no NPU kernel: 2 calls on the CPU, at train.py:7"));
  EXPECT_THAT(text, HasSubstr("aclnnRefused (1 call, at train.py:8): dtype fp64"));
  EXPECT_THAT(text, HasSubstr("TASK_QUEUE_ENABLE=0"));
}

TEST(Report, SaysWhatAFullDiskCost) {
  SyntheticRun run;
  run.info().exit_code = 0;
  run.record([] {
    segment(kBase, kGiB, line(10));
    trace::close();
  });
  std::fstream file(run.trace(), std::ios::binary | std::ios::in | std::ios::out);
  const uint64_t lost = 1234;
  file.seekp(offsetof(trace::FileHeader, lost_records));
  file.write(reinterpret_cast<const char*>(&lost), sizeof(lost));
  file.close();
  const Report report = run.report();
  EXPECT_EQ(report.lost, 1234U);
  EXPECT_THAT(report_text(report), HasSubstr("1,234 records could not be written; all numbers are lower bounds"));
}

TEST(Report, LongNamesNeitherBreakThePageNorHideTheEnd) {
  SyntheticRun run;
  run.record([] {
    const std::string deep = "/srv/" + std::string(300, 'd') + "/project/train.py";
    const trace::LineId at = trace::intern_line(deep, 7, "step");
    segment(kBase, kGiB, at);
    trace::failed(7, 161002, std::string(400, 'x') + " and a word", at);
    trace::python_exception("ValueError", std::string(500, 'y'), deep, 7);
  });
  const std::string text = report_text(run.report());
  EXPECT_THAT(text, HasSubstr("at .../project/train.py:7"));
  std::istringstream lines(text);
  for (std::string row; std::getline(lines, row);)
    EXPECT_TRUE(row.size() <= 100 || row.find(' ', 12) == std::string::npos) << row;
}

TEST(Report, SaysThatNoDeviceWasUsed) {
  SyntheticRun run;
  run.info().exit_code = 0;
  std::filesystem::create_directory(run.path() + "/traces");
  const Report report = run.report();
  EXPECT_EQ(report.processes, 0U);
  EXPECT_THAT(report_text(report), HasSubstr("not used: no process of this run called it"));
  EXPECT_THAT(report_text(report), Not(HasSubstr("peaks")));
}

TEST(Report, TwoRunsOfTheSameProgramGiveTheSameNumbers) {
  std::string texts[2];
  for (std::string& text : texts) {
    SyntheticRun run;
    run.record([] {
      segment(kBase, 40 * kGiB, line(10));
      for (uint64_t index = 0; index < 50; ++index)
        block(kBase + index * kMiB, 512 * (index + 1), line(10 + index % 7));
      no_room(48 * kMiB, 30 * kMiB, kCapacity, line(13));
      raise_out_of_memory("48.00 MiB");
    });
    auto json = nlohmann::json::parse(report_json(run.report()));
    json.erase("ledger");
    text = json.dump();
  }
  EXPECT_EQ(texts[0], texts[1]);
}

}  // namespace
}  // namespace drydock::ledger
