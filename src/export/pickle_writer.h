#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

#include "export/output_file.h"

namespace drydock::exports {

/// Writes plain data as a pickle of protocol 4, with the instructions that torch's viewer in the browser knows: texts
/// once, lists in batches. Containers are opened and closed in pairs. Not thread-safe.
class PickleWriter {
 public:
  explicit PickleWriter(OutputFile& file) : file_(file) { file_.write({"\x80\x04", 2}); }

  void open_dict() { file_.write("}("); }
  void close_dict() { file_.write("u"); }

  void open_list() { file_.write("]"); }
  /// Between the elements of a list: `item` before each.
  void item(uint64_t& count) {
    if (count % kBatch == 0) file_.write(count == 0 ? "(" : "e(");
    ++count;
  }
  void close_list(uint64_t count) {
    if (count > 0) file_.write("e");
  }

  void text(std::string_view text);
  void number(uint64_t number);
  void truth(bool value) { file_.write(value ? "\x88" : "\x89"); }
  void real(double value);
  void pair(uint64_t first, uint64_t second) {
    number(first);
    number(second);
    file_.write("\x86");
  }

  void entry(std::string_view key, uint64_t value) {
    text(key);
    number(value);
  }
  void entry(std::string_view key, std::string_view value) {
    text(key);
    text(value);
  }

  /// Keeps what was written last, to be written again by `again`.
  uint32_t remember();
  void again(uint32_t kept);

  void finish() { file_.write("."); }

 private:
  static constexpr uint64_t kBatch = 1000;  // as Python's pickler; a browser can't take all at once

  OutputFile& file_;
  std::unordered_map<std::string, uint32_t> texts_;
  uint32_t kept_ = 0;
};

}  // namespace drydock::exports
