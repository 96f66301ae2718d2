#include "trace/reader.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>

#include <fmt/format.h>
#include <sys/stat.h>

#include "trace/record_words.h"

namespace drydock::trace {
namespace {

constexpr int32_t kInvalidFile = 100003;  // ACL_ERROR_INVALID_FILE
constexpr int32_t kParseFile = 100006;    // ACL_ERROR_PARSE_FILE
constexpr size_t kBufferBytes = 128 * 1024;
constexpr uint32_t kMostOperators = 1 << 20;  // more than any table of operators has

template <size_t Capacity>
std::string text_of(const char (&text)[Capacity]) {
  return std::string(text, strnlen(text, Capacity));
}

}  // namespace

std::string describe_python_state(const TraceInfo& info) {
  switch (info.python_state) {
    case PythonState::kUntried:
    case PythonState::kReading: return {};
    case PythonState::kNoPython: return "The process runs no Python interpreter, so source lines are unknown.";
    case PythonState::kUnknownVersion:
      return fmt::format("Source lines are unknown: no layout of Python {}'s frames is known.", info.python_version);
    case PythonState::kLayoutMismatch:
      return fmt::format("Source lines are unknown: this build of Python {} lays its frames out in another way.",
                         info.python_version);
  }
  return "Source lines are unknown: the trace does not say why.";
}

Status Reader::open(const std::string& path, std::unique_ptr<Reader>& reader) {
  std::unique_ptr<Reader> opened(new Reader);
  opened->info_.path = path;
  opened->descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (opened->descriptor_ < 0)
    return Status::error(kInvalidFile, fmt::format("The trace {} can't be opened: {}.", path, std::strerror(errno)));
  struct stat status {};
  if (fstat(opened->descriptor_, &status) != 0 || !S_ISREG(status.st_mode))
    return Status::error(kInvalidFile, fmt::format("{} is not a file, so it is no trace.", path));
  DRYDOCK_RETURN_IF_ERROR(opened->read_header());
  reader = std::move(opened);
  return Status::ok();
}

Reader::~Reader() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

Status Reader::read_header() {
  FileHeader header{};
  const ssize_t got = pread(descriptor_, &header, sizeof(header), 0);
  if (got < 0)
    return Status::error(kInvalidFile,
                         fmt::format("The trace {} can't be read: {}.", info_.path, std::strerror(errno)));
  const auto length = static_cast<size_t>(got);
  const auto is_zero = [](char character) { return character == 0; };
  if (length == 0 || std::all_of(header.magic, header.magic + std::min(length, sizeof(header.magic)), is_zero))
    return Status::error(kParseFile,
                         fmt::format("The trace {} is empty: its process ended while it made the file.", info_.path));
  if (std::memcmp(header.magic, kFileMagic, std::min(length, sizeof(kFileMagic))) != 0)
    return Status::error(kParseFile,
                         fmt::format("{} is not a trace of Drydock: it does not begin like one.", info_.path));
  if (length >= 12 && (header.version < kOldestReadableVersion || header.version > kFormatVersion))
    return Status::error(kParseFile,
                         fmt::format("The trace {} has format version {}, and this Drydock reads versions {} to {}. "
                                     "Read it with the Drydock that wrote it.",
                                     info_.path, header.version, kOldestReadableVersion, kFormatVersion));
  if (length < sizeof(header) || header.header_bytes != kHeaderBytes)
    return Status::error(kParseFile, fmt::format("The trace {} is cut off in its header.", info_.path));

  info_.version = header.version;
  info_.pid = header.pid;
  info_.parent_pid = header.parent_pid;
  info_.start_wall_ns = header.start_wall_ns;
  info_.start_monotonic_ns = header.start_monotonic_ns;
  take_state(header);
  info_.values = text_of(header.values);
  info_.profile = text_of(header.profile);
  info_.command = text_of(header.command);
  return Status::ok();
}

// What changes while the process writes.
void Reader::take_state(const FileHeader& header) {
  info_.used_bytes = header.used_bytes;
  info_.records = header.records;
  info_.lost_records = header.lost_records;
  info_.lost_bytes = header.lost_bytes;
  info_.closed = header.closed != 0;
  info_.python_state = static_cast<PythonState>(header.python_state);
  info_.python_version = text_of(header.python_version);
  info_.arena_bases.assign(std::begin(header.arena_bases), std::end(header.arena_bases));
  while (!info_.arena_bases.empty() && info_.arena_bases.back() == 0) info_.arena_bases.pop_back();
}

void Reader::resume() {
  FileHeader header{};
  if (pread(descriptor_, &header, sizeof(header), 0) == static_cast<ssize_t>(sizeof(header))) take_state(header);
  // Behind the records that were there the buffer holds zeros, which may be records by now.
  buffer_begin_ = 0;
  buffer_end_ = 0;
  at_end_ = false;
  ended_ = false;
  truncation_.clear();
}

// Makes `bytes` unread bytes available; false if the file ends before.
bool Reader::fill(size_t bytes) {
  if (buffer_end_ - buffer_begin_ >= bytes) return true;
  if (buffer_.empty()) buffer_.resize(kBufferBytes);
  std::memmove(buffer_.data(), buffer_.data() + buffer_begin_, buffer_end_ - buffer_begin_);
  buffer_end_ -= buffer_begin_;
  buffer_begin_ = 0;
  if (buffer_.size() < bytes) buffer_.resize(bytes);
  while (!at_end_ && buffer_end_ < bytes) {
    const ssize_t got = pread(descriptor_, buffer_.data() + buffer_end_, buffer_.size() - buffer_end_,
                              static_cast<off_t>(position_ + buffer_end_));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      at_end_ = true;
    } else {
      buffer_end_ += static_cast<size_t>(got);
    }
  }
  return buffer_end_ >= bytes;
}

