#include "snapshot/pickle.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include <fmt/format.h>

#include "snapshot/pickle_opcodes.h"

namespace drydock::snapshot {
class PickleParser {
 public:
  PickleParser(std::span<const std::byte> bytes, const PickleLimits& limits, Pickle& pickle)
      : bytes_(reinterpret_cast<const char*>(bytes.data()), bytes.size()), limits_(limits), pickle_(pickle) {}

  Status run();

 private:
  Status step(uint8_t opcode, bool& is_done);
  Status refuse(uint8_t opcode);

  Status damaged(std::string_view what) const {
    return Status::error(kNoSnapshot, fmt::format("The pickle is damaged at byte {}: {}.", opcode_at_, what));
  }
  Status not_plain(std::string_view what) const {
    return Status::error(kNoSnapshot,
                         fmt::format("The pickle is refused at byte {}: {}. A memory snapshot is plain data (dicts, "
                                     "lists, texts, numbers), and nothing else is read.",
                                     opcode_at_, what));
  }
  Status beyond(std::string_view what) const {
    return Status::error(kNoSnapshot, fmt::format("The pickle is refused at byte {}: {}.", opcode_at_, what));
  }
  Status cut(uint64_t wanted) const {
    return Status::error(
        kNoSnapshot,
        fmt::format("The pickle is cut off: it ends at byte {}, where {} more {} due{}, and its end mark is missing. "
                    "None of it can be used: what it began is told only at its end.",
                    bytes_.size(), wanted, wanted == 1 ? "byte was" : "bytes were",
                    marks_.empty()
                        ? std::string()
                        : fmt::format(", within {} open container{}", marks_.size(), marks_.size() == 1 ? "" : "s")));
  }

  template <class Number>
  Status read(Number& number) {
    if (bytes_.size() - position_ < sizeof(Number)) return cut(sizeof(Number) - (bytes_.size() - position_));
    std::memcpy(&number, bytes_.data() + position_, sizeof(Number));
    position_ += sizeof(Number);
    return Status::ok();
  }
  Status take(uint64_t length, std::string_view& part) {
    if (length > bytes_.size() - position_) return cut(length - (bytes_.size() - position_));
    part = bytes_.substr(position_, length);
    position_ += length;
    return Status::ok();
  }
  Status line(std::string_view& part) {
    const size_t end = bytes_.find('\n', position_);
    if (end == std::string_view::npos) return cut(1);
    part = bytes_.substr(position_, end - position_);
    position_ = end + 1;
    return Status::ok();
  }

  Status push(const Value& value) {
    if (++values_ > limits_.values) return beyond(fmt::format("it has more than {} values", limits_.values));
    stack_.push_back(value);
    return Status::ok();
  }
  /// Reads the opcode's operand and hands it on.
  template <class Number, class Operand>
  Status with_number(Status (PickleParser::*take)(Operand)) {
    Number number = 0;
    DRYDOCK_RETURN_IF_ERROR(read(number));
    return (this->*take)(number);
  }

  Status push_integer(int64_t integer) {
    Value value{.kind = ValueKind::kInteger, .index = 0, .integer = integer};
    return push(value);
  }
  template <class Length>
  Status push_text(ValueKind kind) {
    Length length = 0;
    DRYDOCK_RETURN_IF_ERROR(read(length));
    if (static_cast<uint64_t>(length) > limits_.text_bytes)
      return beyond(fmt::format("a text of {} bytes is longer than the {} that are read", static_cast<uint64_t>(length),
                                limits_.text_bytes));
    std::string_view text;
    DRYDOCK_RETURN_IF_ERROR(take(length, text));
    pickle_.texts_.push_back(text);
    return push({.kind = kind, .index = static_cast<uint32_t>(pickle_.texts_.size() - 1), .integer = 0});
  }
  Status push_container(ValueKind kind, std::span<const Value> items) {
    pickle_.containers_.emplace_back(items.begin(), items.end());
    return push({.kind = kind, .index = static_cast<uint32_t>(pickle_.containers_.size() - 1), .integer = 0});
  }
  Status push_long(uint64_t length);

