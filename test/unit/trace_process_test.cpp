#include <atomic>
#include <fcntl.h>
#include <thread>

#include <gmock/gmock.h>

#include "trace_child_process.h"

// Threads, forks, the environment and the end of the process.

namespace drydock::trace {
namespace {

std::vector<Record> operators_of(const std::string& path) {
  std::vector<Record> found;
  for (const Record& record : read_all(path).records)
    if (record.kind == Kind::kOperator) found.push_back(record);
  return found;
}

TEST(TraceProcess, ThreadsKeepTheirOrder) {
  constexpr uint32_t kThreads = 4, kRecords = 5'000;
  const RunFolder run;
  ASSERT_EQ(run_child(run.path(),
                      [] {
                        const auto record = [](uint32_t thread) {
                          for (uint32_t number = 1; number <= kRecords; ++number) {
                            const LineId line = intern_line("/a.py", number % 100, "f");
                            const std::array<uint32_t, 4> call = {9999, 0, number % 50, 0};
                            EXPECT_NE(intern_call(std::as_bytes(std::span(call))), 0U);
                            EXPECT_NE(describe_line(line), "unknown line");
                            operator_launched(0, thread, number, line, Outcome::kGhost);
                            EXPECT_TRUE(enabled());
                          }
                        };
                        std::vector<std::thread> threads;
                        for (uint32_t thread = 0; thread < kThreads; ++thread) threads.emplace_back(record, thread);
                        for (std::thread& thread : threads) thread.join();
                      }),
            0);
  const std::vector<Record> records = operators_of(run.trace());
  ASSERT_EQ(records.size(), kThreads * kRecords);
  std::array<uint32_t, kThreads> last{};
  std::array<int64_t, kThreads> number{-1, -1, -1, -1};
  for (const Record& record : records) {
    ASSERT_EQ(record.call, ++last[record.stream]);
    if (number[record.stream] < 0) number[record.stream] = record.thread;
    ASSERT_EQ(record.thread, number[record.stream]) << "a thread changed its number";
  }
  EXPECT_EQ(read_all(run.trace()).reader->lines(), 100U);
  EXPECT_EQ(read_all(run.trace()).reader->calls(), 50U);
}

TEST(TraceProcess, ForkedChildWritesItsOwnFile) {
  const RunFolder run;
  ASSERT_EQ(run_child(run.path(),
                      [] {
                        const LineId line = intern_line("/a.py", 5, "before_fork");
                        operator_launched(0, 1, 0, line, Outcome::kGhost);
                        const pid_t child = fork();
                        if (child == 0) {
                          operator_launched(0, 2, 0, line, Outcome::kGhost);
                          operator_launched(0, 2, 0, intern_line("/a.py", 6, "after_fork"), Outcome::kGhost);
                          _exit(0);
                        }
                        EXPECT_EQ(wait_for(child), 0);
                        operator_launched(0, 3, 0, line, Outcome::kGhost);
                      }),
            0);
  const std::vector<std::string> traces = run.traces();
  ASSERT_EQ(traces.size(), 2U);
  const ReadTrace first = read_all(traces[0]), second = read_all(traces[1]);
  const bool is_first_child = first.reader->info().parent_pid == second.reader->info().pid;
  const std::string child = text_of_trace(is_first_child ? traces[0] : traces[1]);
  const std::string parent = text_of_trace(is_first_child ? traces[1] : traces[0]);
  EXPECT_EQ(parent,
            "thread 0 operator npu:0 stream 1 ghost unknown call 0 at /a.py:5 (before_fork)\n"
            "thread 0 operator npu:0 stream 3 ghost unknown call 0 at /a.py:5 (before_fork)\n");
  EXPECT_EQ(child,
            "thread 0 operator npu:0 stream 2 ghost unknown call 0 at /a.py:5 (before_fork)\n"
            "thread 0 operator npu:0 stream 2 ghost unknown call 0 at /a.py:6 (after_fork)\n");
}

TEST(TraceProcess, ForkedChildThatRecordsNothingMakesNoFile) {
  const RunFolder run;
  ASSERT_EQ(run_child(run.path(),
                      [] {
                        step_ended();
                        const pid_t child = fork();
                        if (child == 0) _exit(0);
                        EXPECT_EQ(wait_for(child), 0);
                      }),
            0);
  EXPECT_EQ(run.traces().size(), 1U);
}

TEST(TraceProcess, ForkWhileThreadsRecord) {
  const RunFolder run;
  constexpr int kForks = 20;
  ASSERT_EQ(run_child(run.path(),
                      [] {
                        std::atomic<bool> stop{false};
                        std::vector<std::thread> threads;
                        for (uint32_t thread = 0; thread < 2; ++thread)
                          threads.emplace_back([&stop, thread] {
                            for (uint32_t number = 0; !stop; ++number)
                              operator_launched(0, thread, number, intern_line("/a.py", number % 500, ""),
                                                Outcome::kGhost);
                          });
                        for (int turn = 0; turn < kForks; ++turn) {
                          const pid_t child = fork();
                          if (child == 0) {
                            step_ended();
                            _exit(0);
                          }
                          EXPECT_EQ(wait_for(child), 0);
                        }
                        stop = true;
                        for (std::thread& thread : threads) thread.join();
                      }),
            0);
  const std::vector<std::string> traces = run.traces();
  EXPECT_EQ(traces.size(), kForks + 1U);
  for (const std::string& path : traces) {
    const ReadTrace read = read_all(path);
    EXPECT_FALSE(read.reader->is_truncated()) << read.reader->truncation();
    EXPECT_FALSE(read.records.empty());
  }
}

TEST(TraceProcess, CloseTrimsAndLaterRecordsAreStillAppended) {
  const RunFolder run;
  ASSERT_EQ(run_child(run.path(),
                      [&run] {
                        step_ended();
                        close();
                        const std::string path = run.trace();
                        EXPECT_EQ(std::filesystem::file_size(path), kHeaderBytes + 8);
                        EXPECT_TRUE(read_all(path).reader->info().closed);
                        step_ended();
                        EXPECT_FALSE(read_all(path).reader->info().closed);
                        EXPECT_EQ(counters().records, 2U);
                        close();
                        close();
                        EXPECT_EQ(std::filesystem::file_size(path), kHeaderBytes + 16);
                      }),
            0);
  EXPECT_EQ(text_of_trace(run.trace()), "thread 0 step\nthread 0 step\n");
}

TEST(TraceProcess, ExitClosesTheFileWhileThreadsRecord) {
  const RunFolder run;
  ASSERT_EQ(run_child(run.path(),
                      [] {
                        std::atomic<int> records{0};
                        for (uint32_t thread = 0; thread < 2; ++thread)
                          std::thread([&records] {
                            for (;; ++records) step_ended();
                          }).detach();
                        while (records < 1000) usleep(100);
                        exit(0);
                      }),
            0);
  const ReadTrace read = read_all(run.trace());
  EXPECT_FALSE(read.reader->is_truncated()) << read.reader->truncation();
  EXPECT_GE(read.records.size(), 1000U);
}

TEST(TraceProcess, NullAndNoFolderRecordNothing) {
  const RunFolder run;
  ASSERT_EQ(run_child(run.path(),
                      [] {
                        setenv("DRYDOCK_RECORD", "null", 1);
                        EXPECT_FALSE(enabled());
                        EXPECT_EQ(current_line(), 0U);
                        const std::array<uint32_t, 2> call{};
                        EXPECT_EQ(intern_call(std::as_bytes(std::span(call))), 0U);
                        step_ended();
                        close();
                      }),
            0);
  EXPECT_TRUE(run.traces().empty());
  ASSERT_EQ(run_child(run.path(),
                      [] {
                        unsetenv("DRYDOCK_RUN_DIR");
                        EXPECT_FALSE(enabled());
                        step_ended();
                        EXPECT_EQ(describe_line(intern_line("/a.py", 1, "f")), "/a.py:1 (f)");
                      }),
            0);
  EXPECT_TRUE(run.traces().empty());
}

TEST(TraceProcess, DescriptorsThatTheProgramClosesAreNotOurs) {
  const RunFolder run;
  const std::string victim = run.path() + "/victim";
  ASSERT_EQ(run_child(run.path(),
                      [&victim] {
                        step_ended();
                        for (int descriptor = 3; descriptor < 256; ++descriptor) ::close(descriptor);
                        for (int file = 0; file < 16; ++file)
                          open((victim + std::to_string(file)).c_str(), O_RDWR | O_CREAT, 0644);
                        for (int number = 0; number < 200'000; ++number) step_ended();
                        EXPECT_EQ(counters().records, 200'001U);
                        close();
                      }),
            0);
  for (int file = 0; file < 16; ++file) EXPECT_EQ(std::filesystem::file_size(victim + std::to_string(file)), 0U);
  EXPECT_EQ(read_all(run.trace()).records.size(), 200'001U);
}

TEST(TraceProcess, RelativeRunFolderOutlivesAChangeOfFolder) {
  const RunFolder run;
  ASSERT_EQ(run_child(run.path(),
                      [&run] {
                        ASSERT_EQ(chdir(run.path().c_str()), 0);
                        setenv("DRYDOCK_RUN_DIR", ".", 1);
                        step_ended();
                        ASSERT_EQ(chdir("/"), 0);
                        for (int number = 0; number < 200'000; ++number) step_ended();
                        EXPECT_EQ(counters().lost_records, 0U);
                      }),
            0);
  EXPECT_EQ(read_all(run.trace()).records.size(), 200'001U);
}

}  // namespace
}  // namespace drydock::trace
