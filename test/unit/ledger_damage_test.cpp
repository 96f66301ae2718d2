#include <filesystem>
#include <fstream>
#include <string>

#include <gmock/gmock.h>

#include "ledger/database.h"
#include "ledger_synthetic_run.h"
#include "trace/format.h"

// Ledgers and traces that are missing, cut at any byte, from another version, or something else: a sentence.

namespace drydock::ledger {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;

namespace fs = std::filesystem;

std::string bytes_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

void write_file(const fs::path& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

void record_something() {
  segment(kBase, 2 * kMiB, line(10));
  for (uint64_t index = 0; index < 20; ++index) {
    block(kBase + index * 1024, 512, line(10 + index % 3));
    trace::copied(trace::CopyKind::kHostToDevice, 0, kBase, 4, true, 1, line(4));
  }
  trace::step_ended();
  trace::close();
}

std::string sentence_about(const fs::path& path) {
  Report report;
  const Status status = open_run(path, false, test_entry, report);
  EXPECT_FALSE(status.is_ok());
  return status.message();
}

TEST(DamagedLedger, MissingRunsAndFoldersWithoutARunAreRefused) {
  const trace::RunFolder folder;
  EXPECT_THAT(sentence_about(folder.path() + "/nothing"), HasSubstr("There is no run"));
  EXPECT_THAT(sentence_about(folder.path()), HasSubstr("is not a run that can be read"));
  write_file(folder.path() + "/run.json", "{\"command\": 5");
  EXPECT_THAT(sentence_about(folder.path()), HasSubstr("run.json is damaged"));
  write_file(folder.path() + "/run.json", "{\"command\": 5}");
  EXPECT_THAT(sentence_about(folder.path()), HasSubstr("run.json is damaged"));
}

TEST(DamagedLedger, CutAtAnyByteIsRefusedWithASentence) {
  SyntheticRun run;
  run.info().exit_code = 0;
  run.record(record_something);
  run.report();
  const fs::path ledger = fs::path(run.path()) / kLedgerFile;
  const std::string whole = bytes_of(ledger);
  const fs::path cut = fs::path(run.path()) / "cut.sqlite";
  // Every byte of SQLite's header, then steps that meet all positions within pages, and the last bytes.
  for (size_t size = 0; size < whole.size(); size += size < 110 || size + 10 > whole.size() ? 1 : 1361) {
    write_file(cut, std::string_view(whole).substr(0, size));
    EXPECT_THAT(sentence_about(cut), AnyOf(HasSubstr("is damaged"), HasSubstr("is not a ledger"))) << size;
  }
}

TEST(DamagedLedger, DamagedBytesNeverCrash) {
  SyntheticRun run;
  run.info().exit_code = 0;
  run.record(record_something);
  run.report();
  const std::string whole = bytes_of(fs::path(run.path()) / kLedgerFile);
  const fs::path damaged = fs::path(run.path()) / "damaged.sqlite";
  for (size_t position = 0; position < whole.size(); position += 211) {
    std::string bytes = whole;
    for (size_t index = position; index < std::min(position + 8, bytes.size()); ++index)
      bytes[index] = static_cast<char>(0xff);
    write_file(damaged, bytes);
    Report report;
    const Status status = open_run(damaged, false, test_entry, report);
    if (status.is_ok()) {
      EXPECT_FALSE(report_text(report).empty());
      EXPECT_FALSE(report_json(report).empty());
    } else {
      EXPECT_FALSE(status.message().empty());
    }
  }
}

TEST(DamagedLedger, AnotherVersionIsNamedWithBothNumbers) {
  SyntheticRun run;
  run.info().exit_code = 0;
  run.record(record_something);
  run.report();
  const fs::path ledger = fs::path(run.path()) / kLedgerFile;
  std::string bytes = bytes_of(ledger);
  bytes[63] = 99;  // user_version: big endian at 60
  write_file(ledger, bytes);
  EXPECT_THAT(sentence_about(ledger), HasSubstr("is a ledger of version 99; this drydock reads version 4"));
  EXPECT_THAT(sentence_about(run.path()), HasSubstr("version 99"));
  Report report;
  EXPECT_TRUE(open_run(run.path(), true, test_entry, report).is_ok()) << "made again from the traces";
}

TEST(DamagedLedger, OtherFilesAreNoLedgers) {
  const trace::RunFolder folder;
  const fs::path path = folder.path() + "/file.sqlite";
  write_file(path, "");
  EXPECT_THAT(sentence_about(path), HasSubstr("is not a ledger"));
  write_file(path, std::string(10'000, 'x'));
  EXPECT_THAT(sentence_about(path), HasSubstr("is damaged"));
}

TEST(DamagedTrace, CutAtAnyByteTheLedgerHoldsTheBeginning) {
  SyntheticRun run;
  run.info().exit_code = 0;
  run.record(record_something);
  const Report whole = run.report();
  EXPECT_TRUE(whole.problems.empty());
  EXPECT_EQ(whole.blocks, 20U);
  const std::string trace = run.trace();
  const std::string bytes = bytes_of(trace);
  uint64_t blocks_before = 0;
  for (size_t size = 0; size < bytes.size(); size += size < 4096 ? 97 : 13) {
    write_file(trace, std::string_view(bytes).substr(0, size));
    const Report report = run.report();
    EXPECT_LE(report.blocks, whole.blocks);
    EXPECT_GE(report.blocks, blocks_before) << "a longer beginning holds no less";
    blocks_before = report.blocks;
    if (size < sizeof(trace::FileHeader)) {
      EXPECT_EQ(report.processes, 0U);
    }
    EXPECT_EQ(report.problems.size(), 1U) << size;
  }
  EXPECT_GT(blocks_before, 15U);
}

TEST(DamagedTrace, OneBadTraceDoesNotHideTheOthers) {
  SyntheticRun run;
  run.info().exit_code = 0;
  run.record(record_something);
  write_file(run.path() + "/traces/9-9.ddtrace", "something else");
  write_file(run.path() + "/traces/notes.txt", "not a trace by name");
  const Report report = run.report();
  EXPECT_EQ(report.processes, 1U);
  EXPECT_EQ(report.blocks, 20U);
  ASSERT_EQ(report.problems.size(), 1U);
  EXPECT_THAT(report.problems[0], HasSubstr("is not a trace of Drydock"));
  EXPECT_THAT(report_text(report), HasSubstr("problem"));
}

TEST(DamagedTrace, TracesWithoutARunFileStillMakeALedger) {
  SyntheticRun run;
  run.record(record_something);
  Report report;
  ASSERT_TRUE(open_run(run.path(), false, test_entry, report).is_ok());
  EXPECT_EQ(report.blocks, 20U);
  EXPECT_EQ(report.verdict.kind, VerdictKind::kRan);
  EXPECT_FALSE(report.run.command.empty()) << "from the trace";
  ASSERT_EQ(report.problems.size(), 1U);
  EXPECT_THAT(report.problems[0], HasSubstr("run.json can't be read"));
}

TEST(DamagedTrace, WhatCannotBeReadIsNoUnusedDevice) {
  SyntheticRun run;
  run.info().exit_code = 0;
  run.record(record_something);
  const std::string trace = run.trace();
  const std::string whole = bytes_of(trace);
  std::string other_version = whole;
  other_version[8] = 0x77;
  for (const std::string& bytes : {other_version, std::string(), whole.substr(0, 100), std::string("something else")}) {
    write_file(trace, bytes);
    const Report report = run.report();
    EXPECT_EQ(report.verdict.unreadable_traces, 1U);
    ASSERT_EQ(report.verdict.evidence.size(), 1U);
    EXPECT_THAT(report.verdict.evidence[0], AllOf(HasSubstr("on the device is unknown"), HasSubstr(trace)));
    EXPECT_THAT(report_text(report), AllOf(HasSubstr("is unknown"), Not(HasSubstr("not used"))));
    EXPECT_THAT(report_json(report), HasSubstr("\"unreadable\": 1"));
  }
  write_file(trace, whole.substr(0, trace::kHeaderBytes));
  EXPECT_THAT(report_text(run.report()), AllOf(HasSubstr("is unknown"), Not(HasSubstr("not used"))));

  fs::remove_all(run.path() + "/traces");
  const Report missing = run.report();
  EXPECT_THAT(report_text(missing), AllOf(HasSubstr("is unknown"), Not(HasSubstr("not used"))));
  EXPECT_THAT(missing.problems.at(0), HasSubstr("/traces can't be read"));
  write_file(run.path() + "/traces", "a file");
  EXPECT_THAT(report_text(run.report()), Not(HasSubstr("not used")));

  fs::remove(run.path() + "/traces");
  fs::create_directory(run.path() + "/traces");
  const Report unused = run.report();
  EXPECT_THAT(report_text(unused), HasSubstr("not used"));
  EXPECT_TRUE(unused.problems.empty());
}

TEST(DamagedTrace, ACutWithinARecordIsCountedWhereNoRecordIsLost) {
  SyntheticRun run;
  run.info().exit_code = 0;
  run.record(record_something);
  EXPECT_EQ(run.report().verdict.truncated_traces, 0U);
  const std::string whole = bytes_of(run.trace());
  write_file(run.trace(), whole.substr(0, trace::kHeaderBytes + 332));
  const Report report = run.report();
  EXPECT_EQ(report.lost, 0U);
  EXPECT_EQ(report.verdict.truncated_traces, 1U);
  EXPECT_THAT(report_json(report), HasSubstr("\"truncated\": 1"));
}

TEST(DamagedTrace, NothingReadableIsAnError) {
  const trace::RunFolder folder;
  fs::create_directory(folder.path() + "/traces");
  write_file(folder.path() + "/traces/1-1.ddtrace", "something else");
  EXPECT_THAT(sentence_about(folder.path()), HasSubstr("is not a trace of Drydock"));
}

TEST(Ledger, AFailedWriteLeavesTheOldLedgerAndNoDraft) {
  SyntheticRun run;
  run.info().exit_code = 0;
  run.record(record_something);
  run.report();
  size_t files = 0;
  for (const auto& entry : fs::directory_iterator(run.path())) {
    ++files;
    EXPECT_THAT(entry.path().filename().string(), AnyOf("run.json", "ledger.sqlite", "traces"));
  }
  EXPECT_EQ(files, 3U);
}

TEST(Ledger, IsMadeButNotKeptWhereTheFolderCantBeWritten) {
  SyntheticRun run;
  run.info().exit_code = 0;
  run.record(record_something);
  run.write_info();
  // A folder in its place stops everybody, the administrator too.
  const fs::path ledger = fs::path(run.path()) / kLedgerFile;
  fs::create_directories(ledger / "in-the-way");
  Report report;
  const Status status = open_run(run.path(), true, test_entry, report);
  ASSERT_TRUE(status.is_ok()) << status.message();
  EXPECT_TRUE(report.ledger.empty()) << report.ledger;
  EXPECT_EQ(report.blocks, 20U);
  ASSERT_EQ(report.problems.size(), 1U);
  EXPECT_THAT(report.problems[0], HasSubstr("No ledger could be kept in " + run.path()));
  for (const auto& entry : fs::directory_iterator(fs::temp_directory_path()))
    EXPECT_FALSE(entry.path().filename().string().starts_with("drydock-ledger-")) << entry.path();
}

TEST(Ledger, HoldsTheTablesThatTheDocumentationNames) {
  SyntheticRun run;
  run.info().exit_code = 0;
  run.record(record_something);
  const Report report = run.report();
  Database database(report.ledger, Database::Mode::kRead);
  EXPECT_EQ(database.integer("SELECT count(*) FROM copies"), 1);
  EXPECT_EQ(database.integer("SELECT count FROM copies WHERE kind = 'host-to-device'"), 20);
  EXPECT_EQ(database.integer("SELECT bytes FROM copies"), 80);
  EXPECT_EQ(database.integer("SELECT sum(allocations) FROM holders WHERE what = 'block'"), 20);
  EXPECT_EQ(database.integer("SELECT bytes FROM segments"), static_cast<int64_t>(2 * kMiB));
  EXPECT_EQ(database.integer("SELECT peak_allocated_bytes FROM steps WHERE step = 1"), 20 * 512);
  EXPECT_EQ(database.integer("SELECT count(*) FROM lines WHERE text = 'train.py:10'"), 1);
}

}  // namespace
}  // namespace drydock::ledger
