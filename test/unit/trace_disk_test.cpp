#include <csignal>
#include <fstream>

#include <gmock/gmock.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "trace_child_process.h"

// A disk that is full, limited or read-only: the program goes on, and the trace says what is missing.

namespace drydock::trace {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kRecords = 400'000;  // 6.4 MB

void record_many() {
  for (uint64_t number = 1; number <= kRecords; ++number)
    operator_launched(0, 0, static_cast<CallId>(number), 0, Outcome::kGhost);
}

void expect_beginning_with_losses(const std::string& path, uint64_t most_bytes) {
  const ReadTrace read = read_all(path);
  EXPECT_FALSE(read.reader->is_truncated()) << read.reader->truncation();
  const TraceInfo& info = read.reader->info();
  EXPECT_GT(info.lost_records, 0U);
  EXPECT_EQ(info.lost_bytes, info.lost_records * 16);
  EXPECT_EQ(info.records + info.lost_records, kRecords);
  EXPECT_EQ(read.records.size(), info.records);
  EXPECT_LE(read.reader->bytes(), most_bytes);
  EXPECT_GE(read.reader->bytes(), most_bytes / 2) << "the room there was is not used";
  for (size_t index = 0; index < read.records.size(); ++index) ASSERT_EQ(read.records[index].call, index + 1);
}

TEST(TraceDisk, LimitOnFileSizesLosesTheEndAndSaysSo) {
  constexpr uint64_t kLimit = 3'000'000;
  const RunFolder run;
  ASSERT_EQ(run_child(run.path(),
                      [] {
                        const rlimit limit{kLimit, kLimit};
                        ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
                        signal(SIGXFSZ, SIG_DFL);  // would end the process
                        record_many();
                        EXPECT_TRUE(enabled());
                        EXPECT_GT(counters().lost_records, 0U);
                        close();
                      }),
            0);
  expect_beginning_with_losses(run.trace(), kLimit);
}

TEST(TraceDisk, FullDiskLosesTheEndAndSaysSo) {
  constexpr uint64_t kDiskBytes = 2 << 20;
  const RunFolder run;
  if (mount("tmpfs", run.path().c_str(), "tmpfs", 0, "size=2m") != 0)
    GTEST_SKIP() << "needs root to mount a small disk";
  const int code = run_child(run.path(), record_many);
  EXPECT_EQ(code, 0);
  if (code == 0) expect_beginning_with_losses(run.trace(), kDiskBytes);
  umount(run.path().c_str());
}

TEST(TraceDisk, DiskWithoutRoomForAnythingIsOneLineOfComplaint) {
  const RunFolder run;
  if (mount("tmpfs", run.path().c_str(), "tmpfs", 0, "size=64k") != 0)
    GTEST_SKIP() << "needs root to mount a small disk";
  {
    std::ofstream filler(run.path() + "/filler");
    filler << std::string(200'000, 'x');
  }
  const std::string complaints = run.path() + "-complaints";
  EXPECT_EQ(run_child(run.path(),
                      [&] {
                        ASSERT_NE(freopen(complaints.c_str(), "w", stderr), nullptr);
                        record_many();
                        EXPECT_FALSE(enabled());
                        EXPECT_EQ(counters().records, 0U);
                        EXPECT_NE(intern_line("/a.py", 1, "f"), 0U) << "messages still name lines";
                      }),
            0);
  EXPECT_TRUE(run.traces().empty());
  umount(run.path().c_str());
  std::ifstream file(complaints);
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  EXPECT_THAT(text, HasSubstr("No space left on device"));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1);
  std::filesystem::remove(complaints);
}

// A file in the folder's place refuses root, too.
TEST(TraceDisk, FolderThatCanNotBeWrittenIsOneLineOfComplaint) {
  const RunFolder run;
  std::ofstream(run.path() + "/traces") << "not a folder";
  const std::string complaints = run.path() + "/complaints";
  ASSERT_EQ(run_child(run.path(),
                      [&] {
                        ASSERT_NE(freopen(complaints.c_str(), "w", stderr), nullptr);
                        record_many();
                        EXPECT_FALSE(enabled());
                        close();
                      }),
            0);
  std::ifstream file(complaints);
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  EXPECT_THAT(text, HasSubstr("nothing of process"));
  EXPECT_THAT(text, HasSubstr("DRYDOCK_RUN_DIR"));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1);
}

TEST(TraceDisk, RunFolderThatIsGoneEndsTheTraceOnly) {
  const RunFolder run;
  ASSERT_EQ(run_child(run.path(),
                      [&] {
                        step_ended();
                        std::filesystem::remove_all(run.path());
                        record_many();
                        EXPECT_GT(counters().lost_records, 0U);
                        close();
                      }),
            0);
}

}  // namespace
}  // namespace drydock::trace
