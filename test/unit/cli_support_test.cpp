#include <dlfcn.h>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <unistd.h>
#include <zlib.h>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "cli/support.h"
#include "cli/support_elf.h"
#include "cli/support_table.h"
#include "cli/support_wheel.h"
#include "cli/support_zip.h"

namespace drydock::cli {
namespace {

struct Answer {
  int exit_code = 0;
  std::string out;
  std::string err;
};

Answer support(const SupportOptions& options) {
  Answer answer;
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  answer.exit_code = run_support(options);
  answer.out = testing::internal::GetCapturedStdout();
  answer.err = testing::internal::GetCapturedStderr();
  return answer;
}

std::string le16(unsigned value) { return {static_cast<char>(value & 255), static_cast<char>(value >> 8)}; }
std::string le32(unsigned value) { return le16(value & 65535) + le16(value >> 16); }

std::string deflated(const std::string& text) {
  std::string packed(compressBound(text.size()) + 64, '\0');
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, 6, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY), Z_OK);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

// A zip file of one member, as the format's specification lays it out.
std::string zip_of(const std::string& name, const std::string& text, bool pack) {
  const std::string data = pack ? deflated(text) : text;
  const std::string sizes = le32(static_cast<unsigned>(data.size())) + le32(static_cast<unsigned>(text.size()));
  const std::string common = le16(20) + le16(0) + le16(pack ? 8 : 0) + le32(0) + le32(0) + sizes;
  const std::string name_bytes = le16(static_cast<unsigned>(name.size()));
  const std::string local = "PK\x03\x04" + common + name_bytes + le16(0) + name + data;
  const std::string member =
      "PK\x01\x02" + le16(20) + common + name_bytes + le16(0) + le16(0) + le16(0) + le16(0) + le32(0) + le32(0) + name;
  return local + member + "PK\x05\x06" + le16(0) + le16(0) + le16(1) + le16(1) +
         le32(static_cast<unsigned>(member.size())) + le32(static_cast<unsigned>(local.size())) + le16(0);
}

class Support : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / ("drydock_support_" + std::to_string(getpid()));
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path file(const std::string& name, const std::string& bytes) {
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
    return folder_ / name;
  }

  std::filesystem::path folder_;
};

TEST_F(Support, EveryLineSaysWhyUnlessModelled) {
  ASSERT_GT(support_lines().size(), 1300U);
  for (const SupportLine& line : support_lines()) {
    EXPECT_EQ(line.reason.empty(), line.support_class == "modelled") << line.name;
  }
}

TEST_F(Support, BothPhasesLeadToTheOperator) {
  ASSERT_NE(find_support_line("aclnnAdd"), nullptr);
  EXPECT_EQ(find_support_line("aclnnAddGetWorkspaceSize"), find_support_line("aclnnAdd"));
  EXPECT_EQ(find_support_line("aclnnAd"), nullptr);
  EXPECT_EQ(find_support_line("aclrtMallocGetWorkspaceSize"), nullptr);
}

TEST_F(Support, OneNameShowsItsArguments) {
  const Answer answer = support({.name = "aclnnApplyAdamWV2", .wheel = "", .json = false});
  EXPECT_EQ(answer.exit_code, 0);
  EXPECT_NE(answer.out.find("in/out tensor varRef"), std::string::npos) << answer.out;
  EXPECT_NE(answer.out.find("workspace: 16MiB (high)"), std::string::npos) << answer.out;
}

TEST_F(Support, APrefixShowsATableWithCounts) {
  const Answer answer = support({.name = "aclrtIpcMem", .wheel = "", .json = false});
  EXPECT_EQ(answer.exit_code, 0);
  EXPECT_NE(answer.out.find("entries: 4 refused\n"), std::string::npos) << answer.out;
}

TEST_F(Support, JsonHoldsEveryRowAndTheCounts) {
  const Answer answer = support({.name = "", .wheel = "", .json = true});
  const auto document = nlohmann::json::parse(answer.out);
  EXPECT_EQ(document["rows"].size(), support_lines().size());
  int counted = 0;
  for (const auto& group : document["counts"]) {
    for (const auto& count : group) counted += count.get<int>();
  }
  EXPECT_EQ(counted, static_cast<int>(support_lines().size()));
}

