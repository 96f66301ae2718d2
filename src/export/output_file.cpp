#include "export/output_file.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <unistd.h>
#include <zlib.h>

#include <nlohmann/json.hpp>

namespace drydock::exports {
namespace {

constexpr int32_t kUnwritable = 100004;  // the vendor's number for a file that can't be written

}  // namespace

struct OutputFile::Sink {
  FILE* plain = nullptr;
  gzFile packed = nullptr;

  bool write(const char* bytes, size_t size) {
    if (packed == nullptr) return std::fwrite(bytes, 1, size, plain) == size;
    return gzwrite(packed, bytes, static_cast<unsigned>(size)) == static_cast<int>(size);
  }
  bool close() {
    const bool is_whole = packed != nullptr ? gzclose(packed) == Z_OK : plain == nullptr || std::fclose(plain) == 0;
    packed = nullptr;
    plain = nullptr;
    return is_whole;
  }
};

OutputFile::OutputFile() = default;

OutputFile::~OutputFile() {
  if (sink_ == nullptr) return;
  sink_->close();
  unlink(draft_.c_str());
}

Status OutputFile::open(const std::string& path) {
  path_ = path;
  draft_ = fmt::format("{}.{}.part", path, getpid());
  auto sink = std::make_unique<Sink>();
  errno = 0;
  if (path.ends_with(".gz")) {
    sink->packed = gzopen(draft_.c_str(), "wb1");
  } else {
    sink->plain = std::fopen(draft_.c_str(), "wb");
  }
  if (sink->packed == nullptr && sink->plain == nullptr)
    return Status::error(kUnwritable, fmt::format("{} can't be written: {}.", path, std::strerror(errno)));
  sink_ = std::move(sink);
  return Status::ok();
}

void OutputFile::write(std::string_view bytes) {
  buffer_.append(bytes.data(), bytes.data() + bytes.size());
  if (buffer_.size() > kBufferBytes) flush();
}

void OutputFile::flush() {
  if (buffer_.size() > 0 && failure_.empty() && !sink_->write(buffer_.data(), buffer_.size()))
    failure_ = errno != 0 ? std::strerror(errno) : "the file could not be compressed";
  written_ += buffer_.size();
  buffer_.clear();
}

Status OutputFile::close() {
  flush();
  const bool is_closed = sink_->close();
  if (!is_closed && failure_.empty()) failure_ = errno != 0 ? std::strerror(errno) : "the file could not be closed";
  sink_.reset();
  if (failure_.empty() && std::rename(draft_.c_str(), path_.c_str()) != 0) failure_ = std::strerror(errno);
  if (failure_.empty()) return Status::ok();
  unlink(draft_.c_str());
  return Status::error(kUnwritable, fmt::format("{} can't be written: {}.", path_, failure_));
}

std::string json_text(std::string_view text) {
  return nlohmann::json(std::string(text)).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string csv_text(std::string_view text) {
  if (text.find_first_of(",\"\n\r") == std::string_view::npos) return std::string(text);
  std::string quoted = "\"";
  for (const char letter : text) {
    if (letter == '"') quoted += '"';
    quoted += letter;
  }
  return quoted + '"';
}

}  // namespace drydock::exports
