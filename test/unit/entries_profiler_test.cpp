#include <filesystem>
#include <fstream>
#include <string>
#include <unistd.h>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "abi/generated/entries.h"
#include "base/generated/error_codes.h"

namespace drydock::entries {
namespace {

namespace fs = std::filesystem;

class ProfilerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(::testing::TempDir()) / ("drydock-profiler-" + std::to_string(getpid()));
    fs::remove_all(folder_);
    uint32_t device = 0;
    config_ = aclprofCreateConfig(&device, 1, 255, nullptr, 0x1801);
    ASSERT_NE(config_, nullptr);
  }
  void TearDown() override {
    EXPECT_TRUE(aclprofDestroyConfig(config_).is_ok());
    fs::remove_all(folder_);
  }
  Status init() const { return aclprofInit(folder_.c_str(), folder_.string().size()); }
  std::vector<fs::path> sessions() const {
    std::vector<fs::path> found;
    for (const auto& entry : fs::directory_iterator(folder_)) found.push_back(entry.path());
    return found;
  }

  fs::path folder_;
  void* config_ = nullptr;
};

TEST_F(ProfilerTest, ASessionLeavesAFolderThatSaysWhichPartsOfTheTraceAreMeant) {
  ASSERT_TRUE(init().is_ok());
  ASSERT_TRUE(aclprofStart(config_).is_ok());
  ASSERT_TRUE(aclprofStop(config_).is_ok());
  ASSERT_TRUE(aclprofStart(config_).is_ok());
  ASSERT_TRUE(aclprofFinalize().is_ok()) << "what was not stopped ends here";
  ASSERT_EQ(sessions().size(), 1U);
  const fs::path prof = sessions().front();
  EXPECT_THAT(prof.filename().string(), ::testing::MatchesRegex("PROF_[0-9]+_[0-9]+_[0-9A-Z]+"));
  EXPECT_TRUE(fs::is_directory(prof / "device_0"));
  const auto json = nlohmann::json::parse(std::ifstream(prof / "host" / "drydock.json"));
  EXPECT_EQ(json.at("pid"), getpid());
  ASSERT_EQ(json.at("parts").size(), 2U);
  for (const auto& part : json.at("parts")) EXPECT_LE(part.at("start_monotonic_ns"), part.at("stop_monotonic_ns"));
  const auto clocks = nlohmann::json::parse(std::ifstream(prof / "host" / "start_info"));
  EXPECT_GT(std::stoll(clocks.at("collectionTimeBegin").get<std::string>()), 0);
  EXPECT_GT(std::stoll(clocks.at("clockMonotonicRaw").get<std::string>()), 0);
  ASSERT_TRUE(init().is_ok()) << "another session has a folder of its own";
  ASSERT_TRUE(aclprofFinalize().is_ok());
  EXPECT_EQ(sessions().size(), 2U);
}

TEST_F(ProfilerTest, CallsInTheWrongOrderHaveTheVendorsCodes) {
  EXPECT_EQ(aclprofStart(config_).code(), code::ACL_ERROR_PROF_NOT_RUN);
  EXPECT_EQ(aclprofStop(config_).code(), code::ACL_ERROR_PROF_NOT_RUN);
  EXPECT_EQ(aclprofFinalize().code(), code::ACL_ERROR_PROF_NOT_RUN);
  ASSERT_TRUE(init().is_ok());
  EXPECT_EQ(init().code(), code::ACL_ERROR_PROF_ALREADY_RUN);
  EXPECT_EQ(aclprofStop(config_).code(), code::ACL_ERROR_PROF_NOT_RUN);
  ASSERT_TRUE(aclprofStart(config_).is_ok());
  EXPECT_EQ(aclprofStart(config_).code(), code::ACL_ERROR_PROF_ALREADY_RUN);
  ASSERT_TRUE(aclprofFinalize().is_ok());
}

TEST_F(ProfilerTest, WhatCannotBeKeptIsNotOpen) {
  ASSERT_TRUE(init().is_ok());
  const fs::path told = sessions().front() / "host" / "drydock.json";
  fs::remove(told);
  fs::create_directory(told);  // in the file's way
  EXPECT_EQ(aclprofStart(config_).code(), code::ACL_ERROR_PROFILING_FAILURE);
  EXPECT_EQ(aclprofStop(config_).code(), code::ACL_ERROR_PROF_NOT_RUN) << "nothing was started";
  fs::remove(told);
  EXPECT_TRUE(aclprofStart(config_).is_ok());
  EXPECT_TRUE(aclprofFinalize().is_ok());
}

TEST_F(ProfilerTest, NonsenseIsRefused) {
  EXPECT_EQ(aclprofInit(nullptr, 3).code(), 100000);
  EXPECT_EQ(aclprofInit("x", 0).code(), 100000);
  EXPECT_EQ(aclprofInit("x", 5).code(), 100000) << "longer than the path";
  const std::string file = (fs::path(::testing::TempDir()) / "drydock-profiler-file").string();
  std::ofstream(file) << "a file";
  EXPECT_EQ(aclprofInit(file.c_str(), file.size()).code(), code::ACL_ERROR_PROFILING_FAILURE);
  fs::remove(file);
  EXPECT_EQ(aclprofStart(nullptr).code(), 100000);
  EXPECT_EQ(aclprofStop(&config_).code(), 100000);
  std::vector<uint32_t> many(1000, 0);
  EXPECT_EQ(aclprofCreateConfig(many.data(), 1000, 255, nullptr, 0), nullptr);
}

}  // namespace
}  // namespace drydock::entries
