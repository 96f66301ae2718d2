#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"

// Plain data out of a pickle: dict, list, tuple, text, bytes, numbers, true, false, none. A pickle is a program for a
// machine that can call anything; this reader has no such machine. What would name a function, a class or an outside
// object is refused with a sentence that tells its name, and nothing is ever called, imported or looked up.

namespace drydock::snapshot {

enum class ValueKind : uint8_t {
  kNone,
  kFalse,
  kTrue,
  kInteger,  ///< signed 64 bits
  kNatural,  ///< above the largest signed number: unsigned 64 bits
  kReal,
  kText,
  kBytes,
  kList,
  kTuple,
  kDict,
};

/// One value of a pickle. Texts and containers are kept in the pickle; values of one container are equal in `index`
/// wherever the pickle refers to it again, also within itself.
struct Value {
  ValueKind kind = ValueKind::kNone;
  uint32_t index = 0;
  union {
    int64_t integer = 0;
    uint64_t natural;
    double real;
  };
};

/// What a pickle may cost. All are far above what a snapshot needs.
struct PickleLimits {
  size_t depth = 100;                     ///< of containers that are open at once
  size_t values = size_t{200} << 20;      ///< on the machine's stack and in containers
  size_t text_bytes = size_t{256} << 20;  ///< of one text
};

/// A parsed pickle. The bytes it was parsed from must outlive it.
class Pickle {
 public:
  /// 100006 with a sentence for what is no pickle of protocol 2 to 5, is cut off, holds more than plain data, or goes
  /// beyond `limits`. Memory follows the bytes that are there, never a length that they claim.
  static Status parse(std::span<const std::byte> bytes, const PickleLimits& limits, Pickle& pickle);

  const Value& root() const { return root_; }
  /// The elements of a list or tuple; a dict's keys and values in turn. Empty for other kinds.
  std::span<const Value> items(const Value& value) const;
  /// Text or bytes; empty for other kinds.
  std::string_view text(const Value& value) const;
  /// The value of a dict's text key; null if there is none (among the last 256) or `dict` is no dict.
  const Value* find(const Value& dict, std::string_view key) const;
  /// How many containers it holds.
  size_t containers() const { return containers_.size(); }

 private:
  friend class PickleParser;
  std::vector<std::vector<Value>> containers_;
  std::vector<std::string_view> texts_;
  Value root_;
};

inline constexpr int32_t kNoSnapshot = 100006;  ///< the vendor's number for a file that can't be parsed

}  // namespace drydock::snapshot
