#include <cstdarg>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

#include <gtest/gtest.h>

#include "abi/generated/entries.h"
#include "device/log.h"

namespace drydock::entries {
namespace {

void client_log(int32_t level, const char* function, const char* file, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  aclAppLog(level, function, file, 42, format, arguments);
  va_end(arguments);
}

class LogEntries : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / ("drydock-log-" + std::to_string(getpid()));
    std::filesystem::remove_all(folder_);
    setenv("ASCEND_PROCESS_LOG_PATH", folder_.c_str(), 1);
    unsetenv("ASCEND_SLOG_PRINT_TO_STDOUT");
    unsetenv("ASCEND_GLOBAL_LOG_LEVEL");
    device::reload_log_settings();
  }
  void TearDown() override {
    unsetenv("ASCEND_PROCESS_LOG_PATH");
    unsetenv("ASCEND_GLOBAL_LOG_LEVEL");
    unsetenv("ASCEND_SLOG_PRINT_TO_STDOUT");
    device::reload_log_settings();
    std::filesystem::remove_all(folder_);
  }

  static void set_level(const char* level) {
    setenv("ASCEND_GLOBAL_LOG_LEVEL", level, 1);
    device::reload_log_settings();
  }
  std::string logged() const {
    std::ifstream file(folder_ / "debug" / "plog" / ("plog-" + std::to_string(getpid()) + ".log"));
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  }

  std::filesystem::path folder_;
};

TEST_F(LogEntries, OnlyErrorsByDefault) {
  client_log(2, "f", "file.cpp", "a warning");
  EXPECT_EQ(logged(), "");
  client_log(3, "train", "step.cpp", "loss is %.1f after %s", 0.5, "ten steps");
  EXPECT_NE(logged().find("[ERROR]"), std::string::npos);
  EXPECT_NE(logged().find("[step.cpp:42] train: loss is 0.5 after ten steps\n"), std::string::npos) << logged();
}

TEST_F(LogEntries, TheLevelIsTheVendorsVariable) {
  set_level("0");
  client_log(0, "f", "x", "debug line");
  EXPECT_NE(logged().find("debug line"), std::string::npos);
  set_level("4");
  client_log(3, "f", "x", "silent");
  EXPECT_EQ(logged().find("silent"), std::string::npos);
  set_level("nonsense");
  EXPECT_EQ(device::log_threshold(), device::LogLevel::kError);
  client_log(7, "f", "x", "no such level");
  client_log(-1, "f", "x", "no such level");
  EXPECT_EQ(logged().find("no such level"), std::string::npos);
}

TEST_F(LogEntries, StandardOutputWhereTheVendorsVariableSaysSo) {
  setenv("ASCEND_SLOG_PRINT_TO_STDOUT", "1", 1);
  device::reload_log_settings();
  testing::internal::CaptureStdout();
  client_log(3, "f", "x", "to stdout");
  EXPECT_NE(testing::internal::GetCapturedStdout().find("to stdout"), std::string::npos);
}

TEST_F(LogEntries, StandardErrorWhereNoFileCanBeOpened) {
  setenv("ASCEND_PROCESS_LOG_PATH", "/proc/no-such-folder", 1);
  device::reload_log_settings();
  testing::internal::CaptureStderr();
  client_log(3, "f", "x", "to stderr");
  EXPECT_NE(testing::internal::GetCapturedStderr().find("to stderr"), std::string::npos);
}

TEST_F(LogEntries, NullArgumentsAndLongLines) {
  client_log(3, nullptr, nullptr, nullptr);
  EXPECT_EQ(logged(), "");
  client_log(3, nullptr, nullptr, "no names");
  EXPECT_NE(logged().find("[?:42] ?: no names"), std::string::npos);
  const std::string long_text(10'000, 'y');
  client_log(3, "f", "x", "%s", long_text.c_str());
  const std::string text = logged();
  EXPECT_EQ(text.back(), '\n');
  EXPECT_LT(text.size(), 3000U);
}

TEST_F(LogEntries, LinesOfManyThreadsDoNotMix) {
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([] {
      for (int count = 0; count < 50; ++count)
        client_log(3, "f", "x", "begin-%s-end", "0123456789012345678901234567890");
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::istringstream lines(logged());
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    EXPECT_TRUE(line.ends_with("begin-0123456789012345678901234567890-end")) << line;
  }
  EXPECT_EQ(count, 200);
}

}  // namespace
}  // namespace drydock::entries