  // The values above the last mark, which is taken away; the values stay until `drop`.
  Status above_mark(std::span<const Value>& items) {
    if (marks_.empty()) return damaged("a mark is missing");
    items = std::span(stack_).subspan(marks_.back());
    return Status::ok();
  }
  void drop_to_mark() {
    stack_.resize(marks_.back());
    marks_.pop_back();
  }
  // How many values an opcode may take: those above the last mark.
  size_t available() const { return stack_.size() - (marks_.empty() ? 0 : marks_.back()); }

  Status pop(Value& value) {
    if (available() == 0) return damaged("a value is missing");
    value = stack_.back();
    stack_.pop_back();
    return Status::ok();
  }
  Status tuple_of(size_t count) {
    if (available() < count) return damaged("a value is missing");
    std::vector<Value> items(stack_.end() - static_cast<long>(count), stack_.end());
    stack_.resize(stack_.size() - count);
    return push_container(ValueKind::kTuple, items);
  }
  Status container_above_mark(ValueKind kind) {
    std::span<const Value> items;
    DRYDOCK_RETURN_IF_ERROR(above_mark(items));
    if (kind == ValueKind::kDict && items.size() % 2 != 0) return damaged("a dict has a key without a value");
    const std::vector<Value> kept(items.begin(), items.end());
    drop_to_mark();
    return push_container(kind, kept);
  }
  // Adds `items`, which lie on the stack, to the container below them.
  Status extend(ValueKind kind, std::span<const Value> items, size_t below) {
    const size_t floor = marks_.empty() ? 0 : marks_.back();
    if (below < floor + 1 || stack_[below - 1].kind != kind)
      return damaged(kind == ValueKind::kList ? "there is no list to append to" : "there is no dict to put a key into");
    if (kind == ValueKind::kDict && items.size() % 2 != 0) return damaged("a dict has a key without a value");
    std::vector<Value>& container = pickle_.containers_[stack_[below - 1].index];
    container.insert(container.end(), items.begin(), items.end());
    return Status::ok();
  }

  Status put(uint64_t index) {
    if (available() == 0) return damaged("there is no value to remember");
    // Picklers count up, one number for each value, and a value takes a byte at least.
    if (index > position_) return beyond(fmt::format("it remembers a value under number {}", index));
    if (index >= memo_.size()) memo_.resize(index + 1, {.value = {}, .is_set = false});
    if (!memo_[index].is_set) ++memoized_;
    memo_[index] = {.value = stack_.back(), .is_set = true};
    return Status::ok();
  }
  Status get(uint64_t index) {
    if (index >= memo_.size() || !memo_[index].is_set)
      return damaged(fmt::format("it refers to value {}, which it did not remember", index));
    return push(memo_[index].value);
  }

  struct Remembered {
    Value value;
    bool is_set;
  };

