#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

// The largest value of a number that a program survives, by running it with few of them.

namespace drydock::tune {

/// Finds the largest value of [first, last] that fits, where all values below one that fits do. Begins with the first,
/// doubles until one does not fit, then halves the rest. Not thread-safe.
class FitSearch {
 public:
  FitSearch(int64_t first, int64_t last) : first_(first), last_(last) {}

  /// The value to try next; none when the answer is known.
  std::optional<int64_t> next() const;
  void tell(int64_t value, bool fits);
  /// The largest value that is known to fit.
  std::optional<int64_t> best() const { return best_; }
  /// The smallest value that is known not to fit.
  std::optional<int64_t> too_large() const { return too_large_; }
  /// How many more values have to be tried at most.
  int most_left() const;

 private:
  int64_t first_;
  int64_t last_;
  std::optional<int64_t> best_;
  std::optional<int64_t> too_large_;
};

/// "1..128" as its two ends; none if it is no range of positive numbers.
std::optional<std::pair<int64_t, int64_t>> parse_range(const std::string& text);

/// How a value reaches a program.
enum class Channel {
  kPlaceholder,  ///< {NAME} within the command
  kOption,       ///< --NAME VALUE or --NAME=VALUE, which the command has already
  kVariable,     ///< an environment variable NAME
};

/// Where `name` can be set: a placeholder if the command has one, else its option, else the environment.
Channel channel_of(const std::vector<std::string>& command, const std::string& name);

/// The command with the value put in; unchanged for kVariable.
std::vector<std::string> with_value(const std::vector<std::string>& command, const std::string& name, int64_t value);

}  // namespace drydock::tune
