#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/generated/error_codes.h"
#include "device/profile.h"
#include "device/settings.h"

namespace drydock::device {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr uint64_t kMib = uint64_t{1} << 20;

Profile load(std::string_view name) {
  Profile profile;
  const Status status = load_profile(name, profile);
  EXPECT_TRUE(status.is_ok()) << status.message();
  return profile;
}

Status parse(std::string_view toml, Profile& profile) { return parse_profile(toml, "toml", "mine.toml", profile); }

std::string complaint(std::string_view toml) {
  Profile profile;
  const Status status = parse(toml, profile);
  EXPECT_FALSE(status.is_ok()) << toml;
  return status.message();
}

TEST(Profile, DefaultShowsWhatAReal910cShows) {
  const Profile profile = load("ascend910c");
  EXPECT_EQ(profile.soc_name, "Ascend910_9392");
  EXPECT_EQ(profile.cube_cores, 24);
  EXPECT_EQ(profile.vector_cores, 48);
  EXPECT_EQ(profile.l2_bytes, 192 * kMib);
  EXPECT_EQ(profile.hbm_bytes, uint64_t{64} << 30);
  // A fresh process on a real 910C: free 65,381,130,240 of 65,787,658,240 bytes.
  EXPECT_EQ(profile.even_die.usable_bytes, 65'787'658'240U);
  EXPECT_EQ(profile.even_die.capacity_bytes(), 65'381'130'240U);
  EXPECT_EQ(profile.die(0).idle_bytes, 341 * kMib);
  EXPECT_EQ(profile.die(1).usable_bytes, 65'796'046'848U);
  EXPECT_EQ(profile.die(1).idle_bytes, 104 * kMib);
  // The first snapshot on an odd die was 150.70 MiB.
  EXPECT_NEAR(static_cast<double>(profile.die(3).idle_bytes + profile.die(3).context_bytes) / kMib, 150.70, 0.005);
}

TEST(Profile, EveryBuiltInProfileLoads) {
  EXPECT_THAT(profile_names(), ElementsAre("ascend910b1", "ascend910b2", "ascend910b3", "ascend910b4", "ascend910b4-1",
                                           "ascend910c", "ascend910c-9362", "ascend910c-9372", "ascend910c-9382"));
  for (const std::string& name : profile_names()) {
    const Profile profile = load(name);
    EXPECT_EQ(profile.name, name);
    EXPECT_GT(profile.even_die.capacity_bytes(), 0U);
  }
  // The first snapshot on a 64 GB 910B was 362.90 MiB.
  const DieMemory& die = load("ascend910b1").even_die;
  EXPECT_NEAR(static_cast<double>(die.idle_bytes + die.context_bytes) / kMib, 362.90, 0.005);
}

TEST(Profile, OneOfTheUsersOwnTakesTheRestFromItsBase) {
  Profile profile;
  const Status status = parse(R"(
base = "ascend910c"
name = "mine"
[memory]
hbm_bytes = 103_079_215_104  # 96 GiB
hbm_tbs = 1.8
)",
                              profile);
  ASSERT_TRUE(status.is_ok()) << status.message();
  EXPECT_EQ(profile.name, "mine");
  EXPECT_EQ(profile.soc_name, "Ascend910_9392");
  EXPECT_DOUBLE_EQ(profile.hbm_tbs, 1.8);
  // What the driver keeps of the chip stays what it is on a 910C.
  EXPECT_EQ(profile.even_die.usable_bytes, 103'079'215'104U - (68'719'476'736U - 65'787'658'240U));
  EXPECT_EQ(profile.odd_die.usable_bytes, profile.even_die.usable_bytes);
}

TEST(Profile, TheBaseMayBeAFileBesideIt) {
  const std::filesystem::path folder = std::filesystem::path(::testing::TempDir()) / "drydock-profile-bases";
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "first.toml") << "base = \"ascend910b4\"\n[cores]\ncube = 7\n";
  std::ofstream(folder / "second.json") << R"({"base": "first.toml", "memory": {"hbm_tbs": 3.5}})";
  std::ofstream(folder / "round.toml") << "base = \"./round.toml\"\n";
  const Profile second = load((folder / "second.json").string());
  EXPECT_EQ(second.cube_cores, 7U);
  EXPECT_EQ(second.soc_name, "Ascend910B4");
  EXPECT_DOUBLE_EQ(second.hbm_tbs, 3.5);
  Profile unused;
  EXPECT_THAT(load_profile((folder / "round.toml").string(), unused).message(), HasSubstr("leads through"));
  EXPECT_THAT(complaint("base = \"nowhere.toml\"\n"), HasSubstr("can't be read"));
  std::filesystem::remove_all(folder);
}

TEST(Profile, JsonIsTakenToo) {
  Profile profile;
  const Status status = parse_profile(R"({"base": "ascend910b4", "memory": {"usable_bytes": 20000000000}})", "json",
                                      "mine.json", profile);
  ASSERT_TRUE(status.is_ok()) << status.message();
  EXPECT_EQ(profile.even_die.usable_bytes, 20'000'000'000U);
  EXPECT_EQ(profile.soc_name, "Ascend910B4");
}

TEST(Profile, NonsenseGetsASentence) {
  EXPECT_THAT(complaint("base = \"ascend910c\"\n[memory]\nhbm_byte = 3\n"),
              AllOf(HasSubstr("mine.toml:3"), HasSubstr("no key 'memory.hbm_byte'"), HasSubstr("memory.hbm_bytes")));
  EXPECT_THAT(complaint("base = \"ascend910c\"\n[memory]\nusable_bytes = -5\n"),
              AllOf(HasSubstr("mine.toml:3"), HasSubstr("-5"), HasSubstr("negative")));
  EXPECT_THAT(complaint("base = \"ascend910c\"\n[memory]\nusable_bytes = \"61 GiB\"\n"), HasSubstr("whole number"));
  EXPECT_THAT(complaint("base = \"ascend910c\"\n[memory]\nusable_bytes = 1e9\n"), HasSubstr("whole number"));
  EXPECT_THAT(complaint("base = \"ascend910c\"\n[memory]\nusable_bytes = 68_719_476_737\n"),
              HasSubstr("more than 'memory.hbm_bytes'"));
  EXPECT_THAT(complaint("base = \"ascend910c\"\n[memory]\nidle_bytes = 65_787_658_240\n"), HasSubstr("leave nothing"));
  EXPECT_THAT(complaint("base = \"ascend910c\"\n[memory]\nhbm_bytes = 1_099_511_627_776\n"),
              HasSubstr("is not supported"));
  EXPECT_THAT(complaint("base = \"ascend910c\"\n[memory]\nhbm_tbs = 0\n"), HasSubstr("above 0"));
  EXPECT_THAT(complaint("base = \"ascend910c\"\n[memory]\nhbm_tbs = nan\n"), HasSubstr("finite"));
  EXPECT_THAT(complaint("base = \"ascend910c\"\n[cores]\ncube = 0\n"), HasSubstr("between 1 and"));
  EXPECT_THAT(complaint("base = \"ascend910c\"\nsoc_name = \"Ascend911\"\n"),
              AllOf(HasSubstr("Ascend911"), HasSubstr("torch_npu takes only names that it knows")));
  EXPECT_THAT(complaint("base = \"ascend910c\"\nsoc_name = 910\n"), HasSubstr("text in quotes"));
  EXPECT_THAT(complaint("base = \"ascend911\"\n"), AllOf(HasSubstr("'base'"), HasSubstr("ascend910c")));
  EXPECT_THAT(complaint("base = \"ascend910c\"\ncores = 3\n"), HasSubstr("no key 'cores'"));
  EXPECT_THAT(complaint("name = \"mine\"\n"), AllOf(HasSubstr("is missing"), HasSubstr("base = \"ascend910c\"")));
  EXPECT_THAT(complaint("name = \n"), AllOf(HasSubstr("mine.toml:1"), HasSubstr("not valid TOML")));
}

TEST(Profile, VersionsAndTextsFollowTheRulesOfTheOptions) {
  const std::string base = "base = \"ascend910c\"\n";
  EXPECT_THAT(complaint(base + "[versions]\ncann = \"x\"\n"),
              AllOf(HasSubstr("mine.toml:3"), HasSubstr("'versions.cann'"), HasSubstr("CANN version \"x\"")));
  EXPECT_THAT(complaint(base + "[versions]\ndriver = \"newest\"\n"),
              AllOf(HasSubstr("mine.toml:3"), HasSubstr("driver version \"newest\"")));
  EXPECT_THAT(complaint(base + "name = \"a\\nb\"\n"), AllOf(HasSubstr("'name'"), HasSubstr("control characters")));
  EXPECT_THAT(complaint(base + "name = \"a\\u001b[2J\"\n"), HasSubstr("control characters"));
  EXPECT_THAT(complaint(base + "[cores]\nnpu_arch = 2202\n"), AllOf(HasSubstr("mine.toml:3"), HasSubstr("2201")));
  Profile profile;
  EXPECT_TRUE(parse(base + "[versions]\ncann = \"8.3.RC1\"\ndriver = \"25.3.RC1\"\n", profile).is_ok());
  EXPECT_EQ(profile.cann_version, "8.3.RC1");
}

TEST(Profile, AnEmptyOneIsCalledEmpty) {
  for (const char* text : {"", " \n\t\n"})
    EXPECT_THAT(complaint(text), AllOf(HasSubstr("is empty"), HasSubstr("base = \"ascend910c\"")));
  const std::string path = testing::TempDir() + "/device_profile_empty.toml";
  std::ofstream file(path);
  file.close();
  Profile profile;
  EXPECT_THAT(load_profile(path, profile).message(), HasSubstr("is empty"));
  std::filesystem::remove(path);
}

TEST(Profile, NonsensicalJsonGetsASentence) {
  Profile profile;
  EXPECT_EQ(parse_profile("[1, 2]", "json", "mine.json", profile).code(), code::ACL_ERROR_PARSE_FILE);
  EXPECT_EQ(parse_profile("{", "json", "mine.json", profile).code(), code::ACL_ERROR_PARSE_FILE);
  EXPECT_EQ(parse_profile("", "json", "mine.json", profile).code(), code::ACL_ERROR_PARSE_FILE);
  const Status large = parse_profile(R"({"base": "ascend910c", "memory": {"usable_bytes": 18446744073709551615}})",
                                     "json", "mine.json", profile);
  EXPECT_EQ(large.code(), code::ACL_ERROR_FILE_ATTR_INVALID);
  EXPECT_THAT(large.message(), HasSubstr("18446744073709551615"));
}

TEST(Profile, AFailedParseLeavesTheOldProfileAlone) {
  Profile profile = load("ascend910b4");
  ASSERT_FALSE(parse("base = \"ascend910c\"\nwrong = 1\n", profile).is_ok());
  EXPECT_EQ(profile.name, "ascend910b4");
}

TEST(Profile, LoadsFilesAndSaysWhatItCannotRead) {
  const std::string path = testing::TempDir() + "/device_profile_test.toml";
  std::ofstream(path) << "base = \"ascend910c\"\nname = \"from a file\"\n";
  EXPECT_EQ(load(path).name, "from a file");
  std::filesystem::remove(path);

  Profile profile;
  const Status gone = load_profile(path, profile);
  EXPECT_EQ(gone.code(), code::ACL_ERROR_INVALID_FILE);
  EXPECT_THAT(gone.message(), HasSubstr("No such file"));
  const Status folder = load_profile("/", profile);
  EXPECT_EQ(folder.code(), code::ACL_ERROR_INVALID_FILE);
  const Status name = load_profile("ascend910x", profile);
  EXPECT_EQ(name.code(), code::ACL_ERROR_INVALID_FILE);
  EXPECT_THAT(name.message(), AllOf(HasSubstr("ascend910x"), HasSubstr("ascend910c")));
}

class SettingsTest : public testing::Test {
 protected:
  void SetUp() override { clear(); }
  void TearDown() override { clear(); }
  static void clear() {
    for (const char* name :
         {"DRYDOCK_PROFILE", "DRYDOCK_DEVICES", "DRYDOCK_GUARD", "DRYDOCK_VALUES", "DRYDOCK_VALUE_BUDGET",
          "DRYDOCK_THREADS", "DRYDOCK_RECORD", "ASCEND_RT_VISIBLE_DEVICES"}) {
      unsetenv(name);
    }
  }
  static void set(const char* name, const char* value) { setenv(name, value, 1); }
};

TEST_F(SettingsTest, Defaults) {
  const Settings settings = read_settings();
  EXPECT_TRUE(settings.status.is_ok());
  EXPECT_EQ(settings.profile.name, "ascend910c");
  EXPECT_THAT(settings.visible_devices, ElementsAre(0));
  EXPECT_FALSE(settings.guard);
}

TEST_F(SettingsTest, VisibleDevicesRenumber) {
  set("DRYDOCK_DEVICES", "4");
  set("ASCEND_RT_VISIBLE_DEVICES", "1,3");
  EXPECT_THAT(read_settings().visible_devices, ElementsAre(1, 3));
  set("ASCEND_RT_VISIBLE_DEVICES", "2,x,1");  // reading stops at the first other character
  EXPECT_THAT(read_settings().visible_devices, ElementsAre(2));
  set("ASCEND_RT_VISIBLE_DEVICES", "");
  EXPECT_THAT(read_settings().visible_devices, IsEmpty());
  EXPECT_TRUE(read_settings().status.is_ok());
}

TEST_F(SettingsTest, NonsenseIsKeptAsAStatus) {
  set("DRYDOCK_DEVICES", "many");
  EXPECT_THAT(read_settings().status.message(), HasSubstr("DRYDOCK_DEVICES=\"many\""));
  EXPECT_THAT(read_settings().visible_devices, IsEmpty());
  for (const char* text : {"0", "17", "-1", "1.5", "99999999999999999999"}) {
    set("DRYDOCK_DEVICES", text);
    EXPECT_FALSE(read_settings().status.is_ok()) << text;
  }
  clear();
  set("ASCEND_RT_VISIBLE_DEVICES", "0,7");
  EXPECT_THAT(read_settings().status.message(), AllOf(HasSubstr("0,7"), HasSubstr("there is 1 device")));
  clear();
  set("DRYDOCK_GUARD", "yes");
  EXPECT_THAT(read_settings().status.message(), HasSubstr("DRYDOCK_GUARD"));
  for (const auto& [name, text] : {std::pair("DRYDOCK_VALUES", "zz"),
                                   {"DRYDOCK_VALUE_BUDGET", "-1"},
                                   {"DRYDOCK_VALUE_BUDGET", "lots"},
                                   {"DRYDOCK_THREADS", "0"},
                                   {"DRYDOCK_THREADS", "257"},
                                   {"DRYDOCK_THREADS", "4 "},
                                   {"DRYDOCK_RECORD", "zz"}}) {
    clear();
    set(name, text);
    EXPECT_THAT(read_settings().status.message(), HasSubstr(std::string(name) + "=\"" + text + "\""));
    EXPECT_THAT(read_settings().visible_devices, IsEmpty());
  }
  clear();
  for (const auto& [name, text] : {std::pair("DRYDOCK_VALUES", "ghost"),
                                   {"DRYDOCK_VALUES", ""},
                                   {"DRYDOCK_VALUE_BUDGET", "4096"},
                                   {"DRYDOCK_THREADS", "256"},
                                   {"DRYDOCK_RECORD", "null"}}) {
    set(name, text);
    EXPECT_TRUE(read_settings().status.is_ok()) << name << text;
  }
  clear();
  set("DRYDOCK_PROFILE", "/nowhere/x.toml");
  const Settings settings = read_settings();
  EXPECT_THAT(settings.status.message(), AllOf(HasSubstr("DRYDOCK_PROFILE"), HasSubstr("/nowhere/x.toml")));
  EXPECT_EQ(settings.profile.name, "ascend910c");  // something to answer from
}

}  // namespace
}  // namespace drydock::device
