#include "cli/support_zip.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <stdexcept>
#include <zlib.h>

#include <fmt/format.h>

namespace drydock::cli {
namespace {

// The records of the zip format that are needed here, with their fixed sizes.
constexpr uint32_t kEndSignature = 0x06054b50, kMemberSignature = 0x02014b50, kLocalSignature = 0x04034b50;
constexpr size_t kEndBytes = 22, kMemberBytes = 46, kLocalBytes = 30;
constexpr size_t kLongestComment = 65535;
constexpr uint16_t kEncrypted = 1, kStored = 0, kDeflated = 8;
// A member claims its own unpacked size. Deflate makes no more than 1032 bytes of one.
constexpr uint64_t kMostBytesOfOne = 1032;

template <class T>
T number(const std::string& bytes, size_t offset) {
  if (offset > bytes.size() || sizeof(T) > bytes.size() - offset) throw std::runtime_error("the zip file is cut short");
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

size_t find_end(const std::string& bytes) {
  if (bytes.size() < kEndBytes) throw std::runtime_error("it is not a zip file");
  const size_t last = bytes.size() - kEndBytes;
  const size_t first = last > kLongestComment ? last - kLongestComment : 0;
  for (size_t offset = last + 1; offset-- > first;) {
    if (number<uint32_t>(bytes, offset) == kEndSignature) return offset;
  }
  throw std::runtime_error("it is not a zip file, or it is cut short");
}

}  // namespace

std::string read_file(const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream) throw std::runtime_error(fmt::format("can't read {}: {}", path.string(), std::strerror(errno)));
  std::string bytes((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
  if (stream.bad()) throw std::runtime_error(fmt::format("can't read {}: {}", path.string(), std::strerror(errno)));
  return bytes;
}

ZipArchive::ZipArchive(const std::filesystem::path& path) : bytes_(read_file(path)) {
  const size_t end = find_end(bytes_);
  const auto count = number<uint16_t>(bytes_, end + 10);
  size_t offset = number<uint32_t>(bytes_, end + 16);
  for (int index = 0; index < count; ++index) {
    if (number<uint32_t>(bytes_, offset) != kMemberSignature) throw std::runtime_error("the zip file is damaged");
    ZipMember member;
    const auto flags = number<uint16_t>(bytes_, offset + 8);
    member.method = number<uint16_t>(bytes_, offset + 10);
    member.compressed_bytes = number<uint32_t>(bytes_, offset + 20);
    member.bytes = number<uint32_t>(bytes_, offset + 24);
    const auto name_bytes = number<uint16_t>(bytes_, offset + 28);
    const auto extra_bytes = number<uint16_t>(bytes_, offset + 30);
    const auto comment_bytes = number<uint16_t>(bytes_, offset + 32);
    member.header_offset = number<uint32_t>(bytes_, offset + 42);
    if (offset + kMemberBytes + name_bytes > bytes_.size()) throw std::runtime_error("the zip file is cut short");
    member.name = bytes_.substr(offset + kMemberBytes, name_bytes);
    if ((flags & kEncrypted) != 0) throw std::runtime_error(fmt::format("{} in it is encrypted", member.name));
    members_.push_back(std::move(member));
    offset += kMemberBytes + name_bytes + extra_bytes + comment_bytes;
  }
}

std::string ZipArchive::read(const ZipMember& member) const {
  if (number<uint32_t>(bytes_, member.header_offset) != kLocalSignature) {
    throw std::runtime_error(fmt::format("{} in it is damaged", member.name));
  }
  const size_t data = member.header_offset + kLocalBytes + number<uint16_t>(bytes_, member.header_offset + 26) +
                      number<uint16_t>(bytes_, member.header_offset + 28);
  if (data > bytes_.size() || member.compressed_bytes > bytes_.size() - data) {
    throw std::runtime_error(fmt::format("{} in it is cut short", member.name));
  }
  if (member.method == kStored) return bytes_.substr(data, member.compressed_bytes);
  if (member.method != kDeflated) {
    throw std::runtime_error(fmt::format("{} in it is packed in a way that is not supported", member.name));
  }
  if (member.bytes > member.compressed_bytes * kMostBytesOfOne) {
    throw std::runtime_error(fmt::format("{} in it is damaged", member.name));
  }
  std::string unpacked(member.bytes, '\0');
  z_stream stream{};
  if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) throw std::runtime_error("there is no memory to unpack it");
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes_.data() + data));
  stream.avail_in = static_cast<uInt>(member.compressed_bytes);
  stream.next_out = reinterpret_cast<Bytef*>(unpacked.data());
  stream.avail_out = static_cast<uInt>(unpacked.size());
  const int result = inflate(&stream, Z_FINISH);
  inflateEnd(&stream);
  if (result != Z_STREAM_END || stream.avail_out != 0) {
    throw std::runtime_error(fmt::format("{} in it is damaged", member.name));
  }
  return unpacked;
}

}  // namespace drydock::cli
