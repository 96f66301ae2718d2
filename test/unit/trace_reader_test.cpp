#include <cstring>
#include <fstream>
#include <random>

#include <gmock/gmock.h>
#include <sys/mman.h>

#include "trace_child_process.h"

// Files that are no traces, of another version, cut at any byte, or damaged: a sentence or a true beginning, never a
// crash.

namespace drydock::trace {
namespace {

using ::testing::HasSubstr;

std::string bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

void write_file(const std::string& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

// A file in memory: thousands of versions of a file on a disk would take their time.
class MemoryFile {
 public:
  MemoryFile() : descriptor_(memfd_create("trace", MFD_CLOEXEC)) {}
  ~MemoryFile() { ::close(descriptor_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  std::string path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }
  void write(std::string_view bytes) const {
    ASSERT_EQ(ftruncate(descriptor_, 0), 0);
    ASSERT_EQ(pwrite(descriptor_, bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
  }

 private:
  int descriptor_;
};

std::string make_trace(const RunFolder& run) {
  const int code = run_child(run.path(), [] {
    const uint64_t base = open_arena();
    for (uint32_t turn = 0; turn < 5; ++turn) {
      const LineId line = intern_line("/home/user/train.py", turn, "step");
      operator_launched(0, 1, turn, line, Outcome::kComputed);
      block_allocated(0, base + turn * 512, 512, false, line);
      block_requested(0, base + turn * 512, 500);
      copied(CopyKind::kHostToDevice, 0, base, 4, true, 1, line);
      failed(1, 100000, "wrong " + std::to_string(turn), line);
      block_freed(0, base + turn * 512);
    }
    step_ended();
    close();
  });
  EXPECT_EQ(code, 0);
  return run.trace();
}

std::string error_of(const std::string& path) {
  std::unique_ptr<Reader> reader;
  const Status status = Reader::open(path, reader);
  EXPECT_FALSE(status.is_ok());
  EXPECT_EQ(reader, nullptr);
  return status.message();
}

TEST(TraceReader, OtherFilesAreRefusedWithASentence) {
  const RunFolder run;
  const std::string path = run.path() + "/file";
  EXPECT_THAT(error_of(path), HasSubstr("can't be opened: No such file or directory"));
  EXPECT_THAT(error_of(run.path()), HasSubstr("is not a file"));
  write_file(path, "");
  EXPECT_THAT(error_of(path), HasSubstr("is empty"));
  write_file(path, std::string(8192, '\0'));
  EXPECT_THAT(error_of(path), HasSubstr("is empty"));
  write_file(path, "SQLite format 3");
  EXPECT_THAT(error_of(path), HasSubstr("is not a trace of Drydock"));
}

TEST(TraceReader, AnotherVersionIsRefusedWithBothNumbers) {
  const RunFolder run;
  std::string bytes = bytes_of(make_trace(run));
  const uint32_t version = 77;
  std::memcpy(bytes.data() + offsetof(FileHeader, version), &version, sizeof(version));
  const std::string path = run.path() + "/other";
  write_file(path, bytes);
  EXPECT_THAT(error_of(path), HasSubstr("format version 77, and this Drydock reads versions 1 to 2"));
}

TEST(TraceReader, CutAtAnyByteGivesTheBeginning) {
  const RunFolder run;
  const std::string original = make_trace(run);
  const std::string bytes = bytes_of(original);
  const std::string whole = text_of_trace(original);
  const MemoryFile file;
  size_t last_lines = 0;
  for (size_t length = 0; length < bytes.size(); ++length) {
    // The header page is all alike after its fields.
    if (length > sizeof(FileHeader) && length < kHeaderBytes && length % 64 != 0) continue;
    file.write(std::string_view(bytes).substr(0, length));
    std::string text;
    const Status status = print_trace(file.path(), {.times = false}, text);
    if (length < sizeof(FileHeader)) {
      EXPECT_FALSE(status.is_ok()) << length;
      continue;
    }
    ASSERT_TRUE(status.is_ok()) << length << ": " << status.message();
    const size_t sentence = text.find("The trace ");
    ASSERT_NE(sentence, std::string::npos) << length;
    const std::string records = text.substr(0, sentence);
    EXPECT_EQ(records, whole.substr(0, records.size())) << length;
    const auto lines = static_cast<size_t>(std::count(records.begin(), records.end(), '\n'));
    EXPECT_GE(lines, last_lines);
    last_lines = lines;
  }
  EXPECT_EQ(last_lines + 1, static_cast<size_t>(std::count(whole.begin(), whole.end(), '\n')));
}

TEST(TraceReader, DamageEndsTheTraceOrChangesIt) {
  const RunFolder run;
  const std::string original = make_trace(run);
  const std::string bytes = bytes_of(original);
  const MemoryFile file;
  std::mt19937 random(1);
  for (int turn = 0; turn < 3000; ++turn) {
    std::string damaged = bytes;
    for (int hits = 0; hits <= turn % 3; ++hits)
      damaged[kHeaderBytes + random() % (bytes.size() - kHeaderBytes)] = static_cast<char>(random());
    file.write(damaged);
    std::string text;
    EXPECT_TRUE(print_trace(file.path(), {.times = true, .definitions = true}, text).is_ok());
  }
}

TEST(TraceReader, UnknownKindIsNamed) {
  const RunFolder run;
  std::string bytes = bytes_of(make_trace(run));
  bytes[kHeaderBytes] = static_cast<char>(200);
  const std::string path = run.path() + "/damaged";
  write_file(path, bytes);
  const ReadTrace read = read_all(path);
  EXPECT_TRUE(read.records.empty());
  EXPECT_THAT(read.reader->truncation(), HasSubstr("damaged at byte 4096: there is no kind of record 200"));
}

TEST(TraceReader, PythonStatesHaveSentences) {
  TraceInfo info;
  info.python_version = "3.99.1";
  info.python_state = PythonState::kReading;
  EXPECT_EQ(describe_python_state(info), "");
  info.python_state = PythonState::kUnknownVersion;
  EXPECT_THAT(describe_python_state(info), HasSubstr("no layout of Python 3.99.1"));
  info.python_state = PythonState::kLayoutMismatch;
  EXPECT_THAT(describe_python_state(info), HasSubstr("another way"));
}

}  // namespace
}  // namespace drydock::trace
