#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace drydock::cli {

struct ZipMember {
  std::string name;
  uint64_t compressed_bytes = 0;
  uint64_t bytes = 0;
  uint64_t header_offset = 0;
  uint16_t method = 0;  ///< 0 stored, 8 deflated
};

/// A zip file, as wheels are: stored and deflated members, no encryption, no split archives, less than 4 GiB.
/// Everything throws std::runtime_error with a sentence where the file can't be read.
class ZipArchive {
 public:
  explicit ZipArchive(const std::filesystem::path& path);

  const std::vector<ZipMember>& members() const { return members_; }
  /// The unpacked bytes of a member.
  std::string read(const ZipMember& member) const;

 private:
  std::string bytes_;
  std::vector<ZipMember> members_;
};

/// The whole of a file.
std::string read_file(const std::filesystem::path& path);

}  // namespace drydock::cli
