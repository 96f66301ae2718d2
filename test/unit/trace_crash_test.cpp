#include <array>
#include <atomic>
#include <csignal>
#include <random>
#include <thread>

#include <sys/mman.h>

#include "trace_child_process.h"

// kill -9 at any time: the file opens, and lacks at most the record that each thread was just writing.

namespace drydock::trace {
namespace {

constexpr size_t kThreads = 3;
constexpr int kKills = 200;

struct Progress {
  std::array<std::atomic<uint32_t>, kThreads> begun;
  std::array<std::atomic<uint32_t>, kThreads> done;
};

Progress& shared_progress() {
  void* memory = mmap(nullptr, sizeof(Progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  return *new (memory) Progress;
}

[[noreturn]] void record_for_ever(Progress& progress) {
  const auto record = [&progress](uint32_t thread) {
    for (uint32_t number = 1;; ++number) {
      progress.begun[thread].store(number);
      // The stream says which thread it was, the call which of its records; definitions come in between.
      if (number % 64 == 0) intern_line("/a.py", number, "thread " + std::to_string(thread));
      operator_launched(0, thread, number, 0, Outcome::kGhost);
      progress.done[thread].store(number);
    }
  };
  std::vector<std::thread> threads;
  for (uint32_t thread = 1; thread < kThreads; ++thread) threads.emplace_back(record, thread);
  record(0);
  abort();
}

TEST(TraceCrash, KilledAtAnyTimeLosesAtMostWhatWasBeingWritten) {
  std::mt19937 random(20'260'101);
  uint64_t records = 0;
  for (int turn = 0; turn < kKills; ++turn) {
    const RunFolder run;
    Progress& progress = shared_progress();
    const pid_t child = start_child(run.path(), [&progress] { record_for_ever(progress); });
    // Some die while they start, some after the file has grown.
    usleep(static_cast<useconds_t>(random() % (turn % 10 == 0 ? 100'000 : 8'000)));
    kill(child, SIGKILL);
    ASSERT_EQ(wait_for(child), 128 + SIGKILL);

    std::array<uint32_t, kThreads> found{};
    const std::vector<std::string> traces = run.traces();
    std::unique_ptr<Reader> reader;
    if (!traces.empty() && Reader::open(traces.front(), reader).is_ok()) {
      Record record;
      while (reader->next(record)) {
        if (record.kind != Kind::kOperator) continue;
        ASSERT_LT(record.stream, kThreads);
        ++found[record.stream];
        ASSERT_EQ(record.call, found[record.stream]) << "a record in the middle is missing";
        ++records;
      }
      ASSERT_FALSE(reader->is_truncated()) << reader->truncation();
    }
    for (size_t thread = 0; thread < kThreads; ++thread) {
      ASSERT_GE(found[thread], progress.done[thread].load()) << "turn " << turn;
      ASSERT_LE(found[thread], progress.begun[thread].load()) << "turn " << turn;
    }
    munmap(&progress, sizeof(Progress));
  }
  EXPECT_GT(records, 100'000U) << "the children hardly recorded, so the test showed nothing";
}

}  // namespace
}  // namespace drydock::trace
