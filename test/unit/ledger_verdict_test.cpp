#include <sstream>

#include <gmock/gmock.h>

#include "ledger_synthetic_run.h"

// From a trace to the verdict: each class with exact numbers.

namespace drydock::ledger {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kCapacity = 61 * kGiB;

TEST(Verdict, FragmentationOfADefaultAllocator) {
  SyntheticRun run;
  run.record([] {
    trace::overhead_charged(0, "idle", 400 * kMiB);
    for (int step = 0; step < 14; ++step) trace::step_ended();
    segment(kBase, 40 * kGiB, line(10));
    block(kBase, 30 * kGiB, line(10));
    block(kBase + 30 * kGiB, 4 * kGiB, line(11));
    block(kBase + 34 * kGiB, 6 * kGiB, line(11));
    trace::block_freed(0, kBase + 30 * kGiB);
    segment(kBase + 64 * kGiB, 20 * kGiB, line(12));
    block(kBase + 64 * kGiB, 18 * kGiB, line(12));
    no_room(48 * kMiB, 30 * kMiB, kCapacity, line(13));
    no_room(48 * kMiB, 30 * kMiB, kCapacity, line(13));  // after the caches were emptied
    raise_out_of_memory("48.00 MiB");
    trace::close();
  });
  const Report report = run.report();
  const Verdict& verdict = report.verdict;
  EXPECT_EQ(verdict.kind, VerdictKind::kOutOfMemory);
  EXPECT_EQ(verdict.memory_class, MemoryClass::kFragmentation);
  EXPECT_EQ(verdict.device, 0);
  EXPECT_EQ(verdict.step, 15U);
  EXPECT_EQ(verdict.line, "train.py:13");
  EXPECT_EQ(verdict.requested_bytes, 48 * kMiB);
  EXPECT_EQ(verdict.allocated_bytes, 54 * kGiB);
  EXPECT_EQ(verdict.reserved_bytes, 60 * kGiB);
  EXPECT_EQ(verdict.free_bytes, 30 * kMiB);
  EXPECT_EQ(verdict.capacity_bytes, kCapacity);
  ASSERT_EQ(verdict.holders.size(), 3U);
  EXPECT_EQ(verdict.holders[0].line, "train.py:10");
  EXPECT_EQ(verdict.holders[0].bytes, 30 * kGiB);
  EXPECT_EQ(verdict.holders[0].blocks, 1U);
  EXPECT_EQ(verdict.holders[1].line, "train.py:12");
  EXPECT_EQ(verdict.holders[2].bytes, 6 * kGiB);
  EXPECT_EQ(verdict.advice.at(0).environment.at("PYTORCH_NPU_ALLOC_CONF"), "expandable_segments:True");
  EXPECT_EQ(report.peak_allocated_bytes, 54 * kGiB);
  EXPECT_EQ(report.peak_reserved_bytes, 60 * kGiB);
  EXPECT_EQ(report.blocks, 4U);
  EXPECT_EQ(report.segments, 2U);
  EXPECT_EQ(report.steps, 14U);

  const std::string text = report_text(report);
  EXPECT_THAT(text, HasSubstr("OUT OF MEMORY (fragmentation) in step 15 on npu:0, at train.py:13"));
  EXPECT_THAT(text, HasSubstr("48.00 MiB; allocated 54.00 GiB, reserved 60.00 GiB, free 30.00 MiB of 61.00 GiB"));
  EXPECT_THAT(text, HasSubstr("PYTORCH_NPU_ALLOC_CONF=expandable_segments:True"));
  std::istringstream lines(text);
  size_t count = 0;
  for (std::string row; std::getline(lines, row); ++count) EXPECT_LE(row.size(), 100U) << row;
  EXPECT_LE(count, 18U) << text;
}

TEST(Verdict, CapacityWhereLiveTensorsFillTheDevice) {
  SyntheticRun run;
  run.record([] {
    segment(kBase, 60 * kGiB, line(10));
    block(kBase, 60 * kGiB, line(10));
    no_room(2 * kGiB, kGiB, kCapacity, line(20));
    raise_out_of_memory("2.00 GiB");
  });
  const Verdict verdict = run.report().verdict;
  EXPECT_EQ(verdict.memory_class, MemoryClass::kCapacity);
  EXPECT_EQ(verdict.step, 1U);
  EXPECT_EQ(verdict.requested_bytes, 2 * kGiB);
}

TEST(Verdict, OversizeOfOneRequest) {
  SyntheticRun run;
  run.record([] {
    segment(kBase, 2 * kGiB, line(10));
    block(kBase, kGiB, line(10));
    no_room(80 * kGiB, 59 * kGiB, kCapacity, line(20));
    raise_out_of_memory("80.00 GiB");
  });
  EXPECT_EQ(run.report().verdict.memory_class, MemoryClass::kOversize);
}

TEST(Verdict, ExternalUseByHccl) {
  SyntheticRun run;
  run.record([] {
    trace::overhead_charged(0, "hccl", 800 * kMiB);
    segment(kBase, 60 * kGiB, line(10));
    block(kBase, 60 * kGiB, line(10));
    no_room(512 * kMiB, 224 * kMiB, kCapacity, line(20));
    raise_out_of_memory("512.00 MiB");
  });
  const Verdict verdict = run.report().verdict;
  EXPECT_EQ(verdict.memory_class, MemoryClass::kExternal);
  EXPECT_THAT(verdict.evidence.at(0), HasSubstr("800.00 MiB that HCCL"));
}

TEST(Verdict, WorkspaceThatDidNotFit) {
  SyntheticRun run;
  run.record([] {
    segment(kBase, 50 * kGiB, line(10));
    block(kBase, 50 * kGiB, line(10));
    segment(kBase + 64 * kGiB, kGiB, line(11));
    trace::block_allocated(0, kBase + 64 * kGiB, kGiB, true, line(11));
    no_room(20 * kGiB, 10 * kGiB, kCapacity, line(20));
    trace::python_exception("RuntimeError",
                            "NPU out of memory. NPUWorkspaceAllocator tried to allocate 20.00 GiB (...)",
                            "/home/user/train.py", 21);
  });
  const Report report = run.report();
  EXPECT_EQ(report.verdict.memory_class, MemoryClass::kWorkspace);
  EXPECT_EQ(report.verdict.workspace_bytes, kGiB);
  EXPECT_EQ(report.verdict.reserved_bytes, 50 * kGiB);
  EXPECT_EQ(report.peak_workspace_bytes, kGiB);
}

TEST(Verdict, GrowthNamesTheLineThatGrows) {
  SyntheticRun run;
  run.record([] {
    segment(kBase, 60 * kGiB, line(10));
    block(kBase, 20 * kGiB, line(10));
    for (uint64_t step = 0; step < 10; ++step) {
      block(kBase + (20 + 4 * step) * kGiB, 4 * kGiB, line(30));
      trace::step_ended();
    }
    no_room(2 * kGiB, kGiB, kCapacity, line(31));
    raise_out_of_memory("2.00 GiB");
  });
  const Verdict verdict = run.report().verdict;
  EXPECT_EQ(verdict.memory_class, MemoryClass::kGrowth);
  EXPECT_EQ(verdict.step, 11U);
  EXPECT_THAT(verdict.advice.at(0).action, HasSubstr("train.py:30"));
  EXPECT_THAT(verdict.advice.at(0).reason, HasSubstr("32.00 GiB were added over 8 steps, about 4.00 GiB a step"));
}

TEST(Verdict, TheMessageKnowsTheTensorWhereTheDriverIsAskedForPages) {
  SyntheticRun run;
  run.record([] {
    trace::driver_allocated(trace::DriverMemory::kReservation, 0, kBase, 0, 68 * kGiB, line(1));
    trace::driver_allocated(trace::DriverMemory::kPhysical, 0, 0, 1, 40 * kGiB, line(1));
    trace::driver_allocated(trace::DriverMemory::kMapping, 0, kBase, 1, 40 * kGiB, line(1));
    block(kBase, 38 * kGiB, line(10));
    trace::driver_allocated(trace::DriverMemory::kPhysical, 0, 0, 2, 19 * kGiB, line(20));
    trace::driver_out_of_memory(trace::DriverMemory::kPhysical, 0, 20 * kMiB, kGiB, kCapacity, line(20));
    raise_out_of_memory("30.50 GiB");
  });
  const Verdict verdict = run.report().verdict;
  EXPECT_EQ(verdict.requested_bytes, 30 * kGiB + 512 * kMiB);
  EXPECT_EQ(verdict.reserved_bytes, 40 * kGiB);
  EXPECT_EQ(verdict.free_bytes, 20 * kGiB);
  EXPECT_EQ(verdict.memory_class, MemoryClass::kCapacity);
  for (const Advice& advice : verdict.advice) EXPECT_TRUE(advice.environment.empty()) << "segments can grow already";
}

TEST(Verdict, ALimitOfTheProgramsOwnIsReadFromItsMessage) {
  SyntheticRun run;
  run.record([] {
    segment(kBase, 10 * kGiB, line(10));
    block(kBase, 9 * kGiB, line(10));
    trace::python_exception("torch.OutOfMemoryError",
                            "NPU out of memory. Tried to allocate 4.00 GiB (NPU 0; 61.00 GiB total capacity; 9.00 GiB "
                            "already allocated; 9.00 GiB current active; 50.00 GiB free; 12.00 GiB allowed; 10.00 GiB "
                            "reserved in total by PyTorch)",
                            "/home/user/train.py", 12);
  });
  const Report report = run.report();
  const Verdict& verdict = report.verdict;
  EXPECT_EQ(verdict.kind, VerdictKind::kOutOfMemory);
  EXPECT_EQ(verdict.line, "train.py:12");
  EXPECT_EQ(verdict.requested_bytes, 4 * kGiB);
  EXPECT_EQ(verdict.allocated_bytes, 9 * kGiB);
  EXPECT_EQ(verdict.reserved_bytes, 10 * kGiB);
  EXPECT_EQ(verdict.free_bytes, 50 * kGiB);
  EXPECT_EQ(verdict.capacity_bytes, 61 * kGiB);
  EXPECT_EQ(verdict.memory_class, MemoryClass::kCapacity);
  EXPECT_THAT(verdict.evidence.at(0), HasSubstr("fill the 12.00 GiB that the program allows itself"));
  EXPECT_THAT(verdict.advice.at(0).action, HasSubstr("set_per_process_memory_fraction"));
  EXPECT_THAT(report_text(report), HasSubstr("The device itself refused nothing"));
}

TEST(Verdict, ANativeProgramThatDiesAfterARefusalIsOutOfMemory) {
  SyntheticRun run;
  run.info().exit_code = 134;
  run.record([] {
    segment(kBase, 60 * kGiB, line(10));
    no_room(2 * kGiB, kGiB, kCapacity, line(20));
  });
  const Verdict verdict = run.report().verdict;
  EXPECT_EQ(verdict.kind, VerdictKind::kOutOfMemory);
  EXPECT_EQ(verdict.memory_class, MemoryClass::kCapacity);
  EXPECT_EQ(verdict.allocated_bytes, 60 * kGiB);
  ASSERT_EQ(verdict.holders.size(), 1U);
  EXPECT_EQ(verdict.holders[0].line, "train.py:10");
}

TEST(Verdict, ARefusalThatTheProgramCopedWithIsNoVerdict) {
  SyntheticRun run;
  run.info().exit_code = 0;
  run.record([] {
    segment(kBase, 60 * kGiB, line(10));
    block(kBase, 60 * kGiB, line(10));
    no_room(2 * kGiB, kGiB, kCapacity, line(20));
    trace::close();
  });
  const Report report = run.report();
  EXPECT_EQ(report.verdict.kind, VerdictKind::kRan);
  EXPECT_EQ(report.survived_out_of_memories, 1U);
  EXPECT_THAT(report_text(report), HasSubstr("the device was full 1 time; the program coped"));
}

TEST(Verdict, AnotherExceptionAfterASurvivedRefusalIsAFailure) {
  SyntheticRun run;
  run.record([] {
    segment(kBase, 60 * kGiB, line(10));
    block(kBase, 60 * kGiB, line(10));
    no_room(2 * kGiB, kGiB, kCapacity, line(20));
    trace::step_ended();
    trace::python_exception("ValueError", "bad batch\nmore", "/home/user/data.py", 5);
  });
  const Report report = run.report();
  EXPECT_EQ(report.verdict.kind, VerdictKind::kFailed);
  EXPECT_EQ(report.verdict.memory_class, MemoryClass::kNone);
  EXPECT_EQ(report.verdict.line, "data.py:5");
  EXPECT_EQ(report.verdict.step, 2U);
  EXPECT_EQ(report.verdict.exception_text, "bad batch");
  EXPECT_THAT(report_text(report), HasSubstr("FAILED with ValueError at data.py:5 (exit code 1, 2.5 s; 1 step)"));
}

TEST(Verdict, TheHostsOwnMemoryIsNotTheDevices) {
  SyntheticRun run;
  run.record([] {
    trace::python_exception("RuntimeError",
                            "Malloc pin memory failed, host out of memory, Rried to allocate size: 4096",
                            "/home/user/train.py", 5);
  });
  EXPECT_EQ(run.report().verdict.kind, VerdictKind::kFailed);
}

TEST(Verdict, OfSeveralProcessesTheOneThatRanOutOfMemoryDecides) {
  SyntheticRun run;
  run.record([] {
    segment(kBase, kGiB, line(10));
    trace::python_exception("RuntimeError", "peer is gone", "/home/user/train.py", 5);
  });
  run.record([] {
    trace::driver_allocated(trace::DriverMemory::kMalloc, 1, kBase, 0, 60 * kGiB, line(10));
    trace::driver_out_of_memory(trace::DriverMemory::kMalloc, 1, 2 * kGiB, kGiB, kCapacity, line(20));
    raise_out_of_memory("2.00 GiB");
  });
  const Report report = run.report();
  EXPECT_EQ(report.processes, 2U);
  EXPECT_EQ(report.verdict.kind, VerdictKind::kOutOfMemory);
  EXPECT_EQ(report.verdict.device, 1);
  EXPECT_EQ(report.peak_reserved_bytes, 60 * kGiB);
  EXPECT_EQ(report.segments, 2U);
}

TEST(Verdict, WithoutAnExitCodeTheTracesDecide) {
  SyntheticRun run;
  run.info().exit_code.reset();
  run.record([] {
    segment(kBase, kGiB, line(10));
    trace::close();
  });
  EXPECT_EQ(run.report().verdict.kind, VerdictKind::kRan);
  run.record([] { segment(kBase, kGiB, line(10)); });  // never closed
  const Report report = run.report();
  EXPECT_EQ(report.verdict.kind, VerdictKind::kFailed);
  EXPECT_THAT(report.verdict.evidence.at(0), HasSubstr("it was killed, or left by _exit()"));
}

TEST(Verdict, AProcessThatStillRunsIsNoFailure) {
  SyntheticRun run;
  run.info().exit_code.reset();
  int ready[2];
  int go_on[2];
  ASSERT_EQ(pipe(ready), 0);
  ASSERT_EQ(pipe(go_on), 0);
  const pid_t child = trace::start_child(run.path(), [&] {
    segment(kBase, kGiB, line(10));
    char byte = 0;
    EXPECT_EQ(write(ready[1], &byte, 1), 1);
    EXPECT_EQ(read(go_on[0], &byte, 1), 1);
  });
  char byte = 0;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  const Report report = run.report();
  EXPECT_EQ(report.verdict.kind, VerdictKind::kRan);
  EXPECT_TRUE(report.verdict.is_running);
  EXPECT_EQ(report.peak_reserved_bytes, kGiB);
  EXPECT_THAT(report_text(report), HasSubstr("runs so far"));
  ASSERT_EQ(write(go_on[1], &byte, 1), 1);
  EXPECT_EQ(trace::wait_for(child), 0);
}

TEST(Verdict, AKilledCommandSaysSo) {
  SyntheticRun run;
  run.info().exit_code = 137;
  run.record([] { segment(kBase, kGiB, line(10)); });
  EXPECT_THAT(run.report().verdict.evidence.at(0), HasSubstr("SIGKILL"));
}

}  // namespace
}  // namespace drydock::ledger