  const std::string_view bytes_;
  const PickleLimits& limits_;
  Pickle& pickle_;
  size_t position_ = 0;
  size_t opcode_at_ = 0;
  size_t values_ = 0;
  size_t memoized_ = 0;  // numbers in use
  std::vector<Value> stack_;
  std::vector<size_t> marks_;
  std::vector<Remembered> memo_;
};

// Little endian, two's complement, as long as the number needs.
Status PickleParser::push_long(uint64_t length) {
  std::string_view digits;
  DRYDOCK_RETURN_IF_ERROR(take(length, digits));
  const bool is_negative = !digits.empty() && (digits.back() & 0x80) != 0;
  // An unsigned number of 64 bits has a ninth byte of zeros.
  if (digits.size() > 9 || (digits.size() == 9 && digits.back() != 0))
    return beyond(fmt::format("it holds a number of {} bytes, and addresses and sizes have 8", length));
  uint64_t bits = is_negative ? ~uint64_t{0} : 0;
  std::memcpy(&bits, digits.data(), std::min<size_t>(digits.size(), sizeof(bits)));
  if (digits.size() == 9 && (bits >> 63) != 0) {
    Value value{.kind = ValueKind::kNatural, .index = 0, .natural = bits};
    return push(value);
  }
  return push_integer(static_cast<int64_t>(bits));
}

Status PickleParser::refuse(uint8_t opcode) {
  if (opcode == kGlobal || opcode == kInst) {
    std::string_view module, name;
    DRYDOCK_RETURN_IF_ERROR(line(module));
    DRYDOCK_RETURN_IF_ERROR(line(name));
    return not_plain(fmt::format("it names the Python object {}.{}", shown(module), shown(name)));
  }
  if (opcode == kStackGlobal) {
    const size_t count = stack_.size();
    const bool is_named =
        available() >= 2 && stack_[count - 1].kind == ValueKind::kText && stack_[count - 2].kind == ValueKind::kText;
    if (!is_named) return not_plain("it names a Python object");
    return not_plain(fmt::format("it names the Python object {}.{}", shown(pickle_.text(stack_[count - 2])),
                                 shown(pickle_.text(stack_[count - 1]))));
  }
  if (const char* reason = refusal_of(opcode)) return not_plain(reason);
  // Numbers and texts as lines of text: protocol 0, which no pickler writes behind a mark of protocol 2.
  return damaged(fmt::format("there is no such instruction as {:#04x} in protocols 2 to 5", opcode));
}

Status PickleParser::step(uint8_t opcode, bool& is_done) {
  switch (opcode) {
    case kProtocol: {
      uint8_t protocol = 0;
      DRYDOCK_RETURN_IF_ERROR(read(protocol));
      if (protocol < 2 || protocol > 5)
        return beyond(fmt::format("its protocol is {}, and 2 to 5 are read", static_cast<int>(protocol)));
      return Status::ok();
    }
    case kFrame: {
      uint64_t length = 0;
      DRYDOCK_RETURN_IF_ERROR(read(length));
      if (length > bytes_.size() - position_) return cut(length - (bytes_.size() - position_));
      return Status::ok();
    }
    case kStop:
      if (stack_.size() != 1 || !marks_.empty())
        return damaged(fmt::format("it ends with {} values instead of one", stack_.size()));
      pickle_.root_ = stack_.back();
      is_done = true;
      return Status::ok();

    case kNoneOp: return push({});
    case kNewTrue: return push({.kind = ValueKind::kTrue, .index = 0, .integer = 1});
    case kNewFalse: return push({.kind = ValueKind::kFalse, .index = 0, .integer = 0});
    case kBinInt1: return with_number<uint8_t>(&PickleParser::push_integer);
    case kBinInt2: return with_number<uint16_t>(&PickleParser::push_integer);
    case kBinInt: return with_number<int32_t>(&PickleParser::push_integer);
    case kLong1: {
      uint8_t length = 0;
      DRYDOCK_RETURN_IF_ERROR(read(length));
      return push_long(length);
    }
    case kLong4: {
      uint32_t length = 0;
      DRYDOCK_RETURN_IF_ERROR(read(length));
      if (length > INT32_MAX) return damaged("a number has a negative length");
      return push_long(length);
    }
    case kBinFloat: {
      uint64_t bits = 0;
      DRYDOCK_RETURN_IF_ERROR(read(bits));
      Value value{.kind = ValueKind::kReal, .index = 0, .real = std::bit_cast<double>(__builtin_bswap64(bits))};
      return push(value);
    }

    case kShortBinUnicode:
    case kShortBinString: return push_text<uint8_t>(ValueKind::kText);
    case kBinUnicode:
    case kBinString: return push_text<uint32_t>(ValueKind::kText);
    case kBinUnicode8: return push_text<uint64_t>(ValueKind::kText);
    case kShortBinBytes: return push_text<uint8_t>(ValueKind::kBytes);
    case kBinBytes: return push_text<uint32_t>(ValueKind::kBytes);
    case kBinBytes8:
    case kByteArray8: return push_text<uint64_t>(ValueKind::kBytes);

    case kEmptyList: return push_container(ValueKind::kList, {});
    case kEmptyDict: return push_container(ValueKind::kDict, {});
    case kEmptyTuple: return push_container(ValueKind::kTuple, {});
    case kTuple1: return tuple_of(1);
    case kTuple2: return tuple_of(2);
    case kTuple3: return tuple_of(3);
    case kTupleOp: return container_above_mark(ValueKind::kTuple);
    case kListOp: return container_above_mark(ValueKind::kList);
    case kDictOp: return container_above_mark(ValueKind::kDict);
    case kAppend:
    case kSetItem: {
      const bool is_list = opcode == kAppend;
      const size_t count = is_list ? 1 : 2;
      if (available() < count) return damaged("a value is missing");
      DRYDOCK_RETURN_IF_ERROR(
          extend(is_list ? ValueKind::kList : ValueKind::kDict, std::span(stack_).last(count), stack_.size() - count));
      stack_.resize(stack_.size() - count);
      return Status::ok();
    }
    case kAppends:
    case kSetItems: {
      std::span<const Value> items;
      DRYDOCK_RETURN_IF_ERROR(above_mark(items));
      const size_t mark = marks_.back();
      marks_.pop_back();
      DRYDOCK_RETURN_IF_ERROR(extend(opcode == kAppends ? ValueKind::kList : ValueKind::kDict, items, mark));
      stack_.resize(mark);
      return Status::ok();
    }

    case kMark:
      if (marks_.size() >= limits_.depth)
        return beyond(fmt::format("its containers are nested deeper than {}", limits_.depth));
      marks_.push_back(stack_.size());
      return Status::ok();
    case kPop: {
      if (available() == 0 && !marks_.empty()) {
        marks_.pop_back();
        return Status::ok();
      }
      Value ignored;
      return pop(ignored);
    }
    case kPopMark: {
      std::span<const Value> ignored;
      DRYDOCK_RETURN_IF_ERROR(above_mark(ignored));
      drop_to_mark();
      return Status::ok();
    }
    case kDup: {
      if (available() == 0) return damaged("a value is missing");
      return push(stack_.back());
    }

    case kMemoize: return put(memoized_);
    case kBinPut: return with_number<uint8_t>(&PickleParser::put);
    case kLongBinPut: return with_number<uint32_t>(&PickleParser::put);
    case kBinGet: return with_number<uint8_t>(&PickleParser::get);
    case kLongBinGet: return with_number<uint32_t>(&PickleParser::get);
    default: return refuse(opcode);
  }
}

Status PickleParser::run() {
  if (bytes_.empty()) return Status::error(kNoSnapshot, "The file is empty, so it is no pickle.");
  if (static_cast<uint8_t>(bytes_[0]) != kProtocol)
    return Status::error(kNoSnapshot, "The file is no pickle of protocol 2 to 5: it does not begin like one.");
  for (bool is_done = false; !is_done;) {
    opcode_at_ = position_;
    if (position_ == bytes_.size()) return cut(1);
    const auto opcode = static_cast<uint8_t>(bytes_[position_++]);
    DRYDOCK_RETURN_IF_ERROR(step(opcode, is_done));
  }
  return Status::ok();
}

Status Pickle::parse(std::span<const std::byte> bytes, const PickleLimits& limits, Pickle& pickle) {
  pickle = Pickle();
  return PickleParser(bytes, limits, pickle).run();
}

std::span<const Value> Pickle::items(const Value& value) const {
  if (value.kind != ValueKind::kList && value.kind != ValueKind::kTuple && value.kind != ValueKind::kDict) return {};
  return containers_[value.index];
}

std::string_view Pickle::text(const Value& value) const {
  return value.kind == ValueKind::kText || value.kind == ValueKind::kBytes ? texts_[value.index] : std::string_view();
}

const Value* Pickle::find(const Value& dict, std::string_view key) const {
  if (dict.kind != ValueKind::kDict) return nullptr;
  const std::vector<Value>& entries = containers_[dict.index];
  // A key that stands twice has the value that was put last, as in Python. Dicts of a snapshot are small; a hostile one
  // that is large must not cost its size at each of a million looks.
  constexpr size_t kMostKeys = 256;
  const size_t first = entries.size() - std::min(entries.size(), 2 * kMostKeys);
  for (size_t index = entries.size(); index >= first + 2; index -= 2)
    if (entries[index - 2].kind == ValueKind::kText && texts_[entries[index - 2].index] == key)
      return &entries[index - 1];
  return nullptr;
}

}  // namespace drydock::snapshot
