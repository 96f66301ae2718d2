#include <filesystem>
#include <unistd.h>

#include <gmock/gmock.h>
#include <sys/wait.h>

#include "ledger_synthetic_run.h"

// Runs that failed: whether they came to their end at all, and which error of the device is told.

namespace drydock::ledger {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// The number of a process that has ended and was waited for.
int64_t gone_process() {
  const pid_t pid = fork();
  if (pid == 0) _exit(0);
  trace::wait_for(pid);
  return pid;
}

TEST(Failure, ARunWhoseLauncherWasKilledDidNotComeToItsEnd) {
  SyntheticRun run;
  run.info().exit_code.reset();
  run.info().launcher_pid = gone_process();
  std::filesystem::create_directory(run.path() + "/traces");
  const Report report = run.report();
  EXPECT_EQ(report.verdict.kind, VerdictKind::kFailed);
  EXPECT_THAT(report_text(report), AllOf(HasSubstr("FAILED (exit code unknown"), HasSubstr("Ended unseen")));

  run.record([] { segment(kBase, kGiB, line(10)); });
  EXPECT_EQ(run.report().verdict.kind, VerdictKind::kFailed) << "the trace was not closed";
  std::filesystem::resize_file(run.path() + "/run.json", 10);
  Report damaged;
  ASSERT_TRUE(open_run(run.path(), true, test_entry, damaged).is_ok());
  EXPECT_EQ(damaged.verdict.kind, VerdictKind::kFailed);
  EXPECT_THAT(report_text(damaged), HasSubstr("Ended unseen"));
}

TEST(Failure, ARunThatNobodyWaitsForEndsWithItsTrace) {
  SyntheticRun run;
  run.info().exit_code.reset();
  run.record([] {
    segment(kBase, kGiB, line(10));
    trace::close();
  });
  const Report report = run.report();
  EXPECT_EQ(report.verdict.kind, VerdictKind::kRan);
  EXPECT_THAT(report_text(report), HasSubstr("ran to its end (exit code unknown"));
}

TEST(Failure, ALedgerOfARunThatGoesOnIsMadeAgain) {
  SyntheticRun run;
  run.info().exit_code.reset();
  run.info().launcher_pid = getpid();
  std::filesystem::create_directory(run.path() + "/traces");
  EXPECT_TRUE(run.report().verdict.is_running);
  run.info().launcher_pid = gone_process();
  run.write_info();
  Report report;
  ASSERT_TRUE(open_run(run.path(), false, test_entry, report).is_ok());
  EXPECT_FALSE(report.verdict.is_running);
  EXPECT_EQ(report.verdict.kind, VerdictKind::kFailed);
}

TEST(Failure, AProcessThatEndedAndWasNotWaitedForIsNotAlive) {
  const pid_t pid = fork();
  if (pid == 0) _exit(0);
  siginfo_t info;
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOWAIT), 0);
  EXPECT_FALSE(is_alive(pid));
  EXPECT_TRUE(is_alive(getpid()));
  EXPECT_FALSE(is_alive(0));
  trace::wait_for(pid);
}

TEST(Failure, AFailureNamesTheErrorThatCausedItAndItsLine) {
  SyntheticRun run;
  run.record([] {
    const trace::LineId library = trace::intern_line("/usr/lib/site-packages/torch_npu/npu/utils.py", 9, "synchronize");
    trace::failed(3, 107000, "entry3: tried, and coped with", line(2));
    trace::failed(4, 207001, "no room, and coped with", line(2));
    trace::failed(7, 507035, "aclnnRefused: index 11 is out of range", line(3));
    trace::failed(5, 507035, "the stream has failed", library);
    trace::python_exception("RuntimeError", "synchronize failed, error code is 507035",
                            "/usr/lib/site-packages/torch_npu/npu/utils.py", 9);
    trace::failed(6, 507035, "after the end", line(4));
  });
  const Report report = run.report();
  EXPECT_EQ(report.verdict.kind, VerdictKind::kFailed);
  EXPECT_EQ(report.verdict.line, "train.py:3");
  ASSERT_FALSE(report.verdict.evidence.empty());
  EXPECT_EQ(report.verdict.evidence[0],
            "The device's first error in the program's code: aclnnRefused answered 507035 at train.py:3: "
            "index 11 is out of range");
  EXPECT_THAT(report_text(report), HasSubstr("why       The device's first error in the program's code"));
}

TEST(Failure, TheErrorOfAChildIsToldWhereTheParentRaises) {
  SyntheticRun run;
  run.record([] { trace::python_exception("RuntimeError", "a worker failed", "/home/user/train.py", 30); });
  run.record([] { trace::failed(7, 507035, "index 11 is out of range", line(3)); });
  const Verdict verdict = run.report().verdict;
  EXPECT_EQ(verdict.line, "train.py:30");
  EXPECT_THAT(verdict.evidence.at(0), HasSubstr("aclnnRefused answered 507035 at train.py:3"));
}

TEST(Failure, AnExceptionOfTheProgramsOwnKeepsItsLine) {
  SyntheticRun run;
  run.record([] {
    trace::failed(3, 107000, "tried, and coped with", line(2));
    trace::python_exception("ValueError", "bad batch", "/home/user/train.py", 5);
  });
  const Report report = run.report();
  EXPECT_EQ(report.verdict.line, "train.py:5");
  EXPECT_THAT(report.verdict.evidence.at(0), HasSubstr("entry3 answered 107000 at train.py:2"));
}

}  // namespace
}  // namespace drydock::ledger