TEST_F(Support, AnUnknownNameIsSaidSo) {
  const Answer answer = support({.name = "aclrtNonsense", .wheel = "", .json = false});
  EXPECT_EQ(answer.exit_code, 2);
  EXPECT_EQ(answer.out, "");
  EXPECT_NE(answer.err.find("no row is named aclrtNonsense"), std::string::npos);
}

TEST_F(Support, WheelsThatAreNoneAreSaidSo) {
  EXPECT_EQ(support({.name = "aclInit", .wheel = "x.whl", .json = false}).exit_code, 2);
  const Answer missing = support({.name = "", .wheel = (folder_ / "none.whl").string(), .json = false});
  EXPECT_EQ(missing.exit_code, 2);
  EXPECT_NE(missing.err.find("there is no file or folder"), std::string::npos);
  const Answer text = support({.name = "", .wheel = file("text.whl", "no zip").string(), .json = false});
  EXPECT_EQ(text.exit_code, 2);
  EXPECT_NE(text.err.find("it is not a zip file"), std::string::npos) << text.err;
  const Answer empty = support({.name = "", .wheel = file("e.whl", zip_of("a.py", "x", true)).string(), .json = false});
  EXPECT_EQ(empty.exit_code, 2);
  EXPECT_NE(empty.err.find("holds no shared object"), std::string::npos) << empty.err;
}

TEST_F(Support, ZipMembersComeOutAsTheyWentIn) {
  const std::string text = std::string(5000, 'a') + "end";
  for (const bool pack : {false, true}) {
    const ZipArchive archive(file("a.whl", zip_of("lib/liba.so", text, pack)));
    ASSERT_EQ(archive.members().size(), 1U);
    EXPECT_EQ(archive.members()[0].name, "lib/liba.so");
    EXPECT_EQ(archive.read(archive.members()[0]), text);
  }
}

TEST_F(Support, ZipFilesCutAtAnyByteAreRefused) {
  const std::string whole = zip_of("liba.so", std::string(300, 'b') + "end", true);
  for (size_t size = 0; size < whole.size(); ++size) {
    const auto path = file("cut.whl", whole.substr(0, size));
    EXPECT_THROW(ZipArchive{path}, std::runtime_error) << size;
  }
}

TEST_F(Support, ZipFilesWithAnyWrongByteDoNoHarm) {
  const std::string whole = zip_of("liba.so", "some text, some text", true);
  for (size_t at = 0; at < whole.size(); ++at) {
    std::string wrong = whole;
    wrong[at] = static_cast<char>(~wrong[at]);
    try {
      const ZipArchive archive(file("wrong.whl", wrong));
      for (const ZipMember& member : archive.members()) archive.read(member);
    } catch (const std::runtime_error& refusal) {
      EXPECT_NE(std::string(refusal.what()), "");
    }
  }
}

// A shared object of a few megabytes that every machine has; this program itself is far larger under a sanitizer.
std::string standard_library() {
  Dl_info info{};
  if (dladdr(dlsym(RTLD_DEFAULT, "_ZSt9terminatev"), &info) == 0) return {};
  return read_file(info.dli_fname);
}

TEST_F(Support, SharedObjectsShowTheirNames) {
  const std::string image = standard_library();
  ASSERT_TRUE(is_elf(image));
  const ElfNames names = read_elf_names(image);
  const auto has = [](const auto& list, std::string_view name) {
    return std::find(list.begin(), list.end(), name) != list.end();
  };
  EXPECT_TRUE(has(names.undefined, "malloc") || has(names.undefined, "memcpy"));
  EXPECT_TRUE(has(names.strings, "St9bad_alloc"));
  EXPECT_FALSE(has(names.strings, "ThisStringIsInNoLibrary"));
}

TEST_F(Support, SharedObjectsCutAnywhereDoNoHarm) {
  const std::string image = standard_library();
  for (size_t size = 0; size < image.size(); size += size < 256 ? 1 : image.size() / 97) {
    try {
      read_elf_names(std::string_view(image).substr(0, size));
    } catch (const std::runtime_error& refusal) {
      EXPECT_NE(std::string(refusal.what()), "");
    }
  }
  EXPECT_THROW(read_elf_names(std::string_view(image).substr(0, 40)), std::runtime_error);
}

}  // namespace
}  // namespace drydock::cli
