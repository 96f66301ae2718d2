#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "base/status.h"

namespace drydock::exports {

/// A file that appears whole or not at all: it is written beside its place and renamed into it. With a name that ends
/// in
/// ".gz" it is compressed. Failures are kept and told at the end. Not thread-safe.
class OutputFile {
 public:
  OutputFile();
  ~OutputFile();  ///< removes what `close` did not put into place
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  /// 100004 with a sentence if no file can be made there.
  Status open(const std::string& path);
  void write(std::string_view bytes);
  template <class... Args>
  void print(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(buffer_), format, std::forward<Args>(args)...);
    if (buffer_.size() > kBufferBytes) flush();
  }
  /// Bytes written so far, before compression.
  uint64_t size() const { return written_ + buffer_.size(); }
  /// 100004 with a sentence if not all could be written; then there is no file.
  Status close();

 private:
  static constexpr size_t kBufferBytes = size_t{1} << 18;
  struct Sink;
  void flush();

  std::string path_;
  std::string draft_;
  std::unique_ptr<Sink> sink_;
  fmt::memory_buffer buffer_;
  uint64_t written_ = 0;
  std::string failure_;
};

/// `text` as JSON writes it, in quotes. What is not UTF-8 becomes U+FFFD.
std::string json_text(std::string_view text);
/// `text` as a field of a CSV file.
std::string csv_text(std::string_view text);

}  // namespace drydock::exports
