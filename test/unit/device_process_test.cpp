#include <atomic>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include "abi/generated/entries.h"
#include "base/generated/error_codes.h"
#include "device/context.h"
#include "device/heap.h"
#include "device_new_process.h"

// The life of the library in a process: aclInit, aclFinalize, and forks.

namespace drydock {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

[[maybe_unused]] const bool environment = [] {
  setenv("DRYDOCK_DEVICES", "4", 1);
  setenv("ASCEND_RT_VISIBLE_DEVICES", "0,2,3", 1);
  return true;
}();

int32_t get_device() {
  int32_t device = -1;
  const Status status = entries::aclrtGetDevice(&device);
  return status.is_ok() ? device : -status.code();
}

TEST(ProcessTest, InitializationHappensOnce) {
  IN_NEW_PROCESS({
    EXPECT_EQ(entries::aclFinalize().code(), code::ACL_ERROR_UNINITIALIZE);
    EXPECT_TRUE(entries::aclInit(nullptr).is_ok());
    EXPECT_EQ(entries::aclInit(nullptr).code(), code::ACL_ERROR_REPEAT_INITIALIZE);  // contract C2
    ASSERT_TRUE(entries::aclrtSetDevice(0).is_ok());
    void* pointer = nullptr;
    ASSERT_TRUE(entries::aclrtMalloc(&pointer, 512, 0).is_ok());
    void* pinned = nullptr;
    ASSERT_TRUE(entries::aclrtMallocHost(&pinned, 512).is_ok());
    EXPECT_TRUE(entries::aclFinalize().is_ok());
    EXPECT_EQ(entries::aclFinalize().code(), code::ACL_ERROR_REPEAT_FINALIZE);
    // Contract C12: calls that still come in get an answer.
    EXPECT_EQ(entries::aclrtSetDevice(0).code(), code::ACL_ERROR_UNINITIALIZE);
    EXPECT_EQ(entries::aclrtFree(pointer).code(), code::ACL_ERROR_UNINITIALIZE);
    EXPECT_EQ(entries::aclrtMalloc(&pointer, 512, 0).code(), code::ACL_ERROR_UNINITIALIZE);
    char host[4];
    EXPECT_EQ(entries::aclrtMemcpy(host, 4, pointer, 4, 2).code(), code::ACL_ERROR_UNINITIALIZE);
    EXPECT_TRUE(entries::aclrtFreeHost(pinned).is_ok());  // contract E7
    uint32_t count = 0;
    EXPECT_TRUE(entries::aclrtGetDeviceCount(&count).is_ok());
  });
}

class ConfigurationTest : public testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove(path_); }
  std::string write(std::string_view text) {
    std::ofstream(path_) << text;
    return path_;
  }
  std::string path_ = testing::TempDir() + "/device_context_test_" + std::to_string(getpid()) + ".json";
};

TEST_F(ConfigurationTest, ADefaultDeviceStandsInForSetDevice) {
  const std::string path =
      write(R"({"dump": {"dump_scene": "lite_exception"}, "defaultDevice": {"default_device": "1"}})");
  IN_NEW_PROCESS({
    ASSERT_TRUE(entries::aclInit(path.c_str()).is_ok());
    EXPECT_EQ(get_device(), 1);  // contract C4
    EXPECT_EQ(device::current_context(), nullptr);
    EXPECT_EQ(device::arena_base(1), 0U);  // and no context was made for it
    void* pointer = nullptr;
    ASSERT_TRUE(entries::aclrtMalloc(&pointer, 512, 0).is_ok());
    EXPECT_EQ(device::device_of(pointer), 1);
    EXPECT_EQ(device::current_device(), 1);
    ASSERT_TRUE(entries::aclrtSetDevice(0).is_ok());
    EXPECT_EQ(get_device(), 0);
  });
}

TEST_F(ConfigurationTest, BadConfigurationsGetSentences) {
  const struct {
    const char* text;
    int32_t code;
  } rows[] = {
      {"{", code::ACL_ERROR_PARSE_FILE},
      {"[]", code::ACL_ERROR_PARSE_FILE},
      {R"({"defaultDevice": 0})", code::ACL_ERROR_FILE_ATTR_INVALID},
      {R"({"defaultDevice": {}})", code::ACL_ERROR_FILE_ATTR_INVALID},
      {R"({"defaultDevice": {"default_device": 0}})", code::ACL_ERROR_FILE_ATTR_INVALID},
      {R"({"defaultDevice": {"default_device": "x"}})", code::ACL_ERROR_FILE_ATTR_INVALID},
      {R"({"defaultDevice": {"default_device": "9"}})", code::ACL_ERROR_RT_INVALID_DEVICEID},
  };
  for (const auto& row : rows) {
    const std::string path = write(row.text);
    IN_NEW_PROCESS({
      const Status status = entries::aclInit(path.c_str());
      EXPECT_EQ(status.code(), row.code) << row.text << " " << status.message();
      EXPECT_THAT(status.message(), HasSubstr("aclInit"));
      EXPECT_TRUE(entries::aclInit(nullptr).is_ok());  // a failed one does not count
    });
  }
  IN_NEW_PROCESS({ EXPECT_EQ(entries::aclInit("/nowhere/acl.json").code(), code::ACL_ERROR_INVALID_FILE); });
  const std::string empty = write("");
  IN_NEW_PROCESS({ EXPECT_TRUE(entries::aclInit(empty.c_str()).is_ok()); });
}