// The records end here. `what` is a reason that something is missing, or empty for a plain end.
void Reader::end(std::string_view what) {
  ended_ = true;
  if (!what.empty()) {
    truncation_ = fmt::format("The trace {} is damaged at byte {}: {}. The {} records before are used.", info_.path,
                              position_, what, records_);
  } else if (bytes() < info_.used_bytes) {
    truncation_ = fmt::format(
        "The trace {} is cut off at byte {}: {} bytes of records are missing. The {} records before are used.",
        info_.path, position_, info_.used_bytes - bytes(), records_);
  }
}

bool Reader::next(Record& record) {
  while (!ended_) {
    if (!fill(8)) {
      end(buffer_end_ != buffer_begin_ ? "it ends within a record" : "");
      return false;
    }
    uint64_t head = 0;
    std::memcpy(&head, buffer_.data() + buffer_begin_, sizeof(head));
    if (head == 0) {
      end("");
      return false;
    }
    const auto kind = static_cast<Kind>(head & 0xff);
    const auto flags = static_cast<uint8_t>(head >> 8);
    const auto operand = static_cast<uint16_t>(head >> 16);
    const size_t fixed_bytes = fixed_words(kind, operand) * 8;
    if (fixed_bytes == 0) {
      end(fmt::format("there is no kind of record {}", static_cast<int>(kind)));
      return false;
    }
    size_t size = fixed_bytes;
    size_t tail_bytes = 0;
    std::array<uint64_t, kMostFixedWords - 1> words;  // as many are read as there are of the kind
    bool is_whole = fill(fixed_bytes);
    if (is_whole) {
      std::memcpy(words.data(), buffer_.data() + buffer_begin_ + 8, fixed_bytes - 8);
      if (has_trailing_bytes(kind)) {
        tail_bytes = high(words[0]);
        if (tail_bytes > std::max(kMaxTextBytes, kMaxCallBytes)) {
          end("a definition is longer than any can be");
          return false;
        }
        size += (tail_bytes + 7) / 8 * 8;
        is_whole = fill(size);
      }
    }
    if (!is_whole) {
      end("it ends within a record");
      return false;
    }
    time_ns_ += high(head);
    if (skips_operators_ && (kind == Kind::kOperator || kind == Kind::kOperatorWide)) {
      buffer_begin_ += size;
      position_ += size;
      ++records_;
      continue;
    }
    // Copied, which is faster than what compilers make of clearing; without races, which are large and few.
    static_cast<RecordFields&>(record) = nothing_;
    record.kind = kind;
    record.position = position_;
    record.time_ns = time_ns_;
    record.thread = thread_;
    const std::span<const std::byte> tail(buffer_.data() + buffer_begin_ + fixed_bytes, tail_bytes);
    const bool is_sound = is_escape(kind) ? take_escape(kind, words.data(), operand)
                          : static_cast<uint8_t>(kind) < static_cast<uint8_t>(Kind::kOperator)
                              ? define(kind, words.data(), tail, record)
                              : decode(kind, flags, operand, words.data(), record);
    if (!is_sound) {
      end("a record makes no sense");
      return false;
    }
    buffer_begin_ += size;
    position_ += size;
    if (is_escape(kind)) continue;
    ++records_;
    return true;
  }
  return false;
}

bool Reader::take_escape(Kind kind, const uint64_t* words, uint16_t operand) {
  if (kind == Kind::kGap) {
    time_ns_ += words[0];
  } else {
    thread_ = operand == 0xffff ? low(words[0]) : operand;
  }
  return true;
}

bool Reader::define(Kind kind, const uint64_t* words, std::span<const std::byte> tail, Record& record) {
  const uint32_t id = low(words[0]);
  record.defined_id = id;
  // Ids are given out in order, so a definition is the next of its table.
  switch (kind) {
    case Kind::kDefineString:
      if (id != strings_.size() + 1) return false;
      strings_.emplace_back(reinterpret_cast<const char*>(tail.data()), tail.size());
      return true;
    case Kind::kDefineLine:
      if (id != lines_.size() + 1) return false;
      lines_.push_back({low(words[1]), high(words[0]), high(words[1])});
      return true;
    case Kind::kDefineCall:
      if (id != calls_.size() + 1) return false;
      calls_.emplace_back(tail.begin(), tail.end());
      return true;
    case Kind::kDefineOperator:
      if (id >= kMostOperators) return false;
      if (id >= operators_.size()) operators_.resize(id + 1);
      operators_[id] = high(words[0]);
      return true;
    default: return false;
  }
}

std::string_view Reader::string(StringId id) const {
  return id == 0 || id > strings_.size() ? std::string_view() : std::string_view(strings_[id - 1]);
}

Reader::Line Reader::line(LineId id) const { return id == 0 || id > lines_.size() ? Line{} : lines_[id - 1]; }

std::string Reader::describe_line(LineId id) const {
  const Line place = line(id);
  const std::string_view file = string(place.file), function = string(place.function);
  if (file.empty()) return "unknown line";
  return function.empty() ? fmt::format("{}:{}", file, place.line)
                          : fmt::format("{}:{} ({})", file, place.line, function);
}

std::span<const std::byte> Reader::call(CallId id) const {
  return id == 0 || id > calls_.size() ? std::span<const std::byte>() : std::span(calls_[id - 1]);
}

std::string_view Reader::operator_signature(uint32_t operator_id) const {
  return operator_id < operators_.size() ? string(operators_[operator_id]) : std::string_view();
}

}  // namespace drydock::trace