TEST(ProcessTest, AForkBeforeTheFirstDeviceCallWorksOnBothSides) {
  IN_NEW_PROCESS({
    uint32_t count = 0;
    ASSERT_TRUE(entries::aclrtGetDeviceCount(&count).is_ok());  // contracts C1, C14
    IN_NEW_PROCESS({
      ASSERT_TRUE(entries::aclrtSetDevice(0).is_ok());
      void* pointer = nullptr;
      EXPECT_TRUE(entries::aclrtMalloc(&pointer, 512, 0).is_ok());
    });
    EXPECT_TRUE(entries::aclrtSetDevice(0).is_ok());
  });
}

TEST(ProcessTest, AForkAfterItIsToldToTheChild) {
  IN_NEW_PROCESS({
    ASSERT_TRUE(entries::aclInit(nullptr).is_ok());
    ASSERT_TRUE(entries::aclrtSetDevice(0).is_ok());
    void* pointer = nullptr;
    ASSERT_TRUE(entries::aclrtMalloc(&pointer, 512, 0).is_ok());
    IN_NEW_PROCESS({
      char host[4];
      for (const Status& status : {entries::aclrtSetDevice(0), entries::aclrtMalloc(&pointer, 512, 0),
                                   entries::aclrtFree(pointer), entries::aclrtMemcpy(host, 4, pointer, 4, 2),
                                   entries::aclInit(nullptr), entries::aclFinalize(), entries::aclrtResetDevice(0)}) {
        EXPECT_EQ(status.code(), code::ACL_ERROR_RT_INTERNAL_ERROR);
        EXPECT_THAT(status.message(), AllOf(HasSubstr("fork"), HasSubstr("spawn")));
      }
      uint32_t count = 0;
      EXPECT_TRUE(entries::aclrtGetDeviceCount(&count).is_ok());
      EXPECT_EQ(count, 3U);
    });
    EXPECT_TRUE(entries::aclrtFree(pointer).is_ok());  // the parent goes on
  });
}

TEST(ProcessTest, ForkWhileOtherThreadsUseTheDevice) {
  IN_NEW_PROCESS({
    ASSERT_TRUE(entries::aclrtSetDevice(0).is_ok());
    std::atomic<bool> stop{false};
    std::thread busy([&] {
      ASSERT_TRUE(entries::aclrtSetDevice(0).is_ok());
      while (!stop) {
        void* pointer = nullptr;
        ASSERT_TRUE(entries::aclrtMalloc(&pointer, 512, 0).is_ok());
        ASSERT_TRUE(entries::aclrtFree(pointer).is_ok());
        ASSERT_TRUE(entries::aclrtMallocHost(&pointer, 512).is_ok());
        ASSERT_TRUE(entries::aclrtFreeHost(pointer).is_ok());
      }
    });
    for (int i = 0; i < 50; ++i) {
      // A child that inherited a held lock must not wait for it.
      IN_NEW_PROCESS({
        alarm(20);
        void* pointer = nullptr;
        EXPECT_FALSE(entries::aclrtMalloc(&pointer, 512, 0).is_ok());
        EXPECT_FALSE(entries::aclrtFree(&pointer).is_ok());
        EXPECT_FALSE(entries::aclrtFreeHost(&pointer).is_ok());
        int32_t attributes[7];
        EXPECT_TRUE(entries::aclrtPointerGetAttributes(&pointer, attributes).is_ok());
      });
    }
    stop = true;
    busy.join();
  });
}

#if !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)  // they take more address space than that themselves

void limit_address_space(uint64_t size_bytes) {
  const rlimit limit{size_bytes, size_bytes};
  ASSERT_EQ(setrlimit(RLIMIT_AS, &limit), 0);
}

TEST(ProcessTest, LessAddressSpaceIsEnoughForOneDevice) {
  IN_NEW_PROCESS({
    limit_address_space(uint64_t{1} << 40);
    ASSERT_TRUE(entries::aclrtSetDevice(0).is_ok());
    void* pointer = nullptr;
    EXPECT_TRUE(entries::aclrtMalloc(&pointer, size_t{60} << 30, 0).is_ok());
    EXPECT_TRUE(entries::aclrtReserveMemAddress(&pointer, 73'693'921'280, 0, nullptr, 1).is_ok());
  });
}

TEST(ProcessTest, NoAddressSpaceGetsASentence) {
  IN_NEW_PROCESS({
    limit_address_space(uint64_t{100} << 30);
    const Status status = entries::aclrtSetDevice(0);
    EXPECT_EQ(status.code(), code::ACL_ERROR_RT_INTERNAL_ERROR);
    EXPECT_THAT(status.message(), AllOf(HasSubstr("device 0"), HasSubstr("ulimit -v")));
    EXPECT_FALSE(entries::aclrtSetDevice(0).is_ok());
  });
}

#endif

}  // namespace
}  // namespace drydock
